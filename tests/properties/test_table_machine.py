"""Every operation of a table against a plain dict, in any order, with time travel and the change feed."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import siltstone as ss
from siltstone.errors import DuplicateKeyError

SCHEMA = pa.schema([("id", pa.int64()), ("stars", pa.int32()), ("body", pa.string())])
KEYS = st.integers(0, 30)
ROWS = st.lists(st.tuples(KEYS, st.none() | st.integers(-5, 5), st.none() | st.text("abü\x00", max_size=3)), max_size=8)
# A condition in SQL and in Python; null is neither true nor false.
CONDITIONS = st.sampled_from(
    [
        ("stars < 0", lambda row: row["stars"] is not None and row["stars"] < 0),
        ("stars % 2 = 1", lambda row: row["stars"] is not None and row["stars"] > 0 and row["stars"] % 2 == 1),
        ("stars is null", lambda row: row["stars"] is None),
        ("id between 3 and 7", lambda row: 3 <= row["id"] <= 7),
        ("id in (1, 5, 29) or body = 'a'", lambda row: row["id"] in {1, 5, 29} or row["body"] == "a"),
        ("not (stars >= 2)", lambda row: row["stars"] is not None and row["stars"] < 2),
        ("false", lambda _: False),
        ("true", lambda _: True),
    ]
)


class TableMachine(RuleBasedStateMachine):
    """The table, and what it should be at each version: columns (name to default) and rows by key."""

    @initialize()
    def make(self):
        self.table = ss.create(f"memory://machine-{uuid.uuid4().hex}", schema=SCHEMA, key="id")
        self.columns = ["id", "stars", "body"]
        self.rows = {}
        self.versions = [({}, list(self.columns))]
        self.tags = {}
        self.extra = 0
        self.rewrites = set()

    # -- helpers ---------------------------------------------------------------------------------

    def given(self, rows):
        extra = {name: None for name in self.columns if name not in {"id", "stars", "body"}}
        return [{"id": key, "stars": stars, "body": body, **extra} for key, stars, body in rows]

    def made(self, *, changed):
        """A version was made, or none."""
        if changed:
            self.versions.append((dict(self.rows), list(self.columns)))
        assert self.table.version == len(self.versions) - 1

    # -- rules -----------------------------------------------------------------------------------

    @rule(rows=ROWS)
    def append(self, rows):
        keys = [row[0] for row in rows]
        if len(set(keys)) < len(keys) or set(keys) & self.rows.keys():
            with pytest.raises(DuplicateKeyError):
                self.table.append(self.given(rows))
            self.made(changed=False)
            return
        self.table.append(self.given(rows))
        self.rows |= {row["id"]: row for row in self.given(rows)}
        self.made(changed=bool(rows))

    @rule(rows=ROWS)
    def upsert(self, rows):
        self.table.upsert(self.given(rows))
        self.rows |= {row["id"]: row for row in self.given(rows)}
        self.made(changed=bool(rows))

    @rule(condition=CONDITIONS)
    def delete(self, condition):
        where, matches = condition
        gone = [key for key, row in self.rows.items() if matches(row)]
        done = self.table.delete(where)
        for key in gone:
            del self.rows[key]
        assert done.deleted == len(gone)
        self.made(changed=bool(gone))

    @rule(condition=CONDITIONS, value=st.integers(-3, 3))
    def update(self, condition, value):
        where, matches = condition
        hit = [key for key, row in self.rows.items() if matches(row)]
        self.table.update({"stars": f"coalesce(stars, 0) + {value}", "body": "'u'"}, where=where)
        for key in hit:
            row = self.rows[key]
            self.rows[key] = {**row, "stars": (row["stars"] or 0) + value, "body": "u"}
        self.made(changed=bool(hit))

    @rule(rows=ROWS)
    def overwrite(self, rows):
        rows = list({row[0]: row for row in rows}.values())
        had = bool(self.rows)
        self.table.overwrite(self.given(rows))
        self.rows = {row["id"]: row for row in self.given(rows)}
        self.made(changed=had or bool(rows))

    @rule(rows=ROWS, condition=CONDITIONS, again=st.booleans())
    def transaction(self, rows, condition, again):
        where, matches = condition
        once = f"job-{len(self.versions)}"
        for _ in range(2 if again else 1):
            with self.table.transaction(once=once) as tx:
                tx.delete(where)
                tx.upsert(self.given(rows))
        self.rows = {key: row for key, row in self.rows.items() if not matches(row)}
        self.rows |= {row["id"]: row for row in self.given(rows)}
        self.made(changed=True)

    @rule(default=st.none() | st.integers(0, 9))
    @precondition(lambda self: len(self.columns) < 6)
    def add_column(self, default):
        self.extra += 1
        name = f"extra{self.extra}"
        self.table.add_column(pa.field(name, pa.int64()), default=default)
        self.columns.append(name)
        self.rows = {key: {**row, name: default} for key, row in self.rows.items()}
        self.made(changed=True)

    @rule()
    @precondition(lambda self: len(self.columns) > 3)
    def drop_column(self):
        name = self.columns.pop()
        self.table.drop_column(name)
        self.rows = {key: {k: v for k, v in row.items() if k != name} for key, row in self.rows.items()}
        self.made(changed=True)

    @rule()
    @precondition(lambda self: len(self.columns) > 3)
    def rename_column(self):
        self.extra += 1
        old, new = self.columns[3], f"renamed{self.extra}"
        self.table.rename_column(old, new)
        self.columns[3] = new
        self.rows = {key: {new if k == old else k: v for k, v in row.items()} for key, row in self.rows.items()}
        self.made(changed=True)

    @rule()
    def compact(self):
        before = self.table.version
        self.table.compact()
        while self.table.version >= len(self.versions):
            self.versions.append((dict(self.rows), list(self.columns)))
        self.rewrites |= set(range(before + 1, self.table.version + 1))

    @rule()
    def tag(self):
        name = f"t{len(self.tags) % 3}"
        self.tags[name] = self.table.version
        self.table.tag(name)
        self.made(changed=True)

    @rule(data=st.data())
    def restore(self, data):
        version = data.draw(st.integers(0, len(self.versions) - 1))
        rows, columns = self.versions[version]
        before = self.table.version
        self.table.restore(version=version)
        self.rows, self.columns = dict(rows), list(columns)
        if self.table.version > before:
            self.made(changed=True)
        else:
            assert self.versions[before] == (rows, columns)

    @rule()
    def reopen(self):
        self.table = ss.open(self.table.uri)

    # -- what must hold --------------------------------------------------------------------------

    @rule(data=st.data())
    def travel(self, data):
        version = data.draw(st.integers(0, len(self.versions) - 1))
        rows, columns = self.versions[version]
        then = self.table.at(version=version)
        assert then.schema.names == columns
        assert {row["id"]: row for row in then.scan().to_arrow().to_pylist()} == rows
        assert then.count() == len(rows)

    @rule(data=st.data())
    def feed(self, data):
        since = data.draw(st.integers(0, len(self.versions) - 1))
        until = data.draw(st.integers(since, len(self.versions) - 1))
        names = self.versions[until][1]
        rows = {key: row["stars"] for key, row in self.versions[since][0].items()}
        for change in self.table.changes(since, until, columns=["id", "stars"]).to_arrow().to_pylist():
            kind, key, version = change["_change"], change["id"], change["_version"]
            assert since < version <= until
            assert version not in self.rewrites
            if kind in {"delete", "update_before"}:
                assert rows.pop(key) == change["stars"]
            else:
                assert kind in {"insert", "update_after"}
                assert key not in rows
                rows[key] = change["stars"]
        assert rows == {key: row["stars"] for key, row in self.versions[until][0].items()}
        assert "id" in names

    @rule(keys=st.lists(KEYS, min_size=1, max_size=5, unique=True))
    def lookup(self, keys):
        found = self.table.get(keys).to_pylist()
        assert found == [self.rows[key] for key in keys if key in self.rows]

    @rule(condition=CONDITIONS, limit=st.none() | st.integers(0, 5))
    def scan(self, condition, limit):
        where, matches = condition
        expected = {key for key, row in self.rows.items() if matches(row)}
        found = self.table.scan(columns=["id"], where=where, limit=limit).to_arrow().column("id").to_pylist()
        assert len(found) == len(set(found)) == min(len(expected), limit if limit is not None else len(expected))
        assert set(found) <= expected
        assert self.table.count(where) == len(expected)

    @rule()
    def ask(self):
        name = self.table.name
        [row] = self.table.sql(f'select count(*) as n, sum(stars) as total from "{name}"').to_arrow().to_pylist()
        known = [row["stars"] for row in self.rows.values() if row["stars"] is not None]
        assert row == {"n": len(self.rows), "total": sum(known) if known else None}

    @invariant()
    def rows_are_those_of_the_model(self):
        if not hasattr(self, "table"):
            return
        assert {row["id"]: row for row in self.table.scan().to_arrow().to_pylist()} == self.rows
        assert self.table.tags == self.tags


TableMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTableMachine = TableMachine.TestCase
