"""Writers of every kind at once on one table: at every version it is what the operations before, in order, make.

Each writer notes what it tries and what it is told. Afterwards the operations are run again on a plain dict in the
order of their versions (``tests/replay.py``), and the table is compared with it at the newest version, at some others,
and at every version that a writer read meanwhile. ``SILTSTONE_TEST_SECONDS`` lets them go on for longer.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

import figures
from replay import check
from siltstone.api import create_table

SECONDS = float(os.environ.get("SILTSTONE_TEST_SECONDS", "60"))
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("score", pa.int64()), ("note", pa.string())])
ROLES = {  # with the longest rest between two operations, in seconds
    "appending": 0.1,
    "upserting": 0.1,
    "deleting": 0,
    "compacting": 0.5,
    "evolving": 2,
    "retrying": 0.1,
}
TWICE = "retrying"  # two do the same, to meet each other


@pytest.mark.slow
def test_operations__of_all_kinds_at_once__give_what_their_order_gives(places, crew):
    place = places.store("file")
    table = create_table(place.uri, schema=SCHEMA, key="id")
    job = {"uri": place.uri, "seconds": SECONDS}
    roles = [*ROLES.items(), (TWICE, ROLES[TWICE])]
    told = crew.run([{**job, "role": role, "rest_s": rest, "seed": seed} for seed, (role, rest) in enumerate(roles)])
    check(table, told, chance=random.Random(1))
    figures.record("acknowledged under load", sum(one.made for one in told))
    did = {one.operation["do"] for one in told if one.made}
    assert did >= {"append", "upsert", "delete", "update", "compact", "add_column", "transaction"}
