"""Variables of a pipeline file: ``${name}``, ``${env:NAME}``, and those that are always there.

What must hold:
- What comes from the environment may be secret: it is in no message, and in no digest of a step.
- A variable that is not set, or that needs itself, is an error with its line.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.pipeline.document import Node, wrong
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TEXT_CHARACTERS_MAX = 100_000
SECRET_CHARACTERS_MIN = 4  # shorter ones hide nothing
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# $${ stands for ${ itself.
_REFERENCE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}?")
_ENV = "env:"
_HINT = "write ${name}, ${env:NAME}, or $${ for the characters themselves"


class Variables:
    """Values by name. ``fixed`` win over ``given``, which are the file's own."""

    def __init__(self, given: Mapping[str, Node], fixed: Mapping[str, str], *, movable: Iterable[str] = ()) -> None:
        self._given = given
        self._fixed = fixed
        self._movable = frozenset(movable)
        self._secrets: set[str] = set()
        self._known: dict[tuple[str, bool], str] = {}
        self.used: set[str] = set()

    @property
    def secrets(self) -> frozenset[str]:
        """Values that were taken from the environment."""
        return frozenset(self._secrets)

    def fill(self, text: str, node: Node, *, plainly: bool = False) -> str:
        """``text`` with every reference replaced.

        ``plainly`` leaves those to the environment, and to what moves with the file, as they are.
        """
        return self._fill(text, node, (), plainly=plainly)

    def _fill(self, text: str, node: Node, trail: tuple[str, ...], *, plainly: bool) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1]:
                return "${"
            if not match[0].endswith("}"):
                raise wrong(node, f"{shown(match[0])} has no closing bracket", hint=_HINT)
            return self._value(match[2], node, trail, plainly=plainly)

        found = _REFERENCE.sub(value, text)
        if len(found) > TEXT_CHARACTERS_MAX:
            raise LimitExceededError(
                f"line {node.line}: with its variables the text has over {TEXT_CHARACTERS_MAX:,} characters",
                hint="use shorter ones",
                line=node.line,
            )
        return found

    def _value(self, name: str, node: Node, trail: tuple[str, ...], *, plainly: bool) -> str:
        self.used.add(name)
        if plainly and (name.startswith(_ENV) or name in self._movable):
            return f"${{{name}}}"
        if name.startswith(_ENV):
            return self._environment(name.removeprefix(_ENV), node)
        if name in self._fixed:
            return self._fixed[name]
        if name in trail:
            circle = " -> ".join([*trail[trail.index(name) :], name])
            raise wrong(node, f"variables need each other: {circle}", hint="give one of them a value of its own")
        if name not in self._given:
            known = ", ".join(sorted({*self._given, *self._fixed}))
            raise wrong(
                node, f"the variable {shown(name)} is not set", hint=f"set it below vars, or with --set; known: {known}"
            )
        # Kept: variables that double each other would otherwise be worked out a billion times.
        if (name, plainly) not in self._known:
            given = self._given[name]
            self._known[name, plainly] = self._fill(given.text, given, (*trail, name), plainly=plainly)
        return self._known[name, plainly]

    def _environment(self, name: str, node: Node) -> str:
        if name not in os.environ:
            raise wrong(node, f"the environment variable {shown(name)} is not set", hint="export it first")
        value = os.environ[name]
        if len(value) >= SECRET_CHARACTERS_MIN:
            self._secrets.add(value)
        return value


def check_given(node: Node | None) -> dict[str, Node]:
    """The ``vars`` of a file."""
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise wrong(node, f"vars takes names and values, found {node.what}", hint="as in vars: {root: s3://lake}")
    for name, value in node.value.items():
        if not NAME.fullmatch(name):
            raise wrong(value, f"{shown(name)} is no name of a variable", hint="use letters, digits and _")
        if isinstance(value.value, list | dict) or value.value is None:
            raise wrong(value, f"the variable {name} takes one value, found {value.what}", hint="write a text")
    return dict(node.value)


def parse_set(words: Iterable[str]) -> dict[str, str]:
    """Variables given as NAME=VALUE."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not NAME.fullmatch(name):
            raise InvalidInputError(
                "a variable is set as NAME=VALUE, with letters, digits and _ in its name", hint="as in --set day=monday"
            )
        if name in found:
            raise InvalidInputError(f"the variable {name} is set twice", hint="set it once")
        found[name] = value
    return found


def without(text: str, secrets: Iterable[str]) -> str:
    """``text`` with no secret in it."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
