"""Schemas as text: ``id int64 not null, name string, ts timestamp[us, UTC], tags list<string>``.

What must hold:
- The text that Arrow prints for a type is one of those that are read here, and gives the same type. (It does not print
  that a map's values are never null.)
- What is read is never guessed: an unknown word is an error that says where.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.table.types import plain_type, shown

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT_CHARACTERS_MAX = 256 * 1024
DEPTH_MAX = 32

_PLAIN = {
    "bool": "bool", "boolean": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "float", "float32": "float", "double": "double", "float64": "double",
    "string": "string", "utf8": "string", "text": "string", "binary": "binary", "bytes": "binary",
    "date32": "date32[day]", "date": "date32[day]", "timestamp": "timestamp[us]",
}  # fmt: skip
_NESTED = ("list", "fixed_size_list", "struct", "map")
_KNOWN = (*_PLAIN, *_NESTED, "time32", "time64", "duration", "decimal128", "decimal256", "fixed_size_binary")
_ALIASES = {"decimal": "decimal128"}
# What other systems call their types, with what is nearest here.
_MEANT = {
    **dict.fromkeys(("int", "integer", "bigint", "long", "serial", "bigserial", "number"), "int64"),
    **dict.fromkeys(("tinyint", "byte"), "int8"), **dict.fromkeys(("smallint", "short"), "int16"),
    **dict.fromkeys(("varchar", "char", "character", "str", "nvarchar", "json", "uuid", "enum", "object"), "string"),
    **dict.fromkeys(("datetime", "timestamptz", "timestamp_tz", "instant"), "timestamp[us, UTC]"),
    **dict.fromkeys(("blob", "bytea", "varbinary"), "binary"), "numeric": "decimal128(18, 2)", "real": "float",
    "array": "list<string>", "time": "time64[us]", "interval": "duration[us]",
}  # fmt: skip
_HINT = 'for example --schema "id int64 not null, name string, ts timestamp[us, UTC], tags list<string>"'
_TOKEN = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([A-Za-z0-9_][\w+\-/.]*)|([<>\[\]():,=+\-]))')


class _Token(NamedTuple):
    text: str
    kind: str  # name (in quotes), word, mark, end
    at: int


def parse_schema(text: str) -> pa.Schema:
    """The schema that ``text`` describes. Raises InvalidInputError, which says where it is wrong."""
    parser = _Parser(text)
    fields = parser.fields(stop="")
    parser.expect_end()
    return pa.schema(fields)


def parse_type(text: str) -> pa.DataType:
    """The type that ``text`` names."""
    parser = _Parser(text)
    kind = parser.type()
    parser.expect_end()
    return kind


def parse_field(text: str) -> pa.Field:
    """A column: its name, its type, and whether it may be null."""
    parser = _Parser(text)
    field = parser.field()
    parser.expect_end()
    return field


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > TEXT_CHARACTERS_MAX:
            raise LimitExceededError(
                f"the schema has {len(text)} characters, over the limit of {TEXT_CHARACTERS_MAX}",
                hint="use --like FILE, or the library",
            )
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0

    # -- tokens ------------------------------------------------------------------------------------

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._here
        self._next += token.kind != "end"
        return token

    def _at(self, *marks: str) -> bool:
        return self._here.kind in {"mark", "word"} and self._here.text in marks

    def _accept(self, mark: str) -> bool:
        return bool(self._at(mark) and self._take())

    def _expect(self, mark: str, what: str) -> None:
        if not self._accept(mark):
            raise self._wrong(f"expected {mark!r} {what}")

    def expect_end(self) -> None:
        """Nothing may follow."""
        if self._here.kind != "end":
            raise self._wrong("expected the end or a comma")

    def _wrong(self, what: str, hint: str = _HINT) -> InvalidInputError:
        found = "the end" if self._here.kind == "end" else shown(self._here.text)
        return self._refused(f"{what}, found {found}", hint)

    def _refused(self, what: str, hint: str) -> InvalidInputError:
        return InvalidInputError(f"the schema can't be read at character {self._here.at + 1}: {what}", hint=hint)

    # -- grammar -----------------------------------------------------------------------------------

    def fields(self, *, stop: str) -> list[pa.Field]:
        found = [self.field()]
        while self._accept(","):
            if self._here.kind == "end" or (stop and self._at(stop)):
                break  # a comma at the end does no harm
            found.append(self.field())
        return found

    def field(self) -> pa.Field:
        if self._here.kind not in {"word", "name"}:
            raise self._wrong("expected the name of a column")
        name = self._take().text
        self._accept(":")
        kind = self.type()
        return pa.field(name, kind, nullable=not self._not_null())

    def _not_null(self) -> bool:
        if self._here.kind == "word" and self._here.text.lower() == "not":
            self._take()
            if self._here.text.lower() != "null":
                raise self._wrong("expected 'null' behind 'not'")
            self._take()
            return True
        if self._here.kind == "word" and self._here.text.lower() == "null":
            self._take()
        return False

    def type(self) -> pa.DataType:
        if self._here.kind != "word":
            raise self._wrong("expected a type", hint=f"types are {', '.join(_KNOWN)}")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise LimitExceededError(f"the schema is nested deeper than {DEPTH_MAX} levels", hint=_HINT)
        start = self._next
        word = self._take().text.lower()
        word = _ALIASES.get(word, word)
        kind = self._nested(word) if word in _NESTED else self._plain(word, start)
        self._depth -= 1
        return kind

    def _nested(self, word: str) -> pa.DataType:
        self._expect("<", f"behind {word!r}")
        made: Callable[[], pa.DataType] = {
            "struct": self._struct, "map": self._map, "list": self._list, "fixed_size_list": self._fixed_list,
        }[word]  # fmt: skip
        return made()

    def _struct(self) -> pa.DataType:
        fields = self.fields(stop=">")
        self._expect(">", "at the end of the struct")
        return pa.struct(fields)

    def _map(self) -> pa.DataType:
        key = self.type()
        self._not_null()
        self._expect(",", "between the key and the value of the map")
        value = self._part("value")
        self._expect(">", "at the end of the map")
        return pa.map_(key, value)

    def _list(self) -> pa.DataType:
        item = self._part("item")
        self._expect(">", "at the end of the list")
        return pa.list_(item)

    def _fixed_list(self) -> pa.DataType:
        item = self._part("item")
        self._expect(">", "at the end of the list")
        return pa.list_(item, self._size())

    def _part(self, name: str) -> pa.Field:
        """The type of a list's items, with or without the name that Arrow prints."""
        following = self._tokens[self._next + 1] if self._here.kind in {"word", "name"} else None
        if following is not None and following.text == ":" and following.kind == "mark":
            self._take()
            self._take()
        kind = self.type()
        return pa.field(name, kind, nullable=not self._not_null())

    def _size(self) -> int:
        self._expect("[", "and a number of values")
        if not self._here.text.isdigit() or not 1 <= int(self._here.text[:9]) <= 2**20:
            raise self._wrong("expected a number of values from 1 on")
        size = int(self._take().text)
        self._expect("]", "behind the number")
        return size

    def _plain(self, word: str, start: int) -> pa.DataType:
        arguments = ""
        for opens, closes in (("[", "]"), ("(", ")")):
            if self._accept(opens):
                arguments = opens + self._until(closes) + closes
        text = _PLAIN[word] if word in _PLAIN and (not arguments or word == "date32") else word + arguments
        kind = plain_type(text)
        if kind is None:
            self._next = start
            near = [_MEANT[word]] if word in _MEANT else difflib.get_close_matches(word, _KNOWN, n=2)
            raise self._refused(
                f"{shown(word + arguments)} is no type",
                f"did you mean {' or '.join(near)}?" if near and near[0] != word else _argument_hint(word),
            )
        return kind

    def _until(self, closes: str) -> str:
        """What is between brackets, in the one spelling that types have."""
        parts: list[str] = []
        while not self._at(closes):
            if self._here.kind == "end":
                raise self._wrong(f"expected {closes!r}")
            parts.append(self._take().text)
        self._take()
        unit, *rest = "".join(parts).split(",")
        return ", ".join([unit, *(_zone(one) if closes == "]" else one for one in rest)])


