"""The tests' servers with certificates, and the certificates: made anew for each run, and good for a day.

``RIGHT`` and ``OTHER`` both mean 127.0.0.1 to the system, in a spelling that is no loopback address to siltstone: they
are spoken to like any other machine. Certificates are for ``RIGHT`` alone.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import psycopg
import pymysql
import redis
import urllib3
from redis.backoff import NoBackoff
from redis.retry import Retry

from services import HOST, Etcd, MariaDB, PostgreSQL, Redis, ServiceError

if TYPE_CHECKING:
    from pathlib import Path

RIGHT, OTHER = "127.1", "127.0.1"


def openssl(*arguments: str, directory: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60)


def make_certificates(directory: Path) -> None:
    """Two authorities, ``ca`` and ``wrong``, and ``server``, which is signed by the first."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "wrong"):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
        subject = ("-subj", f"/CN=siltstone tests {name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        openssl("req", "-x509", *key, *files, "-days", "1", *subject, directory=directory)
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", f"/CN={RIGHT}", directory=directory)
    (directory / "server.ext").write_text(f"subjectAltName=DNS:{RIGHT}\nextendedKeyUsage=serverAuth,clientAuth\n")
    sign = ("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1")
    openssl(*sign, "-extfile", "server.ext", "-out", "server.crt", directory=directory)


class Certified:
    """What servers with TLS have in common: their files are copies that they may read alone."""

    certificates: Path

    def files(self) -> tuple[str, str]:
        found = []
        for name in ("server.crt", "server.key"):
            path = self.directory / name
            if not path.exists():
                shutil.copy(self.certificates / name, path)
                path.chmod(0o600)
                if self.user:
                    shutil.chown(path, self.user, self.user)
            found.append(str(path))
        return found[0], found[1]


class TlsPostgreSQL(Certified, PostgreSQL):
    def uri(self, host: str) -> str:
        return f"postgresql://postgres@{host}:{self.port}/postgres"

    def command(self) -> list[str]:
        certificate, key = self.files()
        secure = ["-c", "ssl=on", "-c", f"ssl_cert_file={certificate}", "-c", f"ssl_key_file={key}"]
        return [*super().command(), *secure]

    def ping(self) -> None:
        psycopg.connect(self.commits_uri, connect_timeout=5, sslmode="require").close()


class TlsMariaDB(Certified, MariaDB):
    def uri(self, host: str) -> str:
        return f"mysql://root@{host}:{self.port}/siltstone"

    def command(self) -> list[str]:
        certificate, key = self.files()
        return [*super().command(), f"--ssl-cert={certificate}", f"--ssl-key={key}"]

    def first_ready(self) -> None:
        super().first_ready()
        with pymysql.connect(host=HOST, port=self.port, user="root") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER IF NOT EXISTS root@'127.0.0.1'")
            cursor.execute("GRANT ALL ON *.* TO root@'127.0.0.1'")


class TlsRedis(Certified, Redis):
    def uri(self, host: str) -> str:
        return f"rediss://{host}:{self.port}/0"

    def command(self) -> list[str]:
        certificate, key = self.files()
        plain = [*super().command()]
        plain[plain.index("--port")] = "--tls-port"
        secure = ["--port", "0", "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"]
        return [*plain, *secure, "--tls-ca-cert-file", str(self.certificates / "ca.crt")]

    def ping(self) -> None:
        once = Retry(NoBackoff(), 0)
        secure = {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
        with redis.Redis(HOST, self.port, socket_timeout=5, retry=once, **secure) as client:
            client.ping()


class TlsEtcd(Certified, Etcd):
    def uri(self, host: str) -> str:
        return f"etcds://{host}:{self.port}"

    def command(self) -> list[str]:
        certificate, key = self.files()
        plain = super().command()
        client = f"https://{HOST}:{self.port}"
        for option in ("--listen-client-urls", "--advertise-client-urls"):
            plain[plain.index(option) + 1] = client
        return [*plain, "--cert-file", certificate, "--key-file", key]

    def ping(self) -> None:
        with urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=5.0) as pool:
            answer = pool.request("GET", f"https://{HOST}:{self.port}/health")
        if answer.status != 200 or answer.json().get("health") != "true":
            raise ServiceError(f"etcd is not healthy yet: {answer.data!r}")


SERVERS = {"postgresql": TlsPostgreSQL, "mysql": TlsMariaDB, "redis": TlsRedis, "etcd": TlsEtcd}


def start(kind: str, certificates: Path):
    """A running server of a kind; the caller closes it."""
    server = SERVERS[kind]()
    server.certificates = certificates
    server.start()
    return server
