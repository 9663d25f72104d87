"""Tables that are collected, and a book of what every version had: its rows, and the names of its objects.

The book reads the entries of the log as they come, one by one, and adds them up in plain dicts. So what must be there
after a collection is known without asking the code that collects, also where the log has lost its beginning.
"""

from __future__ import annotations

from shard_models import DAY_S, World, content, rows_of
from siltstone import paths
from siltstone.errors import SiltstoneError
from siltstone.format.records import decode_entry
from siltstone.format.version import whole_change
from siltstone.testing.manual import ManualClock


class GcWorld(World):
    """A table in memory whose versions are all written down."""

    def __init__(self, **options):
        self.names: list[dict] = []  # by version: fragment to the object of its vector, or None
        self.rows: list[list] = []  # by version: all rows
        self.kept: list[frozenset] = []
        super().__init__(**{"shards": None, **options})

    def copy(self):
        other = super().copy()
        made = GcWorld.__new__(GcWorld)
        made.__dict__.update(other.__dict__)
        made.names, made.rows, made.kept = list(self.names), list(self.rows), list(self.kept)
        return made

    # -- the book ----------------------------------------------------------------------------------

    def note(self, *, rows=True):
        """Write down what was committed since the last look; to be called before any of it can be collected."""
        store = self.store()
        table = self.open() if rows else None
        while (info := store.head(paths.entry(paths.LOG, len(self.names)))) is not None:
            body = decode_entry(store.get(info.key), name=info.key)[1]
            change = whole_change(body, name=info.key)
            after = dict(self.names[-1]) if self.names else {}
            for name in change.remove:
                del after[name]
            after.update(dict.fromkeys(one.name for one in change.add))
            after.update({name: vector.name for name, vector in change.mask.items()})
            after.update(dict.fromkeys(change.unmask))
            self.names.append(after)
            if table is not None:
                self.rows.append(content(table.at(version=len(self.names) - 1).scan()))
        return self

    def needed(self, state):
        """Keys of the objects that some version needs."""
        versions = {*range(state.floor, state.version + 1), *state.kept}
        found = set()
        for version in versions:
            found |= {paths.data(name) for name in self.names[version]}
            found |= {paths.vectors(name) for name in self.names[version].values() if name}
        return found

    # -- what must hold ----------------------------------------------------------------------------

    def there(self):
        return {*self.keys("data/"), *self.keys("vectors/")}

    def check(self, *, rows=True, clean=False):
        """All that is kept is there and reads as it did; with ``clean``, nothing else is there."""
        self.note(rows=rows)
        table = self.open()
        state = table._now()
        needed = self.needed(state)
        assert needed <= self.there(), sorted(needed - self.there())
        if clean:
            young = {key for key in self.there() - needed if base_of(key) >= state.floor}
            assert self.there() == needed | young, sorted(self.there() - needed - young)
        if rows:
            self.read(table, state)
        return state

    def read(self, table, state):
        """Every version that is kept, in full; the others are refused."""
        left = [one for one in range(state.version + 1) if state.keeps(one)]
        for version in left:
            assert content(table.at(version=version).scan()) == self.rows[version], f"version {version}"
        assert [one.version for one in table.history()] == left[::-1]
        assert content(table.scan()) == self.rows[-1]

    def idle(self, **options):
        """Collect until there is nothing to do, with days between; then nothing is there that nobody needs."""
        for _ in range(4):
            self.clock.advance(2 * DAY_S)
            self.note()
            table = self.open()
            done = table.gc(**{"keep_days": 0, **options})
            assert done.left == ()
        state = self.check(clean=True)
        before = dict(self.bucket.objects)
        self.clock.advance(2 * DAY_S)
        again = self.open().gc(**{"keep_days": 0, **options})
        changed = {
            key for key in before.keys() | self.bucket.objects.keys() if before.get(key) != self.bucket.objects.get(key)
        }
        assert all(key.endswith("/clock") for key in changed), changed
        assert (again.version, again.deleted) == (state.version, 0)
        return state


def base_of(key):
    return int(key.partition("/")[2][:20])


def grown(**options):
    """A table with versions of all kinds: rows came, went and came back, files were rewritten."""
    world = GcWorld(**options)
    table = world.open()
    table.append(rows_of({id_: id_ for id_ in range(20)}))
    table.upsert(rows_of({3: 100, 30: 1}))
    table.delete("id % 4 = 1")
    table.tag("old", version=2)
    world.note()
    table.update({"n": "n + 1"}, "id < 5")
    table.compact()
    table.upsert(rows_of({7: 7, 8: 8}))
    table.delete("id = 2")
    world.note()
    return world


def told(call):
    """What a call gives, or raises."""
    try:
        return call()
    except SiltstoneError as error:
        return error


__all__ = ["DAY_S", "GcWorld", "ManualClock", "base_of", "content", "grown", "rows_of", "told"]
