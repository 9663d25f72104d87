"""MySQL and MariaDB through PyMySQL.

What must hold: tables are InnoDB and its log is flushed at every commit; scopes are bytes, which no collation
folds or pads; the server is not read-only, as replicas are.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, ClassVar

from siltstone.commit.sql_dialect import Answer, Dialect, Fault, read_only_error

if TYPE_CHECKING:
    from collections.abc import Sequence


class Mysql(Dialect):
    """MySQL 8 or MariaDB 10.5 and newer, with InnoDB."""

    kind = "mysql"
    driver = "pymysql"
    options: ClassVar[dict[str, type]] = {"table": str, "socket": str, "accept_weak_durability": bool}
    default_port = 3306
    quote = "`"
    # VARBINARY: every text collation folds or pads something.
    columns = (
        "scope VARBINARY(512) NOT NULL, position BIGINT NOT NULL, digest VARBINARY(64) NOT NULL, "
        "parent VARBINARY(64) NOT NULL, value VARBINARY(1024) NOT NULL, below BIGINT NOT NULL DEFAULT 0, "
        "PRIMARY KEY (scope, position)"
    )
    table_suffix = " ENGINE=InnoDB"
    share_lock = " LOCK IN SHARE MODE"
    or_nothing = ""

    def connect(self) -> Any:
        location = self.location
        timeout_s = max(1, round(location.timeout_s))
        tls = ssl.create_default_context(cafile=location.options.get("ca_file")) if location.verify_tls else None
        raw = self.module.connect(
            host=location.host or None,
            port=location.port,
            unix_socket=location.options.get("socket"),
            user=location.user or None,
            password=location.secret(),
            database=location.path.lstrip("/"),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, round(location.connect_timeout_s)),
            read_timeout=timeout_s,
            write_timeout=timeout_s,
            ssl=tls,
            # Strict: a value that does not fit is an error, never cut.
            init_command=(
                "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
                f"innodb_lock_wait_timeout = {timeout_s}"
            ),
        )
        try:
            self.execute(raw, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", ())
            flush, read_only = self.execute(raw, "SELECT @@innodb_flush_log_at_trx_commit, @@read_only", ()).rows[0]
            if read_only:
                raise read_only_error(location)
            if int(flush) != 1:
                self.refuse_weak(f"innodb_flush_log_at_trx_commit is {flush}", "set innodb_flush_log_at_trx_commit = 1")
        except BaseException:
            raw.close()
            raise
        return raw

    def execute(self, raw: Any, sql: str, values: Sequence[object]) -> Answer:
        with raw.cursor() as cursor:
            count = cursor.execute(sql, values)
            return Answer(list(cursor.fetchall()) if cursor.description else [], count)

    def encode(self, text: str) -> str | bytes:
        return text.encode()

    def fault(self, error: Exception) -> Fault | None:
        if isinstance(error, OSError):
            return Fault.UNAVAILABLE
        if not isinstance(error, self.module.err.Error):
            return None
        code = error.args[0] if error.args else 0
        return _MYSQL_FAULTS.get(code, Fault.UNAVAILABLE)


_MYSQL_FAULTS = {
    1146: Fault.NO_TABLE,
    1062: Fault.TAKEN,
    1050: Fault.TAKEN,
    1213: Fault.AGAIN,
    1205: Fault.AGAIN,
    1020: Fault.AGAIN,
    1044: Fault.DENIED,
    1045: Fault.DENIED,
    1142: Fault.DENIED,
    1143: Fault.DENIED,
    1227: Fault.DENIED,
    1698: Fault.DENIED,
    1049: Fault.UNKNOWN_NAME,
    1046: Fault.UNKNOWN_NAME,
    1021: Fault.FULL,
    1114: Fault.FULL,
    1064: Fault.INVALID,
    1366: Fault.INVALID,
    1406: Fault.INVALID,
}
