"""Which columns and types rows may have to become rows of a table.

What must hold:
- Columns are matched by name, never by place.
- A type is accepted only where each value either becomes exactly itself or is refused by its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from siltstone.errors import SchemaMismatchError, UnsupportedTypeError
from siltstone.table.schema import arrow_type, first_names
from siltstone.table.types import decoded, is_bytes, is_list, is_text, shown, shown_type, widens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.format.table import Field, Schema
    from siltstone.table.defaults import Default

_UTC = frozenset({"UTC", "Etc/UTC", "Z", "+00:00"})
_SIMPLE_TIMESTAMPS = ("us", "ns")


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A column of the table, or a part of one, as rows must have it."""

    name: str
    path: str  # the names from the column down, for messages
    kind: pa.DataType
    nullable: bool
    key: bool
    default: Default | None
    optional: bool  # rows may come without it
    parts: tuple[Slot, ...]

    @property
    def label(self) -> str:
        """The path as a message shows it."""
        return shown(self.path)

    @property
    def same(self) -> bool:
        """Whether an array of the very same type can only hold good values (but for nulls of its own)."""
        if kinds.is_timestamp(self.kind):
            return self.kind.unit in _SIMPLE_TIMESTAMPS
        return all(part.same and part.nullable for part in self.parts)


def slots_of(schema: Schema) -> tuple[Slot, ...]:
    """The columns of a table."""
    return tuple(_slot(field, inside="", key=field.id in schema.key) for field in schema.fields)


def match_columns(given: Sequence[str], slots: tuple[Slot, ...], *, where: str = "", inside: str = "") -> None:
    """Check that rows have exactly the table's columns (those that were added later may be missing).

    Raises:
        SchemaMismatchError: with what was expected and what came.
    """
    expected = {slot.name for slot in slots}
    of = f" in column {inside}" if inside else ""
    seen: set[str] = set()
    for name in given:
        if name in seen:
            raise SchemaMismatchError(
                f"{where}two columns{of} have the name {shown(name)}", hint="rename or drop one", column=name
            )
        seen.add(name)
    missing = [slot.name for slot in slots if slot.name not in seen and not slot.optional]
    extra = [name for name in given if name not in expected]
    if not missing and not extra:
        return
    what = [f"lack {first_names(missing)}"] if missing else []
    what += [f"have {first_names(extra)}, which the table has not"] if extra else []
    hints = ["give None for what is not known"] if missing else []
    hints += ["leave it out, or add it to the table with add_column first"] if extra else []
    raise SchemaMismatchError(
        f"{where}the rows {' and '.join(what)}{of}: expected {first_names([slot.name for slot in slots])}, "
        f"got {first_names(list(given))}",
        hint="; ".join(hints),
        column=(missing or extra)[0],
    )


def match_type(given: pa.DataType, slot: Slot, *, where: str = "") -> None:
    """Check that values of a type can become values of a column, as far as types tell.

    Raises:
        SchemaMismatchError: with both types.
        UnsupportedTypeError: no column of any table could hold them.
    """
    given = decoded(given)
    if isinstance(given, pa.BaseExtensionType):
        raise UnsupportedTypeError(
            f"{where}column {slot.label} has the extension type {shown_type(given)}",
            hint=f"cast it to its storage type, {shown_type(given.storage_type)}",
            column=slot.path,
        )
    if kinds.is_null(given):
        return
    if kinds.is_struct(slot.kind) and kinds.is_struct(given):
        fields = [given.field(index) for index in range(given.num_fields)]
        match_columns([field.name for field in fields], slot.parts, where=where, inside=slot.label)
        for field in fields:
            match_type(field.type, next(part for part in slot.parts if part.name == field.name), where=where)
    elif kinds.is_map(slot.kind) and kinds.is_map(given):
        match_type(given.key_type, slot.parts[0], where=where)
        match_type(given.item_type, slot.parts[1], where=where)
    elif is_any_list(slot.kind) and is_any_list(given):
        match_type(given.value_type, slot.parts[0], where=where)
    elif not _fits(given, slot.kind):
        raise _mismatch(given, slot, where=where)


def is_any_list(kind: pa.DataType) -> bool:
    """Whether values are lists, of one length or any."""
    return bool(is_list(kind) or kinds.is_fixed_size_list(kind))


def _slot(field: Field, *, inside: str, key: bool = False) -> Slot:
    path = f"{inside}.{field.name}" if inside else field.name
    return Slot(
        name=field.name,
        path=path,
        kind=arrow_type(field),
        nullable=field.nullable,
        key=key,
        default=field.default,
        optional=field.optional or field.default is not None,
        parts=tuple(_slot(child, inside=path) for child in field.children),
    )


def _fits(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of one plain type may become values of another; each is checked where the types don't tell."""
    if given == kind or widens(given, kind):
        return True
    if kinds.is_string(kind):
        return is_text(given)
    if kinds.is_binary(kind):
        return is_bytes(given)
    if kinds.is_timestamp(kind) and kinds.is_timestamp(given):
        return bool(given.tz == kind.tz or {given.tz, kind.tz} <= _UTC)
    return bool(
        (kinds.is_floating(kind) and kinds.is_float16(given))
        or (kinds.is_decimal(kind) and kinds.is_decimal(given))
        or (kinds.is_date32(kind) and kinds.is_date64(given))
        or (kinds.is_time(kind) and kinds.is_time(given))
        or (kinds.is_duration(kind) and kinds.is_duration(given))
    )


def _mismatch(given: pa.DataType, slot: Slot, *, where: str) -> SchemaMismatchError:
    hint = f"cast it to {shown_type(slot.kind)} first"
    if kinds.is_timestamp(slot.kind) and kinds.is_timestamp(given):
        zones = " and ".join(
            f"the time zone {shown(one)}" if one else "no time zone" for one in (given.tz, slot.kind.tz)
        )
        hint = f"they have {zones}; {hint}"
    elif kinds.is_integer(slot.kind) and kinds.is_integer(given):
        hint = f"not all values of {given} fit; {hint}, or widen the column with widen_column"
    return SchemaMismatchError(
        f"{where}column {slot.label} is {shown_type(given)}, and {shown_type(slot.kind)} in the table",
        hint=hint,
        column=slot.path,
    )
