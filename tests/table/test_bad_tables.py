"""What is stored is damaged, replaced or gone: it is told by the object's name, and nothing is written or torn."""

from __future__ import annotations

import json

import pytest

from bad_tables import (
    QUICK,
    SCHEMA,
    check_works,
    damage,
    entry_key,
    flipped,
    keys,
    new_store,
    new_table,
    print_of,
    reseal,
    resealed,
    row,
    store_of,
    told,
)
from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.errors import (
    CorruptionError,
    InvalidInputError,
    MissingObjectError,
    NotFoundError,
    TruncatedError,
    UnsupportedFormatError,
)
from siltstone.format import frame
from siltstone.format.records import decode_entry, encode_entry
from siltstone.format.vectors import VectorHeader, encode_vector
from siltstone.log import open_log

NAME = f"{0:020d}-{'a' * 32}"


def calls_on(table):
    """All that reads rows."""
    return {
        "scan": lambda: table.scan().to_arrow(),
        "filter": lambda: table.scan(where="n = 1").to_arrow(),
        "count": lambda: table.count("n = 1"),
        "get": lambda: table.get(list(range(8))),
        "sql": lambda: table.sql("select sum(n) from t", t=table).to_arrow(),
        "changes": lambda: table.changes(0).to_arrow(),
        "append": lambda: table.append([row(5)]),
        "upsert": lambda: table.upsert([row(5)]),
        "delete": lambda: table.delete("n = 1"),
        "update": lambda: table.update({"n": "2"}),
        "compact": table.compact,
    }


# -- entries of the log ----------------------------------------------------------------------------


def with_body(data, body):
    return encode_entry(decode_entry(data, name="an entry")[0], body)


