"""Handles that were closed, shared, forked or pickled, and stores that fail: told in an error that says what to do."""

from __future__ import annotations

import os
import pickle
import threading

import pytest

from bad_tables import (
    QUICK,
    SCHEMA,
    SECRET,
    check_told,
    check_works,
    new_store,
    new_table,
    print_of,
    refused,
    row,
    store_of,
    told,
)
from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.errors import (
    ClosedError,
    CommitUnknownError,
    ForkedError,
    InvalidInputError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
)
from siltstone.testing.stores import Fault

ALWAYS = 10**9
READS = {
    "scan": lambda table: table.scan().to_arrow(),
    "filter": lambda table: table.scan(where="n = 1").to_arrow(),
    "count": lambda table: table.count("n = 1"),
    "get": lambda table: table.get(1),
    "sql": lambda table: table.sql("select sum(n) from t", t=table).to_arrow(),
    "at": lambda table: table.at(version=1),
    "changes": lambda table: table.changes(0).to_arrow(),
    "history": lambda table: table.history(),
    "resolve": lambda table: table.resolve("a" * 32),
    "version": lambda table: table.version,
    "schema": lambda table: table.schema,
    "key": lambda table: table.key,
    "tags": lambda table: table.tags,
    "settings": lambda table: table.settings,
    "refresh": lambda table: table.refresh(),
}
WRITES = {
    "append": lambda table: table.append([row(100)]),
    "upsert": lambda table: table.upsert([row(1)]),
    "overwrite": lambda table: table.overwrite([row(1)]),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"n": "n + 1"}),
    "add_column": lambda table: table.add_column("new", SCHEMA.field("n").type),
    "drop_column": lambda table: table.drop_column("n"),
    "rename_column": lambda table: table.rename_column("n", "m"),
    "widen_column": lambda table: table.widen_column("n", SCHEMA.field("id").type),
    "set": lambda table: table.set({"a": "b"}),
    "tag": lambda table: table.tag("a"),
    "restore": lambda table: table.restore(version=1),
    "compact": lambda table: table.compact(),
    "transaction": lambda table: table.transaction().__enter__(),
}


def fresh(store):
    return open_table(store, env=QUICK)


# -- handles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_call__after_close__is_refused(name):
    table = new_table()
    store = store_of(table)
    table.close()
    table.close()
    before = print_of(store)
    with told(ClosedError, match="closed.*open the table again"):
        {**READS, **WRITES}[name](table)
    assert print_of(store) == before


@pytest.mark.parametrize("name", WRITES)
def test_write__through_one_version__is_refused(name):
    table = new_table()
    with refused(table, InvalidInputError, match="pinned to version 2.*table itself"):
        WRITES[name](table.at(version=2))


def test_commit__handle_was_closed_meanwhile__is_refused():
    table = new_table()
    store = store_of(table)
    transaction = table.transaction()
    transaction.append([row(100)])
    table.close()
    before = print_of(store)
    with told(ClosedError):
        transaction.commit()
    assert print_of(store) == before


