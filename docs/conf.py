"""How Sphinx makes a site of these pages: `./run docs`.

What must hold:
- The build needs no network, and the site loads nothing from another host.
- A page reads the same on the site and in the repository: it is plain Markdown with links to files. A link to a file
  that is no page, a test say, leads to a copy of it on the site.
"""
# ruff: noqa: INP001 - a script of Sphinx's, no package

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import siltstone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

project = "siltstone"
version = release = siltstone.__version__
html_title = f"siltstone {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
# The site's own search page has that name; text-search.md brings the page in under another one.
exclude_patterns = ["search.md"]

myst_heading_anchors = 4  # the same anchors as tools/check_links.py makes

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
napoleon_numpy_docstring = False

html_theme = "furo"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "default"
pygments_dark_style = "github-dark"

PICTURE = re.compile(r'<source media="[^"]*dark[^"]*" srcset="([^"]+)">.*?<img alt="([^"]*)" src="([^"]+)"', re.DOTALL)
ITEM = re.compile(r"\s*- ")
PAGE = re.compile(r"\bdocs/([\w-]+)\.md")


class Links(SphinxTransform):
    """Links out of the pages, and those to the page whose name Sphinx has taken."""

    default_priority = 5

    def apply(self) -> None:
        """Give each of them its target on the site."""
        page = Path(self.env.doc2path(self.env.docname))
        for link in [one for one in self.document.findall(addnodes.pending_xref) if one["reftype"] == "myst"]:
            target = link["reftarget"]
            if link["refdomain"] == "doc" and target == "search":
                link["reftarget"] = "text-search"
            elif (
                link["refdomain"] == "doc" and target not in self.env.found_docs
            ):  # Markdown at the root: the changelog
                copied = os.path.relpath(page.parent / f"{target}.md", page.parent)
                link.replace_self(
                    addnodes.download_reference("", "", *link.children, reftarget=copied, refdoc=self.env.docname)
                )
            elif link["refdomain"] is None and target.endswith("/"):  # a directory
                link.replace_self(link.children)


class Pictures(SphinxTransform):
    """``<picture>``, which is how the repository shows one for dark screens, as two that follow the site's switch."""

    default_priority = 5

    def apply(self) -> None:
        """Put images in the place of the HTML."""
        for raw in list(self.document.findall(nodes.raw)):
            found = PICTURE.search(raw.astext())
            if found:
                dark, alt, light = found.groups()
                both = {"light": light, "dark": dark}
                raw.replace_self([nodes.image(uri=both[one], alt=alt, classes=[f"only-{one}"]) for one in both])


def as_markup(_app: Sphinx, what: str, _name: str, thing: object, _options: object, lines: list[str]) -> None:
    """What the site wants of a docstring and the code does without: lists set apart, links to pages, fields."""
    for number in range(len(lines) - 1, -1, -1):
        lines[number] = PAGE.sub(r":doc:`/\1`", lines[number])
        if number and ITEM.match(lines[number]) and lines[number - 1].rstrip().endswith(":"):
            lines.insert(number, "")
    if what == "class" and isinstance(thing, type) and ":ivar" not in "".join(lines):
        lines += ["", *fields(thing)]


def fields(record: type) -> Iterator[str]:
    """The fields of a record, each with the comment beside it."""
    found = (getattr(record, name, ()) for name in ("__dataclass_fields__", "_fields", "__struct_fields__"))
    names = [name for one in found for name in one if not name.startswith("_")]
    source = inspect.getsource(record) if names else ""
    for name in names:
        line = re.search(rf"^    {name}: ([^#=\n]+?)(?: = [^#\n]+?)?(?:  # (.+))?$", source, re.MULTILINE)
        if line:
            yield f":ivar {name}: ``{line[1].strip()}``{f'; {line[2]}' if line[2] else ''}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's hook."""
    app.add_transform(Links)
    app.add_transform(Pictures)
    app.connect("autodoc-process-docstring", as_markup)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
