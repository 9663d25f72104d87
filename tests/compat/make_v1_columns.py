"""Writes `tests/compat/v1/columns`: a table, and a clone of it whose fragments are columns of its entry.

``python tests/compat/make_v1_columns.py DIRECTORY`` wrote those that are committed, with what they hold in
``expected.json``. It is not run again: what was written must stay readable as it is. Columns are used here for ever so
few fragments, so that it stays small.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import siltstone as ss
from compat.make_v1_tables import SCHEMA, Maker, plain, rows
from siltstone.format import version
from siltstone.store.local import LocalStore

TABLES = ("columns-parent", "columns-clone")


def make(maker: Maker) -> None:
    """Three fragments, one with a vector of the parent's and one with one of the clone's."""
    parent = maker.create(TABLES[0], schema=SCHEMA, key="id")
    for start in (0, 10, 20):
        parent.append(rows(*range(start, start + 5)))
    parent.delete("id = 11")
    clone = parent.clone(maker.store(TABLES[1]), probe=False)
    clone.append(rows(200))
    clone.delete("id = 1")


def opened(directory: Path):
    """The clone."""
    return ss.open(directory / TABLES[1], sync=False, origins={1: str(directory / TABLES[0])})


def held(directory: Path) -> dict[str, object]:
    """What the clone holds, as JSON can say it."""
    table = opened(directory)
    return {
        "rows": plain(table.scan().to_arrow()),
        "counts": {str(one.version): table.at(version=one.version).count() for one in table.history()},
        "added": {str(one.version): one.fragments_added for one in table.history()},
        "changes": table.changes(table.history()[-1].version).to_arrow().num_rows,
    }


def main(directory: Path) -> None:
    version.COLUMNS_FROM = 1
    maker = Maker()
    make(maker)
    for name in TABLES:
        source, target = maker.store(name), LocalStore(directory / name, sync=False)
        for info in source.list():
            target.put(info.key, source.get(info.key))
    (directory / "expected.json").write_text(json.dumps(held(directory), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
