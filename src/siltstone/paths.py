"""The one place that builds and parses object names.

What must hold:
- A key is relative, NFC, in whole segments, and can't climb out of a root (``check_key``).
- Numbers in names have 20 digits, so that key order is number order.
- A name read from a store is parsed, never trusted: what does not parse is not ours.

The objects of one log, below its root:

==========================  ==========================================================
``identity``                who decides, which uuid; ``identity/<nonce>`` where published by fork
``entries/<n>``             entry n; ``entries/<n>/<nonce>`` where published by fork
``witness/<n>/<nonce>``     the whole entry again, under a name nobody else uses
``staged/<n>-<nonce>``      proposals of an external commit store
``floor/<n>``               positions below n may be gone
``hint``                    a recent position; best effort
``clock``                   nothing; written to ask the store for its time
==========================  ==========================================================

The objects of one table, below its URI. A *name* is ``<base version>-<id>``, with
``@<k>`` behind it where the object is in another table:

==========================  ==========================================================
``log/...``                 the table's log, as above
``data/<name>.parquet``     a fragment
``vectors/<name>.bits``     the deletion vectors of one transaction
``rollups/<x>-<n>.arrow``   what the entries up to n amount to; x counts down, so the newest is listed first
``shards/<s>/manifest/...`` the log of shard s's manifest, as above
``shards/<s>/wal/...``      the log that is its WAL; ``wal-<n>`` where it was moved at position n
``shards/<s>/data/...``     its fragments; the number in a name is the generation
``indexes/<name>/...``      a build of a text index: its log, its parts, and the marker that it is whole
``origins/<k>/...``         no object of the table: what it has in common with the k-th table that it comes from
==========================  ==========================================================
"""

from __future__ import annotations

import unicodedata

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.ids import is_id

KEY_BYTES_MAX = 1000
POSITION_DIGITS = 20
IDENTITY = "identity"
ENTRIES = "entries"
WITNESS = "witness"
LOST = "lost"
STAGED = "staged"
FLOOR = "floor"
HINT = "hint"
CLOCK = "clock"
PROBE = "_siltstone_probe"
LOG = "log/"
DATA = "data"
VECTORS = "vectors"
ROLLUPS = "rollups"
SHARDS = "shards"
MANIFEST = "manifest/"
WAL = "wal/"
INDEXES = "indexes"
MARKER = "metadata"
STAGING = "staging"
ORIGINS = "origins"
ORIGINS_MAX = 9999

_NUMBER_MAX = 10**POSITION_DIGITS - 1

_FORBIDDEN = set('\\%#?*"<>|:')


def check_key(key: str) -> str:
    """Return ``key`` if it is a safe relative object name; raise InvalidInputError otherwise."""
    if type(key) is not str or not key:
        raise InvalidInputError(f"an object key must be a string that is not empty, got {type(key).__name__}")
    if key.isascii() and key.isprintable():
        size = len(key)
    else:
        try:
            size = len(key.encode("utf-8"))
        except UnicodeEncodeError:
            raise InvalidInputError(f"object key {key!a} is not valid UTF-8") from None
        if unicodedata.normalize("NFC", key) != key:
            raise InvalidInputError(f"object key {key!a} is not in Unicode normal form C")
        bad = next((c for c in key if unicodedata.category(c).startswith("C")), None)
        if bad is not None:
            raise InvalidInputError(f"object key {key!a} holds the control character {bad!a}")
    if size > KEY_BYTES_MAX:
        raise LimitExceededError(f"an object key of {size} bytes is over the limit of {KEY_BYTES_MAX}")
    wrong = _FORBIDDEN.intersection(key)
    if wrong:
        raise InvalidInputError(f"object key {key!a} holds the forbidden character {min(wrong)!r}")
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            raise InvalidInputError(f"object key {key!a} has the segment {segment!r}, which could leave its root")
    return key


def check_prefix(prefix: str) -> str:
    """Return a listing prefix without its closing slash; the empty one is the root."""
    if type(prefix) is not str:
        raise InvalidInputError(f"a prefix must be a string, got {type(prefix).__name__}")
    return check_key(prefix.removesuffix("/")) if prefix else ""


