"""Thrift's compact protocol, without a schema: what Parquet's metadata is written in.

What must hold:
- Bytes that are no such structure are a CorruptionError, whatever they are: nothing recurses deeper than
  ``DEPTH_MAX``, and no length is believed that is more than the bytes that follow it.
- All that one call makes of its bytes is at most ``ITEMS_MAX`` values.
- What was decoded and is encoded again means the same; unknown fields are kept.

A structure is ``{field id: (kind, value)}``. A list or set is ``(kind of its values, values)``, a map
``(kind of keys, kind of values, pairs)``. Numbers are int or float, strings are bytes, and both kinds of a
bool are ``TRUE``.
"""

from __future__ import annotations

import struct
from typing import Any

from siltstone.errors import CorruptionError

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
DEPTH_MAX = 24
ITEMS_MAX = 4_000_000

Struct = dict[int, tuple[int, Any]]

_DOUBLE = struct.Struct("<d")
_VARINT_BYTES_MAX = 10
_LONG_LIST = 15  # a list of so many values or more writes its length apart
_STEP_MAX = 15  # a field's id is written as a step from the one before where it is at most this


class _BrokenError(Exception):
    """The bytes are no structure; ``decode`` says of which object."""


def decode(data: bytes, *, name: str, start: int = 0) -> tuple[Struct, int]:
    """The structure that begins at ``start``, and where it ends; ``name`` is the object it was read from."""
    try:
        return _Decoder(data).structure(start, 1)
    except IndexError:
        reason = "its metadata is cut"
    except _BrokenError as error:
        reason = f"its metadata {error}"
    raise CorruptionError(f"{name} is damaged: {reason}", hint="restore it from a copy", object=name)


