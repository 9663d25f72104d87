"""Whatever bytes a decoder is given: what was written comes back, and everything else is refused in our words."""

from __future__ import annotations

import random
import struct
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import figures
from siltstone.errors import CorruptionError, UnsupportedFormatError
from siltstone.format import frame, records
from siltstone.format.describe import describe
from siltstone.format.records import Floor, Header, Hint, Identity
from siltstone.log.marks import read_entry

MUTATIONS = 2000
ALLOCATION_MAX = 4 * 1024 * 1024
A, B = "a1" * 16, "b2" * 16
HEADER = Header(log=A, position=7, epoch=2, op=B, nonce=A, prev="c3" * 32, writer="me", time_ms=1)
IDENTITY = Identity(log=A, commits="sqlite", commits_identity=B, commits_uri="sqlite:///x.db", created_ms=1)

ENTRY = records.encode_entry(HEADER, b"a body that is long enough to be cut and turned")
WRITTEN = {
    "frame": frame.wrap(b'{"a":1}', b"body"),
    "identity": records.encode_identity(IDENTITY),
    "entry": ENTRY,
    "floor": records.encode_floor(Floor(log=A, position=7, epoch=1, digest="d4" * 32)),
}
DECODERS = {
    "frame": lambda data: frame.unwrap(data, name="it"),
    "identity": lambda data: records.decode_identity(data, name="it"),
    "entry": lambda data: records.decode_entry(data, name="it"),
    "floor": lambda data: records.decode_floor(data, name="it"),
}
HINT = records.encode_hint(Hint(log=A, position=12))


def decode(kind, data):
    """What a decoder says: its value, or the name of the error it may raise."""
    try:
        return DECODERS[kind](data)
    except (CorruptionError, UnsupportedFormatError) as error:
        return type(error).__name__ if error.facts["object"] == "it" else f"an error about {error.facts}"


def reframed(kind, change):
    """An object whose header was changed by someone who also made the checksum right."""
    header, body = frame.unwrap(WRITTEN[kind], name="it")
    fields = msgspec.json.decode(header)
    return frame.wrap(msgspec.json.encode({**fields, **change}), body)