ENTRIES = {
    "empty": lambda _: b"",
    "cut": lambda data: data[:-1],
    "grown": lambda data: data + b"\0",
    "one bit": flipped,
    "other words": lambda data: b"<html>".ljust(len(data)),
    "deep header": lambda data: frame.wrap(b"[" * 60_000, data),
    "deep body": lambda data: with_body(data, b"[" * 10_000),
    "deep change": lambda data: resealed(
        data, lambda _: b'{"operation":"append","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    ),
    "empty body": lambda data: with_body(data, b""),
    "a body of 4 EiB": lambda data: with_body(data, b"\x5a" + (2**62).to_bytes(8, "little") + b"x"),
    "a body of 500 MiB that is not there": lambda data: with_body(data, b"\x5a" + (500 << 20).to_bytes(8, "little")),
    "no change": lambda data: resealed(data, lambda _: b"null"),
    "no UTF-8": lambda data: resealed(data, lambda _: b'{"operation":"append","message":"\xff"}'),
    "unknown operation": lambda data: resealed(data, lambda _: b'{"operation":"explode"}'),
    "another place": lambda data: resealed(data, position=9),
    "another log": lambda data: resealed(data, log="c" * 32),
    "out of the chain": lambda data: resealed(data, prev="ab" * 32),
    "newer frame": lambda data: data[:4] + b"\2" + data[5:],
    "newer format": lambda data: resealed(data, format=2),
    "new feature": lambda data: resealed(data, requires=("x",)),
}
NEWER = {"newer frame", "newer format", "new feature"}


@pytest.mark.parametrize("how", ENTRIES)
def test_open__the_last_entry_is_damaged__is_told_and_nothing_is_written(how):
    old = new_table()
    store = store_of(old)
    damage(store, entry_key(3), ENTRIES[how])
    before = print_of(store)
    with told(UnsupportedFormatError if how in NEWER else CorruptionError, match=r"entries/0+3|version 3", hint=False):
        open_table(store, env=QUICK)
    if how != "out of the chain":  # history() looks at entries one by one
        with told(UnsupportedFormatError if how in NEWER else CorruptionError, hint=False):
            old.history()
    assert print_of(store) == before
    assert old.scan().to_arrow().num_rows == 7, "what was read before stays"
    assert old.at(version=2).count() == 8


@pytest.mark.parametrize("how", ["empty", "cut", "one bit", "another log", "older one"])
def test_open__an_entry_further_back_is_damaged__rows_are_those_that_were_written_or_it_is_told(how):
    table = new_table(versions=8)
    store = store_of(table)
    older = store.get(entry_key(4))
    damage(store, entry_key(7), ENTRIES.get(how, lambda _: older))
    with told(CorruptionError, match=r"entries/0+7", hint=False):
        open_table(store, env=QUICK)
    damage(store, entry_key(5), ENTRIES.get(how, lambda _: older))
    with told(CorruptionError, match=r"entries/0+5", hint=False):
        table.history()
    assert table.count() == 7


@pytest.mark.parametrize("gone", [1, 3, 4, 5])
def test_history__an_entry_that_others_repeat_is_missing__is_told_and_the_rows_are_those_that_were_written(gone):
    store = store_of(new_table(versions=4))
    store.delete([entry_key(gone)])
    before = print_of(store)
    table = open_table(new_store_of(store), env=QUICK)
    assert (table.version, table.scan().to_arrow().num_rows) == (7, 7)
    with told(MissingObjectError, match=rf"entries/0+{gone} is missing.*verify"):
        table.history()
    assert print_of(store) == before
    check_works(table)


def change(**fields):
    return lambda _: json.dumps({"operation": "append", **fields}).encode()


def fragment(name=NAME, **fields):
    return {"name": name, "rows": 1, "bytes": 1000, "sha256": "ab" * 32, **fields}


def vector(name=NAME, **fields):
    return {"name": name, "offset": 0, "length": 100, "rows": 1, **fields}


NO_NAMES = ["../x", "/etc/x", "file://x", "s3://other/x", "", "x" * 53, NAME.upper(), f"{NAME}/x", f"../{NAME}"]
FOREIGN = {
    **{f"adds {name}": change(add=[fragment(name)]) for name in NO_NAMES},
    **{f"removes {name}": change(remove=[name]) for name in NO_NAMES},
    **{f"masks {name}": change(mask={name: vector()}) for name in NO_NAMES},
    **{f"masks with {name}": change(mask={NAME: vector(name)}) for name in NO_NAMES},
    **{f"unmasks {name}": change(unmask=[name]) for name in NO_NAMES},
    "no rows": change(add=[fragment(rows=0)]),
    "too many rows": change(add=[fragment(rows=2**40)]),
    "bytes below none": change(add=[fragment(bytes=-1)]),
    "no digest": change(add=[fragment(sha256="x")]),
    "twice": change(add=[fragment(), fragment()]),
    "removes what is not there": change(remove=[NAME]),
    "masks what is not there": change(mask={NAME: vector()}),
    "a tag below the first version": change(tags={"a": -1}),
    "no columns": change(schema={"fields": [], "next_id": 1}),
    "unknown type": change(schema={"fields": [{"id": 1, "name": "id", "type": "evil"}], "next_id": 2}),
    "key that is no column": change(
        schema={"fields": [{"id": 1, "name": "id", "type": "int64"}], "key": [9], "next_id": 2}
    ),
    "counts below none": change(counts={"inserted": -1}),
    "long message": change(message="x" * 5000),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_open__a_change_names_what_can_not_be__is_refused_and_no_request_is_sent_for_it(what):
    store = new_store()
    table = new_table(store)
    reseal(store_of(table), 3, FOREIGN[what])
    store.script.clear()
    with told(CorruptionError, match="version 3", hint=False):
        open_table(store, env=QUICK)
    assert not [call for call in store.calls if not call.key.startswith((paths.LOG, paths.ROLLUPS))]


def test_open__a_vector_says_that_it_is_larger_than_its_fragment__is_refused_and_no_request_is_sent_for_it():
    store = new_store()
    table = new_table(store)
    name = next(iter(table._state.fragments)).fragment.name
    reseal(store_of(table), 3, change(mask={name: vector(length=2**62, offset=2**62)}))
    opened = open_table(store, env=QUICK)
    store.script.clear()
    with told(CorruptionError, match=rf"vectors/{NAME}", hint=False):
        opened.get(1)
    assert not [call for call in store.calls if call.key.startswith(paths.VECTORS)]
    reseal(store_of(table), 3, change(mask={name: vector(rows=999)}))
    with told(CorruptionError, match="masks .* rows", hint=False):
        open_table(store, env=QUICK)


# -- fragments and vectors -------------------------------------------------------------------------

OBJECTS = {
    "missing": None,
    "empty": lambda _: b"",
    "cut": lambda data: data[:-1],
    "one bit": flipped,
    "one bit of the end": lambda data: flipped(data, 0.97),
    "zeros": lambda data: bytes(len(data)),
    "other words": lambda data: b"<html>".ljust(len(data)),
}


def damaged(folder, how):
    """The key of a damaged object of a new table, and its store."""
    store = store_of(new_table())
    key = keys(store, folder)[-1]
    if OBJECTS[how] is None:
        store.delete([key])
    else:
        damage(store, key, OBJECTS[how])
    return store, key


@pytest.mark.parametrize("how", OBJECTS)
@pytest.mark.parametrize("folder", [paths.DATA, paths.VECTORS])
def test_calls__an_object_with_rows_is_damaged__each_names_it_and_changes_nothing(folder, how):
    store, key = damaged(folder, how)
    before = print_of(store)
    kind = MissingObjectError if how == "missing" else CorruptionError
    for name in calls_on(open_table(store, env=QUICK)):
        table = open_table(store, env=QUICK)
        with told(kind, match=key, hint=False):
            calls_on(table)[name]()
        assert table.count() == 7, "what needs no row of it still works"
        assert table.at(version=1).scan().to_arrow().num_rows == 5
    assert print_of(store) == before
    check_works(open_table(new_store_of(store), env=QUICK))


def new_store_of(store):
    """The same objects below a handle whose store can be looked into."""
    again = new_store()
    again.inner = store
    return again


def test_scan__fragment_of_another_table_with_the_same_size__is_refused():
    store = store_of(new_table())
    first, last = keys(store, paths.DATA)
    store.put(last, store.get(first))
    with told(CorruptionError, match=last):
        open_table(store, env=QUICK).scan().to_arrow()


def test_scan__log_says_other_rows_than_the_footer__is_refused():
    table = new_table()
    store = store_of(table)
    for say in (4, 6, 2**31 - 1):
        reseal(store, 1, lambda text, say=say: text.replace(b'"rows":5', f'"rows":{say}'.encode()))
        for position in (2, 3):
            store.delete([entry_key(position)])
        with told(CorruptionError, match=rf"5 rows, not the {say}"):
            open_table(store, env=QUICK).scan().to_arrow()
        reseal(store, 1, lambda text, say=say: text.replace(f'"rows":{say}'.encode(), b'"rows":5'))


def test_scan__vector_of_another_fragment__is_refused():
    table = new_table()
    store = store_of(table)
    key = keys(store, paths.VECTORS)[0]
    size = len(store.get(key))
    for header in (VectorHeader(fragment=NAME, rows=3, deleted=1), VectorHeader(fragment=NAME, rows=9, deleted=1)):
        other = encode_vector(header, b"\2" if header.rows == 3 else b"\2\0")
        store.put(key, other.ljust(size, b"\0")[:size])
        with told(CorruptionError, match=key, hint=False):
            open_table(store, env=QUICK).scan().to_arrow()


# -- rollups ---------------------------------------------------------------------------------------

LONG = 40


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "one bit", "zeros", "of another table", "of another place"])
def test_open__a_rollup_is_damaged__the_log_is_enough(how):
    store = store_of(new_table(versions=LONG))
    [key] = keys(store, paths.ROLLUPS)
    if how == "missing":
        store.delete([key])
    elif how == "of another table":
        other = store_of(new_table(versions=LONG))
        store.put(key, other.get(key))
    elif how == "of another place":
        store.put(paths.rollup(40), store.get(key))
    else:
        damage(store, key, OBJECTS[how])
    table = open_table(new_store_of(store), env=QUICK)
    assert (table.version, table.count(), table.scan().to_arrow().num_rows) == (3 + LONG, 7, 7)
    assert table.at(version=33).count() == 7
    assert len(table.history()) == 4 + LONG
    check_works(table)


