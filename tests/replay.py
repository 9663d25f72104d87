"""Operations of many writers, run again one after another on a plain dict: what the table must be equal to.

What must hold of a table: its rows at version n are those of the acknowledged operations up to n in their order; a
version that nobody was told of does not exist; an operation that was told "nothing to do", or was refused, was so at a
version that was the newest at some moment between its begin and its end.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BASE_COLUMNS = ("id", "score", "note")


@dataclass
class Told:
    """One operation of one writer, and what it was told; nothing where it was killed before."""

    worker: int
    number: int
    operation: dict
    begun: float
    ended: float = float("inf")
    facts: dict | None = None

    @property
    def version(self) -> int:
        return self.facts["version"]

    @property
    def made(self) -> bool:
        """Whether it made a version."""
        return self.facts is not None and "error" not in self.facts and not self.facts["noop"]

    @property
    def error(self) -> str:
        return (self.facts or {}).get("error", "")


def read_told(path: Path, *, worker: int = 0) -> list[Told]:
    """What a writer noted; a line that a kill cut off is dropped."""
    found: dict[int, Told] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        facts = json.loads(line)
        number, at = facts.pop("n"), facts.pop("at")
        if "operation" in facts:
            found[number] = Told(worker, number, facts["operation"], at)
        else:
            found[number].facts, found[number].ended = facts, at
    return [*found.values()]


def digest(rows) -> str:
    """What tells two tables of rows apart, whatever the order of their rows and columns."""
    names = _in_order(rows.column_names)
    return _hash(names, list(zip(*(rows.column(name).to_pylist() for name in names), strict=True)))


def _in_order(names) -> list[str]:
    return ["id", *sorted(name for name in names if name != "id")]


def _hash(names: list[str], rows: list[tuple]) -> str:
    return hashlib.sha256(repr((names, sorted(rows, key=lambda row: row[0]))).encode()).hexdigest()


@dataclass
class Model:
    """The table as a dict. Columns have numbers of their own, as names change."""

    columns: dict[str, int] = field(default_factory=lambda: {name: at for at, name in enumerate(BASE_COLUMNS)})
    known: dict[str, int] = field(default_factory=lambda: {name: at for at, name in enumerate(BASE_COLUMNS)})
    defaults: dict[int, int | None] = field(default_factory=dict)
    rows: dict[int, dict[int, object]] = field(default_factory=dict)
    kept: dict[int, Model] = field(default_factory=dict)  # earlier versions, for those who restore them

    def copy(self) -> Model:
        rows, columns = self.copies()
        return Model(columns, dict(self.known), dict(self.defaults), rows, dict(self.kept))

    def copies(self) -> tuple[dict, dict]:
        return {id_: dict(row) for id_, row in self.rows.items()}, dict(self.columns)

    def apply(self, operation: dict) -> list[int]:
        """Run an operation; how many rows it inserted, updated and deleted."""
        parts = operation["parts"] if operation["do"] == "transaction" else [operation]
        return [sum(some) for some in zip(*(getattr(self, f"_{part['do']}")(part) for part in parts), strict=True)]

    def refuses(self, operation: dict) -> bool:
        """Whether an append brings a key that is there."""
        parts = operation.get("parts", [operation])
        return any(row["id"] in self.rows for part in parts if part["do"] == "append" for row in part["rows"])

    def mismatches(self, operation: dict) -> bool:
        """Whether rows have other columns than the table."""
        given = [set(row) for part in operation.get("parts", [operation]) for row in part.get("rows", ())]
        return any(not names <= set(self.columns) for names in given)

    def fits(self, operation: dict) -> bool:
        """Whether the columns that an operation names are there, and those that it adds are not."""
        needs = {"update": ["note"], "rename_column": [operation.get("name")], "drop_column": [operation.get("name")]}
        given = {name for part in operation.get("parts", [operation]) for row in part.get("rows", ()) for name in row}
        return operation["do"] != "add_column" and given.union(needs.get(operation["do"], ())) <= self.columns.keys()

    def changes(self, operation: dict) -> bool:
        """Whether an operation would change anything."""
        before = self.copies()
        self.apply(operation)
        changed = before != (self.rows, self.columns)
        self.rows, self.columns = before
        return changed

    @property
    def digest(self) -> str:
        """As ``digest`` of the table's rows."""
        names = _in_order(self.columns)
        ids = [self.columns[name] for name in names]
        return _hash(names, [tuple(row.get(at, self.defaults.get(at)) for at in ids) for row in self.rows.values()])

    def _append(self, operation):
        assert not self.refuses(operation), "a key is there twice"
        return self._upsert(operation)

    def _upsert(self, operation):
        # Writers know columns by the names of then: an older name is the same column, a dropped one is passed over.
        updated = sum(row["id"] in self.rows for row in operation["rows"])
        self.rows.update({row["id"]: {self.known[name]: row[name] for name in row} for row in operation["rows"]})
        return len(operation["rows"]) - updated, updated, 0

    def _overwrite(self, operation):
        gone = len(self.rows)
        self.rows = {}
        return [more + less for more, less in zip(self._upsert(operation), (0, 0, gone), strict=True)]

    def _restore(self, operation):
        gone = len(self.rows)
        self.rows, self.columns = self.kept[operation["version"]].copies()
        return len(self.rows), 0, gone

    def _delete(self, operation):
        gone = [
            id_
            for id_, row in self.rows.items()
            if row[1] % operation["mod"] == operation["rest"] and id_ < operation["below"]
        ]
        for id_ in gone:
            del self.rows[id_]
        return 0, 0, len(gone)

    def _update(self, operation):
        chosen = [
            row
            for id_, row in self.rows.items()
            if id_ % operation["mod"] == operation["rest"] and operation["low"] <= id_ < operation["high"]
        ]
        for row in chosen:
            row[1] += operation["plus"]
            row[2] += f"+{operation['plus']}"
        return 0, len(chosen), 0

    def _add_column(self, operation):
        at = len(self.known)
        self.columns[operation["name"]] = self.known[operation["name"]] = at
        self.defaults[at] = operation["default"]
        return 0, 0, 0

    def _rename_column(self, operation):
        at = self.columns.pop(operation["name"])
        self.columns[operation["to"]] = self.known[operation["to"]] = at
        return 0, 0, 0

    def _drop_column(self, operation):
        del self.columns[operation["name"]]
        return 0, 0, 0

    def _compact(self, operation):
        return 0, 0, 0


