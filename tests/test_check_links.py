"""The link checker finds what is broken, and the repository's documents have nothing broken."""

from __future__ import annotations

import importlib.util

import pytest

from sources import ROOT

spec = importlib.util.spec_from_file_location("check_links", ROOT / "tools" / "check_links.py")
check_links = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_links)


def test_main__the_repository__has_no_broken_link():
    assert check_links.main() == 0


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("[a](other.md)", []),
        ("[a](other.md#two-words)", []),
        ("[a](#here)", []),
        ("[a](https://example.com/x)", []),
        ("`[a](gone.md)`", []),
        ("```\n[a](gone.md)\n```", []),
        ("[a](gone.md)", ["gone.md: no such file"]),
        ("![a](gone.png)", ["gone.png: no such file"]),
        ("[a](other.md#three)", ["other.md#three: no such heading"]),
    ],
)
def test_broken_links__one_link__is_judged(tmp_path, link, problem):
    (tmp_path / "other.md").write_text("# Two `words`\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\n{link}\n")
    assert list(check_links.broken_links(page)) == problem
