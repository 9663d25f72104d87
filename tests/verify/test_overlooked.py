"""A listing beside writers may overlook an entry: verify names a gap only where looking again confirms it."""

from __future__ import annotations

import pytest

from siltstone import paths
from siltstone.store.wrapper import StoreWrapper
from siltstone.verify import verify
from worlds import FOR_EVER, MODES, World


class Overlooks(StoreWrapper):
    """Leaves an entry out of so many listings of all entries."""

    def __init__(self, inner, position: int, *, times: int) -> None:
        super().__init__(inner)
        self.left = times
        self._hidden = paths.entry("", position)

    def list(self, prefix: str = "", *, after: str = ""):
        hide = self.left > 0 and prefix == paths.ENTRIES
        self.left -= hide
        found = self.inner.list(prefix, after=after)
        return (info for info in found if not (hide and info.key.startswith(self._hidden)))


def checked(world: World, store):
    [report] = verify(store, commits=world.registry() if world.external else None, env=world.env())
    return report


# Where entries are published under a name taken from their bytes, only another listing can find them.
@pytest.mark.parametrize("position", [0, 2, 4])
@pytest.mark.parametrize(("mode", "times"), [(mode, 1 if mode == "fork" else FOR_EVER) for mode in MODES])
def test_verify__listing_overlooks_an_entry_that_is_there__no_finding(mode, times, position):
    world = World(mode).seeded(6)
    store = Overlooks(world.store(), position, times=times)
    report = checked(world, store)
    assert report.problems == ()
    assert (report.tip, report.entries) == (6, 6)
    assert store.left < times


@pytest.mark.parametrize("mode", MODES)
def test_verify__entry_is_gone__is_named(mode):
    world = World(mode).seeded(6)
    store = world.store()
    store.delete([info.key for info in store.list(paths.ENTRIES) if info.key.startswith(paths.entry("", 2))])
    assert ("missing", 2) in [(problem.fault, problem.position) for problem in checked(world, store).problems]
