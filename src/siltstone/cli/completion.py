"""``completion``: a script for a shell, made from the grammar.

What must hold: whatever the parser takes is offered, and nothing else; what names a place is completed as a file.
"""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any

from siltstone.cli.errors import DONE
from siltstone.cli.run import parser
from siltstone.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.cli.output import Output

_FILES = frozenset({"FILE", "TABLE", "URI", "OBJECT", "DIR"})  # what the values that name places are called


def run_completion(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``completion``."""
    shtab = _shtab()
    top = parser()
    for action in _actions(top):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(top, arguments.shell)
    output.result({"shell": arguments.shell, "script": script})
    output.line(script.rstrip("\n"))
    return DONE


def _actions(one: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All that may be said, also behind verbs."""
    for action in one._actions:  # noqa: SLF001 - argparse shows them nowhere else
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inside in action.choices.values():
                yield from _actions(inside)


def _shtab() -> Any:
    try:
        return importlib.import_module("shtab")
    except ImportError as error:
        raise MissingDependencyError(f"shtab can't be imported: {error}", hint="pip install shtab") from error
