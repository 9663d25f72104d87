"""How a table's columns may change: pure functions from one schema to the next.

What must hold:
- A field id is never used again: what a dropped column left in old fragments can't come back under a new name.
- No change makes a value that is in the table unreadable or another one; whatever could, is refused.
- The key names the same columns before and after.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import InvalidInputError, UnsupportedTypeError
from siltstone.table.defaults import stored_default
from siltstone.table.schema import arrow_type, can_be_key, check_name, field_named, make_field, validate
from siltstone.table.types import is_nested, shown, shown_type, stored_type, widens

if TYPE_CHECKING:
    from siltstone.format.table import Field, Schema

_WIDER = "a larger integer, double for float, or a larger precision of the same scale for decimals"
_ID_MAX = 2**31 - 4  # those above are of columns that only shards have


def add_column(schema: Schema, field: pa.Field, default: object = None) -> Schema:
    """A new last column; rows that are there have ``default`` in it, or null."""
    if not isinstance(field, pa.Field):
        raise InvalidInputError(
            f"field must be a pyarrow.Field, got {type(field).__name__}",
            hint="for example pyarrow.field('price', pyarrow.float64())",
        )
    ids = count(schema.next_id)
    added = make_field(field, ids)
    if default is not None:
        stored = stored_default(default, arrow_type(added), column=shown(added.name))
        added = msgspec.structs.replace(added, default=stored, optional=True)
    elif not added.nullable:
        raise InvalidInputError(
            f"column {shown(added.name)} is not nullable, and rows that are there have no value for it",
            hint="give a default, or add it as nullable",
            column=added.name,
        )
    else:
        added = msgspec.structs.replace(added, optional=True)
    following = next(ids)
    if following > _ID_MAX:
        raise InvalidInputError(
            f"the table has no field ids left above {schema.next_id}", hint="copy it to a new table"
        )
    return _checked(msgspec.structs.replace(schema, fields=(*schema.fields, added), next_id=following))


def drop_column(schema: Schema, name: str) -> Schema:
    """The schema without a column that is not part of the key."""
    gone = field_named(schema, name)
    if gone.id in schema.key:
        raise InvalidInputError(
            f"column {shown(name)} is part of the key and can't be dropped",
            hint="copy the rows to a new table with another key",
            column=name,
        )
    if len(schema.fields) == 1:
        raise InvalidInputError(
            f"column {shown(name)} is the only one", hint="add another column before dropping it", column=name
        )
    return _checked(msgspec.structs.replace(schema, fields=tuple(one for one in schema.fields if one.id != gone.id)))


def rename_column(schema: Schema, name: str, *, to: str) -> Schema:
    """The schema with a column under another name; its id stays."""
    old = field_named(schema, name)
    check_name(to)
    return _replace(schema, old, msgspec.structs.replace(old, name=to))


def widen_column(schema: Schema, name: str, to: pa.DataType | None = None, *, nullable: bool = False) -> Schema:
    """The schema with a column of a type that holds all its values, or that may also hold null (``nullable=True``)."""
    old = field_named(schema, name)
    if to is None and not nullable:
        raise InvalidInputError(
            f"nothing is said of how to widen column {shown(name)}", hint="pass to= or nullable=True", column=name
        )
    new = old
    if nullable:
        if old.id in schema.key:
            raise InvalidInputError(
                f"column {shown(name)} is part of the key and can't be null", hint="leave nullable out", column=name
            )
        new = msgspec.structs.replace(new, nullable=True)
    if to is not None:
        new = msgspec.structs.replace(new, type=_wider(schema, old, to))
    return _replace(schema, old, new)


def _wider(schema: Schema, old: Field, to: pa.DataType) -> str:
    if not isinstance(to, pa.DataType):
        raise InvalidInputError(
            f"to must be a pyarrow.DataType, got {type(to).__name__}", hint="for example pyarrow.int64()"
        )
    kind = arrow_type(old)
    if is_nested(kind) or is_nested(to):
        _refuse(old, to, hint="only plain columns can be widened; add a new column for another structure")
    wide = stored_type(to, column=shown(old.name))
    if kinds.is_timestamp(kind) and kinds.is_timestamp(wide):
        # Statistics of fragments are in the unit of then.
        _refuse(old, to, hint="the unit of a timestamp stays as it is; add a new column and update it from the old one")
    if not widens(kind, wide):
        _refuse(old, to, hint=f"only changes that keep every value are possible: {_WIDER}; add a new column instead")
    if old.id in schema.key and not can_be_key(wide):
        _refuse(old, to, hint="the column is part of the key, and that type can't be")
    return str(wide)


def _refuse(old: Field, to: pa.DataType, *, hint: str) -> NoReturn:
    raise UnsupportedTypeError(
        f"column {shown(old.name)} of type {shown_type(arrow_type(old))} can't be widened to {shown_type(to)}",
        hint=hint,
        column=old.name,
    )


def _replace(schema: Schema, old: Field, new: Field) -> Schema:
    fields = tuple(new if one.id == old.id else one for one in schema.fields)
    return _checked(msgspec.structs.replace(schema, fields=fields))


def _checked(schema: Schema) -> Schema:
    validate(schema)
    return schema


def takes(now: Schema, written: Schema) -> bool:
    """Whether rows that were given for one schema mean the same in another: users name columns, files have ids."""
    if now == written:
        return True
    ids = {one.name: one.id for one in now.fields}
    return (
        now.key == written.key
        and still_reads(written, now)
        and all(ids.get(one.name) == one.id for one in written.fields)
    )


def still_reads(written: Schema, now: Schema) -> bool:
    """Whether fragments written with one schema hold all that another one asks for.

    A restore may bring a column back that was dropped, or make one narrower again.
    """
    had = {one.id: one for one in written.fields}
    return all(one.id >= written.next_id if one.id not in had else _still_fits(had[one.id], one) for one in now.fields)


def outgrown(written: Schema, now: Schema) -> list[str]:
    """The columns of one schema that rows of another may not fit: narrower ones, and new ones that can't be null."""
    had = {one.id: one for one in written.fields}
    return [
        one.name
        for one in now.fields
        if (not _still_fits(had[one.id], one) if one.id in had else not one.nullable and one.default is None)
    ]


def _still_fits(written: Field, now: Field) -> bool:
    same = (written.type, written.children) == (now.type, now.children)
    return (same or widens(arrow_type(written), arrow_type(now))) and (now.nullable or not written.nullable)