def check_root(root: str) -> str:
    """A log's root inside its store: empty, or a safe key that ends in a slash."""
    if type(root) is not str:
        raise InvalidInputError(f"root must be a string, got {type(root).__name__}", hint="name a path in the store")
    if root == "":
        return ""
    return check_key(root.removesuffix("/")) + "/"


def digits(number: int) -> str:
    """A position as it stands in names."""
    return f"{number:0{POSITION_DIGITS}d}"


def parse_digits(text: str) -> int | None:
    """The position that a name holds; None where it holds none."""
    if len(text) == POSITION_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return None


def entry(root: str, position: int, nonce: str = "") -> str:
    """Where entry ``position`` is published."""
    name = f"{root}{ENTRIES}/{digits(position)}"
    return f"{name}/{nonce}" if nonce else name


def witness(root: str, position: int, nonce: str) -> str:
    """Where the witness of one attempt at a position is kept."""
    return f"{root}{WITNESS}/{digits(position)}/{nonce}"


def lost(root: str, position: int, nonce: str) -> str:
    """Where the witness of an attempt is kept that was truncated, and that something else was folded for."""
    return f"{root}{LOST}/{digits(position)}/{nonce}"


def staged(root: str, position: int, nonce: str) -> str:
    """Where one proposal waits for its decision."""
    return f"{root}{STAGED}/{digits(position)}-{nonce}"


def floor(root: str, position: int) -> str:
    """The object that raises the floor to a position."""
    return f"{root}{FLOOR}/{digits(position)}"


def parse_entry(root: str, key: str) -> tuple[int, str] | None:
    """(position, nonce or "") of a published entry's name."""
    return _parse_numbered(f"{root}{ENTRIES}/", key)


def parse_witness(root: str, key: str) -> tuple[int, str] | None:
    """(position, nonce) of a witness's name."""
    return _parse_numbered(f"{root}{WITNESS}/", key)


def parse_lost(root: str, key: str) -> tuple[int, str] | None:
    """(position, nonce) of the name of a witness that was set aside."""
    return _parse_numbered(f"{root}{LOST}/", key)


def _parse_numbered(start: str, key: str) -> tuple[int, str] | None:
    if not key.startswith(start):
        return None
    number, _, nonce = key[len(start) :].partition("/")
    position = parse_digits(number)
    if position is None or (nonce and not is_id(nonce)):
        return None
    return position, nonce


def parse_staged(root: str, key: str) -> tuple[int, str] | None:
    """(position, nonce) of a staged proposal's name."""
    start = f"{root}{STAGED}/"
    if not key.startswith(start):
        return None
    number, _, nonce = key[len(start) :].partition("-")
    position = parse_digits(number)
    return (position, nonce) if position is not None and is_id(nonce) else None


def parse_floor(root: str, key: str) -> int | None:
    """The position that a floor object's name holds."""
    start = f"{root}{FLOOR}/"
    return parse_digits(key[len(start) :]) if key.startswith(start) else None


def name(base: int, id_: str) -> str:
    """The name of an object that a transaction against version ``base`` writes."""
    return f"{digits(base)}-{id_}"


NAME_LENGTH = 20 + 1 + 32  # of a name without the number of another table


def parse_name(text: str) -> tuple[int, str] | None:
    """(base version, id) of a name; None where it is none."""
    number, _, id_ = text.partition("-")
    base = parse_digits(number)
    return (base, id_) if base is not None and is_id(id_) else None


def data(name: str) -> str:
    """Where a fragment is."""
    return _placed(name, DATA, ".parquet")


def vectors(name: str) -> str:
    """Where the deletion vectors of a transaction are."""
    return _placed(name, VECTORS, ".bits")


def parse_data(key: str) -> str | None:
    """The name of a fragment that is at a key; None where none of ours can be."""
    return _parse_placed(key, DATA, ".parquet")


def parse_vectors(key: str) -> str | None:
    """The name of deletion vectors that are at a key; None where none of ours can be."""
    return _parse_placed(key, VECTORS, ".bits")