def mutate(data, chance):
    """The same bytes with a few of them changed, moved, doubled, cut out or put in."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(out) + 1), chance.randint(1, 16)
        how = chance.randrange(6)
        if how == 0 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            out[at : at + length] = chance.randbytes(chance.randint(0, 16))
        elif how == 2:
            del out[at : at + length]
        elif how == 3:
            out[at:at] = out[: chance.randrange(len(out) + 1)]
        elif how == 4:
            out[at : at + 8] = struct.pack("<Q", chance.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
        else:
            out += chance.randbytes(length)
    return bytes(out)


@pytest.mark.parametrize("kind", WRITTEN)
def test_decode__as_written__comes_back(kind):
    assert (
        decode(kind, WRITTEN[kind])
        == {
            "frame": (b'{"a":1}', b"body"),
            "identity": IDENTITY,
            "entry": (HEADER, b"a body that is long enough to be cut and turned"),
            "floor": Floor(log=A, position=7, epoch=1, digest="d4" * 32),
        }[kind]
    )


@pytest.mark.parametrize("kind", WRITTEN)
def test_decode__cut_at_every_byte_or_grown__is_refused(kind):
    data = WRITTEN[kind]
    for end in range(len(data)):
        assert decode(kind, data[:end]) == "CorruptionError"
        assert decode(kind, data[end + 1 :]) == "CorruptionError"
    figures.record(f"cut/{kind}", 2 * len(data))
    for extra in (b"\0", b"x" * 100, data):
        assert decode(kind, data + extra) == "CorruptionError"
        assert decode(kind, extra + data) in {"CorruptionError", "UnsupportedFormatError"}


@pytest.mark.parametrize("kind", WRITTEN)
def test_decode__every_bit_flipped__is_refused(kind):
    data = WRITTEN[kind]
    for at in range(len(data) * 8):
        turned = bytearray(data)
        turned[at // 8] ^= 1 << at % 8
        expected = "UnsupportedFormatError" if at // 8 == 4 else "CorruptionError"
        assert decode(kind, bytes(turned)) == expected
    figures.record(f"mutated/{kind}", len(data) * 8)


@pytest.mark.parametrize("kind", WRITTEN)
def test_decode__mutated__is_refused_or_the_same(kind):
    chance = random.Random(kind)
    data = WRITTEN[kind]
    for _ in range(MUTATIONS):
        changed = mutate(data, chance)
        told = decode(kind, changed)
        assert told in ("CorruptionError", "UnsupportedFormatError") or changed == data
    figures.record(f"mutated/{kind}", MUTATIONS)


@pytest.mark.parametrize("kind", ["identity", "entry", "floor"])
def test_decode__header_mutated_under_a_right_checksum__is_refused_or_well_formed(kind):
    chance = random.Random(f"{kind} header")
    header, body = frame.unwrap(WRITTEN[kind], name="it")
    for _ in range(MUTATIONS):
        told = decode(kind, frame.wrap(mutate(header, chance), body))
        if not isinstance(told, str):
            record = told[0] if kind == "entry" else told
            # What is taken for a record can be written again: no field has a value that we would not write.
            assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record
    figures.record(f"mutated/{kind}", MUTATIONS)


@pytest.mark.parametrize("kind", ["identity", "entry"])
def test_decode__newer_format_or_unknown_feature__is_told_apart_from_damage(kind):
    assert decode(kind, reframed(kind, {"format": 2})) == "UnsupportedFormatError"
    assert decode(kind, reframed(kind, {"format": 2, "op": 5, "log": None})) == "UnsupportedFormatError"
    assert decode(kind, reframed(kind, {"requires": ["a-thing-of-tomorrow"]})) == "UnsupportedFormatError"
    assert decode(kind, reframed(kind, {"a_field_of_tomorrow": [1, 2]})) == decode(kind, WRITTEN[kind])
    newer = bytearray(WRITTEN[kind])
    newer[4] = 2
    assert decode(kind, bytes(newer)) == "UnsupportedFormatError"


@pytest.mark.parametrize(
    "change",
    [
        {"position": -1},
        {"position": 2**63},
        {"position": 1.5},
        {"position": "7"},
        {"position": True},
        {"epoch": -1},
        {"op": "x" * 32},
        {"op": "A1" * 16},
        {"op": A + "0"},
        {"nonce": "../../../../../etc/passwd/0000000"},
        {"prev": ""},
        {"kind": "other"},
        {"writer": "x" * 257},
        {"log": None},
        {"format": "1"},
        {"format": None},
        {"requires": "x"},
        {"requires": [1]},
    ],
    ids=str,
)
def test_decode_entry__a_field_is_wrong__is_corrupt(change):
    assert decode("entry", reframed("entry", change)) == "CorruptionError"


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"7", b"{", b'{"format":1}', b"\xff\xfe", b"[" * 50_000, b'{"a":' * 9000]
)
@pytest.mark.parametrize("kind", ["identity", "entry", "floor"])
def test_decode__header_is_no_record__is_corrupt(kind, text):
    assert decode(kind, frame.wrap(text, b"")) == "CorruptionError"


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("lengths", [(2**32 - 1, 0), (0, 2**63), (2**32 - 1, 2**64 - 1), (70_000, 0)])
def test_decode__frame_claims_huge_lengths__nothing_is_allocated_for_them(kind, lengths):
    data = struct.pack("<4sB3xIQ", b"SLTS", 1, *lengths) + WRITTEN[kind][20:]
    tracemalloc.start()
    try:
        assert decode(kind, data) == "CorruptionError"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ALLOCATION_MAX


def test_decode_hint__anything__is_a_hint_or_nothing():
    assert records.decode_hint(HINT) == Hint(log=A, position=12)
    chance = random.Random("hint")
    for end in range(len(HINT)):
        assert records.decode_hint(HINT[:end]) is None
    figures.record("cut/hint", len(HINT))
    figures.record("mutated/hint", MUTATIONS)
    for _ in range(MUTATIONS):
        found = records.decode_hint(mutate(HINT, chance))
        assert found is None or (isinstance(found.position, int) and found.position >= 0 and len(found.log) == 32)


@given(st.binary(max_size=400))
@settings(max_examples=500, deadline=None)
def test_decode__any_bytes__is_refused_in_our_words(data):
    for kind in DECODERS:
        assert decode(kind, data) in {"CorruptionError", "UnsupportedFormatError"}
    assert records.decode_hint(data) is None


@given(
    body=st.binary(max_size=300),
    position=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**63 - 1),
    writer=st.text(max_size=256).filter(lambda text: text.isprintable()),
)
@settings(max_examples=300, deadline=None)
def test_encode_entry__any_record__comes_back_and_is_the_same_bytes_each_time(body, position, epoch, writer):
    header = Header(log=A, position=position, epoch=epoch, op=B, nonce=A, prev="c3" * 32, writer=writer)
    data = records.encode_entry(header, body)
    assert records.encode_entry(header, body) == data
    assert records.decode_entry(data, name="it") == (header, body)
    entry = read_entry(data, log=A, position=position, name="it")
    assert entry.end == (position + 1, epoch, frame.digest(data))


def test_read_entry__of_another_log_or_place__is_corrupt():
    with pytest.raises(CorruptionError, match="belongs to log"):
        read_entry(ENTRY, log=B, position=7, name="it")
    with pytest.raises(CorruptionError, match="says it is entry 7"):
        read_entry(ENTRY, log=A, position=8, name="it")


@pytest.mark.parametrize("kind", WRITTEN)
def test_describe__mutated_objects__are_described_or_refused_in_our_words(kind):
    chance = random.Random(f"{kind} described")
    for _ in range(300):
        data = mutate(WRITTEN[kind], chance)
        try:
            described = describe(data, name=f"entries/{7:020d}")
        except (CorruptionError, UnsupportedFormatError):
            continue
        assert described["bytes"] == len(data)
