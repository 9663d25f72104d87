"""Writers of every kind at once on one table: at every version it is what the operations before, in order, make.

Each writer notes what it tries and what it is told. Afterwards the operations are run again on a plain dict in the order
of their versions (``tests/replay.py``), and the table is compared with it at the newest version, at some others, and at
every version that a writer read meanwhile. ``SILTSTONE_TEST_SECONDS`` lets them go on for longer.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

from replay import Model, check, digest
from siltstone.api import create_table

SECONDS = float(os.environ.get("SILTSTONE_TEST_SECONDS", "20"))
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("score", pa.int64()), ("note", pa.string())])
ROLES = ("appending", "upserting", "deleting", "compacting", "evolving", "retrying", "retrying")
CHECKED_VERSIONS = 12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["file"])
def test_operations__of_all_kinds_at_once__give_what_their_order_gives(places, crew, name):
    place = places.store(name)
    table = create_table(place.uri, schema=SCHEMA, key="id", storage_options=place.options or None)
    job = {"uri": place.uri, "options": place.options, "seconds": SECONDS}
    told = crew.run([{**job, "role": role, "seed": seed} for seed, role in enumerate(ROLES)])
    check(table, told, may={"duplicate-key": "append", "conflict": "compact"}, chance=random.Random(1))
