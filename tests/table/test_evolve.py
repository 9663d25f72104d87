"""Columns change without touching a value that is there; what could is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from siltstone.errors import InvalidInputError, LimitExceededError, UnsupportedTypeError
from siltstone.format.table import Schema
from siltstone.table.evolve import add_column, drop_column, rename_column, widen_column
from siltstone.table.schema import arrow_schema, arrow_type, check_schema, field_named, key_fields, make_schema


@pytest.fixture
def schema():
    return make_schema(
        pa.schema([("id", pa.int32()), ("name", pa.string()), pa.field("n", pa.int16(), nullable=False)]), "id"
    )


def of(kind, *, key=None):
    return make_schema(pa.schema([("c", kind), ("other", pa.int8())]), key)


def test_add_column__nullable__comes_last_with_a_fresh_id(schema):
    made = add_column(schema, pa.field("tags", pa.large_list(pa.string())))
    assert [field.name for field in made.fields] == ["id", "name", "n", "tags"]
    assert (made.fields[-1].id, made.fields[-1].children[0].id, made.next_id) == (4, 5, 6)
    assert made.fields[-1].default is None
    assert made.key == schema.key
    check_schema(made, name="x")


def test_add_column__after_a_drop__never_takes_the_old_id(schema):
    made = add_column(drop_column(schema, "n"), pa.field("n", pa.int16()))
    assert field_named(made, "n").id == 4
    assert made.next_id == 5


@pytest.mark.parametrize(
    ("kind", "default", "stored"),
    [
        (pa.int8(), -128, -128),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.int64(), np.int32(5), 5),
        (pa.float64(), 0.1, 0.1),
        (pa.float64(), 3, 3.0),
        (pa.float32(), 0.1, float(np.float32(0.1))),
        (pa.bool_(), False, False),
        (pa.string(), "", ""),
        (pa.large_string(), "\u00e9\U0001f600", "\u00e9\U0001f600"),
    ],
)
def test_add_column__default_that_fits__is_stored_and_survives_json(schema, kind, default, stored):
    made = add_column(schema, pa.field("c", kind, nullable=False), default=default)
    assert made.fields[-1].default == stored
    assert type(made.fields[-1].default) is type(stored)
    again = msgspec.json.decode(msgspec.json.encode(made), type=Schema)
    assert again == made
    check_schema(again, name="x")


@pytest.mark.parametrize(
    ("kind", "default", "words"),
    [
        (pa.int8(), 128, "a whole number from -128 to 127, got 128"),
        (pa.uint8(), -1, "a whole number from 0 to 255"),
        (pa.int64(), 1.0, "a whole number"),
        (pa.int64(), True, "a whole number"),
        (pa.int64(), "1", "a whole number"),
        (pa.bool_(), 1, "True or False"),
        (pa.float64(), float("nan"), "a finite number"),
        (pa.float64(), float("inf"), "a finite number"),
        (pa.float64(), True, "a finite number"),
        (pa.float64(), 2**53 + 1, "holds exactly"),
        (pa.float64(), 10**400, "fits double"),
        (pa.float32(), 1e300, "a finite number that fits float"),
        (pa.float32(), 2**24 + 1, "holds exactly"),
        (pa.string(), 5, "a string, got 5"),
        (pa.string(), "\ud800", "valid UTF-8"),
    ],
)
def test_add_column__default_that_does_not_fit__is_refused(schema, kind, default, words):
    with pytest.raises(InvalidInputError, match="the default of column 'c' must be") as caught:
        add_column(schema, pa.field("c", kind), default=default)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.binary(), pa.decimal128(5, 2), pa.timestamp("us"), pa.list_(pa.int8())], ids=str
)
def test_add_column__default_of_a_type_that_has_none__says_which_have(schema, kind):
    with pytest.raises(UnsupportedTypeError, match=r"column 'c' of type .*only bool, integer, float and string"):
        add_column(schema, pa.field("c", kind), default=1)


def test_add_column__long_default__is_refused_with_the_limit(schema):
    with pytest.raises(LimitExceededError, match="'c' has 4097 characters, over the limit of 4096"):
        add_column(schema, pa.field("c", pa.string()), default="x" * 4097)


def test_add_column__not_nullable_without_default__asks_for_one(schema):
    with pytest.raises(InvalidInputError, match=r"'c' is not nullable.*give a default, or add it as nullable"):
        add_column(schema, pa.field("c", pa.int8(), nullable=False))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (pa.field("name", pa.int8()), "two columns have the name 'name'"),
        (pa.field("NAME", pa.int8()), "differ only in case"),
        (pa.field("_rowid", pa.int8()), "kept for"),
        (pa.field("", pa.int8()), "empty"),
        (pa.field("c", pa.float16()), "halffloat"),
        ("c", "pyarrow.Field, got str"),
    ],
)
def test_add_column__bad_field__is_refused(schema, field, words):
    with pytest.raises(InvalidInputError, match=words):
        add_column(schema, field)


def test_add_column__no_ids_left__is_refused(schema):
    full = msgspec.structs.replace(schema, next_id=2**31 - 1)
    with pytest.raises(InvalidInputError, match=r"no field ids left.*copy it to a new table"):
        add_column(full, pa.field("c", pa.int8()))


def test_drop_column__plain__keeps_the_next_id(schema):
    made = drop_column(schema, "name")
    assert [field.name for field in made.fields] == ["id", "n"]
    assert made.next_id == schema.next_id


def test_drop_column__of_the_key_the_last_or_unknown__is_refused(schema):
    with pytest.raises(InvalidInputError, match="'id' is part of the key and can't be dropped"):
        drop_column(schema, "id")
    with pytest.raises(InvalidInputError, match=r"no column 'nam' \(did you mean 'name'\?\)"):
        drop_column(schema, "nam")
    with pytest.raises(InvalidInputError, match=r"'c' is the only one.*add another"):
        drop_column(make_schema(pa.schema([("c", pa.int8())]), None), "c")


def test_rename_column__key_or_not__keeps_the_id(schema):
    made = rename_column(rename_column(schema, "id", to="number"), "name", to="Name")
    assert [(field.id, field.name) for field in made.fields] == [(1, "number"), (2, "Name"), (3, "n")]
    assert key_fields(made)[0].name == "number"


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("id", "two columns have the name 'id'"),
        ("ID", "differ only in case"),
        ("_score", "kept for"),
        ("a\tb", "control character"),
        ("x" * 129, "over the limit of 128"),
        ("e\u0301", "normal form C"),
        ("\ud800", "surrogate"),
        (None, "must be a string, got NoneType"),
    ],
)
def test_rename_column__bad_name__is_refused(schema, to, words):
    with pytest.raises(InvalidInputError, match=words):
        rename_column(schema, "name", to=to)


INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UINTS = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
WIDER = [
    *((a, b) for place, a in enumerate(INTS) for b in INTS[place + 1 :]),
    *((a, b) for place, a in enumerate(UINTS) for b in (*UINTS[place + 1 :], *INTS[place + 1 :])),
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(6, 2)),
    (pa.decimal128(5, 2), pa.decimal256(5, 2)),
    (pa.decimal128(38, 2), pa.decimal256(76, 2)),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDER, ids=str)
def test_widen_column__lossless__changes_the_type_only(narrow, wide):
    before = of(narrow)
    made = widen_column(before, "c", wide)
    assert arrow_type(made.fields[0]) == wide
    assert msgspec.structs.replace(made.fields[0], type=before.fields[0].type) == before.fields[0]
    assert made.next_id == before.next_id


@pytest.mark.parametrize(
    ("narrow", "wide", "words"),
    [
        *((b, a, "keep every value") for a, b in WIDER),
        (pa.int32(), pa.int32(), "keep every value"),
        (pa.int8(), pa.uint16(), "keep every value"),
        (pa.uint32(), pa.int32(), "keep every value"),
        (pa.int32(), pa.float64(), "keep every value"),
        (pa.int64(), pa.string(), "keep every value"),
        (pa.decimal128(5, 2), pa.decimal128(6, 3), "keep every value"),
        (pa.decimal256(5, 2), pa.decimal128(4, 2), "keep every value"),
        (pa.timestamp("us"), pa.timestamp("ns"), "stays as it is"),
        (pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC"), "stays as it is"),
        (pa.timestamp("s"), pa.timestamp("ms", "UTC"), "stays as it is"),
        (pa.date32(), pa.timestamp("us"), "keep every value"),
        (pa.string(), pa.large_string(), "keep every value"),
        (pa.list_(pa.int8()), pa.list_(pa.int16()), "only plain columns"),
        (pa.int8(), pa.list_(pa.int8()), "only plain columns"),
    ],
    ids=str,
)
def test_widen_column__lossy__is_refused_with_both_types(narrow, wide, words):
    with pytest.raises(UnsupportedTypeError, match=r"column 'c' of type .* can't be widened to ") as caught:
        widen_column(of(narrow), "c", wide)
    assert words in str(caught.value)


def test_widen_column__of_a_key__only_to_what_a_key_can_be(schema):
    assert arrow_type(widen_column(schema, "id", pa.int64()).fields[0]) == pa.int64()
    with pytest.raises(UnsupportedTypeError, match="part of the key, and that type can't be"):
        widen_column(of(pa.decimal128(5, 2), key="c"), "c", pa.decimal256(5, 2))
    with pytest.raises(InvalidInputError, match="'id' is part of the key and can't be null"):
        widen_column(schema, "id", nullable=True)


def test_widen_column__to_nullable__keeps_or_widens_the_type(schema):
    made = widen_column(schema, "n", nullable=True)
    assert arrow_schema(made).field("n") == pa.field("n", pa.int16())
    both = widen_column(schema, "n", pa.int64(), nullable=True)
    assert arrow_schema(both).field("n") == pa.field("n", pa.int64())
    assert not field_named(widen_column(schema, "n", pa.int64()), "n").nullable


def test_widen_column__bad_arguments__are_refused(schema):
    with pytest.raises(InvalidInputError, match=r"how to widen column 'n' \(pass to= or nullable=True\)"):
        widen_column(schema, "n")
    with pytest.raises(InvalidInputError, match=r"pyarrow\.DataType, got str"):
        widen_column(schema, "n", "int64")
    with pytest.raises(UnsupportedTypeError, match="'n' has the type halffloat"):
        widen_column(schema, "n", pa.float16())
    with pytest.raises(InvalidInputError, match="no column 'm'"):
        widen_column(schema, "m", pa.int64())


def test_widen_column__float_with_a_default__keeps_the_number(schema):
    made = add_column(schema, pa.field("f", pa.float32()), default=0.1)
    wide = widen_column(made, "f", pa.float64())
    assert pa.scalar(made.fields[-1].default, pa.float32()).as_py() == wide.fields[-1].default
    check_schema(wide, name="x")
