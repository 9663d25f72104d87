"""Arrow schemas become records and come back; what a table can't hold is refused by name."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from siltstone.errors import CorruptionError, InvalidInputError, LimitExceededError, UnsupportedTypeError
from siltstone.format.table import Field, Schema
from siltstone.table.schema import (
    arrow_field,
    arrow_schema,
    arrow_type,
    check_schema,
    field_named,
    key_fields,
    make_schema,
)
from siltstone.table.types import plain_type

PLAIN = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.binary(16), pa.date32(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"),
    pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Vienna"), pa.timestamp("ms", "+05:30"),
    pa.timestamp("us", "America/Argentina/Buenos_Aires"), pa.timestamp("s", "Etc/GMT-3"),
    pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns"),
    pa.decimal128(1, 0), pa.decimal128(38, 38), pa.decimal256(39, 0), pa.decimal256(76, 10),
]  # fmt: skip
NESTED = [
    pa.list_(pa.int64()),
    pa.list_(pa.field("item", pa.int64(), nullable=False)),
    pa.list_(pa.float32(), 3),
    pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.string()))]),
    pa.map_(pa.string(), pa.struct([pa.field("x", pa.timestamp("us", "UTC"))])),
    pa.map_(pa.int32(), pa.field("value", pa.string(), nullable=False)),
    pa.struct([pa.field("l", pa.list_(pa.field("item", pa.list_(pa.int8(), 2), nullable=False)))]),
]


def of(kind, name="c", **options):
    return make_schema(pa.schema([pa.field(name, kind, **options)]), None)


def nested(levels):
    kind = pa.int64()
    for _ in range(levels - 1):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize("kind", [*PLAIN, *NESTED], ids=str)
def test_make_schema__supported_type__comes_back_the_same(kind):
    made = of(kind)
    assert arrow_schema(made).equals(pa.schema([pa.field("c", kind)]), check_metadata=True)
    assert arrow_type(made.fields[0]).equals(kind, check_metadata=True)
    check_schema(made, name="entries/0")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Schema) == made


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal64(18, 0), pa.decimal128(18, 0)),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.dictionary(pa.int32(), pa.large_list(pa.int8())), pa.list_(pa.int8())),
        (pa.large_list(pa.string_view()), pa.list_(pa.string())),
        (pa.list_(pa.field("element", pa.int64())), pa.list_(pa.int64())),
        (pa.map_(pa.large_string(), pa.int64(), keys_sorted=True), pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
def test_make_schema__another_layout_of_a_type__is_stored_as_the_plain_one(given, stored):
    assert arrow_type(of(given).fields[0]).equals(stored, check_metadata=True)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.dense_union([pa.field("a", pa.int8())]), ["union", "supported are"]),
        (pa.run_end_encoded(pa.int32(), pa.int64()), ["run_end_encoded", "supported are"]),
        (pa.month_day_nano_interval(), ["month_day_nano_interval", "supported are"]),
        (pa.list_view(pa.int8()), ["list_view", "supported are"]),
        (pa.large_list_view(pa.int8()), ["large_list_view", "supported are"]),
        (pa.float16(), ["halffloat", "supported are"]),
        (pa.null(), ["null", "supported are"]),
        (pa.binary(0), ["fixed_size_binary[0]", "supported are"]),
        (pa.uuid(), ["extension type", "fixed_size_binary[16]"]),
        (pa.json_(), ["extension type", "storage type, string"]),
        (pa.decimal128(5, -2), ["decimal128(5, -2)", "scale"]),
        (pa.timestamp("us", "Mars/Olympus"), ["Mars/Olympus", "time zone is not known", "UTC"]),
        (pa.timestamp("us", "../etc/passwd"), ["time zone is not known"]),
        (pa.struct([]), ["struct without fields"]),
        (pa.list_(pa.int8(), 0), ["fixed_size_list[0]"]),
        (
            pa.struct([pa.field("v", pa.list_(pa.int8(), 2), nullable=False)]),
            ["'odd.v'", "never null in a struct that may be null", "make the list nullable"],
        ),
        (pa.map_(pa.list_(pa.int8()), pa.int8()), ["keys of the map", "plain"]),
    ],
    ids=str,
)
def test_make_schema__unsupported_type__names_the_column_and_the_remedy(kind, words):
    with pytest.raises(UnsupportedTypeError) as caught:
        of(kind, name="odd")
    assert all(word in str(caught.value) for word in ["'odd", *words]), str(caught.value)


def test_make_schema__unsupported_type_inside__names_the_path():
    with pytest.raises(UnsupportedTypeError, match=r"'c\.a\.item'"):
        of(pa.struct([pa.field("a", pa.list_(pa.float16()))]))


def test_make_schema__nesting_at_and_over_the_limit__accepted_and_refused():
    of(nested(32))
    with pytest.raises(LimitExceededError, match="'c' is nested deeper than 32 levels"):
        of(nested(33))
    with pytest.raises(LimitExceededError, match="deeper"):
        of(nested(500))


def test_make_schema__columns_at_and_over_the_limit__accepted_and_refused():
    make_schema(pa.schema([(f"c{number}", pa.int8()) for number in range(5_000)]), None)
    with pytest.raises(LimitExceededError, match=r"5001 columns.*over the limit of 5000"):
        make_schema(pa.schema([(f"c{number}", pa.int8()) for number in range(5_001)]), None)
    with pytest.raises(LimitExceededError, match="6000 columns, the parts of nested ones counted"):
        of(pa.struct([(f"c{number}", pa.int8()) for number in range(6_000)]))


@pytest.mark.parametrize(
    "kind",
    [pa.binary(2**20 + 1), pa.list_(pa.list_(pa.int8(), 2**11), 2**11), pa.list_(pa.binary(2**12), 2**12)],
    ids=["binary", "lists", "both"],
)
def test_make_schema__fixed_sizes_over_the_limit__are_refused(kind):
    with pytest.raises(LimitExceededError, match=r"column 'c.*over the limit of 1048576.*use (binary|list)"):
        of(kind)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ["no columns", "at least one"]),
        (["a", "b", "a"], ["two columns", "'a'", "rename"]),
        (["Id", "iD"], ["'Id' and 'iD'", "differ only in case"]),
        (["stra\xdfe", "STRASSE"], ["differ only in case"]),
        (["_siltstone_x"], ["'_siltstone_x'", "kept for"]),
        (["_change"], ["'_change'", "_rowid"]),
        (["_version"], ["kept for"]),
        (["_rowid"], ["kept for"]),
        (["_position"], ["kept for"]),
        (["_deleted"], ["kept for"]),
        (["_score"], ["kept for"]),
        ([""], ["empty"]),
        (["  "], ["empty or only spaces"]),
        (["a\nb"], ["'a\\nb'", "control character"]),
        (["a\x00"], ["'a\\x00'", "control character"]),
        (["a\x1b[31m"], ["\\x1b", "control character"]),
        (["e\u0301"], ["normal form C"]),
    ],
)
def test_make_schema__bad_names__are_refused_by_name(names, words):
    with pytest.raises(InvalidInputError) as caught:
        make_schema(pa.schema([pa.field(name, pa.int64()) for name in names]), None)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_make_schema__bad_names_inside_a_struct__name_the_struct():
    with pytest.raises(InvalidInputError, match="'x' and 'X' in 'c' differ only in case"):
        of(pa.struct([pa.field("x", pa.int8()), pa.field("X", pa.int8())]))


def test_make_schema__long_name__is_cut_in_the_message():
    make_schema(pa.schema([("n" * 128, pa.int8())]), None)
    with pytest.raises(LimitExceededError, match="4097 characters, over the limit of 128") as caught:
        make_schema(pa.schema([("n" * 4097, pa.int8())]), None)
    assert len(str(caught.value)) < 300


def test_make_schema__nested_columns__get_ids_depth_first():
    made = make_schema(
        pa.schema([("a", pa.struct([("x", pa.int8()), ("y", pa.list_(pa.int8()))])), ("b", pa.int8())]), None
    )
    a, b = made.fields
    assert (a.id, a.children[0].id, a.children[1].id, a.children[1].children[0].id, b.id) == (1, 2, 3, 4, 5)
    assert made.next_id == 6
    assert made.key == ()


def test_make_schema__key__is_in_the_users_order_and_never_null():
    made = make_schema(pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int64())]), ["b", "a"])
    assert [field.name for field in key_fields(made)] == ["b", "a"]
    assert [field.nullable for field in made.fields] == [False, False, True]
    assert make_schema(pa.schema([("a", pa.int64())]), "a").key == (1,)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(), pa.uint64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(4), pa.date32(),
        pa.timestamp("ns", "UTC"), pa.time32("s"), pa.time64("ns"), pa.decimal128(38, 2),
    ],
    ids=str,
)  # fmt: skip
def test_make_schema__key_of_a_type_that_can_be__is_accepted(kind):
    assert make_schema(pa.schema([("k", kind)]), "k").key == (1,)


@pytest.mark.parametrize(
    "kind",
    [
        pa.float32(), pa.float64(), pa.bool_(), pa.decimal256(50, 2), pa.duration("s"), pa.list_(pa.int8()),
        pa.list_(pa.int8(), 2), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()),
    ],
    ids=str,
)  # fmt: skip
def test_make_schema__key_of_a_type_that_can_not_be__says_which_can(kind):
    with pytest.raises(
        UnsupportedTypeError, match=r"column 'k' .*can't be part of a key \(keys can be integers, string"
    ):
        make_schema(pa.schema([("k", kind)]), "k")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("userid", ["'userid'", "not in the schema", "did you mean 'user_id'"]),
        (["user_id", "zzz"], ["'zzz'", "columns are 'user_id', 'v'"]),
        (["user_id", "user_id"], ["'user_id' twice"]),
        ([], ["names no column", "leave it out"]),
        (7, ["key must be", "7"]),
        ([7], ["key must be", "[7]"]),
        (b"user_id", ["key must be"]),
    ],
)
def test_make_schema__bad_key__is_refused_by_name(key, words):
    with pytest.raises(InvalidInputError) as caught:
        make_schema(pa.schema([("user_id", pa.int64()), ("v", pa.int64())]), key)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("schema", [None, "a: int64", {"a": pa.int64()}, [("a", pa.int64())]])
def test_make_schema__no_arrow_schema__says_what_came(schema):
    with pytest.raises(InvalidInputError, match=f"pyarrow.Schema, got {type(schema).__name__}"):
        make_schema(schema, None)


def test_arrow_schema__with_ids__carries_them_to_the_last_part():
    made = make_schema(pa.schema([("m", pa.map_(pa.string(), pa.list_(pa.int8()))), ("v", pa.int8())]), None)
    schema = arrow_schema(made, ids=True)
    kind = schema.field("m").type
    found = [
        field.metadata[b"PARQUET:field_id"]
        for field in (schema.field("m"), kind.key_field, kind.item_field, kind.item_type.value_field, schema.field("v"))
    ]
    assert found == [b"1", b"2", b"3", b"4", b"5"]
    assert arrow_field(made.fields[0]).equals(schema.field("m"), check_metadata=True)
    assert arrow_schema(made).field("m").metadata is None


def test_field_named__unknown__suggests_near_names():
    made = make_schema(pa.schema([("user_id", pa.int64()), ("price", pa.float64())]), None)
    assert field_named(made, "price").id == 2
    with pytest.raises(InvalidInputError, match=r"no column 'Pricee' \(did you mean 'price'\?\)"):
        field_named(made, "Pricee")
    with pytest.raises(InvalidInputError, match=r"no column 'xyz' \(columns are 'user_id', 'price'\)"):
        field_named(made, "xyz")
    with pytest.raises(InvalidInputError, match="must be a string, got int"):
        field_named(made, 3)


def column(number=1, name="a", kind="int64", **more):
    return Field(id=number, name=name, type=kind, **more)


@pytest.mark.parametrize(
    ("fields", "key", "next_id", "words"),
    [
        ((), (), 1, "no columns"),
        ((column(), column(1, "b")), (), 5, "same id"),
        ((column(), column(2, "a")), (), 5, "two columns have the name 'a'"),
        ((column(), column(2, "A")), (), 5, "differ only in case"),
        ((column(5),), (), 5, "not below the next"),
        ((column(kind="int65"),), (), 5, "unknown type 'int65'"),
        ((column(kind="float"), column(2, "b", "timestamp[us, tz=a b]")), (), 5, "unknown type"),
        ((column(kind="decimal128(39, 0)"),), (), 5, "unknown type"),
        ((column(kind="decimal128(5,2)"),), (), 5, "unknown type"),
        ((column(kind="fixed_size_binary[99999999999]"),), (), 5, "unknown type"),
        ((column(kind="fixed_size_list[99999999]", children=(column(2, "item"),)),), (), 5, "unknown type"),
        ((column(kind="list"),), (), 5, "no items"),
        ((column(children=(column(2, "item"),)),), (), 5, "unknown type"),
        ((column(kind="struct"),), (), 5, "struct without fields"),
        ((column(kind="map", children=(column(2, "key"), column(3, "value"))),), (), 5, "keys of the map"),
        ((column(name="_rowid"),), (), 5, "_rowid"),
        ((column(name=""),), (), 5, "empty"),
        ((column(name="a" * 200),), (), 5, "over the limit"),
        ((column(),), (9,), 5, "field 9, which is no column"),
        ((column(),), (1,), 5, "is nullable"),
        ((column(nullable=False),), (1, 1), 5, "twice"),
        ((column(kind="double", nullable=False),), (1,), 5, "can't be part of a key"),
        ((column(default="x"),), (), 5, "default of column 'a'"),
        ((column(kind="int8", default=300),), (), 5, "default of column 'a'"),
        ((column(kind="date32[day]", default=1),), (), 5, "can't have a default"),
    ],
)
def test_check_schema__broken_record__is_corruption_of_the_object(fields, key, next_id, words):
    with pytest.raises(CorruptionError) as caught:
        check_schema(Schema(fields=fields, key=key, next_id=next_id), name="log/entries/7")
    assert words in str(caught.value)
    assert "log/entries/7" in str(caught.value)
    assert caught.value.facts["object"] == "log/entries/7"


def test_check_schema__nested_too_deep__is_corruption():
    field = column(99, "item")
    for number in range(40):
        field = column(number + 1, "item", "list", children=(field,))
    with pytest.raises(CorruptionError, match="deeper than 32"):
        check_schema(Schema(fields=(field,), next_id=100), name="x")


@pytest.mark.parametrize(
    "text",
    [
        "", "INT64", "int64 ", " int64", "int64\n", "timestamp", "timestamp[us,tz=UTC]", "timestamp[us, tz=]",
        "date64[ms]", "timestamp[m]", "decimal128(0, 0)", "decimal128(5, 6)", "decimal128(05, 1)", "decimal256(77, 0)",
        "large_string", "fixed_size_binary[0]", "fixed_size_binary[\u0663]", "list<item: int64>", "halffloat", "null",
        "decimal32(5, 2)",
    ],
)  # fmt: skip
def test_plain_type__text_that_is_not_the_one_of_a_type__is_none(text):
    assert plain_type(text) is None
