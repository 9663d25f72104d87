"""The command line's grammar: what all verbs share.

What must hold: nothing here loads what a verb needs to run; every verb takes ``--json``; every verb that reaches a
store takes ``--storage-option``; the value of an option is never part of a message.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict
from urllib.parse import unquote, urlsplit

from siltstone.cli.errors import UsageError
from siltstone.store.options import ENV_REFERENCE, PLAIN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from siltstone.cli.output import Output

    Verb = Callable[[argparse.Namespace, Output], int]
    Verbs = argparse._SubParsersAction["Parser"]  # noqa: SLF001 - argparse names it nowhere else

INPUT_FORMATS = ("csv", "jsonl", "parquet", "arrow")
TABLE = "table"
OUTPUT_FORMATS = (TABLE, *INPUT_FORMATS)
_PREFIXES = ("aws_", "azure_storage_", "azure_", "google_")
_USERINFO = re.compile(r"://\S*@")
_SECRET_VALUE = re.compile(r"(\w*(?:secret|password|token|key)\w*=)\S+", re.IGNORECASE)
_JSON = "print one JSON document instead of text"
_JSON_ROWS = "print rows as JSON lines"
_JSON_LINES = "print JSON lines instead of text"

_NAMES_A_VERSION = frozenset({"--at", "--version", "--tag", "--checkpoint", "--snapshot"})
_LABEL = re.compile(r"[\w.-]{1,80}")
_NAME = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,]*?))\s*,')


def _near(word: str, known: Iterable[Any]) -> str:
    """A question, where a word is almost a known one."""
    found = difflib.get_close_matches(word[:80], sorted(str(one) for one in known), n=1, cutoff=0.65)
    return f"did you mean {found[0]}? " if found else ""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints look like every other error."""

    default_verb = ""  # of a group: the one that is meant where none is named
    verbs: tuple[str, ...] = ()
    themes: Mapping[str, Sequence[str]] = {}  # of all verbs: titles, and the verbs that help shows below each
    guessed = ""  # of a group: the word that was no verb of it, so that the default was taken
    rest = ""  # the list that takes words behind options too: argparse ends one that may be empty at the first option

    def error(self, message: str) -> NoReturn:
        # It may repeat a word that was given: a URI with a password, or the value of an option that is a secret.
        self.refuse(message)

    def refuse(self, message: str, near: str = "") -> NoReturn:
        """Raise what is wrong, with where to read on."""
        message = _SECRET_VALUE.sub(r"\1***", _USERINFO.sub("://***@", message))
        raise UsageError(message, hint=f"{near}see `{self.prog} --help`")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        near = _near(str(value), action.choices)
        verbs = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - argparse names it nowhere else
        what = "there is no verb" if verbs else f"argument {'/'.join(action.option_strings)}: there is no choice"
        known = "" if near or verbs else f" (choose from {', '.join(map(str, action.choices))})"
        self.refuse(f"{what} {str(value)[:80]!a}{known}", near)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            used, near = self._used(found)
            used.refuse(f"unrecognized arguments: {' '.join(unknown)}", near or used.meant(unknown))
        return found

    def _used(self, found: argparse.Namespace) -> tuple[Parser, str]:
        """The parser of the verb that was named; where none was, the one that may have been meant."""
        used: Parser = self
        for name in ("verb", "action"):
            inside = [one for one in used._actions if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
            if not inside or getattr(found, name, None) not in inside[0].choices:
                break
            if used.guessed and (near := _near(used.guessed, used.verbs)):
                return used, near
            used = inside[0].choices[getattr(found, name)]
        return used, ""

    def meant(self, unknown: Sequence[str]) -> str:
        """What an option that is not known may have been meant to be."""
        option, _, value = next((word for word in unknown if word.startswith("--")), "").partition("=")
        if option in _NAMES_A_VERSION and any("TABLE@" in (one.help or "") for one in self._actions):
            value = value or next((word for word in unknown[unknown.index(option) + 1 :]), "")
            return f"write TABLE@{value if _LABEL.fullmatch(value) else '3'}; "
        return _near(option, self._option_string_actions.keys() - {"-h", "--help"}) if option else ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.default_verb and args and args[0] not in {"-h", "--help", *self.verbs}:
            self.guessed = args[0]
            args = [self.default_verb, *args]
        found, unknown = super().parse_known_args(args, namespace)
        if self.rest:
            words = [word for word in unknown if word == "-" or not word.startswith("-")]
            setattr(found, self.rest, [*getattr(found, self.rest), *words])
            unknown = [word for word in unknown if word not in words]
        return found, unknown

    def format_help(self) -> str:
        if not self.themes:
            return super().format_help()
        pages = self._get_formatter()
        pages.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        pages.add_text(self.description)
        (inside,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
        said = {action.dest: action for action in inside._get_subactions()}  # noqa: SLF001 - as argparse itself does
        for title, verbs in self.themes.items():
            pages.start_section(title)
            pages.add_arguments([said[verb] for verb in verbs if verb in said])
            pages.end_section()
        pages.start_section("options")
        pages.add_arguments([action for action in self._actions if action.option_strings])
        pages.end_section()
        pages.add_text(self.epilog)
        return pages.format_help()


def add_verb(
    verbs: Verbs,
    name: str,
    run: Verb | str,
    *,
    says: str,
    teaches: str,
    shape: Sequence[str] = (),
    shapes: Mapping[str, Sequence[str]] | None = None,
    rows: bool = False,
) -> Parser:
    """A verb with its help: one sentence, then what it does and an example.

    ``run`` does it; as text, ``module.function``, it is loaded when it is needed. ``shape`` is the keys of its JSON
    document, which scripts rely on, and ``shapes`` those of other documents, by what asks for them. ``rows`` says that
    its JSON is lines instead, each a row, or of that shape.
    """
    parser = verbs.add_parser(
        name,
        help=says,
        description=f"{says}\n\n{teaches}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    others = {when: tuple(keys) for when, keys in (shapes or {}).items()}
    parser.set_defaults(run=run, rows=rows, shape=tuple(shape), shapes=others)
    lines = (f"{_JSON_LINES}: {', '.join(shape)}" if shape else _JSON_ROWS) if rows else f"{_JSON}: {', '.join(shape)}"
    lines += "".join(f"; {when}: {', '.join(keys)}" for when, keys in others.items())
    parser.add_argument("--json", action="store_true", help=lines)
    return parser


def load_verb(run: Verb | str) -> Verb:
    """What a verb does, with the modules that it needs."""
    if not isinstance(run, str):
        return run
    module, _, function = run.rpartition(".")
    loaded: Verb = getattr(importlib.import_module(f"siltstone.cli.{module}"), function)
    return loaded


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


def add_store(
    parser: argparse.ArgumentParser, *, what: str, name: str = "uri", commits: bool = True, needed: bool = True
) -> None:
    """The URI that a verb works on, and what is needed to reach it."""
    said = f"{what}: a directory or a URI (s3://, gs://, az://, file://)"
    parser.add_argument(name, metavar=name.upper(), nargs=None if needed else "?", help=said)
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
    add_wal(parser)


def add_wal(parser: argparse.ArgumentParser) -> None:
    """The store of the WALs of a table's shards, where they are not in the table's own."""
    parser.add_argument("--wal", metavar="URI", help="the store of its shards' WALs, where that is another one")
    parser.add_argument(
        "--wal-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the WAL store; without any, those of the table are used where both are of one kind",
    )


class GivenWal(TypedDict):
    """What calls of the library take of it."""

    wal: str | None
    wal_options: dict[str, str] | None


def wal_of(arguments: argparse.Namespace) -> GivenWal:
    """What was given with ``--wal`` and ``--wal-option``."""
    if arguments.wal_option and arguments.wal is None:
        raise UsageError("--wal-option goes with --wal")
    return GivenWal(wal=arguments.wal, wal_options=storage_options(arguments, name="wal_option") or None)


def add_output(parser: argparse.ArgumentParser) -> None:
    """The options of a verb that gives rows."""
    parser.add_argument(
        "--format", choices=OUTPUT_FORMATS, help="how rows are written; default: by FILE's name, else a table"
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write rows to this file instead")


def add_transaction(parser: argparse.ArgumentParser) -> None:
    """What a version that is made can carry."""
    parser.add_argument("--once", metavar="ID", help="do nothing where a version with this id was made before")
    parser.add_argument("--message", default="", metavar="TEXT", help="a note that `siltstone log` shows")


def storage_options(arguments: argparse.Namespace, *, name: str = "storage_option") -> dict[str, str]:
    """The options given with ``--storage-option``, or with another option of the same kind."""
    options: dict[str, str] = {}
    called = f"--{name.replace('_', '-')}"
    for given in getattr(arguments, name):
        key, equals, value = given.partition("=")
        if not equals or not key:
            raise UsageError(f"{called} takes KEY=VALUE", hint=f"for example {called} aws_region=us-east-1")
        if key in options:
            raise UsageError(f"{called} {key} was given twice")
        options[key] = value
    return options


def secrets(arguments: argparse.Namespace) -> list[str]:
    """Values on this command line that no message may repeat."""
    found = []
    options = ("storage_option", "clone_option", "wal_option")
    for given in (one for option in options for one in getattr(arguments, option, ())):
        name, _, value = given.partition("=")
        plain = name.lower()
        for prefix in _PREFIXES:
            plain = plain.removeprefix(prefix)
        if plain not in PLAIN_OPTIONS:
            found.append(os.environ.get(value.removeprefix(ENV_REFERENCE), value))
    for commits in (getattr(arguments, name, None) or "" for name in ("commits", "clone_commits")):
        try:
            password = urlsplit(commits).password
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
    """Names of columns, given one by one or with commas between them; one with a comma goes in double quotes."""
    matches = (name for text in given or () for name in _NAME.finditer(f"{text},"))
    found = [name["plain"] if name["quoted"] is None else name["quoted"].replace('""', '"') for name in matches]
    if "" in found:
        raise UsageError("a column's name is empty", hint="write names with commas between them: --columns id,lang")
    return found
