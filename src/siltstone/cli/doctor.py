"""``doctor``: is everything here that siltstone needs, and can the store be reached?

What must hold: each line says what was found just now, and what to do where that is not enough; what is not needed
never fails; no secret is shown; nothing is written unless that was asked for.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.doctor_checks import Check
from siltstone.cli.doctor_machine import check_extras, check_machine, check_packages, check_spark
from siltstone.cli.doctor_store import check_commits, check_place
from siltstone.cli.errors import DONE, FAILED, without
from siltstone.cli.hints import on_command_line
from siltstone.cli.opening import parse_named
from siltstone.cli.options import secrets, storage_options
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from siltstone.cli.output import Colour, Output

_SIGNS: dict[str, tuple[str, Colour]] = {"ok": ("ok", "green"), "no": ("NO", "red"), "unknown": ("--", "yellow")}


def run_doctor(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``doctor``."""
    uri = None if arguments.uri is None else parse_named(arguments.uri).uri
    options = storage_options(arguments)
    found: list[Check] = []
    with Progress(output, "doctor") as bar:
        for check in _checks(arguments, uri, options):
            bar.say(f"{check.part}: {check.what}")
            found.append(_masked(check, secrets(arguments)))
    ok = all(one.state != "no" for one in found)
    output.result({"ok": ok, "uri": uri, "checks": [asdict(one) for one in found]})
    _say(found, output)
    wrong = sum(one.state == "no" for one in found)
    output.line()
    said = "Nothing that is needed is wrong." if ok else f"{wrong} of {len(found)} things are wrong: see the lines NO."
    output.line(output.paint(said, "green" if ok else "red"))
    return DONE if ok else FAILED


def _checks(arguments: argparse.Namespace, uri: str | None, options: dict[str, str]) -> Iterator[Check]:
    yield from check_packages()
    yield from check_extras(arguments.commits, spark=arguments.spark)
    yield from check_spark(start=arguments.spark)
    yield from check_machine(uri)
    if uri is not None:
        yield from check_place(uri, arguments.commits, options, write=arguments.write)
    if arguments.commits is not None:
        yield from check_commits(arguments.commits, write=arguments.write)


def _masked(check: Check, hidden: list[str]) -> Check:
    what, detail, advice = (without(text, hidden) for text in (check.what, check.detail, check.advice))
    return Check(check.part, what, check.state, detail, on_command_line(advice))


def _say(found: list[Check], output: Output) -> None:
    width = max(len(one.what) for one in found)
    part = ""
    for one in found:
        if one.part != part:
            part = one.part
            output.line(output.paint(part, "bold"))
        sign, colour = _SIGNS[one.state]
        output.line(f"  {output.paint(sign, colour)}  {clean(one.what):<{width}}  {clean(one.detail)}".rstrip())
        if one.advice:
            output.line(f"      {'':<{width}}  {output.paint(clean(one.advice), 'dim')}")
