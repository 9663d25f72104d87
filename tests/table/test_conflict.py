"""The matrix: what becomes of each operation when another one landed first, cell by cell."""

from __future__ import annotations

import pytest

from paper_tables import SCHEMA, fragment
from siltstone.format.table import Change, Cursor, Sharding, Vector
from siltstone.table.conflict import Footprint, Verdict, verdict, verdict_of_all

KEEP, RERUN, CONFLICT = Verdict.KEEP, Verdict.RERUN, Verdict.CONFLICT
MINE, OTHER = fragment(), fragment()
CURSOR = Cursor(position=7, epoch=1, digest="ab" * 32)
VECTOR = Vector(name=MINE.name, offset=0, length=10, rows=1)

# What each of my operations depends on and touches. Those with rows to mask mask MINE.
FOOTPRINTS = {
    "append": Footprint(columns=True),
    "append by key": Footprint(rows=True, columns=True),
    "upsert of new keys": Footprint(rows=True, columns=True),
    "upsert": Footprint(rows=True, columns=True, touches=frozenset({MINE.name})),
    "delete": Footprint(rows=True, columns=True, touches=frozenset({MINE.name})),
    "update": Footprint(rows=True, columns=True, touches=frozenset({MINE.name})),
    "overwrite": Footprint(whole=True, columns=True, touches=frozenset({MINE.name})),
    "restore": Footprint(whole=True, columns=True, touches=frozenset({MINE.name})),
    "compact": Footprint(rewrites=True, columns=True, touches=frozenset({MINE.name})),
    "columns": Footprint(columns=True),
    "upsert over shards": Footprint(
        rows=True, columns=True, touches=frozenset({MINE.name}), shards=frozenset({"0000-0000"})
    ),
    "merge": Footprint(rows=True, columns=True, touches=frozenset({MINE.name}), shards=frozenset({"0000-0000"})),
    "merge of new keys": Footprint(rows=True, columns=True, shards=frozenset({"0000-0000"})),
    "merge, no key": Footprint(columns=True, shards=frozenset({"0000-0000"})),
    "split": Footprint(shards=frozenset({"0000-0000", "0000-0001", "0001-0000", "0001-0001"})),
    "tag": Footprint(tags=frozenset({"v1"})),
    "settings": Footprint(settings=frozenset({"a"})),
}

LANDED = {
    "append": Change(operation="append", add=(OTHER,)),
    "delete elsewhere": Change(operation="delete", mask={OTHER.name: VECTOR}),
    "delete in mine": Change(operation="delete", mask={MINE.name: VECTOR}),
    "delete of all of mine": Change(operation="delete", remove=(MINE.name,)),
    "upsert elsewhere": Change(operation="upsert", add=(fragment(),), mask={OTHER.name: VECTOR}),
    "upsert in mine": Change(operation="upsert", add=(OTHER,), mask={MINE.name: VECTOR}),
    "overwrite": Change(operation="overwrite", add=(OTHER,), remove=(MINE.name,)),
    "overwrite by nothing": Change(operation="overwrite", remove=(MINE.name,)),
    "compact elsewhere": Change(operation="compact", add=(fragment(),), remove=(OTHER.name,), rewrite=True),
    "compact of mine": Change(operation="compact", add=(OTHER,), remove=(MINE.name,), rewrite=True),
    "compact with a delete": Change(
        operation="compact", add=(OTHER,), remove=(fragment().name,), mask={OTHER.name: VECTOR}, rewrite=True
    ),
    "restore": Change(operation="restore", add=(OTHER,), unmask=(MINE.name,), schema=SCHEMA),
    "columns": Change(operation="schema", schema=SCHEMA),
    "same tag": Change(operation="tag", tags={"v1": 3}),
    "other tag": Change(operation="tag", tags={"v2": 3}),
    "same setting": Change(operation="settings", settings={"a": "1"}),
    "other setting": Change(operation="settings", settings={"b": "1"}),
    "merge of the same shard": Change(operation="merge", add=(OTHER,), shards={"0000-0000": CURSOR}),
    "merge of the same shard, no rows": Change(operation="merge", shards={"0000-0000": CURSOR}),
    "merge of another shard": Change(operation="merge", add=(OTHER,), shards={"0000-0001": CURSOR}),
    "merge of another shard in mine": Change(
        operation="merge", add=(OTHER,), mask={MINE.name: VECTOR}, shards={"0000-0001": CURSOR}
    ),
    "merge of another shard, no rows": Change(operation="merge", shards={"0000-0001": CURSOR}),
    "shard was added": Change(operation="merge", shards={"0000-0009": Cursor()}),
    "split": Change(
        operation="split",
        shards={"0000-0000": None, "0000-0001": None, "0001-0000": Cursor(), "0001-0001": Cursor()},
        sharding=Sharding(count=2, map=1),
    ),
    "first shards": Change(operation="split", shards={"0009-0000": Cursor()}, sharding=Sharding(count=1, map=9)),
    "nothing but an id": Change(operation="transaction", once=("x",)),
}

