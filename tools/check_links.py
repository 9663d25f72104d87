"""Check that every relative link in the README and the documents leads to a file and, where named, a heading."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:")


def documents(root: Path) -> list[Path]:
    """The Markdown files at the root and below docs."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get: lower case, words joined by hyphens, repeated ones numbered."""
    seen: dict[str, int] = {}
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def broken_links(page: Path) -> Iterator[str]:
    """Links of one page that lead nowhere, each with the reason."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if EXTERNAL.match(target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            yield f"{target}: no such file"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
            yield f"{target}: no such heading"


def main(root: Path = ROOT) -> int:
    """Print what is broken; 1 where something is."""
    pages = documents(root)
    broken = [f"{page.relative_to(root)}: {problem}" for page in pages for problem in broken_links(page)]
    for line in broken:
        print(line)
    print(f"{len(pages)} documents, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
