"""YAML as a tree in which every value knows its line.

What must hold:
- Nothing in a file makes more of it than it has characters: no anchors, no aliases, no merges, no tags, and a bound on
  its size and depth before a tree is made.
- A key that comes twice is refused, as is a second document: neither may be read in silence.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, NoReturn

from siltstone.errors import InvalidInputError, LimitExceededError, MissingDependencyError
from siltstone.table.types import shown

FILE_BYTES_MAX = 256 * 1024
DEPTH_MAX = 16

_PLAIN = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Node:
    """A value of the file: its line, and for a plain value also how it is written there."""

    value: Any  # str, int, float, bool, None, list of nodes, or nodes by key
    line: int
    text: str = ""

    @property
    def what(self) -> str:
        """What kind of value it is, for people."""
        if isinstance(self.value, dict):
            return "keys and values"
        if isinstance(self.value, list):
            return "a list"
        if self.value is None:
            return "nothing"
        names = {bool: "true or false", int: "a whole number", float: "a number"}
        return f"{names[type(self.value)]} ({shown(self.text)[1:-1]})" if type(self.value) in names else "text"


def wrong(node: Node, message: str, *, hint: str) -> InvalidInputError:
    """The error for a value."""
    return InvalidInputError(f"line {node.line}: {message}", hint=hint, line=node.line)


def parse_document(data: bytes) -> Node:
    """The tree of a file. Raises InvalidInputError, which says where it is wrong."""
    if len(data) > FILE_BYTES_MAX:
        raise LimitExceededError(
            f"it has {len(data):,} bytes, over the limit of {FILE_BYTES_MAX:,}",
            hint="a pipeline file names data, and does not hold it",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"line {line}: it is not UTF-8", hint="save it as UTF-8", line=line) from None
    yaml = _yaml()
    try:
        _check_events(yaml, text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        _refuse(error, text)
    if tree is None:
        raise InvalidInputError("it is empty", hint="it needs the keys name and steps")
    return _node(yaml.constructor.SafeConstructor(), tree)


def _yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError as error:
        raise MissingDependencyError(
            "PyYAML, which reads pipeline files, can't be imported", hint="pip install 'siltstone[spark]'"
        ) from error


def _check_events(yaml: Any, text: str) -> None:
    """Refuse what could make a tree larger than the file, before there is a tree."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            _refuse_at(line, "anchors and aliases (& and *) are not read", "write the value out, or use a variable")
        if getattr(event, "tag", None) not in {None, "!"}:
            _refuse_at(line, f"the tag {shown(str(event.tag))} is not read", "leave it out")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                _refuse_at(line, "a second document begins", "keep one pipeline in a file")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                raise LimitExceededError(
                    f"line {line}: it is nested deeper than {DEPTH_MAX} levels", hint="steps need four", line=line
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _refuse_at(line: int, message: str, hint: str) -> NoReturn:
    raise InvalidInputError(f"line {line}: {message}", hint=hint, line=line)


def _refuse(error: Any, text: str) -> NoReturn:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # a character that YAML does not allow
        position = getattr(error, "position", 0)
        line = text[:position].count("\n") + 1
        _refuse_at(line, "there is a control character, which YAML does not allow", "remove it")
    problem = getattr(error, "problem", None) or "it can't be read"
    if "'\\t'" in problem:
        _refuse_at(mark.line + 1, "a tab stands where YAML allows spaces only", "indent with spaces")
    hint = "it is no YAML there; texts with : { } [ ] # & * go in double quotes"
    _refuse_at(mark.line + 1, f"column {mark.column + 1}: {shown(problem)[1:-1]}", hint)


def _node(constructor: Any, tree: Any) -> Node:
    line = tree.start_mark.line + 1
    if tree.id == "sequence":
        return Node([_node(constructor, one) for one in tree.value], line)
    if tree.id == "mapping":
        found: dict[str, Node] = {}
        for key, value in tree.value:
            if key.id != "scalar":
                _refuse_at(key.start_mark.line + 1, "a key is no text", "write a name before the colon")
            if key.value in found:
                message = f"the key {shown(key.value)} comes twice"
                _refuse_at(key.start_mark.line + 1, message, f"it was in line {found[key.value].line} too")
            # The key's line: that is where a reader looks for it.
            made = _node(constructor, value)
            found[key.value] = Node(made.value, key.start_mark.line + 1, made.text)
        return Node(found, line)
    return Node(_scalar(constructor, tree, line), line, tree.value)


def _scalar(constructor: Any, tree: Any, line: int) -> Any:
    kind = tree.tag.removeprefix(_TAG)
    if kind not in _PLAIN:
        return tree.value  # a date, say: steps take text
    try:
        return constructor.construct_object(tree)
    except (ValueError, OverflowError):  # such as 0b, or a number of 5,000 digits
        _refuse_at(line, f"{shown(tree.value)} is no number", "put text in quotes")
