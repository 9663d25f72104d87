"""What the documents show was run: Python blocks with a prompt are one doctest for each page, others are Python."""

from __future__ import annotations

import ast
import doctest
import re
from dataclasses import fields

import pytest

from siltstone.shard.config import _LIMITS, Knobs, ShardWriterConfig
from siltstone.testing.sim import MISTAKES
from sources import ROOT, sources

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = {
    page.relative_to(ROOT).as_posix(): BLOCK.findall(page.read_text(encoding="utf-8"))
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
}


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_examples__of_a_page__do_what_it_shows(page, capsys):
    shown = [block for block in PAGES[page] if ">>>" in block]
    for block in set(PAGES[page]) - set(shown):
        ast.parse(block)
    test = doctest.DocTestParser().get_doctest("\n".join(shown), {}, page, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.failures == 0, capsys.readouterr().out


def test_tests__that_a_page_names__are_there():
    defined = {name for source in sources("tests", "src") for name in re.findall(r"def (test_\w+)", source.text)}
    missing = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        missing += [f"{page}: {name}" for name in re.findall(r"\b(test_\w+__\w+)", text) if name not in defined]
        missing += [f"{page}: {name}" for name in re.findall(r"`(tests/[\w./]+)`", text) if not (ROOT / name).exists()]
    # A page may say how tests are named.
    assert [one for one in missing if "test_call__condition__outcome" not in one] == []


def number(text):
    """A number as the pages write it: 10 MiB, 200,000, 2^60."""
    digits, _, unit = text.replace(",", "").partition(" ")
    base, _, power = digits.partition("^")
    return int(base) ** int(power or 1) * {"": 1, "MiB": 2**20}[unit]


def test_shards_page__its_knobs__are_those_that_a_writer_has():
    page = (ROOT / "docs/shards.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*?) ?\| \S", page, re.MULTILINE)
    knobs = Knobs()
    assert (
        [row[0] for row in rows]
        == [one.name for one in fields(Knobs)]
        == [one.name for one in fields(ShardWriterConfig)]
    )
    for name, default, least, most in rows:
        value = getattr(knobs, name)
        assert default == str(value) if isinstance(value, bool | tuple) else number(default) == value
        assert ((number(least), number(most)) if least else None) == _LIMITS.get(name)
        assert name in ShardWriterConfig.__doc__


def test_protocol_page__planted_mistakes__are_known_to_the_simulator():
    section = (ROOT / "docs/protocol.md").read_text(encoding="utf-8").partition("## Planted mistakes")[2]
    named = re.findall(r"^\| (.*) \| `([\w-]+)` \|$", section, re.MULTILINE)
    assert named
    assert set(named) <= {(mistake.name, mistake.scenario) for mistake in MISTAKES}