# A letter for each of LANDED in its order: k keep, r run again, c conflict.
MATRIX = {
    "append":             "k kkk kk kk kkk r r kk kk kk kkkk kk k",
    "append by key":      "r kkk rr rk kkk r r kk kk rk rrkr rr k",
    "upsert of new keys": "r kkk rr rk kkk r r kk kk rk rrkr rr k",
    "upsert":             "r krr rr rr krk r r kk kk rk rrkr rr k",
    "delete":             "r krr rr rr krk r r kk kk rk rrkr rr k",
    "update":             "r krr rr rr krk r r kk kk rk rrkr rr k",
    "overwrite":          "r rrr rr rr rrr r r kk kk rk rrkr rr k",
    "restore":            "r rrr rr rr rrr r r kk kk rk rrkr rr k",
    "compact":            "k krc kr cc kck r r kk kk kk krkk kk k",
    "columns":            "k kkk kk kk kkk r r kk kk kk kkkk kk k",
    "upsert over shards": "r krr rr rr krk r r kk kk rr rrkr rr k",
    "merge":              "r krr rr rr krk r r kk kk rr rrkr rr k",
    "merge of new keys":  "r kkk rr rk kkk r r kk kk rr rrkr rr k",
    "merge, no key":      "k kkk kk kk kkk r r kk kk rr kkkk rr k",
    "split":              "k kkk kk kk kkk k k kk kk rr rrrk rr k",
    "tag":                "k kkk kk kk kkk k k rk kk kk kkkk kk k",
    "settings":           "k kkk kk kk kkk k k kk rk kk kkkk kk k",
}  # fmt: skip
LETTERS = {"k": KEEP, "r": RERUN, "c": CONFLICT}


def cells():
    for mine, row in MATRIX.items():
        letters = row.replace(" ", "")
        assert len(letters) == len(LANDED)
        for landed, letter in zip(LANDED, letters, strict=True):
            yield pytest.param(mine, landed, LETTERS[letter], id=f"{mine} | {landed}")


def test_matrix__of_operations__has_a_row_for_each():
    assert MATRIX.keys() == FOOTPRINTS.keys()


@pytest.mark.parametrize(("mine", "landed", "expected"), list(cells()))
def test_verdict__mine_when_that_landed__is_the_cell(mine, landed, expected):
    assert verdict(FOOTPRINTS[mine], LANDED[landed]) is expected


def test_verdict_of_all__several_landed__is_the_worst():
    mine = FOOTPRINTS["compact"]
    one, two, three = (LANDED[name] for name in ("append", "delete in mine", "compact of mine"))
    assert verdict_of_all(mine, []) is KEEP
    assert verdict_of_all(mine, [one]) is KEEP
    assert verdict_of_all(mine, [one, two]) is RERUN
    assert verdict_of_all(mine, [three, one, two]) is CONFLICT