def encode(fields: Struct) -> bytes:
    """A structure as bytes."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """A signed number as bytes."""
    return varint((number << 1) ^ (number >> 63))


def varint(number: int) -> bytes:
    """A number that is not negative as bytes, seven bits in each."""
    # Sizes and offsets of pages are this long; footers are made of them for every lookup.
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x200000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    return bytes((number & 0x7F | 0x80,)) + varint(number >> 7)


def list_head(kind: int, count: int) -> bytes:
    """What stands before the values of a list."""
    if count < _LONG_LIST:
        return bytes((count << 4 | kind,))
    return bytes((0xF0 | kind,)) + varint(count)


class _Decoder:
    """Reads one structure. An index past the end is left to raise: checking each byte would cost half the time."""

    __slots__ = ("_data", "_left", "_size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._size = len(data)
        self._left = ITEMS_MAX

    def structure(self, place: int, depth: int) -> tuple[Struct, int]:
        if depth > DEPTH_MAX:
            raise _BrokenError("is nested too deeply")
        data = self._data
        fields: Struct = {}
        last = 0
        while True:
            head = data[place]
            place += 1
            if head == 0:
                self._left -= len(fields) + 1
                if self._left < 0:
                    raise _BrokenError("has too many parts")
                return fields, place
            kind = head & 15
            if head > 15:
                last += head >> 4
            else:
                last, place = self._number(place)
            if I16 <= kind <= I64:
                # The commonest case by far, so it is written out here.
                number = data[place]
                if number < 0x80:
                    fields[last] = kind, (number >> 1) ^ -(number & 1)
                    place += 1
                    continue
                value, place = self._number(place)
                fields[last] = kind, value
            elif kind <= FALSE:
                fields[last] = TRUE, kind == TRUE
            else:
                value, place = self._value(kind, place, depth)
                fields[last] = kind, value

    def _value(self, kind: int, place: int, depth: int) -> tuple[Any, int]:
        if kind == BINARY:
            length, place = self._length(place)
            return self._data[place : place + length], place + length
        if kind == STRUCT:
            return self.structure(place, depth + 1)
        if kind in {LIST, SET}:
            return self._list(place, depth)
        if I16 <= kind <= I64:
            return self._number(place)
        if kind == MAP:
            return self._map(place, depth)
        if kind == BYTE:
            value = self._data[place]
            return value - 256 if value > 127 else value, place + 1
        if kind == DOUBLE:
            if place + 8 > self._size:
                raise IndexError
            return _DOUBLE.unpack_from(self._data, place)[0], place + 8
        raise _BrokenError(f"has a value of the unknown kind {kind}")

    def _list(self, place: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
        head = self._data[place]
        place += 1
        kind, count = head & 15, head >> 4
        if count == _LONG_LIST:
            count, place = self._length(place)
        self._take(count, place)
        if kind <= FALSE:
            if not kind:
                raise _BrokenError("has a list of no kind")
            return (TRUE, [one == TRUE for one in self._data[place : place + count]]), place + count
        if kind == BINARY:
            return self._strings(place, count)
        if depth > DEPTH_MAX:
            raise _BrokenError("is nested too deeply")
        values = []
        for _ in range(count):
            value, place = self._value(kind, place, depth + 1)
            values.append(value)
        return (kind, values), place

    def _strings(self, place: int, count: int) -> tuple[tuple[int, list[Any]], int]:
        """What column indexes consist of, so it makes no call for a value."""
        data, size = self._data, self._size
        values = []
        for _ in range(count):
            end = place + 1 + data[place]
            if data[place] < 0x80 and end <= size:
                values.append(data[place + 1 : end])
                place = end
            else:
                length, place = self._length(place)
                values.append(data[place : place + length])
                place += length
        return (BINARY, values), place

    def _map(self, place: int, depth: int) -> tuple[tuple[int, int, list[tuple[Any, Any]]], int]:
        count, place = self._length(place)
        if not count:
            return (0, 0, []), place
        kinds = self._data[place]
        place += 1
        self._take(2 * count, place)
        if depth > DEPTH_MAX:
            raise _BrokenError("is nested too deeply")
        pairs = []
        for _ in range(count):
            key, place = self._item(kinds >> 4, place, depth + 1)
            value, place = self._item(kinds & 15, place, depth + 1)
            pairs.append((key, value))
        return (kinds >> 4, kinds & 15, pairs), place

    def _item(self, kind: int, place: int, depth: int) -> tuple[Any, int]:
        if kind in {TRUE, FALSE}:
            return self._data[place] == TRUE, place + 1
        return self._value(kind, place, depth)

    def _take(self, count: int, place: int) -> None:
        """Refuse more values than there are bytes: each takes one at least."""
        if place + count > self._size:
            raise IndexError
        self._left -= count
        if self._left < 0:
            raise _BrokenError("has too many parts")

    def _length(self, place: int) -> tuple[int, int]:
        length, place = self._varint(place)
        if place + length > self._size:
            raise IndexError
        return length, place

    def _number(self, place: int) -> tuple[int, int]:
        number, place = self._varint(place)
        return (number >> 1) ^ -(number & 1), place

    def _varint(self, place: int) -> tuple[int, int]:
        data = self._data
        number = shift = 0
        for end in range(place, place + _VARINT_BYTES_MAX):
            byte = data[end]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >> 64:
                    break
                return number, end + 1
            shift += 7
        raise _BrokenError("has a number that is too long")


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        written = kind if kind > FALSE or value else FALSE
        step = number - last
        if 0 < step <= _STEP_MAX:
            out.append(step << 4 | written)
        else:
            out.append(written)
            out += zigzag(number)
        last = number
        if kind > FALSE:
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if I16 <= kind <= I64:
        out += zigzag(value)
    elif kind == BINARY:
        out += varint(len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in {LIST, SET}:
        inner, values = value
        out += list_head(inner, len(values))
        for one in values:
            _write_item(out, inner, one)
    elif kind == MAP:
        key_kind, value_kind, pairs = value
        out += varint(len(pairs))
        if pairs:
            out.append(key_kind << 4 | value_kind)
        for key, one in pairs:
            _write_item(out, key_kind, key)
            _write_item(out, value_kind, one)
    elif kind == BYTE:
        out.append(value & 0xFF)
    else:
        out += _DOUBLE.pack(value)


def _write_item(out: bytearray, kind: int, value: Any) -> None:
    """A value outside a structure: there a bool is a byte of its own."""
    if kind <= FALSE:
        out.append(TRUE if value else FALSE)
    else:
        _write_value(out, kind, value)
