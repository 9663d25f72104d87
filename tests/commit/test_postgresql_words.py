"""What PostgreSQL says in words only, when it refuses a connection."""

from __future__ import annotations

import psycopg
import pytest

from siltstone.commit.sql_dialect import Fault
from siltstone.commit.sql_postgresql import Postgresql


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("FATAL:  the database system is starting up", Fault.UNAVAILABLE),
        ("FATAL:  the database system is shutting down", Fault.UNAVAILABLE),
        ("FATAL:  the database system is in recovery mode", Fault.UNAVAILABLE),
        ('FATAL:  database "lake" does not exist', Fault.UNKNOWN_NAME),
        ('FATAL:  role "lake" does not exist', Fault.DENIED),
        ("Connection refused", Fault.UNAVAILABLE),
    ],
)
def test_fault__connection_refused_in_words__is_told_apart(words, fault):
    dialect = Postgresql.__new__(Postgresql)  # no server is asked
    assert dialect.fault(psycopg.OperationalError(f"connection failed: {words}")) is fault