def _parse_placed(key: str, folder: str, ending: str) -> str | None:
    found = key.removeprefix(f"{folder}/").removesuffix(ending)
    return found if parse_name(found) is not None and key == f"{folder}/{found}{ending}" else None


def index(build: str, rest: str) -> str:
    """Where an object of a build is."""
    return _placed(build, INDEXES, f"/{rest}")


def index_log(build: str) -> str:
    """The root of a build's log."""
    return index(build, LOG[:-1]) + "/"


def part(item: int, number: int) -> str:
    """What a part of a build is called in its folder."""
    return f"part_{item}_{number}.text"


def staged_part(item: int, attempt: str, number: int) -> str:
    """What an attempt at a part is called there."""
    return f"{STAGING}/part_{item}_{attempt}_{number}.text"


def parse_index(key: str) -> tuple[str, str] | None:
    """(build, what is left of the key) of an object of a build; None where none of ours can be."""
    folder, _, rest = key.removeprefix(f"{INDEXES}/").partition("/")
    ours = key.startswith(f"{INDEXES}/") and parse_name(folder) is not None and rest
    return (folder, rest) if ours else None


def foreign(name: str, origin: int) -> str:
    """The name that an object of another table has here."""
    return f"{name}@{origin}"


def origin_of(name: str) -> int:
    """The number of the table that an object is in; 0 for one of the table's own."""
    number = name.partition("@")[2]
    return int(number) if number else 0


def bare(name: str) -> str:
    """The name that an object has in the table that it is in."""
    return name.partition("@")[0]


def in_origin(number: int, key: str) -> str:
    """What an object of another table is called here."""
    return f"{ORIGINS}/{number:04d}/{key}"


def parse_origin(key: str) -> tuple[int, str] | None:
    """(number, key there) of an object that is in another table; None for one of the table's own."""
    if not key.startswith(f"{ORIGINS}/"):
        return None
    number, _, rest = key[len(ORIGINS) + 1 :].partition("/")
    return (int(number), rest) if len(number) == 4 and number.isascii() and number.isdigit() and rest else None


def rollup(position: int) -> str:
    """Where the rollup up to a position is."""
    return f"{ROLLUPS}/{digits(_NUMBER_MAX - position)}-{digits(position)}.arrow"


def parse_rollup(key: str) -> int | None:
    """The position of a rollup's name."""
    position = parse_digits(key.removesuffix(".arrow")[-POSITION_DIGITS:])
    return position if position is not None and rollup(position) == key else None


def shard(name: str) -> str:
    """Where the objects of a shard are; ends in a slash."""
    return check_key(f"{SHARDS}/{name}") + "/"


def wal(shard_: str, begins: int) -> str:
    """The root of a shard's WAL that begins at a position."""
    return shard(shard_) + (f"{WAL[:-1]}-{digits(begins)}/" if begins else WAL)


def is_of_shard(root: str) -> bool:
    """Whether a log's root is that of a shard's manifest or WAL."""
    parts = root.rstrip("/").split("/")
    if len(parts) < 3 or parts[-3] != SHARDS:
        return False
    kind, _, begins = parts[-1].partition("-")
    return f"{parts[-1]}/" == MANIFEST or (f"{kind}/" == WAL and (not begins or parse_digits(begins) is not None))


def shard_name(map_: int, number: int) -> str:
    """The name of one of a keyed table's shards."""
    return f"{map_:04d}-{number:04d}"


def _placed(name: str, folder: str, ending: str) -> str:
    own, _, origin = name.partition("@")
    right = not origin or (origin.isascii() and origin.isdigit() and 1 <= int(origin) <= ORIGINS_MAX)
    if parse_name(own) is None or not right or name.endswith("@"):
        raise InvalidInputError(f"{name!a} is no name of a table's object")
    key = check_key(f"{folder}/{own}{ending}")
    return in_origin(int(origin), key) if origin else key


def parse_identity(key: str) -> str | None:
    """The root of the log whose identity object this is; None where it is none."""
    head, _, last = key.rpartition("/")
    if last == IDENTITY:
        return f"{head}/" if head else ""
    if is_id(last) and (head == IDENTITY or head.endswith("/" + IDENTITY)):
        return head.removesuffix(IDENTITY)
    return None