def test_handle__shared_by_threads__each_row_is_there_once():
    table = new_table()
    failed = []

    def work(number):
        try:
            for turn in range(5):
                table.append([row(1000 * number + turn)])
                table.upsert([row(1000 * number + turn, n=turn)])
                assert table.get(1000 * number + turn).num_rows == 1
                table.scan(["id"]).to_arrow()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    ids = table.scan(["id"]).to_arrow()["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 7 + 40
    assert fresh(store_of(table)).count() == 47


def test_handle__closed_while_threads_use_it__they_are_told():
    table = new_table()
    told_of = []
    begun = threading.Barrier(5)

    def work(number):
        begun.wait()
        try:
            for turn in range(1000):
                table.append([row(10_000 * number + turn)])
        except BaseException as error:
            told_of.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    begun.wait()
    table.close()
    for thread in threads:
        thread.join()
    assert {type(error) for error in told_of} == {ClosedError}
    assert len(told_of) == 4
    again = fresh(store_of(table))
    assert again.count() == again.scan().to_arrow().num_rows


@pytest.mark.parametrize("name", ["append", "upsert", "delete", "update", "set", "drop_column"])
def test_write__in_a_child_after_fork__is_told_and_the_parent_goes_on(tmp_path, name):
    table = create_table(tmp_path / "t", schema=SCHEMA, key="id", env=QUICK)
    table.append([row(number) for number in range(3)])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            WRITES[name](table)
            words = "nothing was raised"
        except SiltstoneError as error:
            words = f"{type(error).__name__} {error}"
        except BaseException as error:
            words = f"bare {error!r}"
        os.write(writer, words.encode())
        os._exit(0)
    os.close(writer)
    words = os.read(reader, 10_000).decode()
    os.close(reader)
    os.waitpid(child, 0)
    assert words.startswith(ForkedError.__name__), words
    assert "in the child" in words or "spawn" in words
    assert "the log" not in words, "whoever reads it has a table"
    assert table.append([row(100)]).version == 2
    assert fresh(tmp_path / "t").count() == 4


def test_pickle__handle_and_version__open_the_same_again(tmp_path):
    table = create_table(tmp_path / "t", schema=SCHEMA, key="id", env=QUICK)
    table.append([row(1)])
    pinned = table.at(version=0)
    again, old = pickle.loads(pickle.dumps((table, pinned)))
    assert (again.version, again.count(), old.version, old.count()) == (1, 1, 0, 0)
    again.append([row(2)])
    assert table.count() == 2
    assert old.count() == 0
    with told(InvalidInputError, match="pinned"):
        old.append([row(3)])


def test_repr__of_handles__is_one_line_without_secrets(places):
    place = places.store("faulty")
    options = {**place.options, "aws_session_token": SECRET}
    table = create_table(place.uri, schema=SCHEMA, storage_options=options, env=QUICK)
    for one in (table, table.at(version=0), table.scan(), table.transaction(), table.history()[0], table.changes(0)):
        assert "\n" not in repr(one)
        assert SECRET not in f"{one!r} {one}"
    assert repr(table) == f"Table({place.uri})"
    assert repr(table.at(version=0)) == f"Table({place.uri}@0)"


# -- stores that fail ------------------------------------------------------------------------------

FAULTS = {
    "denied": (Fault.DENY, PermissionDeniedError),
    "away": (Fault.REFUSE, UnavailableError),
    "full": (Fault.FULL, StoreFullError),
}
CHANGING = [name for name in WRITES if name not in {"transaction", "compact"}]


@pytest.mark.parametrize("folder", [paths.DATA, paths.VECTORS, f"{paths.LOG}/{paths.ENTRIES}"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", CHANGING)
def test_write__store_refuses_it__is_told_and_nothing_is_there(name, fault, folder):
    store = new_store()
    table = new_table(store)
    kind, error = FAULTS[fault]
    before = print_of(store_of(table))
    for verb in ("create", "put"):
        store.on(verb, kind, key=folder, times=ALWAYS)
    version, caught = table.version, None
    try:
        WRITES[name](table)
    except SiltstoneError as raised:
        caught = raised
    hit = (
        any(call.verb in {"create", "put"} and folder in call.key for call in store.calls[-50:]) and caught is not None
    )
    store.script.clear()
    if not hit:
        assert caught is None, "the call writes nothing there"
        return
    assert isinstance(caught, (error, CommitUnknownError))
    check_told(caught, hint=False)
    assert folder in str(caught) or isinstance(caught, CommitUnknownError)
    assert print_of(store_of(table)) == before
    assert table.version == version
    assert table.scan().to_arrow().num_rows == 7
    if isinstance(caught, CommitUnknownError):
        assert table.resolve(caught.facts["op"]) is None
    check_works(table)


@pytest.mark.parametrize("fault", ["denied", "away"])
@pytest.mark.parametrize("name", [name for name in READS if name not in {"schema", "key", "tags", "settings"}])
def test_read__store_refuses_it__is_told_and_works_again_later(name, fault):
    store = new_store()
    new_table(store)
    kind, error = FAULTS[fault]
    table = fresh(store)
    for verb in ("get", "get_ranges", "head", "list"):
        store.on(verb, kind, times=ALWAYS)
    with told(error, hint=False):
        READS[name](table)
    store.script.clear()
    READS[name](table)
    check_works(table)


@pytest.mark.parametrize("fault", FAULTS)
def test_create__store_refuses_it__is_told_and_can_be_done_again(fault):
    store = new_store()
    kind, error = FAULTS[fault]
    store.on("create", kind, times=ALWAYS)
    store.on("put", kind, times=ALWAYS)
    with told(error, CommitUnknownError, hint=False):
        create_table(store, schema=SCHEMA, key="id", env=QUICK)
    store.script.clear()
    table = create_table(store, schema=SCHEMA, key="id", env=QUICK)
    assert table.version == 0
    check_works(table)


def test_append__answer_is_lost_and_the_store_stays_away__op_can_be_resolved():
    store = new_store()
    table = new_table(store)
    store.on("create", Fault.LOSE, key=paths.ENTRIES)
    for verb in ("get", "get_ranges", "head", "list", "create", "put"):
        store.on(verb, Fault.REFUSE, key=paths.LOG, nth=2 if verb == "create" else 1, times=ALWAYS)
    with told(CommitUnknownError) as caught:
        table.append([row(100)])
    store.script.clear()
    assert table.resolve(caught.value.facts["op"]) == 4
    assert table.get(100).num_rows == 1
    check_works(table)
