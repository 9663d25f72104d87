"""Write docs/cli.md from the command line's own grammar; with --check, say whether it is up to date.

What must hold: nothing about a verb is written here that the parser does not say; the same grammar gives the same text
on every Python and every terminal.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.cli.grammar.keys import key_of
from siltstone.cli.grammar.shapes import VERSION_SHAPE
from siltstone.cli.run import THEMES, parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.cli.options import Parser

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

_HEAD = """\
# The command line

<!-- Written by tools/cli_reference.py from what `siltstone --help` knows. Change the grammar, then run it. -->

`siltstone VERB TABLE ...` does what the library does, for people and for scripts. `siltstone --help` lists the verbs,
and `siltstone VERB --help` says what this page says.

## What is printed

- Standard output holds the result and nothing else. Notes, progress and errors go to standard error.
- On a terminal there are colours (not with `NO_COLOR` set, or `TERM=dumb`), tables that fit its width, and for whatever
  takes long a line with the share that is done, its rate and the time that is left. In a pipe there are neither, and
  nothing is cut.
- With `--json` it is one JSON document, or one JSON object on a line for each row of verbs that give rows. Keys are
  added now and then, and never renamed or removed; each verb below names its own.
- An error is a line `error: ...`, mostly with a line `hint: ...` behind it that says what to do. With `--json` it is a
  document on standard output instead: `{"error": {"kind": ..., "message": ..., "hint": ...}}`, where `kind` is one of
  the [kinds of errors](operate.md), or `usage`. `op`, `position` and `appended` are there where they are known.
- No message repeats a password or key. `--storage-option KEY=env:NAME` keeps them out of process lists too.

## Exit codes

| code | meaning |
|---:|---|
| 0 | done; also where there was nothing to do |
| 1 | an error; a store that is not safe; problems that `verify`, `repair` or `doctor` found |
| 2 | the command line is wrong; nothing was tried |
| 3 | a conflict, or another writer took over: nothing was changed, and it may be tried again |
| 130 | interrupted, as by Ctrl-C |
| 141 | whoever read the output has gone, as `head` does |

## Tables and versions

`TABLE` is a directory or a URI (`s3://`, `gs://`, `az://`, `file://`). Verbs that read take `TABLE@3`, `TABLE@tag` and
`TABLE@checkpoint` for an earlier version. A directory with an @ in its name is written with a slash at its end.

## What every verb takes that reaches a store

{shared}

## A version

What verbs that change a table say of the version they made, beside their own keys:

{version}

## Completion

```sh
source <(siltstone completion bash)   # for this shell; `siltstone completion --help` says how to keep it
```

Verbs, options and their choices are completed, and tables and files as files. There are scripts for bash, zsh and tcsh.
"""
_ARGUMENTS = ("| argument | |", "|---|---|")
_KEYS = ("| key | value | |", "|---|---|---|")
_OTHERS = frozenset({"-h, --help", "--json"})
_SHARED = ("--commits", "--storage-option", "--wal", "--wal-option")  # said once, for all that take them


def leaves(one: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, Parser]]:
    """Every verb that does something, with its parser."""
    inside = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    for action in inside:
        for word, chosen in action.choices.items():
            yield from leaves(chosen, f"{name} {word}".strip())
    if not inside:
        yield name, one  # type: ignore[misc]


def page() -> str:
    """The whole page."""
    top = parser()
    verbs = dict(leaves(top))
    shared = [line for action in verbs["scan"]._actions for line in _argument(action, shared=True)]  # noqa: SLF001
    version = [_row("", key) for key in VERSION_SHAPE]
    head = _HEAD.replace("{shared}", "\n".join([*_ARGUMENTS, *shared]))
    parts = [head.replace("{version}", "\n".join([*_KEYS, *version]))]
    for title, words in THEMES.items():
        parts.append(f"## {title[0].upper()}{title[1:]}\n")
        for word in words:
            parts += [_verb(name, one) for name, one in verbs.items() if name.split()[0] == word]
    return "\n".join(parts)


def _verb(name: str, one: Parser) -> str:
    description, _, examples = (one.description or "").partition("Example")
    says, _, teaches = description.strip().partition("\n\n")
    examples = examples.partition("\n")[2]
    lines = [f"### {name}\n", f"{says}\n", "```text", _usage(name, one), "```\n"]
    if teaches.strip():
        lines += ["```text", teaches.strip(), "```\n"]
    lines += ["```sh", *(line[2:] for line in examples.rstrip().splitlines()), "```\n"]
    arguments = [line for action in one._actions for line in _argument(action)]  # noqa: SLF001
    if arguments:
        lines += [*_ARGUMENTS, *arguments, ""]
    also = [f"`{action.option_strings[0]}`" for action in one._actions if set(action.option_strings) & set(_SHARED)]  # noqa: SLF001
    if also:
        lines.append(f"Also {', '.join(also)}, [as elsewhere](#what-every-verb-takes-that-reaches-a-store).\n")
    return "\n".join([*lines, *_shapes(name, one)])


def _usage(name: str, one: Parser) -> str:
    words = [f"siltstone {name}"]
    for action in one._actions:  # noqa: SLF001
        if not action.option_strings:
            word = str(action.metavar or action.dest)
            words.append(
                {"*": f"[{word} ...]", "+": f"{word} [{word} ...]", "?": f"[{word}]"}.get(str(action.nargs), word)
            )
        elif action.required:
            words.append(f"{action.option_strings[0]} {action.metavar}")
    return " ".join([*words, "[OPTION ...]"])


def _argument(action: argparse.Action, *, shared: bool = False) -> list[str]:
    called = ", ".join(action.option_strings)
    if called in _OTHERS or (called in _SHARED) is not shared:
        return []
    value = "" if action.nargs == 0 or not (action.metavar or action.choices) else str(action.metavar or "")
    if action.choices and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    said = (action.help or "").replace("%(default)s", str(action.default)).replace("|", "\\|")
    return [f"| `{f'{called} {value}'.strip()}` | {said} |"]


def _shapes(name: str, one: Parser) -> list[str]:
    """What --json gives."""
    shape, others = one.get_default("shape"), one.get_default("shapes") or {}
    if one.get_default("rows"):
        each = "a line for each row, with the row's columns" if not shape else "a line for each entry"
        lines = [f"With `--json`: {each}" + (":\n" if shape else ".\n")]
    else:
        lines = ["With `--json`:\n"]
    for when, keys in {"": shape, **others}.items():
        if not keys:
            continue
        lines += [f"{when[0].upper()}{when[1:].replace('--', '`--', 1)}{'`' * ('--' in when)}:\n"] if when else []
        whole = set(VERSION_SHAPE) <= set(keys)
        lines += [*_KEYS, *(_row(name, key) for key in keys if not (whole and key in VERSION_SHAPE)), ""]
        lines += ["and the keys of [a version](#a-version).\n"] * whole
    return lines


def _row(name: str, key: str) -> str:
    kind, says = key_of(name, key)
    return f"| `{key}` | {kind.replace('?', ' or null')} | {says} |"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        right = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.name} is {'as the grammar says' if right else 'out of date: run tools/cli_reference.py'}")
        return 0 if right else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.name} written, {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
