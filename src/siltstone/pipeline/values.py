"""Values of a pipeline file as their keys want them, with variables filled in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from siltstone.errors import SiltstoneError
from siltstone.pipeline.document import Node, wrong
from siltstone.pipeline.kinds import SAYS
from siltstone.store.options import parse_uri
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.pipeline.kinds import Key, Takes
    from siltstone.pipeline.variables import Variables

WHOLE_MAX = 2**63 - 1
_WHOLE = re.compile(r"[0-9]{1,19}")
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Reader:
    """Reads values; what it can't take it refuses with the key and the line."""

    def __init__(self, variables: Variables) -> None:
        self._variables = variables

    def read(self, key: Key, name: str, node: Node) -> Any:
        """The value behind a key."""
        readers: dict[Takes, Callable[[str, Node], Any]] = {
            "text": self.text, "table": self.table, "texts": self.texts, "whole": self.whole, "flag": self.flag,
            "map": self.map, "types": self.types, "rows": self.rows, "tables": self.tables,
        }  # fmt: skip
        value = readers[key.takes](name, node)
        if key.choices and value not in key.choices:
            raise wrong(node, f"{name} is {shown(value)}", hint=f"it is one of {', '.join(key.choices)}")
        return value

    def plain(self, node: Node) -> Any:
        """A value without what comes from the environment, for digests."""
        if isinstance(node.value, dict):
            return {key: self.plain(one) for key, one in node.value.items()}
        if isinstance(node.value, list):
            return [self.plain(one) for one in node.value]
        return self._variables.fill(node.text, node, plainly=True)

    def text(self, name: str, node: Node) -> str:
        """A text that is not empty."""
        if not isinstance(node.value, str):
            quotes = " or put it in quotes" if not isinstance(node.value, dict | list | None) else ""
            raise wrong(node, f"{name} takes text, found {node.what}", hint=f"write a text{quotes}")
        return self._filled(name, node)

    def _filled(self, name: str, node: Node) -> str:
        text = self._variables.fill(node.text, node)
        if not text.strip():
            raise wrong(node, f"{name} is empty", hint="write something, or leave the key out")
        if any(ord(c) < 32 and c not in "\n\t" for c in text):
            raise wrong(node, f"{name} holds a control character", hint="remove it")
        return text

    def table(self, name: str, node: Node) -> str:
        """A URI of a table that workers can reach."""
        text = self.text(name, node)
        try:
            scheme = parse_uri(text).scheme
        except SiltstoneError as error:
            raise wrong(node, f"{name}: {error.message}", hint=error.hint or "give a directory or a URI") from None
        if scheme == "memory":
            raise wrong(
                node, f"{name} is in the memory of one process, which Spark's workers can't reach",
                hint="use a directory, s3://, gs:// or az://",
            )  # fmt: skip
        return text

    def texts(self, name: str, node: Node) -> list[str]:
        """One text, or several."""
        if not isinstance(node.value, list):
            return [self.text(name, node)]
        if not node.value:
            raise wrong(node, f"{name} is empty", hint="write something, or leave the key out")
        return [self.text(name, one) for one in node.value]

    def whole(self, name: str, node: Node) -> int:
        """A whole number, also where a variable holds it."""
        if isinstance(node.value, str) and "${" in node.value:
            text = self._variables.fill(node.text, node)
            if _WHOLE.fullmatch(text) and int(text) <= WHOLE_MAX:
                return int(text)
            raise wrong(node, f"{name} takes {SAYS['whole']}, found {shown(text)}", hint="set the variable to one")
        if type(node.value) is not int or not 0 <= node.value <= WHOLE_MAX:
            raise wrong(node, f"{name} takes {SAYS['whole']}, found {node.what}", hint="as in 20000")
        return node.value

    def flag(self, name: str, node: Node) -> bool:
        """True or false."""
        if not isinstance(node.value, bool):
            raise wrong(node, f"{name} takes {SAYS['flag']}, found {node.what}", hint="write true or false")
        return node.value

    def map(self, name: str, node: Node) -> dict[str, str]:
        """Names and plain values, all of them as texts."""
        found = self._entries(name, node)
        for key, one in found.items():
            if isinstance(one.value, dict | list) or one.value is None:
                raise wrong(one, f"{name}: {shown(key)} takes one value, found {one.what}", hint="write a text")
        return {key: self._filled(f"{name}: {key}", one) for key, one in found.items()}

    def types(self, name: str, node: Node) -> dict[str, str]:
        """Columns and types."""
        return {key: self.text(f"{name}: {key}", one) for key, one in self._entries(name, node).items()}

    def rows(self, name: str, node: Node) -> list[list[Any]]:
        """Rows of an answer; one value is a row of its own."""
        if not isinstance(node.value, list):
            return [[self._cell(name, node)]]
        for row in node.value:
            if not isinstance(row.value, list):
                raise wrong(row, f"{name} takes {SAYS['rows']}, found {row.what}", hint="as in [[de, 12], [en, 4]]")
        return [[self._cell(name, cell) for cell in row.value] for row in node.value]

    def _cell(self, name: str, node: Node) -> Any:
        if isinstance(node.value, dict | list):
            raise wrong(node, f"{name} takes {SAYS['rows']}, found {node.what}", hint="as in [[de, 12], [en, 4]]")
        return self._variables.fill(node.text, node) if isinstance(node.value, str) else node.value

    def tables(self, name: str, node: Node) -> dict[str, dict[str, Any]]:
        """Tables by name: a URI, or one with a version or a tag."""
        found = {}
        for view, one in self._entries(name, node).items():
            if not _VIEW.fullmatch(view):
                raise wrong(one, f"{name}: {shown(view)} can't be used in a query", hint="use letters, digits and _")
            found[view] = self._one_table(view, one)
        return found

    def _one_table(self, view: str, node: Node) -> dict[str, Any]:
        if not isinstance(node.value, dict):
            return {"uri": self.table(view, node)}
        known = {"table": self.table, "version": self.whole, "tag": self.text}
        for key, one in node.value.items():
            if key not in known:
                raise wrong(one, f"{view} has no key {shown(key)}", hint=f"keys are {', '.join(known)}")
        if "table" not in node.value or {"version", "tag"} <= node.value.keys():
            raise wrong(node, f"{view} takes a table, and a version or a tag of it", hint="as in {table: t, tag: old}")
        read = {key: known[key](key, one) for key, one in node.value.items()}
        return {"uri": read.pop("table"), **read}

    def _entries(self, name: str, node: Node) -> dict[str, Node]:
        if not isinstance(node.value, dict) or not node.value:
            raise wrong(node, f"{name} takes names and values, found {node.what}", hint="as in {name: value}")
        return dict(node.value)