def _zone(text: str) -> str:
    return text if text.startswith("tz=") else f"tz={text}"


def _argument_hint(word: str) -> str:
    examples = {
        "timestamp": "timestamp[us] or timestamp[us, UTC], with s, ms, us or ns",
        "time32": "time32[s] or time32[ms]", "time64": "time64[us] or time64[ns]",
        "duration": "duration[s], duration[ms], duration[us] or duration[ns]",
        "decimal128": "decimal128(10, 2), at most 38 digits", "decimal256": "decimal256(50, 2), at most 76 digits",
        "fixed_size_binary": "fixed_size_binary[16]",
    }  # fmt: skip
    return f"write {examples[word]}" if word in examples else f"types are {', '.join(_KNOWN)}"


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            where = at + len(text[at:]) - len(text[at:].lstrip())
            raise InvalidInputError(
                f"the schema can't be read at character {where + 1}: {shown(text[where])}",
                hint='names with other characters than letters, digits and _ go in double quotes: "my column" int64',
            )
        quoted, word, mark = match.groups()
        if quoted is not None:
            found.append(_Token(quoted.replace('""', '"'), "name", match.start(1) - 1))
        elif word is not None:
            found.append(_Token(word, "word", match.start(2)))
        else:
            found.append(_Token(mark, "mark", match.start(3)))
        at = match.end()
    return [*found, _Token("", "end", end)]
