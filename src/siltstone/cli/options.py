"""The command line's grammar: what all verbs share.

What must hold: every verb takes ``--json``; every verb that reaches a store takes ``--storage-option``; the
value of an option is never part of a message.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlsplit

from siltstone.cli.errors import UsageError
from siltstone.store.options import ENV_REFERENCE, PLAIN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.cli.output import Output

    Verb = Callable[[argparse.Namespace, Output], int]
    Verbs = argparse._SubParsersAction["Parser"]  # noqa: SLF001 - argparse names it nowhere else

_PREFIXES = ("aws_", "azure_storage_", "azure_", "google_")
_JSON = "print one JSON document instead of text"
_JSON_ROWS = "print rows as JSON lines"
_JSON_LINES = "print JSON lines instead of text"


class Parser(argparse.ArgumentParser):
    """A parser whose complaints look like every other error."""

    default_verb = ""  # of a group: the one that is meant where none is named
    verbs: tuple[str, ...] = ()
    rest = ""  # the list that takes words behind options too: argparse ends one that may be empty at the first option

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.default_verb and args and args[0] not in {"-h", "--help", *self.verbs}:
            args = [self.default_verb, *args]
        found, unknown = super().parse_known_args(args, namespace)
        if self.rest:
            words = [word for word in unknown if word == "-" or not word.startswith("-")]
            setattr(found, self.rest, [*getattr(found, self.rest), *words])
            unknown = [word for word in unknown if word not in words]
        return found, unknown


def add_verb(
    verbs: Verbs, name: str, run: Verb, *, says: str, teaches: str, shape: Sequence[str] = (), rows: bool = False
) -> Parser:
    """A verb with its help: one sentence, then what it does and an example.

    ``shape`` is the keys of its JSON document, which scripts rely on; ``rows`` says that its JSON is lines instead,
    each a row, or of that shape.
    """
    parser = verbs.add_parser(
        name,
        help=says,
        description=f"{says}\n\n{teaches}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, rows=rows, shape=tuple(shape))
    lines = (f"{_JSON_LINES}: {', '.join(shape)}" if shape else _JSON_ROWS) if rows else f"{_JSON}: {', '.join(shape)}"
    parser.add_argument("--json", action="store_true", help=lines)
    return parser


def add_group(verbs: Verbs, name: str, *, inside: Sequence[str], says: str, teaches: str, default: str = "") -> Verbs:
    """A noun with verbs ``inside``; ``default`` is the one that is meant where none is named."""
    parser = verbs.add_parser(
        name,
        help=says,
        description=f"{says}\n\n{teaches}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.default_verb, parser.verbs = default, tuple(inside)
    return parser.add_subparsers(dest="action", metavar="VERB", required=True, parser_class=Parser, title="verbs")


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


def add_table(parser: argparse.ArgumentParser, *, reads: bool = False) -> None:
    """The table that a verb works on; one that ``reads`` takes TABLE@VERSION too."""
    older = "; TABLE@3 or TABLE@tag for an earlier version" if reads else ""
    add_store(parser, what=f"the table{older}", name="table")


def add_transaction(parser: argparse.ArgumentParser) -> None:
    """What a version that is made can carry."""
    parser.add_argument("--once", metavar="ID", help="do nothing where a version with this id was made before")
    parser.add_argument("--message", default="", metavar="TEXT", help="a note that `siltstone log` shows")


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


def count(text: str) -> int:
    """How many of something there are to be, for argparse."""
    found = whole_number(text)
    if not found:
        raise argparse.ArgumentTypeError("it must be 1 at least")
    return found


def names(given: Sequence[str] | None) -> list[str]:
    """Names of columns, given one by one or with commas between them."""
    found = [name.strip() for text in given or () for name in text.split(",")]
    if "" in found:
        raise UsageError("a column's name is empty", hint="write names with commas between them: --columns id,lang")
    return found
