"""A table of very many appends, written without making them: its log and rollups as its writers would have left them.

What must hold: a reader can't tell it from a real one until it reads rows. Rollups that no reader of the newest
version opens are there by name only.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
from common import SPAWN
from table_peers import SILTSTONE, Place, create, open_table
from table_rows import make_range

from siltstone import open_log, paths
from siltstone.format.frame import digest
from siltstone.format.records import Header, Hint, decode_hint, encode_entry, encode_hint
from siltstone.format.rollup import VERSION_COLUMNS, Live, Summary, encode_rollup, to_columns
from siltstone.format.table import BLOCK, Bounds, Repeated, encode_body, encode_change
from siltstone.ids import SystemIds
from siltstone.log.log import HINT_EVERY, HINT_EVERY_CHEAP
from siltstone.table.history import LEVEL, ROLLUP_EVERY, History
from siltstone.testing.s3server import Faults
from siltstone.testing.s3server.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.format.table import Change, Fragment, Schema
    from siltstone.table.state import Step
    from siltstone.testing.s3server.s3 import S3Service

ROWS = 100  # of an append
BUCKET = "bkt"
ROOM_BYTES = 2_000_000_000


class Written(NamedTuple):
    """An entry that was written, as later ones and rollups need it."""

    op: str
    digest: str
    time_ms: int
    raw: bytes
    fragment: Fragment | None


def write_long_table(directory: Path, *, appends: int) -> Place:
    """A table after this many appends; only the first left a data file."""
    place = Place(SILTSTONE, str(directory))
    create(place)
    with open_table(place) as table:
        table.append(make_range(0, count=ROWS))
    with open_log(directory, root=paths.LOG, sync=False) as log:
        history = History(log)
        first = list(history.steps(log.start))
        schema = history.newest().schema
    last_rollup = (appends + 1) // ROLLUP_EVERY * ROLLUP_EVERY
    written = [_as_written(step) for step in first]
    template = first[1].change
    assert template is not None
    ids = SystemIds()
    for position in range(len(first), appends + 1):
        change = _appended(template, position, key=str(schema.fields[0].id), id_=ids.new())
        raw = encode_change(change)
        before = written[position - position % BLOCK :] if position > last_rollup else []
        prev = written[position - position % BLOCK - 1].digest if before else ""
        body = encode_body(raw, prev=prev, before=tuple(map(_repeated, before)))
        header = Header(
            log=log.identity.log,
            position=position,
            epoch=0,
            op=ids.new(),
            nonce=ids.new(),
            prev=written[-1].digest,
            time_ms=first[1].time_ms + position,
        )
        data = encode_entry(header, body)
        (directory / paths.entry(paths.LOG, position)).write_bytes(data)
        written.append(Written(header.op, digest(data), header.time_ms, raw, change.add[0]))
    hint_path(directory).write_bytes(_hint(log.identity.log, len(written), every=HINT_EVERY_CHEAP))
    _write_rollups(directory, written, schema, log=log.identity.log, last=last_rollup)
    return place


def roomy_memory() -> str | None:
    """A directory in memory with room for such a table, if any: some disks take minutes to delete 100,000 files."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES else None


def hint_path(directory: Path) -> Path:
    return directory / f"{paths.LOG}{paths.HINT}"


def _hint(log: str, entries: int, *, every: int) -> bytes:
    """The last hint that writers left, which do so every so often."""
    return encode_hint(Hint(log=log, position=entries // every * every))


def _as_written(step: Step) -> Written:
    added = step.change.add if step.change is not None else ()
    return Written(step.op, step.digest, step.time_ms, step.raw, added[0] if added else None)


def _appended(template: Change, position: int, *, key: str, id_: str) -> Change:
    """The change of a later append: a file of its own, and the keys behind those of the append before."""
    low = (position - 1) * ROWS
    fragment = msgspec.structs.replace(
        template.add[0],
        name=paths.name(position - 1, id_),
        bounds={**template.add[0].bounds, key: Bounds(low, low + ROWS - 1, 0)},
    )
    return msgspec.structs.replace(template, add=(fragment,))


def _repeated(one: Written) -> Repeated:
    return Repeated(op=one.op, digest=one.digest, time_ms=one.time_ms, change=msgspec.Raw(one.raw))


def _write_rollups(directory: Path, written: list[Written], schema: Schema, *, log: str, last: int) -> None:
    """The rollups that a reader opens, and the names of the others, which a listing meets."""
    (directory / paths.ROLLUPS).mkdir(exist_ok=True)
    for position in range(ROLLUP_EVERY, last, ROLLUP_EVERY):
        (directory / paths.rollup(position)).touch()
    fragments = to_columns([Live(one.fragment, None) for one in written if one.fragment is not None])
    ops = pa.array([bytes.fromhex(one.op) for one in written], pa.binary(16))
    versions = pa.table({"op": ops, "time_ms": [one.time_ms for one in written]}, schema=VERSION_COLUMNS)
    since = 0
    for position in _chain(last):
        start = max(since - 1, 0)  # the entry that creates the table adds no fragment
        data = encode_rollup(
            Summary(schema=schema),
            fragments.slice(start, position - 1 - start),
            versions.slice(since, position - since),
            log=log,
            since=since,
            position=position,
            epoch=0,
            digest=written[position - 1].digest,
        )
        (directory / paths.rollup(position)).write_bytes(data)
        since = position


def _chain(last: int) -> list[int]:
    """The positions of the rollups that one stands on, and its own, ascending."""
    chain, every = {last}, ROLLUP_EVERY * LEVEL
    while every <= last:
        chain.add(last - last % every)
        every *= LEVEL
    return sorted(chain)


# -- the same on S3 ------------------------------------------------------------------------------


@contextmanager
def served(directory: Path) -> Iterator[Place]:
    """The table on an S3 server in a process of its own."""
    here, there = SPAWN.Pipe()
    child = SPAWN.Process(target=_serve, args=(directory, os.getpid(), there), daemon=True)
    child.start()
    try:
        options = {
            "aws_access_key_id": "siltstone",
            "aws_secret_access_key": "siltstone",
            "aws_region": "us-east-1",
            "aws_endpoint": f"http://127.0.0.1:{here.recv()}",
        }
        yield Place(SILTSTONE, f"s3://{BUCKET}/table", storage_options=options)
    finally:
        child.terminate()
        child.join()


def _serve(directory: Path, owner: int, ready: Any) -> None:
    hint = decode_hint(hint_path(directory).read_bytes())
    assert hint is not None
    # Where looking is not cheap, hints are rarer: the last one is further back.
    rarer = _hint(hint.log, hint.position, every=HINT_EVERY)

    def fill(service: S3Service) -> None:
        bucket = service.buckets.get(BUCKET)
        for path in directory.rglob("*"):
            if path.is_file():
                data = rarer if path == hint_path(directory) else path.read_bytes()
                bucket.put(f"table/{path.relative_to(directory).as_posix()}", data, headers=())

    async def run() -> None:
        stop = asyncio.Event()
        await serve(Faults(), buckets=(BUCKET,), port=0, on_ready=ready.send, stop=stop, owner=owner, fill=fill)

    asyncio.run(run())
