"""Tables and filters that tests of scans share."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow.compute as pc

from siltstone.table.predicate import parse_predicate
from siltstone.table.scan import Scan
from siltstone.table.schema import arrow_schema
from state_tables import COLUMNS, StateTable, rows_of

ID, NAME, SCORE, GRP = (pc.field(name) for name in COLUMNS.names)
FILTERS = [
    ("id between 400 and 900", (ID >= 400) & (ID <= 900)),
    ("id = 777", ID == 777),
    ("grp = 3", GRP == 3),
    ("grp <> 3", GRP != 3),
    ("score > 0.9 and id < 1500", (SCORE > 0.9) & (ID < 1500)),
    ("score is null", SCORE.is_null()),
    ("name like 'name 1%'", pc.starts_with(NAME, "name 1")),
    ("id < 0", ID < 0),
    ("true", pc.scalar(True)),
]


def some_table():
    """Three fragments: one with rows deleted here and there, one with a long gap, one whole."""
    table = StateTable()
    for number in range(3):
        table.add(rows_of(range(1000 * number, 1000 * number + 1000), seed=number))
    table.delete(0, np.random.default_rng(5).choice(1000, 100, replace=False))
    return table.delete(1, range(200, 700))


def scan(table, *args, **options):
    return Scan(table.tools, table.state, *args, **options)


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("siltstone-scan")]


def only(table):
    (live,) = table.state.fragments
    return (live,)


def parse(where, table):
    return parse_predicate(where, arrow_schema(table.state.schema))
