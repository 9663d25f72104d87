"""A corpus of English prose, made of documentation packages of Debian's that anyone can fetch by name.

What must hold: the same packages give the same rows in the same order. A row is one section of a document: its text
without markup, at least ``SECTION_MIN`` characters, mostly prose, and never twice.
"""

from __future__ import annotations

import gzip
import html
import re
import shutil
import subprocess
import sys
import tarfile
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

# Prose first. A name without a version stands for the documentation packages that it depends on, too.
PACKAGES = (
    "anarchism", "debian-handbook", "debian-reference-en", "developers-reference", "debian-policy", "linux-doc",
    "postgresql-doc", "python3-doc", "perl-doc", "python-django-doc", "dict-gcide", "dict-foldoc",
    "libreoffice-help-en-us", "gimp-help-en", "octave-doc", "maxima-doc", "sqlite3-doc", "cmake-data", "racket-doc",
    "lilypond-doc-html", "python-scipy-doc", "python-pandas-doc", "python-sklearn-doc", "erlang-doc",
    "libstdc++-12-doc", "qtbase5-doc-html", "libboost-doc", "default-jdk-doc", "rust-doc", "ghc-doc", "twisted-doc",
    "python-astropy-doc", "derby-doc", "sagemath-doc", "libgtkmm-3.0-doc", "vtk9-doc",
)  # fmt: skip
MEGABYTES = 256
SECTION_MIN, SECTION_MAX = 200, 4_000
PROSE = 1 / 12  # of a section's words are among the commonest ones, at least
CHUNK_ROWS = 10_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("path", pa.string()), ("text", pa.string())])

