"""Witnesses of a range that is about to be removed, compared with what was folded.

What must hold:
- A witness of something else than was folded is kept as ``lost/<n>/<nonce>`` before any witness of the range goes.
- What was folded is what the floor names, and from there down what each entry says of the one before it. A place may
  hold something else by now, on a store that overwrites; then the bytes may be in their witness.
- Comparing ends at a place that is empty: it had been compared before it was emptied.
- On a store that keeps its word nothing is set aside: who wins a place leaves its witness there, and nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.errors import NotFoundError, SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.log.marks import Entry, Mark
    from siltstone.log.reader import LogReader

READ_TOGETHER = 256

Keys = dict[int, list[tuple[str, str]]]  # position -> key and nonce of each witness


def set_aside(log: LogReader, below: Mark) -> list[Entry]:
    """Keep what witnesses below a floor tell of operations that are neither folded nor in the log; these."""
    witnesses = _listed(log, below.position)
    folded: set[str] = set()
    others = {entry.nonce: entry for entry in _unfolded(log, below, witnesses, folded)}
    _forget(log, folded)
    lost = [entry for entry in others.values() if _matters(entry, below, folded)]
    if lost:
        behind = _ops_behind(log, below)
        lost = [entry for entry in lost if entry.kind == "fence" or entry.op not in behind]
    return [entry for entry in lost if _kept(log, entry)]


def _listed(log: LogReader, below: int) -> Keys:
    found: Keys = {}
    for info in log.store.list(f"{log.root}{paths.WITNESS}"):
        parsed = paths.parse_witness(log.root, info.key)
        if parsed is not None and parsed[0] >= below:
            break
        if parsed is not None:
            found.setdefault(parsed[0], []).append((info.key, parsed[1]))
    return found


def _unfolded(log: LogReader, below: Mark, witnesses: Keys, folded: set[str]) -> Iterator[Entry]:
    """Witnesses of something else than was folded; the operations that were go to ``folded``."""
    want = below.digest
    for position, data in _downwards(log, below.position):
        if data is None:
            return
        entry = _read(log, data, position)
        here = witnesses.get(position, [])
        if entry is not None and entry.digest == want:
            found = [_read(log, _get(log, key), position) for key, nonce in here if nonce != entry.nonce]
        else:
            found = [_read(log, _get(log, key), position) for key, _ in here]
            entry = next((one for one in found if one is not None and one.digest == want), entry)
        yield from (one for one in found if one is not None and one.digest != want)
        if entry is not None and entry.digest == want:
            folded.add(entry.op)
        want = entry.prev if entry is not None else ""


def _downwards(log: LogReader, stop: int) -> Iterator[tuple[int, bytes | None]]:
    """What is published below a position, the highest first."""
    while stop > 0:
        start = max(0, stop - READ_TOGETHER)
        found = list(log.published_many(start, stop))
        yield from zip(range(stop - 1, start - 1, -1), reversed(found), strict=True)
        stop = start


def _get(log: LogReader, key: str) -> bytes | None:
    try:
        return log.store.get(key)
    except NotFoundError:  # another collector has compared it, and removes it now
        return None


def _read(log: LogReader, data: bytes | None, position: int) -> Entry | None:
    try:
        return None if data is None else log.read(data, position)
    except SiltstoneError:  # damaged bytes are nobody's; ``verify`` told of them as long as they were in the log
        return None


def _matters(entry: Entry, below: Mark, folded: set[str]) -> bool:
    """A fence does its work by its epoch, whoever wrote it; an abort entry has none to do."""
    return entry.op not in folded if entry.kind == "data" else entry.kind == "fence" and entry.epoch > below.epoch


def _ops_behind(log: LogReader, mark: Mark) -> set[str]:
    """The operations behind a mark: ``repair`` appends there what was lost."""
    try:
        return {entry.op for entry in log.entries(mark)}
    except SiltstoneError:  # a log that can't be read proves nothing
        return set()


def _kept(log: LogReader, entry: Entry) -> bool:
    source = paths.witness(log.root, entry.position, entry.nonce)
    try:
        log.store.copy(source, paths.lost(log.root, entry.position, entry.nonce))
    except NotFoundError:  # as above
        return False
    return True


def _forget(log: LogReader, folded: set[str]) -> None:
    """Remove what is kept of operations that were appended again, and go now because they are folded."""
    done = []
    for info in log.store.list(f"{log.root}{paths.LOST}"):
        parsed = paths.parse_lost(log.root, info.key)
        entry = None if parsed is None else _read(log, _get(log, info.key), parsed[0])
        if entry is not None and entry.op in folded:
            done.append(info.key)
    if done:
        log.store.delete(done)
