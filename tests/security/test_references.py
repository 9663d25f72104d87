"""No record makes its reader ask for an object that is not the table's: 70 hostile keys in every field that names one.

Which fields these are is taken from the records themselves: a text that a record restricts by a pattern is a
reference, and every other text is listed below as one for people. A new field is in one of the two, or a test fails.
"""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import pyarrow as pa
import pytest
from msgspec import inspect

from siltstone import paths
from siltstone.errors import CorruptionError, InvalidInputError
from siltstone.format import rollup
from siltstone.format.records import Floor, Header, Hint, Identity, decode_json
from siltstone.format.shard import ShardState, WalHeader
from siltstone.format.table import Body, Change, Field, Fragment, Repeated, Schema, Vector
from siltstone.format.text import Marker, PartFacts, Plan, Staged
from siltstone.format.vectors import VectorHeader
from siltstone.shard.wal_store import WalStoreHeader
from siltstone.testing.hostile import HOSTILE_KEYS

RECORDS = (
    *(Identity, Header, Floor, Hint, Body, Repeated, Change, rollup.RollupHeader, rollup.Summary, VectorHeader),
    *(ShardState, WalHeader, WalStoreHeader, Plan, Staged, Marker, PartFacts),
)
# Texts that no key is made of. (``uri`` of an origin or a holder is opened: tests/security/test_foreign_tables.py.)
FOR_PEOPLE = {
    *("requires", "writer", "message", "error", "commits", "commits_identity", "commits_uri", "uri", "where", "once"),
    *("tags", "settings", "batches", "checkpoints", "indexes", "checkpoint", "low", "high", "default", "bounds"),
    *("table_home", "home", "prev"),  # compared with a digest, and nothing else
}
# Names of columns, of types and of an index.
NO_OBJECTS = {("Field", "name"), ("Field", "type"), ("Plan", "name")}
HERE = f"{7:020d}-{'a' * 32}"
FITTING = (HERE, "a" * 32, "a" * 64, "part_0_0.text", "a", "1", "")
TEXTS = [key for key in HOSTILE_KEYS if isinstance(key, str)]
PLAIN = {
    inspect.IntType: 1,
    inspect.BoolType: True,
    inspect.FloatType: 1.0,
    inspect.BytesType: "",
    inspect.NoneType: None,
    inspect.RawType: {},
}


def texts_of(kind, path=(), owner="", seen=()):
    """(path, owner, field, type) of each text in a record; the path is the steps that lead to it."""
    if isinstance(kind, inspect.StructType):
        for field in kind.fields if kind.cls not in seen else ():
            yield from texts_of(field.type, (*path, field), kind.cls.__name__, (*seen, kind.cls))
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from texts_of(one, path, owner, seen)
    elif isinstance(kind, inspect.DictType):
        yield from texts_of(kind.key_type, (*path, "key"), owner, seen)
        yield from texts_of(kind.value_type, (*path, "value"), owner, seen)
    elif isinstance(kind, inspect.VarTupleType):
        yield from texts_of(kind.item_type, (*path, "item"), owner, seen)
    elif isinstance(kind, inspect.StrType):
        yield path, owner, next(step.name for step in reversed(path) if not isinstance(step, str)), kind


def made(kind, path, text):
    """JSON of a type with ``text`` at the end of the path, which is None where it is elsewhere; else what is least."""
    step, rest = (path[0], path[1:]) if path else (None, None)
    if isinstance(kind, inspect.UnionType):
        kinds = inspect.StructType | inspect.StrType | inspect.DictType
        return made(next((one for one in kind.types if isinstance(one, kinds)), kind.types[0]), path, text)
    if isinstance(kind, inspect.StructType):
        fields = [one for one in kind.fields if one.required or one is step or kind.array_like]
        found = {one.name: made(one.type, rest if one is step else None, text) for one in fields}
        return [*found.values()] if kind.array_like else found
    if isinstance(kind, inspect.DictType):
        if step is None:
            return {}
        key = made(kind.key_type, rest if step == "key" else None, text)
        return {key: made(kind.value_type, rest if step == "value" else None, text)}
    if isinstance(kind, inspect.VarTupleType):
        return [] if step is None else [made(kind.item_type, rest, text)]
    if isinstance(kind, inspect.TupleType):
        return [1 for _ in kind.item_types]
    if isinstance(kind, inspect.StrType):
        return fitting(kind) if path is None else text
    return kind.values[0] if isinstance(kind, inspect.LiteralType) else PLAIN[type(kind)]


