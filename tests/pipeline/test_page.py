"""docs/pipeline.md knows every step and key, and its example is right."""

from __future__ import annotations

import re

import pytest

from siltstone.pipeline import parse_pipeline
from siltstone.pipeline.steps import KINDS
from sources import ROOT

PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
STEPS = PAGE.partition("## Steps")[2]


def test_page__its_example__is_a_right_file_with_every_common_step():
    [example] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    made = parse_pipeline(example, run="2026-11-14")
    assert len({step.kind.name for step in made.steps}) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_page__every_key_of_a_step__is_named(kind):
    rows = [line for line in STEPS.splitlines() if line.startswith("|") and f"`{kind}`" in line.split("|")[1]]
    assert len(rows) == 1
    keys = KINDS[kind].keys
    told = rows[0] + (STEPS.partition("Rows: ")[2] if "those of rows" in rows[0] else "")
    assert {key for key in keys if f"`{key}`" not in told} == set()
    assert {key for key, one in keys.items() if one.needed} == set(re.findall(r"\*\*`(\w+)`\*\*", rows[0]))