_HTML = (".html", ".htm", ".xhtml")
_PLAIN = (".txt", ".md", ".pod", ".info", ".text", ".dict", ".dict.dz")
# Other languages, and the sources of pages that are there as HTML.
_OTHERS = re.compile(
    r"(?<![a-z])(de|fr|es|it|ja|ru|pt|pt-br|zh|zh-cn|cs|pl|nl|sv|fi|hu|ca|tr|ko)(?![a-z])|translations|_sources/"
)
_DROPPED = re.compile(r"<(script|style|nav|header|footer|head)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"<h[1-6]\b", re.IGNORECASE)
_BLOCK = re.compile(r"</?(?:p|div|li|tr|table|pre|br|dt|dd|h[1-6]|ul|ol|section|td)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")
_PARAGRAPH = re.compile(r"\n\s*\n")
_WORD = re.compile(r"[A-Za-z]+")
_COMMON = re.compile(r"\b(?:the|of|to|and|a|in|is|that|for|it|be|are|with|as|this|not|or|by|on|if|an)\b", re.IGNORECASE)


def corpus(directory: Path, megabytes: int = MEGABYTES) -> Path:
    """The file of a corpus with so many megabytes of text; made where it is not there yet."""
    rules = blake2b(Path(__file__).read_bytes(), digest_size=4).hexdigest()  # other rules, another corpus
    path = directory / f"english-{megabytes}-{rules}.parquet"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        made = directory / f"{path.name}.new"
        size = _write(made, _sections(directory / "packages"), megabytes * 1_000_000)
        if size < megabytes * 1_000_000:
            made.unlink()
            sys.exit(f"the packages have {size / 1e6:.0f} MB of text, not {megabytes}: choose fewer with --megabytes")
        made.rename(path)
    return path


def load(path: Path, rows: int | None) -> pa.Table:
    """The rows of a corpus, numbered by ``id``, or so many of them, from all over it."""
    table = pq.read_table(path, columns=["path", "text"])
    if rows is not None and rows < len(table):
        table = table.take(pa.array([number * len(table) // rows for number in range(rows)]))
    ids = pa.array(range(len(table)), pa.int64())
    return pa.Table.from_arrays([ids, *(table[name].cast(pa.string()) for name in ("path", "text"))], schema=SCHEMA)


def _write(path: Path, sections: Iterator[tuple[str, str]], size_max: int) -> int:
    size, rows, paths, texts = 0, 0, [], []
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:

        def flush() -> None:
            ids = pa.array(range(rows - len(texts), rows), pa.int64())
            writer.write_table(pa.Table.from_arrays([ids, pa.array(paths), pa.array(texts)], schema=SCHEMA))
            paths.clear()
            texts.clear()

        for where, text in sections:
            paths.append(where)
            texts.append(text)
            size += len(text.encode())
            rows += 1
            if len(texts) == CHUNK_ROWS:
                flush()
            if size >= size_max:
                break
        flush()
    return size


# -- sections ------------------------------------------------------------------------------------


def _sections(packages: Path) -> Iterator[tuple[str, str]]:
    """Sections of all packages, each once."""
    apt = Apt(packages)
    seen: set[bytes] = set()
    for name in PACKAGES:
        size, rows = 0, 0
        for package in apt.named(name):
            for path, document in _documents(package):
                for text in sections_of(path, document):
                    digest = blake2b(text.encode(), digest_size=12).digest()
                    if digest not in seen:
                        seen.add(digest)
                        size, rows = size + len(text), rows + 1
                        yield f"{name}/{path}", text
        print(f"  {name:<28} {rows:>8,} sections {size / 1e6:>8.1f} MB", file=sys.stderr)


def _documents(package: Path) -> Iterator[tuple[str, str]]:
    """Paths and texts of a package's documents."""
    # Who has enough text stops in the middle, which dpkg-deb would complain about.
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        with tarfile.open(fileobj=child.stdout, mode="r|") as archive:
            for member in archive:
                path = member.name.removeprefix("./usr/share/")
                kind = path.removesuffix(".gz").lower()
                if not member.isfile() or not kind.endswith(_HTML + _PLAIN) or _OTHERS.search(kind):
                    continue
                data = _unpacked(path, archive.extractfile(member))
                yield path.removesuffix(".gz"), data.decode("utf-8", errors="replace")
        child.stdout.read()  # what pads the archive
    assert child.returncode == 0, f"{package} can't be unpacked"


def _unpacked(path: str, file: IO[bytes] | None) -> bytes:
    assert file is not None
    data = file.read()
    if not path.endswith((".gz", ".dz")):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):  # a name can be wrong about what is inside
        return b""


def sections_of(path: str, document: str) -> Iterator[str]:
    """The texts of a document's sections, without markup."""
    if path.lower().endswith(_HTML):
        pieces = [_stripped(piece) for piece in _HEADING.split(_DROPPED.sub(" ", document))]
    else:
        pieces = [document]
    for piece in pieces:
        for text in _cut(piece):
            if len(text) >= SECTION_MIN and _is_prose(text):
                yield text


def _stripped(piece: str) -> str:
    # The split took the beginning of the heading's tag: the rest of that tag goes, too.
    text = _TAG.sub("", _BLOCK.sub("\n\n", f"<h1 {piece}"))
    return _SPACES.sub(" ", html.unescape(text))


def _cut(text: str) -> Iterator[str]:
    """A text in pieces of whole paragraphs, where it is long."""
    piece: list[str] = []
    size = 0
    for paragraph in _PARAGRAPH.split(text):
        words = _LINES.sub("\n", paragraph).strip()[:SECTION_MAX]
        if size + len(words) > SECTION_MAX // 2 and size >= SECTION_MIN:
            yield "\n".join(piece)
            piece, size = [], 0
        if words:
            piece.append(words)
            size += len(words) + 1
    yield "\n".join(piece)


def _is_prose(text: str) -> bool:
    words = len(_WORD.findall(text))
    return words >= 30 and len(_COMMON.findall(text)) >= words * PROSE


# -- packages ------------------------------------------------------------------------------------


class Apt:
    """Packages from wherever this machine's apt gets its own. Nothing is installed, and no rights are needed."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            sys.exit(
                "the corpus is made of Debian packages, which need apt-get and dpkg-deb: or name a file by --corpus"
            )
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        # Lists of our own: those of the machine may be old, or not there, and take root to renew.
        self._own = [f"-oDir::State={directory / 'state'}", f"-oDir::Cache={directory / 'cache'}"]
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (directory / folder).mkdir(parents=True, exist_ok=True)
        self._run("apt-get", "update")

    def named(self, name: str) -> list[Path]:
        """The files of a package and of the documentation that it stands for; none where there is no such package."""
        shown = self._run("apt-cache", "depends", "--important", name)
        needed = re.findall(r"^\s+Depends: (\S*-doc\S*)$", shown, re.MULTILINE)
        return [path for one in (name, *needed) for path in self._fetched(one)]

    def _fetched(self, name: str) -> list[Path]:
        there = f"{name}_*.deb"
        if not list(self._directory.glob(there)):
            self._run("apt-get", "download", name)
        return sorted(self._directory.glob(there))

    def _run(self, *command: str) -> str:
        program, *rest = command
        done = subprocess.run(
            [program, *self._own, "-qq", *rest], cwd=self._directory, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(f"  {' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)
        return done.stdout