def fitting(kind):
    rules = {name: getattr(kind, name) for name in ("pattern", "min_length", "max_length") if getattr(kind, name)}
    return next(text for text in FITTING if is_a(text, Annotated[str, msgspec.Meta(**rules)] if rules else str))


def is_a(value, kind):
    try:
        msgspec.convert(value, type=kind)
    except msgspec.ValidationError:
        return False
    return True


INFO = {record: inspect.type_info(record) for record in RECORDS}
REFERENCES = {
    f"{record.__name__}: {'.'.join(step if isinstance(step, str) else step.name for step in path)}": (
        record,
        path,
        kind,
    )
    for record in RECORDS
    for path, _, _, kind in texts_of(INFO[record])
    if kind.pattern is not None
}


def encoded(record, path, text):
    return json.dumps(made(INFO[record], path, text)).encode()


def test_records__each_text_in_them__is_restricted_or_known_to_name_no_object():
    loose = {
        (owner, name)
        for record in RECORDS
        for _, owner, name, kind in texts_of(INFO[record])
        if kind.pattern is None and name not in FOR_PEOPLE
    }
    assert loose <= NO_OBJECTS
    assert len(REFERENCES) > 80
    assert len(TEXTS) >= 60


@pytest.mark.parametrize("where", REFERENCES)
def test_decode__hostile_key_in_a_reference__is_corrupt(where):
    record, path, kind = REFERENCES[where]
    assert decode_json(encoded(record, path, fitting(kind)), record, "it"), "what fits is taken"
    with pytest.raises(CorruptionError, match="it can't be read"):
        decode_json(encoded(record, path, "../x"), record, "it")
    decoder = msgspec.json.Decoder(record)  # as decode_json has one, made once
    for text in TEXTS:
        try:
            decoder.decode(encoded(record, path, text))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        assert text == "", f"{text!a} was taken"  # some may be left empty, which names nothing


@pytest.mark.parametrize("make", [paths.data, paths.vectors, lambda name: paths.index(name, "x"), paths.index_log])
def test_paths__hostile_name__is_refused_where_keys_are_made(make):
    for text in [*TEXTS, f"{HERE}@", f"{HERE}@0", f"{HERE}@10000", f"{HERE}@1/../x", f"{HERE}/..", f"../{HERE}"]:
        with pytest.raises(InvalidInputError):
            make(text)


def rollup_with(**columns):
    fragment = Fragment(name=HERE, rows=9, bytes=9, sha256="a" * 64)
    table = rollup.to_columns([rollup.Live(fragment, Vector(name=HERE, offset=0, length=9, rows=1))])
    for name, value in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.array([value], table.schema.field(place).type))
    versions = pa.table({"op": [b"a" * 16], "time_ms": [0]}, schema=rollup.VERSION_COLUMNS)
    summary = rollup.Summary(schema=Schema(fields=(Field(id=1, name="a", type="int64"),), next_id=2))
    place = {"log": "a" * 32, "since": 0, "position": 1, "epoch": 0, "digest": "a" * 64}
    return rollup.encode_rollup(summary, table, versions, **place)


@pytest.mark.parametrize("column", ["name", "vector"])
def test_decode_rollup__hostile_key_in_a_column__is_corrupt(column):
    assert rollup.decode_rollup(rollup_with(), name="it").fragments.num_rows == 1
    for text in [*TEXTS, f"{HERE}\n", f"{HERE}@0"]:
        if not text.isascii() and any(0xD800 <= ord(one) < 0xE000 for one in text):
            continue  # Arrow can't write it
        with pytest.raises(CorruptionError):
            rollup.decode_rollup(rollup_with(**{column: text}), name="it")