@pytest.mark.parametrize("feature", ["newer frame", "requires"])
def test_open__a_rollup_of_a_newer_siltstone__is_told(feature):
    store = store_of(new_table(versions=LONG))
    [key] = keys(store, paths.ROLLUPS)
    header, body = frame.unwrap(store.get(key), name=key)
    newer = frame.wrap(json.dumps({**json.loads(header), "requires": ["x"]}).encode(), body)
    damage(store, key, ENTRIES["newer frame"] if feature == "newer frame" else lambda _: newer)
    with told(UnsupportedFormatError, match=r"rollups/.*upgrade"):
        open_table(store, env=QUICK)


# -- tables that went on, or away ------------------------------------------------------------------


def test_at__version_was_collected__is_told_and_those_left_are_read():
    table = new_table(versions=80)
    store = store_of(table)
    log = open_log(store, root=paths.LOG, env=QUICK, probe=False)
    log.truncate(next(entry.end for entry in log.entries() if entry.position == 63))
    store.delete([entry_key(position) for position in range(64)])
    table = open_table(new_store_of(store), env=QUICK)
    assert (table.version, table.count(), table.scan().to_arrow().num_rows) == (83, 7, 7)
    assert [one.version for one in table.history()] == list(range(83, 63, -1))
    table.tag("old", version=5)
    before = print_of(store)
    for call in (
        lambda: table.at(version=5),
        lambda: table.at(tag="old"),
        lambda: table.at(version=40),
        lambda: table.restore(version=5),
        lambda: table.changes(5),
        lambda: table.changes(5, 70),
        lambda: open_table(store, version=5, env=QUICK),
    ):
        with told(TruncatedError, match=r"can't be read any more.*history"):
            call()
    assert print_of(store) == before
    assert table.at(version=63).count() == table.at(version=70).count() == 7
    assert table.changes(70).to_arrow().num_rows == 0
    check_works(table)


