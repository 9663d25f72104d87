"""A table is opened while its first versions are collected."""

from __future__ import annotations

from build_worlds import rows_of, seeded
from siltstone.testing.script import ANY

TEN_DAYS_S = 864_000
OPENED_BY = 30  # calls are more than opening takes


def test_open__collected_between_any_two_calls__finds_the_table():
    for nth in range(1, OPENED_BY):
        world = seeded()
        store = world.interleaves()

        def collect(world=world):
            other = world.open()
            other.compact()
            other.append(rows_of(range(40, 42)))
            for _ in range(2):
                world.clock.advance(TEN_DAYS_S)
                other.gc(keep_days=0)

        store.before(ANY, collect, nth=nth)
        assert world.open(store).count() > 0
        if store.pending:
            return
    raise AssertionError("opening takes more calls than were interrupted")
