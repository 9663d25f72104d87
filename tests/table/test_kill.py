"""A writer is killed (SIGKILL) wherever it is: what it was told is there, and at most one operation more."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from replay import MAY, Model, digest
from roles import perform
from siltstone.api import create_table, open_table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("score", pa.int64()), ("note", pa.string())])
KILLS = 30
FIRST_LIFE_S = 2
OPERATIONS_IN_A_LIFE = 10


class Witness:
    """Follows a table from kill to kill, and says what it must be."""

    def __init__(self) -> None:
        self.model = Model()
        self.version = 0
        self.landed = self.lost = 0  # operations under way when their writer was killed

    def follow(self, table, told) -> None:
        """Bring the model to the newest version by what a writer was told before it was killed."""
        assert [one.facts for one in told if one.error and (one.operation["do"], one.error) not in MAY] == []
        made = {one.version: one.operation for one in told if one.made and one.operation["do"] != "compact"}
        under_way = [one.operation for one in told if one.facts is None]
        before = len(under_way)
        assert before <= 1
        for version in reversed(table.history(limit=table.version - self.version)):
            if version.operation == "compact":
                continue
            assert version.version in made or under_way, f"nobody made {version}"
            operation = made.pop(version.version, None) or under_way.pop()
            assert self.model.apply(operation) == [version.inserted, version.updated, version.deleted]
        assert not made, "acknowledged, and not there"
        self.version = table.version
        self.landed += before - len(under_way)
        self.lost += len(under_way)

    def check(self, table) -> None:
        assert digest(table.scan().to_arrow()) == self.model.digest


def abandoned(table) -> set[str]:
    """Data files that no version names."""
    steps = table._history.steps(table._log.start)
    named = {f"data/{one.name}.parquet" for step in steps for one in step.change.add}
    return {info.key for info in table._log.store.list("data/")} - named


@pytest.mark.slow
@pytest.mark.parametrize("store", ["file", "faulty"])
def test_operations__writer_is_killed_at_any_time__what_was_acknowledged_is_there_and_the_next_one_goes_on(
    places, crew, store
):
    place = places.store(store)
    options = {"storage_options": place.options or None}
    create_table(place.uri, schema=SCHEMA, key="id", **options).close()
    chance = random.Random(store)
    witness = Witness()
    job = {"uri": place.uri, "options": place.options, "role": "everything", "seconds": 60, "open": {"probe": False}}
    death_s = FIRST_LIFE_S
    for life in range(1 + KILLS):
        told = crew.run_and_kill({**job, "number": life, "seed": life, "once": life}, after_s=death_s)
        table = open_table(place.uri, probe=False, **options)
        if life == 0:  # how long a life is to be depends on the machine
            life_s = told[OPERATIONS_IN_A_LIFE].begun - told[0].begun
            first = table.version
        death_s = chance.uniform(0, 2 * life_s)
        witness.follow(table, told)
        witness.check(table)
        if told and "once" in told[-1].operation:  # whoever runs a job again, after a kill or not, does no harm
            again = perform(table, told[-1].operation)
            if not again["noop"]:
                witness.model.apply(told[-1].operation)
                witness.version = again["version"]
            witness.check(table)
        leftover = abandoned(table)
        table.close()
    assert witness.version - first > KILLS // 2
    assert witness.landed + witness.lost > KILLS // 2, "most were killed between two operations"
    assert leftover, "nobody was killed between the data and the entry"
