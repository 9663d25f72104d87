"""The command line's grammar: what all verbs share.

What must hold: every verb takes ``--json``; every verb that reaches a store takes ``--storage-option``; the
value of an option is never part of a message.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

from siltstone.cli.errors import UsageError
from siltstone.store.options import ENV_REFERENCE, PLAIN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.cli.output import Output

    Verb = Callable[[argparse.Namespace, Output], int]
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse names it nowhere else

_PREFIXES = ("aws_", "azure_storage_", "azure_", "google_")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints look like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")


def add_verb(verbs: Verbs, name: str, run: Verb, *, says: str, teaches: str) -> argparse.ArgumentParser:
    """A verb with its help: one sentence, then what it does and an example."""
    parser = verbs.add_parser(
        name,
        help=says,
        description=f"{says}\n\n{teaches}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    return parser


def add_store(parser: argparse.ArgumentParser, *, what: str, name: str = "uri", commits: bool = True) -> None:
    """The URI that a verb works on, and what is needed to reach it."""
    parser.add_argument(name, metavar=name.upper(), help=f"{what}: a directory or a URI (s3://, gs://, az://, file://)")
    if commits:
        parser.add_argument("--commits", metavar="URI", help="the commit store that decides, such as sqlite:claims.db")
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the store, such as aws_endpoint=http://127.0.0.1:9000; may be repeated; "
        "env:NAME as value takes it from the environment, which keeps secrets out of process lists",
    )


def storage_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options given with ``--storage-option``."""
    options: dict[str, str] = {}
    for given in arguments.storage_option:
        name, equals, value = given.partition("=")
        if not equals or not name:
            raise UsageError(
                "--storage-option takes KEY=VALUE", hint="for example --storage-option aws_region=us-east-1"
            )
        if name in options:
            raise UsageError(f"--storage-option {name} was given twice")
        options[name] = value
    return options


def secrets(arguments: argparse.Namespace) -> list[str]:
    """Values on this command line that no message may repeat."""
    found = []
    for given in getattr(arguments, "storage_option", []):
        name, _, value = given.partition("=")
        plain = name.lower()
        for prefix in _PREFIXES:
            plain = plain.removeprefix(prefix)
        if plain not in PLAIN_OPTIONS:
            found.append(os.environ.get(value.removeprefix(ENV_REFERENCE), value))
    try:
        password = urlsplit(getattr(arguments, "commits", None) or "").password
    except ValueError:
        password = None
    if password:
        found += [password, unquote(password)]
    return found


def whole_number(text: str) -> int:
    """A position or count, for argparse."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:  # the digits of 2**63 - 1
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is not a whole number from 0 on")
    return int(text)
