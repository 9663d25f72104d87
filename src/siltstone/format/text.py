"""The records of text indexes: what the log says of them, and the objects of a build.

What must hold:
- The log names an index's segments, each by its build and the digest of the build's marker. The marker names the files;
  what it does not name, nobody reads.
- A build has a log of its own: its first entry is the plan, and of each item the first entry is the one that counts.
  The marker follows from them, so whoever writes it writes the same bytes.
- Files are named by the plan's numbering: ``part_<item>_<k>.text``, the k-th file of the item. Nothing in ``staging/``
  is ever named by a marker.

The objects of a build, below ``indexes/<build>/``:

==========================================  =============================================================
``log/...``                                 its log: the plan, then who made which item
``staging/part_<item>_<attempt>_<k>.text``  what an attempt made
``part_<item>_<k>.text``                    a part
``metadata``                                the marker: all parts are there
==========================================  =============================================================
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from siltstone.format.names import Count, FieldId, Label, Name  # noqa: TC001 - msgspec reads them at run time
from siltstone.format.packed import pack_json, unpack_json
from siltstone.format.records import Digest, Id, decode_json

MARKER_BYTES_MAX = 256 * 1024 * 1024
FRAGMENTS_PER_ITEM_MAX = 100_000
ITEMS_MAX = 100_000
TOKEN_BYTES_MAX = 255
NGRAM_MAX = 16

Tokenizer = Literal["simple", "whitespace", "raw", "ngram"]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Analyzer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a text becomes tokens. Two that are equal give the same tokens, in every version of siltstone."""

    tokenizer: Tokenizer = "simple"
    language: Annotated[str, msgspec.Meta(pattern=r"^[a-z_]{1,32}\Z")] = "english"
    lower: bool = True
    stem: bool = True
    stop_words: bool = True
    fold: bool = True  # letters without their accents
    positions: bool = True  # kept, so that phrases can be found
    ngram_min: Annotated[int, msgspec.Meta(ge=1, le=NGRAM_MAX)] = 3
    ngram_max: Annotated[int, msgspec.Meta(ge=1, le=NGRAM_MAX)] = 3
    max_token_bytes: Annotated[int, msgspec.Meta(ge=1, le=TOKEN_BYTES_MAX)] = (
        TOKEN_BYTES_MAX  # longer ones are left out
    )


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finished build, as the log names it: ``indexes/<build>/``."""

    build: Name
    digest: Digest  # of the marker's JSON
    bytes: Count  # of the marker
    parts: Count = 0
    rows: Count = 0  # documents, and what they take
    stored_bytes: Count = 0
    fragments: Count = 0


class TextIndex(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An index of a table: its column, its analyzer, and the segments that cover fragments."""

    id: Id  # another one of the same name has another
    field: FieldId
    analyzer: Analyzer = Analyzer()
    segments: tuple[Segment, ...] = ()


class Covered(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A fragment of a part, or some rows of one, from ``first`` on: they are the next documents of it."""

    name: Name
    rows: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    first: Size = 0


class Page(msgspec.Struct, frozen=True, array_like=True):
    """A dictionary page of a part: its first term (UTF-8; as base64 in JSON), and where it is."""

    first: bytes
    offset: Count
    length: Size
    check: Count  # its checksum


class PartFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader needs to begin in the middle of a part. It is also at the end of the part."""

    documents: Size
    tokens: Count
    terms: Size
    postings: Count
    positions: bool
    lengths: tuple[Count, Size, Count]  # offset, length and checksum of the lengths of documents
    nulls: Size = 0  # documents that are null
    pages: tuple[Page, ...] = ()


class PartFile(PartFacts, frozen=True, kw_only=True, omit_defaults=True):
    """A part: its file, and the fragments that its documents are."""

    name: Annotated[str, msgspec.Meta(pattern=r"^part_[0-9]{1,6}_[0-9]{1,6}\.text\Z")]
    bytes: Count
    sha256: Digest
    fragments: tuple[Covered, ...]


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An older segment's part that has some of an item's fragments already."""

    segment: Segment
    part: Annotated[str, msgspec.Meta(pattern=r"^part_[0-9]{1,6}_[0-9]{1,6}\.text\Z")]


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of work: fragments to index, in order. Those that a source has are taken from there, not from texts."""

    fragments: tuple[Covered, ...]
    sources: tuple[Source, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A build: what is to be indexed, how, and by which items. Fixed when it begins."""

    build: Name
    name: Label  # of the index
    index: Id
    field: FieldId
    analyzer: Analyzer
    version: Count  # of the table, whose fragments it covers
    items: tuple[Item, ...]
    replaces: tuple[Segment, ...] = ()
    new: bool = False  # the index comes into being with it


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt made of an item: its files, by their final names; in staging they carry the attempt."""

    item: Count
    attempt: Id
    plan: Digest
    parts: tuple[PartFile, ...]


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The commit marker of a build: all of its parts, with what was hashed."""

    plan: Digest
    build: Name
    index: Id
    field: FieldId
    analyzer: Analyzer
    parts: tuple[PartFile, ...]


def encode(record: Plan | Staged | Marker) -> bytes:
    """A record as it stands in its object."""
    return pack_json(plain(record))


def plain(record: Plan | Staged | Marker) -> bytes:
    """A record's JSON, which its digest is of: compressors differ from version to version."""
    return msgspec.json.encode(record)


def decode_plan(data: bytes, *, name: str) -> Plan:
    """The plan of a build."""
    return decode_json(unpack_json(data, name=name), Plan, name)


def decode_staged(data: bytes, *, name: str) -> Staged:
    """What was staged of an item."""
    return decode_json(unpack_json(data, name=name), Staged, name)


def decode_marker(data: bytes, *, name: str) -> Marker:
    """The marker of a build."""
    return decode_json(unpack_json(data, name=name), Marker, name)
