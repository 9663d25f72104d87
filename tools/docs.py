"""Make the site of the documents in build/docs.

What must hold:
- A link that leads nowhere, anything that Sphinx warns of, and a page that loads something from another host fail it.
- It needs no network.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.cmd.build import main as sphinx

import check_links

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = check_links.ROOT / "build" / "docs"
ELSEWHERE = re.compile(r"\s*([a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
LOADED_BY_STYLES = re.compile(r"@import\s+['\"]?([^'\";]+)|url\(\s*['\"]?(?!data:)([^'\")]+)", re.IGNORECASE)
# What a browser fetches by itself. A link that a reader follows is not among it.
LOADS = {"src", "srcset", "poster", "data"}
FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


class _Loads(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.found += [given[name] for name in LOADS & given.keys()]
        if tag == "link" and FETCHED_LINKS & set(given.get("rel", "").lower().split()):
            self.found.append(given.get("href", ""))
        self.found += _styles(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.found += _styles(data)


def _styles(text: str) -> list[str]:
    return [one or other for one, other in LOADED_BY_STYLES.findall(text)]


def foreign_loads(site: Path) -> Iterator[str]:
    """What pages and styles of a site load from elsewhere."""
    for path in sorted(site.rglob("*")):
        if path.suffix == ".css":
            found = _styles(path.read_text(encoding="utf-8"))
        elif path.suffix in {".html", ".svg"}:
            page = _Loads()
            page.feed(path.read_text(encoding="utf-8"))
            found = page.found
        else:
            continue
        yield from (f"{path.relative_to(site)}: loads {one}" for one in found if ELSEWHERE.match(one))


def build(out: Path) -> int:
    """Make the site anew; Sphinx's exit code."""
    shutil.rmtree(out, ignore_errors=True)
    doctrees = out.with_name(f"{out.name}-doctrees")
    shutil.rmtree(doctrees, ignore_errors=True)
    flags = ["-b", "html", "-q", "-W", "--keep-going", "-d", str(doctrees)]
    return sphinx([*flags, str(check_links.ROOT / "docs"), str(out)])


def main(arguments: list[str]) -> int:
    """Check, build, check; 0 where all is well."""
    parser = argparse.ArgumentParser(description="Make the site of the documents.")
    parser.add_argument("--out", type=Path, default=OUT, help="where to (build/docs)")
    out: Path = parser.parse_args(arguments).out.resolve()
    broken = check_links.main()
    failed = build(out)
    foreign = list(foreign_loads(out))
    for line in foreign:
        print(line)
    if broken or failed or foreign:
        return 1
    print(f"the site is at {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