def test_calls__table_was_made_anew_and_went_on__old_handle_is_told_and_changes_nothing():
    old = new_table()
    store = store_of(old)
    store.delete(keys(store, ""))
    new = create_table(new_store_of(store), schema=SCHEMA, key="id", env=QUICK)
    for number in range(10):
        new.set({"turn": str(number)})
    before = print_of(store)
    for call in (lambda: old.version, old.scan, lambda: old.append([row(100)]), lambda: old.set({"a": "b"})):
        with told(CorruptionError, match=r"log was replaced.*open it again"):
            call()
    assert print_of(store) == before
    check_works(new)


def test_open__link_in_the_place_of_an_object_leads_out_of_the_root__is_not_followed(tmp_path):
    table = create_table(tmp_path / "t", schema=SCHEMA, env=QUICK)
    table.append([row(1)])
    [file] = (tmp_path / "t" / "data").iterdir()
    file.rename(tmp_path / "outside.parquet")
    file.symlink_to(tmp_path / "outside.parquet")
    with told(InvalidInputError, CorruptionError, match="symbolic link", hint=False):
        open_table(tmp_path / "t", env=QUICK).scan().to_arrow()
    file.unlink()
    (tmp_path / "outside.parquet").rename(file)
    (tmp_path / "t" / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "t" / "data").symlink_to(tmp_path / "elsewhere")
    with told(InvalidInputError, CorruptionError, match="symbolic link", hint=False):
        open_table(tmp_path / "t", env=QUICK).scan().to_arrow()
    with told(InvalidInputError, CorruptionError, match="symbolic link", hint=False):
        open_table(tmp_path / "t", env=QUICK).append([row(2)])
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def test_open__table_is_gone__is_not_found():
    table = new_table()
    store = store_of(table)
    store.delete(keys(store, ""))
    with told(NotFoundError, match="no table"):
        open_table(store, env=QUICK)
    with told(MissingObjectError, match="gone"):
        table.scan().to_arrow()
