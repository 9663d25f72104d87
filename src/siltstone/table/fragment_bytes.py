"""The bytes of one fragment: its footer, checked, and any ranges of the rest.

What must hold:
- The object has exactly the bytes and rows that the fragment's record says, or it is corrupt; one that is gone is
  missing. Both errors name it.
- A range comes whole or not at all.
- The end of the object is kept: in a small fragment that is all of it, and no further request is made.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar, cast

import pyarrow as pa

from siltstone import paths
from siltstone.errors import CorruptionError, MissingObjectError, NotFoundError, UnavailableError
from siltstone.format import seal
from siltstone.format.parquet import MAGIC, TRAILER_BYTES, Range, footer_start, parse_footer
from siltstone.store.origins import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.format.table import Fragment
    from siltstone.store.base import Store

TAIL_BYTES = 64 * 1024

T = TypeVar("T")

_PARSED_PER_BYTE = 8  # what a footer takes in memory, for each of its bytes


class FragmentBytes:
    """A fragment's object, open. Opening it takes one request, or two where its footer is long."""

    def __init__(self, store: Store, fragment: Fragment) -> None:
        self.fragment = fragment
        self.store, self.key = resolve(store, paths.data(fragment.name))
        if fragment.bytes < len(MAGIC) + TRAILER_BYTES:
            raise self.corrupt(f"a fragment of {fragment.bytes} bytes is none")
        self._read_tail()
        start = footer_start(self._tail, size=fragment.bytes, name=self.key)
        if start - self._tail_start < seal.END_BYTES:
            # The table of checksums of a sealed file is shorter than half its footer.
            self._extend_tail(start - (fragment.bytes - start) // 2 - seal.END_BYTES)
        end = self._tail[start - self._tail_start :]
        sealed = seal.is_sealed(self._before(start))
        if sealed:
            seal.check_footer(self._before(start), end, name=self.key)
        self.footer = parse_footer(end, start=start, name=self.key)
        rows = sum(group.rows for group in self.footer.groups)
        if rows != fragment.rows:
            raise self.corrupt(f"it has {rows} rows, not the {fragment.rows} of its record")
        self.sums = self._read_sums(start, sealed=sealed)
        self.nbytes = len(self._tail) + len(end) * _PARSED_PER_BYTE

    def fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of some ranges, with one request for those that are not kept."""
        away = [one for one in ranges if one.start < self._tail_start]
        if not away:
            return [self._kept(one) for one in ranges]
        found = self._get(away)
        for part, one in zip(found, away, strict=True):
            if len(part) != one.end - one.start:
                raise self.corrupt(f"it ends before byte {one.end}")
        if len(away) == len(ranges):
            return found
        parts = iter(found)
        return [self._kept(one) if one.start >= self._tail_start else next(parts) for one in ranges]

    def fetch_whole(self, ranges: Sequence[Range]) -> list[bytes]:
        """What ``fetch`` gives, as anything that holds bytes: from a local disk, in memory that was used before.

        To clear fresh memory for large ranges takes longer than to read them, so they are read into Arrow's memory,
        which it uses again and again.
        """
        if self.store.traits.kind != "file":
            return self.fetch(ranges)
        return [self._kept(one) if one.start >= self._tail_start else self._read_into_arrow(one) for one in ranges]

    def _read_into_arrow(self, one: Range) -> bytes:
        space = pa.allocate_buffer(one.end - one.start)
        count = self._asked(lambda: self.store.read_into(self.key, one.start, memoryview(space).cast("B")))
        if count != one.end - one.start:
            raise self.corrupt(f"it ends before byte {one.end}")
        return cast("bytes", space)

    def check_kept(self) -> None:
        """Compare what is kept with the object, for readers that read it anew."""
        # One byte more, as when it was opened.
        if self._get([Range(self._tail_start, self.fragment.bytes + 1)])[0] != self._tail:
            raise self.corrupt("its end changed since it was written")

    def corrupt(self, reason: str) -> CorruptionError:
        """The error that says what is wrong with this fragment."""
        return CorruptionError(f"{self.key} is damaged: {reason}", hint="restore it from a copy", object=self.key)

    def _kept(self, one: Range) -> bytes:
        return self._tail[one.start - self._tail_start : one.end - self._tail_start]

    def _before(self, start: int) -> bytes:
        """The bytes before the footer that tell whether the file is sealed."""
        place = start - self._tail_start
        return self._tail[max(0, place - seal.END_BYTES) : place]

    def _read_tail(self) -> None:
        size = self.fragment.bytes
        self._tail_start = max(0, size - TAIL_BYTES)
        # One byte more than there should be, so that a longer object is found out.
        self._tail = self._get([Range(self._tail_start, size + 1)])[0]
        if len(self._tail) != size - self._tail_start:
            raise self.corrupt(f"it does not have the {size} bytes of its record")
        # The one chance to check all of it at no cost.
        if not self._tail_start and hashlib.sha256(self._tail).hexdigest() != self.fragment.sha256:
            raise self.corrupt("its bytes are not those that were written")

    def _extend_tail(self, start: int) -> None:
        start = max(0, start)
        if start < self._tail_start:
            self._tail = self.fetch([Range(start, self._tail_start)])[0] + self._tail
            self._tail_start = start

    def _read_sums(self, start: int, *, sealed: bool) -> seal.Sums:
        leaves = len(self.footer.groups[0].chunks)
        if not sealed:
            return seal.Sums(b"", Range(0, 0), leaves=leaves, name=self.key)
        where = seal.table_range(self.footer, start=start, name=self.key)
        return seal.Sums(self.fetch([where])[0], where, leaves=leaves, name=self.key)

    def _get(self, ranges: Sequence[Range]) -> list[bytes]:
        return self._asked(lambda: self.store.get_ranges(self.key, ranges))

    def _asked(self, ask: Callable[[], T]) -> T:
        """What the store answers; its errors say which fragment is gone or of another size."""
        try:
            return ask()
        except NotFoundError as error:
            raise MissingObjectError(
                f"the fragment {self.key} is gone from {self.store.uri}",
                hint="open the table again, if it was dropped or this version collected; or restore it from a copy",
                object=self.key,
            ) from error
        except UnavailableError as error:
            # Most stores refuse a range that begins past the end.
            info = self.store.head(self.key)
            if info is not None and info.size != self.fragment.bytes:
                raise self.corrupt(f"it has {info.size} bytes, not the {self.fragment.bytes} of its record") from error
            raise
