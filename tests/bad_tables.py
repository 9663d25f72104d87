"""What must hold after a call that was refused, and the tables that such calls are made on."""

from __future__ import annotations

import contextlib
import uuid

import msgspec
import pyarrow as pa
import pytest

import figures
from moments import ends_soon
from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.env import Env
from siltstone.errors import InvalidInputError, SiltstoneError
from siltstone.format.frame import digest
from siltstone.format.records import decode_entry, encode_entry
from siltstone.format.table import decode_body, encode_body
from siltstone.store.memory import MemoryStore
from siltstone.store.probe import probe_once
from siltstone.testing.stores import FaultStore

SECRET = "canary-7f3a9c"
QUICK = Env(patience_s=0.2)
MESSAGE_MAX = 1200

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
    ]
)

# Where a string is wanted, and where a string of a certain form is.
NOT_TEXT = [7, 1.5, b"bytes", [], {}, (), {1}, Ellipsis, True, object(), 10**5000]
BAD_TEXT = ["", "  ", "a\0b", "a\nb", "\x1b[2J", "\ud800", "x" * 5000]
NO_SETTINGS = [
    *(None, 7, "x", [("a", "b")], {7: "a"}, {None: "x"}, {("a",): "b"}, {10**5000: "a"}),
    *({name: "x"} for name in ["", " ", "a b", "\ud800", "x" * 5000, "../x", "7"]),
    *({"a": value} for value in [7, "", b"x", "\ud800", "x" * 5000, [], True]),
    {"good": "x", "bad": 7},
]
NO_TYPE = [
    *(None, 7, "string", str, pa.null(), pa.float16(), pa.binary(0), pa.month_day_nano_interval(), pa.uuid()),
    *(pa.list_view(pa.int8()), pa.run_end_encoded(pa.int32(), pa.int64()), pa.dense_union([pa.field("a", pa.int8())])),
    *(pa.struct([]), pa.decimal128(5, -2), pa.timestamp("s", "Nowhere/Land")),
]
NO_COUNT = [-1, 1.5, "1", True, b"1", [], {}, float("nan"), float("inf"), 2**63, -(10**5000), 10**5000]


def row(id_, **values):
    return {"id": id_, "text": "x", "n": 1, "x": 1.0, "at": None, "price": None, **values}


def new_store():
    store = MemoryStore(f"bad-{uuid.uuid4().hex}")
    probe_once(store)  # so that faults meet the calls that are tested
    return FaultStore(store)


def new_table(store=None, *, key="id", versions=0):
    """Ids 0 to 7 in two fragments, 6 of them deleted; and so many versions more that change nothing but a setting."""
    table = create_table(store or new_store(), schema=SCHEMA, key=key, env=QUICK)
    table.append([row(one) for one in range(5)])
    table.append([row(one) for one in range(5, 8)])
    table.delete("id = 6")
    for number in range(versions):
        table.set({"turn": f"{number}"})
    return table


def store_of(table):
    """The store below the handle, which counts and scripts nothing."""
    return table._log.store.inner.inner


def print_of(store):
    """The log and all that it may name: what is written for a version that never was lies in data and vectors alone."""
    return [
        (info.key, digest(store.get(info.key, limit=2**30)))
        for info in store.list()
        if not info.key.startswith((paths.DATA, paths.VECTORS))
    ]


def check_told(error, *, hint=True):
    """An error of ours that says what to do, in one line that can be shown."""
    shown = str(error)
    assert isinstance(error, SiltstoneError)
    assert error.hint or not hint, shown
    assert shown.isprintable(), ascii(shown)
    assert len(shown) < MESSAGE_MAX, len(shown)
    causes, seen, one = [], set(), error
    while one is not None:
        assert id(one) not in seen, "an error is its own cause, and hides the one that it had"
        seen.add(id(one))
        causes.append(f"{one!r} {one} {getattr(one, 'facts', '')}")
        one = one.__cause__ or one.__context__
    assert SECRET not in " ".join(causes)


@contextlib.contextmanager
def told(*kinds, match=None, hint=True):
    """A block that must end soon, with an error of one of some kinds."""
    with ends_soon(), pytest.raises(kinds or InvalidInputError, match=match) as caught:
        yield caught
    check_told(caught.value, hint=hint)
    figures.record("bad inputs")


@contextlib.contextmanager
def refused(table, *kinds, match=None):
    """As ``told``; the table is as it was, to others too, and the handle goes on."""
    store, version = store_of(table), table.version
    before = print_of(store)
    with told(*kinds, match=match) as caught:
        yield caught
    assert print_of(store) == before
    assert table.version == version
    check_works(table)


def check_works(table):
    """A row that is appended can be read, here and by others."""
    number = 1_000_000 + table.version
    before = table.count()
    table.append([row(number)])
    assert table.count() == before + 1
    assert table.scan(["id"], where=f"id = {number}").to_arrow().to_pylist() == [{"id": number}]
    assert open_table(store_of(table), env=QUICK).version == table.version


def check_each(table, call, values, *kinds):
    """``call`` is refused with each of some values."""
    for value in values:
        try:
            with refused(table, *kinds):
                call(value)
        except BaseException as error:
            error.add_note(f"with {type(value).__name__} {ascii(value)[:80] if not isinstance(value, int) else ''}")
            raise


# -- damage ----------------------------------------------------------------------------------------


def damage(store, key, change):
    """Put something else in the place of an object."""
    store.put(key, change(store.get(key, limit=2**30)))


def resealed(data, change=lambda text: text, **header):
    """An entry that says something else, with a checksum that is right: its change as JSON text, or its header."""
    record, body = decode_entry(data, name="an entry")
    held = decode_body(body, name="an entry")
    body = encode_body(change(bytes(held.change)), prev=held.prev, before=held.before)
    return encode_entry(msgspec.structs.replace(record, **header), body)


def reseal(store, position, change=lambda text: text, **header):
    """Put such an entry in the place of one."""
    damage(store, paths.entry(paths.LOG, position), lambda data: resealed(data, change, **header))


def entry_key(position):
    return paths.entry(paths.LOG, position)


def keys(store, folder):
    return [info.key for info in store.list(folder)]


def flipped(data, at=0.5):
    """One bit is another one."""
    changed = bytearray(data)
    changed[int(len(data) * at)] ^= 4
    return bytes(changed)
