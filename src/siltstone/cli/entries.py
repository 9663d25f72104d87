"""Raw logs, entry by entry: ``entries list|add|truncate``. A table keeps its versions in one, below ``log/``."""

from __future__ import annotations

import contextlib
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from siltstone import paths
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.files import STDIN, open_file
from siltstone.cli.options import storage_options
from siltstone.cli.table_check import is_table
from siltstone.errors import InvalidInputError, NotFoundError, SiltstoneError
from siltstone.format.records import BODY_BYTES_MAX
from siltstone.log import Entry, Log, Mark, open_log
from siltstone.log.open import read_identity
from siltstone.store.connect import open_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from siltstone.cli.output import Output

_SHARD_LOG = re.compile(rf"(?:(.+)/)?{paths.SHARDS}/[^/]+/(?:{paths.MANIFEST[:-1]}|{paths.WAL[:-1]}(?:-\d+)?)")


@contextlib.contextmanager
def _opened(arguments: argparse.Namespace, *, create: bool = False, writer: str = "") -> Iterator[Log]:
    with open_log(
        arguments.uri,
        commits=arguments.commits,
        create=create,
        writer=writer,
        storage_options=storage_options(arguments),
    ) as log:
        yield log


def _check_raw(log: Log, arguments: argparse.Namespace, instead: str) -> None:
    """A table's logs hold versions and rows: an entry of another kind, or a missing one, would break the table."""
    if is_table(log):
        raise InvalidInputError(f"the log at {log.store.uri} is that of a table", hint=instead)
    found = _SHARD_LOG.fullmatch(arguments.uri.rstrip("/"))
    if found is None:
        return
    with open_store(found[1] or ".", storage_options(arguments)) as store:
        if read_identity(store, paths.LOG) is not None:
            raise InvalidInputError(
                f"the log at {log.store.uri} is that of a table's shard",
                hint="`siltstone put` and `siltstone merge` work on it, `siltstone tail` shows it",
            )


def mark_at(log: Log, position: int) -> Mark:
    """The mark in front of an entry; that of the first one there is where the log begins further on."""
    first = log.first()
    if position <= first.position:
        return first
    data = log.published(position - 1)
    if data is None:
        raise InvalidInputError(
            f"position {position} lies beyond the log, which ends at {log.tip().position}",
            hint="see `siltstone entries list`",
        )
    return log.read(data, position - 1).end


# -- list ----------------------------------------------------------------------------------------


def run_list(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``list``."""
    with _opened(arguments) as log:
        tip = log.tip()
        wanted = 0 if arguments.after is None else arguments.after + 1
        start = mark_at(log, min(max(wanted, tip.position - arguments.limit), tip.position))
        entries = list(log.entries(start, until=tip))
        floor = log.first().position
    entries.reverse()
    output.result(
        {
            "uri": log.store.uri,
            "log": log.identity.log,
            "floor": floor,
            "tip": tip.position,
            "epoch": tip.epoch,
            "entries": [_entry_document(entry) for entry in entries],
        }
    )
    heads = ("position", "time", "epoch", "op", "kind", "bytes", "writer")
    rows = [
        (
            e.position,
            time_text(e.time_ms),
            e.epoch,
            e.op,
            f"{e.kind}, dead" if e.dead else e.kind,
            len(e.body),
            e.writer,
        )
        for e in entries
    ]
    output.table(heads, rows, right=frozenset({"position", "epoch", "bytes"}))
    output.line(
        f"{len(entries)} of the entries {floor} to {tip.position - 1}" if tip.position > floor else "no entries"
    )
    return DONE


def time_text(milliseconds: int) -> str:
    """A label for people; whatever a writer's clock said, it is shown."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:23] + "Z"
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def _entry_document(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "time_ms": entry.time_ms,
        "epoch": entry.epoch,
        "op": entry.op,
        "kind": entry.kind,
        "dead": entry.dead,
        "bytes": len(entry.body),
        "writer": entry.writer,
        "digest": entry.digest,
    }


# -- add -----------------------------------------------------------------------------------------


def run_add(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``add``."""
    if arguments.op and (arguments.lines or len(arguments.files) > 1):
        raise UsageError("--op names one operation, so it goes with one FILE and without --lines")
    missing = next((name for name in arguments.files if name != STDIN and not Path(name).is_file()), None)
    if missing is not None:
        raise NotFoundError(f"there is no file {missing}", hint="name files, or - for standard input")
    appended: list[dict[str, Any]] = []
    end: Mark | None = None
    try:
        with _opened(arguments, create=arguments.create, writer=arguments.writer) as log:
            _check_raw(log, arguments, "add rows with `siltstone append`")
            for body in _bodies(arguments.files, lines=arguments.lines):
                end = log.add(body, epoch=arguments.epoch, op=arguments.op)
                appended.append({"position": end.position - 1, "epoch": end.epoch, "digest": end.digest})
                output.line(f"entry {end.position - 1}  {end.digest}")
    except SiltstoneError as error:
        error.facts["appended"] = len(appended)
        raise
    output.result({"uri": log.store.uri, "log": log.identity.log, "appended": appended})
    return DONE


def _bodies(files: list[str], *, lines: bool) -> Iterator[bytes]:
    for name in files:
        with _reading(name) as source:
            if not lines:
                # One byte more than is allowed, so that the log says that it is too much.
                yield source.read(BODY_BYTES_MAX + 1)
                continue
            while line := source.readline(BODY_BYTES_MAX + 2):
                yield line.removesuffix(b"\n").removesuffix(b"\r")


@contextlib.contextmanager
def _reading(name: str) -> Iterator[BinaryIO]:
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with open_file(name) as source:
        yield source


# -- truncate ------------------------------------------------------------------------------------


def run_truncate(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``truncate``."""
    with _opened(arguments) as log:
        _check_raw(log, arguments, "its versions are kept")
        done = log.truncate(mark_at(log, arguments.until))
    output.result({"uri": log.store.uri, "log": log.identity.log} | done._asdict())
    output.line(f"The log begins at entry {done.floor} now.")
    if done.deleted_below < done.floor:
        seconds = 2 * log.identity.trust_ms // 1000
        output.line(
            f"Entries {done.deleted_below} to {done.floor - 1} can be deleted in {seconds} s: run this again then."
        )
    if done.deleted_objects:
        output.line(f"{done.deleted_objects} objects were deleted.")
    return DONE
