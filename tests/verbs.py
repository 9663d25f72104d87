"""The verbs of the command line, as its grammar has them."""

from __future__ import annotations

import argparse

from siltstone.cli.run import parser


def leaves(one=None, name: str = "") -> dict[str, argparse.ArgumentParser]:
    """Parsers by what is typed: ``scan``, ``tag list``."""
    one = parser() if one is None else one
    inside = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
    if not inside:
        return {name: one}
    found = {}
    for action in inside:
        for word, chosen in action.choices.items():
            found |= leaves(chosen, f"{name} {word}".strip())
    return found
