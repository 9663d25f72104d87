"""Between Arrow schemas and the records of a table's columns.

What must hold:
- A field id names one column or part of one for ever; names are for people and may change.
- Names are unique, also for stores and engines that ignore case, and never those of siltstone's own columns.
- Key columns are plain, never null, and of a type whose values are equal exactly when their bytes are.
- A schema read from a store passes the same rules as one from a user, or is corrupt.
"""

from __future__ import annotations

import difflib
import unicodedata
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import (
    CorruptionError,
    InvalidInputError,
    LimitExceededError,
    UnsupportedTypeError,
)
from siltstone.format.table import DEPTH_MAX, Field, Schema
from siltstone.table.arguments import shown_object
from siltstone.table.defaults import check_default
from siltstone.table.types import (
    FIXED_BYTES_MAX,
    LIST,
    MAP,
    STRUCT,
    SUPPORTED,
    decoded,
    fixed_bytes,
    is_list,
    list_size,
    plain_type,
    shown,
    shown_type,
    stored_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLUMNS_MAX = 5_000
NAME_CHARACTERS_MAX = 128
RESERVED_START = "_siltstone"
RESERVED = frozenset({"_change", "_version", "_rowid", "_position", "_deleted", "_score"})
FIELD_ID = b"PARQUET:field_id"  # what pyarrow writes a field id from

_KEY_TYPES = "integers, string, binary, fixed_size_binary, date, timestamp, time and decimal128"


def arrow_type(field: Field) -> pa.DataType:
    """The Arrow type of a column."""
    return _arrow_type(field, ids=False)


def arrow_field(field: Field) -> pa.Field:
    """The Arrow field of a column, with field ids as Parquet writers take them."""
    return _arrow_field(field, ids=True)


def arrow_schema(schema: Schema, *, ids: bool = False) -> pa.Schema:
    """The Arrow schema of a table; ``ids`` adds the field ids, for writing Parquet."""
    return pa.schema([_arrow_field(field, ids=ids) for field in schema.fields])


def make_schema(schema: pa.Schema, key: str | Sequence[str] | None) -> Schema:
    """The record of a new table's columns, with fresh ids; key columns become non-null."""
    if not isinstance(schema, pa.Schema):
        raise InvalidInputError(
            f"schema must be a pyarrow.Schema, got {type(schema).__name__}",
            hint="for example pyarrow.schema([('id', pyarrow.int64())])",
        )
    _check_width(len(schema))
    ids = count(1)
    fields = tuple(make_field(field, ids) for field in schema)
    by_name = {field.name: field for field in fields}
    key_ids = []
    for name in _key_names(key):
        if name not in by_name:
            raise InvalidInputError(
                f"key names the column {shown(name)}, which is not in the schema",
                hint=near_names(list(by_name), name),
                column=name,
            )
        key_ids.append(by_name[name].id)
    fields = tuple(msgspec.structs.replace(one, nullable=False) if one.id in key_ids else one for one in fields)
    made = Schema(fields=fields, key=tuple(key_ids), next_id=next(ids))
    validate(made)
    return made


def make_field(field: pa.Field, ids: Iterator[int], *, inside: str = "", depth: int = 1) -> Field:
    """The record of an Arrow field, with ids taken depth first."""
    name = _field_name(field)
    path = f"{inside}.{name}" if inside else name
    if depth > DEPTH_MAX:
        raise LimitExceededError(
            f"column {shown(path.partition('.')[0])} is nested deeper than {DEPTH_MAX} levels",
            hint="store the inner part as a string or as bytes",
        )
    kind = decoded(field.type)
    own = next(ids)
    text, parts = _shape(kind, column=shown(path))
    children = tuple(make_field(part, ids, inside=path, depth=depth + 1) for part in parts)
    return Field(id=own, name=name, type=text, nullable=field.nullable, children=children)


def key_fields(schema: Schema) -> tuple[Field, ...]:
    """The key's columns, in the order of the key."""
    by_id = {field.id: field for field in schema.fields}
    return tuple(by_id[one] for one in schema.key)


def field_named(schema: Schema, name: str) -> Field:
    """The column of that name.

    Raises:
        InvalidInputError: there is none; near names are in the hint.
    """
    by_name = {field.name: field for field in schema.fields}
    if type(name) is not str:
        raise InvalidInputError(
            f"a column's name must be a string, got {type(name).__name__}", hint="write it in quotes"
        )
    if name not in by_name:
        raise InvalidInputError(f"there is no column {shown(name)}", hint=near_names(list(by_name), name), column=name)
    return by_name[name]


def near_names(names: Sequence[str], name: str) -> str:
    """A hint that names what may have been meant, or what there is."""
    folded = {one.casefold(): one for one in names}
    near = difflib.get_close_matches(name.casefold()[:NAME_CHARACTERS_MAX], folded, n=3)
    if near:
        return "did you mean " + " or ".join(shown(folded[one]) for one in near) + "?"
    return "columns are " + first_names(names)


def first_names(names: Sequence[str]) -> str:
    """The first five names, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(shown(one) for one in names[:5]) + more if names else "none"


def validate(schema: Schema) -> None:
    """Check all rules that a table's columns keep.

    Raises:
        InvalidInputError: one is broken; the message names the column.
    """
    _check_width(len(schema.fields))
    _check_names([field.name for field in schema.fields], inside="")
    used: list[int] = []
    leaves = 0
    for field in schema.fields:
        if field.name.startswith(RESERVED_START) or field.name in RESERVED:
            raise InvalidInputError(
                f"the column name {shown(field.name)} is kept for siltstone's own columns",
                hint=f"names starting with {RESERVED_START} and {', '.join(sorted(RESERVED))} can't be used",
                column=field.name,
            )
        leaves += _check_field(field, used, path=field.name)
        if field.default is not None:
            check_default(field.default, arrow_type(field), column=shown(field.name))
    _check_width(leaves)
    if len(set(used)) != len(used):
        raise InvalidInputError("two fields have the same id")
    if max(used) >= schema.next_id:
        raise InvalidInputError(f"the field id {max(used)} is not below the next one, {schema.next_id}")
    _check_key(schema)


def check_schema(schema: Schema, *, name: str) -> None:
    """Check a schema that was read from the object ``name``.

    Raises:
        CorruptionError: it breaks a rule that it was written under.
    """
    try:
        validate(schema)
    except InvalidInputError as error:
        raise CorruptionError(f"{name} holds a schema that can't be: {error.message}", object=name) from error


def _arrow_type(field: Field, *, ids: bool) -> pa.DataType:
    if field.type == STRUCT:
        return pa.struct([_arrow_field(child, ids=ids) for child in field.children])
    if field.type == MAP:
        key, value = (_arrow_field(child, ids=ids) for child in field.children)
        return pa.map_(key, value)
    if field.type == LIST:
        return pa.list_(_arrow_field(field.children[0], ids=ids))
    if size := list_size(field.type):
        return pa.list_(_arrow_field(field.children[0], ids=ids), size)
    kind = plain_type(field.type)
    if kind is None:
        raise UnsupportedTypeError(
            f"column {shown(field.name)} has the unknown type {shown(field.type)}", hint="a newer siltstone may know it"
        )
    return kind


def _arrow_field(field: Field, *, ids: bool) -> pa.Field:
    metadata = {FIELD_ID: str(field.id).encode()} if ids else None
    return pa.field(field.name, _arrow_type(field, ids=ids), nullable=field.nullable, metadata=metadata)


def _field_name(field: pa.Field) -> str:
    try:
        return str(field.name)
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"a column's name is not valid UTF-8: {shown(str(error))}", hint="rename it") from None


def _shape(kind: pa.DataType, *, column: str) -> tuple[str, list[pa.Field]]:
    """The text of a type, and the fields of its parts under the names that they are stored with."""
    if kinds.is_struct(kind):
        return STRUCT, [kind.field(index) for index in range(kind.num_fields)]
    if kinds.is_map(kind):
        return MAP, [kind.key_field.with_name("key").with_nullable(False), kind.item_field.with_name("value")]
    if is_list(kind):
        return LIST, [kind.value_field.with_name("item")]
    if kinds.is_fixed_size_list(kind):
        return f"fixed_size_list[{kind.list_size}]", [kind.value_field.with_name("item")]
    return str(stored_type(kind, column=column)), []


def _key_names(key: str | Sequence[str] | None) -> tuple[str, ...]:
    names = () if key is None else (key,) if isinstance(key, str) else key
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(
            f"key must be a column's name or a list of them, got {shown_object(key)}", hint="for example key='id'"
        )
    if key is not None and not names:
        raise InvalidInputError("key names no column", hint="leave it out for a table without a key")
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"key names the column {shown(name)} twice", hint="name it once", column=name)
    return tuple(names)


def _check_width(columns: int) -> None:
    if not columns:
        raise InvalidInputError("the schema has no columns", hint="a table needs at least one column")
    if columns > COLUMNS_MAX:
        raise LimitExceededError(
            f"the schema has {columns} columns, the parts of nested ones counted, over the limit of {COLUMNS_MAX}",
            hint="keep rarely used ones together in a map or a list",
        )


def _check_names(names: Sequence[str], *, inside: str) -> None:
    where = f" in {shown(inside)}" if inside else ""
    folded: dict[str, str] = {}
    for name in names:
        check_name(name)
        other = folded.get(name.casefold())
        if other == name:
            raise InvalidInputError(f"two columns{where} have the name {shown(name)}", hint="rename one", column=name)
        if other is not None:
            raise InvalidInputError(
                f"the columns {shown(other)} and {shown(name)}{where} differ only in case",
                hint="rename one: many engines ignore case",
                column=name,
            )
        folded[name.casefold()] = name


def check_name(name: str) -> None:
    """Check a name by itself."""
    problem = ""
    if type(name) is not str:
        raise InvalidInputError(
            f"a column's name must be a string, got {type(name).__name__}", hint="write it in quotes"
        )
    if not name.strip():
        problem = "is empty or only spaces"
    elif len(name) > NAME_CHARACTERS_MAX:
        raise LimitExceededError(
            f"the column name {shown(name)} has {len(name)} characters, over the limit of {NAME_CHARACTERS_MAX}",
            hint="use a shorter name",
        )
    elif any(unicodedata.category(one) in {"Cc", "Cs"} for one in name):
        problem = "holds a control character or half of a surrogate pair"
    elif not unicodedata.is_normalized("NFC", name):
        problem = "is not in Unicode normal form C"
    if problem:
        raise InvalidInputError(f"the column name {shown(name)} {problem}", hint="rename it", column=name)


def _check_field(
    field: Field, used: list[int], *, path: str, depth: int = 1, width: int = 1, absent: bool = False
) -> int:
    """Check a field and its parts; returns how many columns they are in a file.

    ``width`` is how often each row has it at least, ``absent`` whether a struct around it may be null.
    """
    if depth > DEPTH_MAX:
        raise LimitExceededError(f"column {shown(path)} is nested deeper than {DEPTH_MAX} levels", hint="flatten it")
    used.append(field.id)
    _check_parts(field, path=path)
    width *= list_size(field.type) or 1
    if not field.children:
        if width * fixed_bytes(field.type) > FIXED_BYTES_MAX:
            raise LimitExceededError(
                f"column {shown(path)} takes {width * fixed_bytes(field.type)} bytes in each row, over the limit of "
                f"{FIXED_BYTES_MAX} for fixed sizes",
                hint="use list or binary",
                column=path,
            )
        return 1
    if field.type == STRUCT:
        _check_names([child.name for child in field.children], inside=path)
    elif absent and not field.nullable and list_size(field.type):
        # Parquet has no fixed sizes: where the struct is null it has a list of none, which readers then refuse.
        raise UnsupportedTypeError(
            f"column {shown(path)} is a fixed_size_list that is never null in a struct that may be null",
            hint="make the list nullable, or the struct not",
            column=path,
        )
    absent = field.type == STRUCT and (absent or field.nullable)
    return sum(
        _check_field(child, used, path=f"{path}.{child.name}", depth=depth + 1, width=width, absent=absent)
        for child in field.children
    )


def _check_parts(field: Field, *, path: str) -> None:
    names = tuple(child.name for child in field.children)
    if field.type == STRUCT:
        if not names:
            raise UnsupportedTypeError(
                f"column {shown(path)} is a struct without fields", hint="give it one, or drop it", column=path
            )
        return
    if field.type == MAP:
        good = names == ("key", "value") and not field.children[0].nullable and not field.children[0].children
        if not good:
            raise UnsupportedTypeError(
                f"the keys of the map column {shown(path)} are not plain values", hint="use strings", column=path
            )
        return
    if field.type == LIST or list_size(field.type):
        if names != ("item",):
            raise InvalidInputError(f"the list column {shown(path)} has no items", column=path)
        return
    if names or plain_type(field.type) is None:
        raise UnsupportedTypeError(
            f"column {shown(path)} has the unknown type {shown(field.type)}",
            hint=f"supported are {SUPPORTED}",
            column=path,
        )


def _check_key(schema: Schema) -> None:
    if len(set(schema.key)) != len(schema.key):
        raise InvalidInputError("the key names a column twice", hint="name each column of it once")
    by_id = {field.id: field for field in schema.fields}
    for one in schema.key:
        if one not in by_id:
            raise InvalidInputError(f"the key names the field {one}, which is no column")
        field = by_id[one]
        if field.nullable:
            hint = "declare it with nullable=False"
            raise InvalidInputError(f"the key column {shown(field.name)} is nullable", hint=hint, column=field.name)
        kind = None if field.children else plain_type(field.type)
        if kind is None or not can_be_key(kind):
            raise UnsupportedTypeError(
                f"column {shown(field.name)} of type {shown_type(arrow_type(field))} can't be part of a key",
                hint=f"keys can be {_KEY_TYPES}",
                column=field.name,
            )


def can_be_key(kind: pa.DataType) -> bool:
    """Whether a column of this type can be part of a key."""
    return bool(
        kinds.is_integer(kind)
        or kinds.is_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_fixed_size_binary(kind)
        or kinds.is_date32(kind)
        or kinds.is_timestamp(kind)
        or kinds.is_time(kind)
        or kinds.is_decimal128(kind)
    )
