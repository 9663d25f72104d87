"""What the documents show was run: the Python blocks with a prompt are one doctest for each page, the others are Python."""

from __future__ import annotations

import ast
import doctest
import re

import pytest

from sources import ROOT

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
