"""The documents become a site that is whole, that loads nothing from elsewhere, and that has every public name."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from sphinx.util.inventory import InventoryFile

import siltstone
from siltstone import errors
from sources import ROOT

DOCS = ROOT / "docs"
PICTURES = [DOCS / "images" / f"how-it-works-{scheme}.svg" for scheme in ("light", "dark")]
# What a reader of the reference must find besides siltstone's own names.
OTHERS = (
    "siltstone.lance.commit_lock",
    "siltstone.testing.stores.FaultStore",
    "siltstone.testing.stores.Interleaves",
    "siltstone.testing.store_suite.StoreSuite",
    "siltstone.testing.registry_suite.RegistrySuite",
    "siltstone.testing.log_suite.LogSuite",
    "siltstone.testing.s3server.FaultServer",
    "siltstone.testing.sim.run.run_seed",
    "siltstone.Table.append",
    "siltstone.Table.merge_shards",
    "siltstone.Table.clone",
    "siltstone.Table.gc",
    "siltstone.Table.search",
    "siltstone.ShardWriter.put",
    "siltstone.Log.append",
)


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import docs  # noqa: PLC0415 - found only now

    return docs


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, made as `./run docs` does."""
    out = tmp_path_factory.mktemp("site") / "docs"
    command = [sys.executable, str(ROOT / "tools" / "docs.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def names_in(site):
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}


def public_names():
    """Every name that a user may import, as the reference calls it."""
    for name in siltstone.__all__:
        yield f"siltstone.{name}", getattr(siltstone, name)
    for module in (siltstone.query, siltstone.spark):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
    for name, one in vars(errors).items():
        if inspect.isclass(one) and issubclass(one, errors.SiltstoneError):
            yield f"siltstone.errors.{name}", one


def test_site__every_public_name__is_in_the_reference(site):
    missing = {name for name, _ in public_names()} | set(OTHERS)
    assert sorted(missing - names_in(site)) == []


def test_site__its_pages__are_those_of_the_documents(site):
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")} - {"search"}
    assert [page for page in sorted(pages) if not (site / f"{page}.html").exists()] == []
    # A page of that name and the site's own search would be one file.
    assert "searchindex.js" in (site / "search.html").read_text(encoding="utf-8")
    assert "Queries as text" in (site / "text-search.html").read_text(encoding="utf-8")
    assert 'href="text-search.html"' in (site / "index.html").read_text(encoding="utf-8")


def test_site__links_to_tests__lead_to_copies(site):
    page = (site / "explain" / "promises.html").read_text(encoding="utf-8")
    linked = re.findall(r'href="\.\./(_downloads/[^"]+\.py)"', page)
    assert len(linked) > 20
    assert [one for one in linked if not (site / one).exists()] == []


def test_site__the_picture__follows_the_scheme(site):
    page = (site / "explain" / "how-a-row-travels.html").read_text(encoding="utf-8")
    shown = re.findall(r'<img[^>]*class="(only-\w+)"[^>]*src="\.\./([^"]+)"', page)
    assert [scheme for scheme, _ in shown] == ["only-light", "only-dark"]
    assert all((site / path).exists() for _, path in shown)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<script src="https://x.example/y.js"></script>', ["a.html: loads https://x.example/y.js"]),
        ("a.html", '<link rel="stylesheet" href="//x.example/y.css">', ["a.html: loads //x.example/y.css"]),
        ("a.html", '<img src="http://x.example/y.png">', ["a.html: loads http://x.example/y.png"]),
        ("a.html", "<style>@import 'https://x.example/y.css';</style>", ["a.html: loads https://x.example/y.css"]),
        ("a.css", "body { background: url(https://x.example/y) }", ["a.css: loads https://x.example/y"]),
        ("a.html", '<a href="https://x.example/">x</a><img src="y.png"><link rel="icon" href="y.ico">', []),
        ("a.css", "body { background: url(\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org'\") }", []),
    ],
)
def test_foreign_loads__one_file__is_judged(tool, tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    assert list(tool.foreign_loads(tmp_path)) == found


def test_docstrings__of_public_names__say_a_sentence():
    silent = []
    for name, thing in public_names():
        first = (inspect.getdoc(thing) or "").split("\n\n")[0].rstrip()
        if name != "siltstone.__version__" and not (len(first.split()) >= 3 and first.endswith((".", ":", ")"))):
            silent.append(f"{name}: {first}")
    assert silent == []


def test_recover_page__every_error__is_on_it_once():
    page = (DOCS / "how-to" / "recover.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+Error)` \|", page, re.MULTILINE)
    classes = [name for name, one in public_names() if inspect.isclass(one) and issubclass(one, errors.SiltstoneError)]
    assert sorted(rows) == sorted(name.rpartition(".")[2] for name in classes if not name.endswith(".SiltstoneError"))


def test_pictures__light_and_dark__differ_in_colours_alone():
    light, dark = (re.sub(r"<style>.*</style>", "", path.read_text(), flags=re.DOTALL) for path in PICTURES)
    assert light == dark
    for path in PICTURES:
        picture = ET.fromstring(path.read_text())
        assert picture.get("viewBox") == "0 0 800 560"
        assert not re.search(r"(href|url)\s*[=(]\s*['\"]?https?:", path.read_text())
