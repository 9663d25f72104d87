"""PostgreSQL through psycopg 3.

What must hold: a commit waits for the server's disk at least (``synchronous_commit``), the server is a
primary, and no request waits for a frozen server for ever.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from siltstone.commit.sql_dialect import Dialect, Fault, read_only_error

if TYPE_CHECKING:
    from collections.abc import Generator


class Postgresql(Dialect):
    """PostgreSQL 12 or newer, directly or through a pooler in session mode."""

    kind = "postgresql"
    driver = "psycopg"
    options: ClassVar[dict[str, type]] = {"table": str, "socket": str, "accept_weak_durability": bool}
    default_port = 5432
    columns = (
        'scope TEXT COLLATE "C" NOT NULL, position BIGINT NOT NULL, digest TEXT NOT NULL, parent TEXT NOT NULL, '
        "value TEXT NOT NULL, below BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (scope, position)"
    )
    share_lock = " FOR SHARE OF r"

    def connect(self) -> Any:
        location = self.location
        raw = _bounded_connection(self.module, location.timeout_s).connect(**self._conninfo())
        try:
            timeout_ms = str(round(location.timeout_s * 1000))
            found = raw.execute(
                "SELECT set_config('statement_timeout', %s, false), current_setting('synchronous_commit'), "
                "current_setting('fsync'), pg_is_in_recovery()",
                (timeout_ms,),
            ).fetchone()
            if found[3]:
                raise read_only_error(location)
            if found[1] not in {"on", "remote_apply"}:
                raw.execute("SET synchronous_commit = on")
            if found[2] != "on":
                self.refuse_weak("the server runs with fsync off", "set fsync = on")
        except BaseException:
            raw.close()
            raise
        return raw

    def _conninfo(self) -> dict[str, Any]:
        location = self.location
        info: dict[str, Any] = {
            "host": location.options.get("socket") or location.host,
            "port": location.port,
            "dbname": location.path.lstrip("/"),
            "user": location.user,
            "password": location.secret(),
            "connect_timeout": max(2, round(location.connect_timeout_s)),
            "application_name": "siltstone",
            "client_encoding": "UTF8",
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": round(location.timeout_s * 1000),
            "autocommit": True,
            "sslmode": "verify-full" if location.verify_tls else "prefer",
            "sslrootcert": location.options.get("ca_file", ""),
        }
        if location.verify_tls and not info["sslrootcert"] and not Path("~/.postgresql/root.crt").expanduser().exists():
            info["sslrootcert"] = "system"
        # libpq fills what is left out from its own environment variables (PGUSER, PGPASSWORD) and password file.
        return {name: value for name, value in info.items() if value not in ("", 0)}

    def fault(self, error: Exception) -> Fault | None:
        if not isinstance(error, self.module.Error):
            return None
        state = str(error.sqlstate or "")
        if not state:
            return _first_match(str(error).lower(), _POSTGRESQL_WORDS, Fault.UNAVAILABLE)
        return _first_match(state, _POSTGRESQL_STATES, Fault.UNAVAILABLE, start=True)


_POSTGRESQL_STATES = {
    "42P01": Fault.NO_TABLE,
    "23505": Fault.TAKEN,
    "42P07": Fault.TAKEN,
    "42710": Fault.TAKEN,
    "40": Fault.AGAIN,
    "55P03": Fault.AGAIN,
    "28": Fault.DENIED,
    "42501": Fault.DENIED,
    "3D": Fault.UNKNOWN_NAME,
    "3F": Fault.UNKNOWN_NAME,
    "53100": Fault.FULL,
    "58": Fault.UNAVAILABLE,
    "XX001": Fault.CORRUPT,
    "XX002": Fault.CORRUPT,
    "22": Fault.INVALID,
    "42": Fault.INVALID,
}

# libpq reports a refused connection in words only.
_POSTGRESQL_WORDS = {
    "authentication failed": Fault.DENIED,
    "no password supplied": Fault.DENIED,
    "no pg_hba.conf entry": Fault.DENIED,
    "permission denied": Fault.DENIED,
    "role ": Fault.DENIED,
    "the database system is ": Fault.UNAVAILABLE,  # starting up, shutting down, in recovery
    "database ": Fault.UNKNOWN_NAME,
    "certificate": Fault.DENIED,
    "does not support ssl": Fault.DENIED,
}


def _bounded_connection(psycopg: Any, limit_s: float) -> Any:
    """A connection class whose requests end: a frozen server does not keep its own statement timeout."""

    class BoundedConnection(psycopg.Connection):  # type: ignore[misc]
        def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
            return super().wait(_bounded(gen, time.monotonic() + limit_s * 1.5, psycopg), *args, **kwargs)

    return BoundedConnection


def _bounded(gen: Any, deadline: float, psycopg: Any) -> Generator[Any, Any, Any]:
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                gen.close()
                raise psycopg.OperationalError("the server gave no answer in time")
            wanted = gen.send(ready)
    except StopIteration as stop:
        return stop.value


def _first_match(text: str, table: dict[str, Fault], default: Fault, *, start: bool = False) -> Fault:
    for words, fault in table.items():
        if text.startswith(words) if start else words in text:
            return fault
    return default