# -- the verdict -----------------------------------------------------------------------------------------


# Errors that are right: each is checked to have had its reason, except that of a compaction.
MAY = {
    ("append", "duplicate-key"),
    ("append", "schema-mismatch"),
    ("upsert", "schema-mismatch"),
    ("transaction", "schema-mismatch"),
    ("transaction", "conflict"),
    ("compact", "conflict"),
}


def check(table, told: list[Told], *, chance, versions: int = 12) -> Model:
    """Compare a table with what its writers were told."""
    bad = [one for one in told if one.error and (one.operation["do"], one.error) not in MAY]
    assert not bad, f"{len(bad)} errors, such as {bad[0].operation}: {bad[0].facts['trace']}"
    newest = table.version
    made = by_version(told, [one.operation for one in reversed(table.history())])
    assert max(made, default=0) <= newest
    looks = Looks(told)
    model = Model()
    chosen = {newest, *chance.sample(range(newest + 1), min(versions, newest + 1))}
    for version in range(newest + 1):
        one = made.get(version)
        if one is not None:
            counts = model.apply(one.operation)
            assert one.facts["counts"] == counts, f"version {version}: {one.operation}"
        looks.at(version, model)
        if version in chosen:
            compare(table, version, model, chance)
    looks.check_all_seen()
    return model


def compare(table, version: int, model: Model, chance) -> None:
    """The rows of a version against the model, read in three ways."""
    there = table.at(version=version)
    assert digest(there.scan().to_arrow()) == model.digest, f"version {version}"
    assert there.count() == len(model.rows)
    asked = chance.sample(range(500), 40) + chance.sample([*model.rows], min(40, len(model.rows)))
    asked = [*dict.fromkeys(asked)]
    found = there.get(asked, ["id", "score"])
    assert found.to_pylist() == [{"id": id_, "score": model.rows[id_][1]} for id_ in asked if id_ in model.rows]
    some = there.scan(["id"], where="score % 10 = 3 and id < 2000000").to_arrow()["id"].to_pylist()
    assert sorted(some) == sorted(id_ for id_, row in model.rows.items() if row[1] % 10 == 3 and id_ < 2000000)


def by_version(told: list[Told], kinds: list[str]) -> dict[int, Told]:
    """Who made each version. Each was made by one, or is a compaction's, or the first one."""
    made: dict[int, Told] = {}
    for one in told:
        if one.made and one.operation["do"] != "compact":
            assert one.version not in made, f"version {one.version} was acknowledged twice"
            made[one.version] = one
    nobodys = {at for at, kind in enumerate(kinds) if at not in made and kind != "compact"}
    assert nobodys == {0}, "versions that nobody was told of"
    assert not [at for at in made if kinds[at] == "compact"]
    return made


class Looks:
    """Operations that made no version: each must have been right at a version that was the newest during it."""

    def __init__(self, told: list[Told]) -> None:
        self._waiting: dict[int, list[Told]] = {}  # by the version they spoke of
        self._refused: list[tuple[int, int, Told]] = []
        self._once = {one.operation["once"]: one.version for one in told if one.made and "once" in one.operation}
        ends = sorted((one.ended, one.version) for one in told if one.made)
        begins = sorted((one.begun, one.version) for one in told if one.made)
        for one in told:
            if one.facts is None or one.made or one.operation["do"] == "compact":
                continue
            first = max((version for ended, version in ends if ended < one.begun), default=0)
            last = max((version for begun, version in begins if begun < one.ended), default=0)
            if one.error:
                self._refused.append((first, last, one))
            elif "once" in one.operation:
                assert one.version == self._once[one.operation["once"]], one
            else:
                assert first <= one.version <= last, f"{one} looked at an old version: {first} was acknowledged before"
                self._waiting.setdefault(one.version, []).append(one)

    def at(self, version: int, model: Model) -> None:
        """Check what was said of a version."""
        for one in self._waiting.pop(version, ()):
            if one.operation["do"] == "read":
                assert one.facts["digest"] == model.digest, f"version {version} was read and is another now"
            else:
                assert not model.changes(one.operation), f"{one} was told that it has nothing to do"
        self._refused = [
            (first, last, one)
            for first, last, one in self._refused
            if not (first <= version <= last and self._is_right(one, model))
        ]

    @staticmethod
    def _is_right(one: Told, model: Model) -> bool:
        return (model.refuses if one.error == "duplicate-key" else model.mismatches)(one.operation)

    def check_all_seen(self) -> None:
        """Nothing may be left."""
        assert not self._waiting
        assert not self._refused, f"{self._refused[0][2]} was refused without a reason"
