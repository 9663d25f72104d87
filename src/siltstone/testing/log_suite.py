"""What a log must do over any store and any commit store, as tests: subclass ``LogSuite`` and say what to run over.

What must hold: a store and a commit store that pass keep what ``siltstone.log`` promises, also when answers are lost.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from siltstone.env import Env
from siltstone.errors import (
    ClosedError,
    ConflictError,
    CorruptionError,
    FencedError,
    MissingObjectError,
    NotFoundError,
    TruncatedError,
    UnsafeStoreError,
    WrongCommitStoreError,
)
from siltstone.ids import SystemIds
from siltstone.log import Log, Mark, open_log
from siltstone.testing.expect import raises
from siltstone.testing.peek import bodies, keys_of, put_dead
from siltstone.testing.registries import FaultRegistry
from siltstone.testing.script import Fault
from siltstone.testing.stores import FaultStore

if TYPE_CHECKING:
    from siltstone.commit.registry import Registry
    from siltstone.store.base import Store

WRITERS = 4
ADDS = 5
LOST = (Fault.LOSE, Fault.FAIL_AFTER, Fault.REFUSE)


class LogSuite:
    """Tests of logs over one store and one commit store. Each test gets a store of its own."""

    fork = False  # whether an external commit store publishes by fork, as on stores that are not trusted
    guard: Any = "auto"

    def make_store(self) -> Store:
        """A handle on an empty root that no other test uses."""
        raise NotImplementedError

    def make_registry(self) -> Registry | None:
        """The commit store; None where the object store decides."""
        return None

    def new_store(self) -> FaultStore:
        """The store of one test, trusted or not as ``fork`` says."""
        store = FaultStore(self.make_store())
        store.traits = store.traits._replace(known_good=not self.fork)
        return store

    def open(self, store: Store, registry: Registry | None = None, **options: Any) -> Log:
        """A handle on the log of a test, made where there is none."""
        options = {"create": True, "guard": self.guard, "probe": False, "env": Env(patience_s=10), **options}
        return open_log(store, commits=registry or self.make_registry(), **options)

    # -- making and opening --------------------------------------------------------------------------

    def test_open__no_log__not_found_and_nothing_made(self) -> None:
        store = self.new_store()
        with raises(NotFoundError):
            self.open(store, create=False)
        assert list(store.list()) == []

    def test_open__again__same_log(self) -> None:
        store = self.new_store()
        log = self.open(store)
        end = log.add(b"one")
        log.close()
        again = self.open(store, create=False)
        assert again.identity == log.identity
        assert again.tip() == end
        assert again.identity.publish == ("fork" if self.fork and self.make_registry() else "create")

    def test_open__two_roots_in_a_store__two_logs(self) -> None:
        store = self.new_store()
        first, second = self.open(store, root="first"), self.open(store, root="second/deep/")
        first.add(b"1")
        second.add(b"2")
        second.add(b"3")
        assert bodies(first) == [b"1"]
        assert bodies(second) == [b"2", b"3"]

    def test_open__made_by_many_at_once__one_log(self) -> None:
        store = self.new_store()
        registry = self.make_registry()
        with ThreadPoolExecutor(WRITERS) as pool:
            logs = list(pool.map(lambda _: self.open(store, registry), range(WRITERS)))
        assert len({log.identity.log for log in logs}) == 1
        assert [log.add(b"x").position for log in logs] == list(range(1, WRITERS + 1))

    def test_open__without_its_commit_store__reads_but_does_not_write(self) -> None:
        registry = self.make_registry()
        store = self.new_store()
        log = self.open(store, registry)
        log.add(b"one")
        if registry is None:
            return
        reader = open_log(store, probe=False)
        assert bodies(reader) == [b"one"]
        with raises(WrongCommitStoreError):
            reader.add(b"two")
        assert bodies(log) == [b"one"]

    # -- appending -------------------------------------------------------------------------------------

    def test_append__one_behind_the_other__entries_in_order(self) -> None:
        log = self.open(self.new_store(), writer="me")
        mark = log.start
        for number in range(6):
            mark = log.append(b"%d" % number, after=mark)
            assert mark.position == number + 1
        entries = list(log.entries())
        assert [entry.body for entry in entries] == [b"%d" % number for number in range(6)]
        assert [entry.position for entry in entries] == list(range(6))
        assert {entry.writer for entry in entries} == {"me"}
        assert not any(entry.dead for entry in entries)
        assert log.tip() == entries[-1].end == mark
        assert list(log.entries(entries[3].end)) == entries[4:]
        assert list(log.entries(entries[0].end, until=entries[3].end)) == entries[1:4]

    def test_append__empty_and_large_bodies__come_back(self) -> None:
        log = self.open(self.new_store())
        large = bytes(range(256)) * 4096
        log.add(b"")
        log.add(large)
        assert bodies(log) == [b"", large]

    def test_append__place_is_taken__conflict_says_where_to_go_on(self) -> None:
        store = self.new_store()
        one, two = self.open(store), self.open(store)
        taken = one.append(b"one", after=one.start)
        with raises(ConflictError) as caught:
            two.append(b"two", after=two.start)
        assert caught.error.facts["end"] == taken
        two.append(b"two", after=taken)
        assert bodies(one) == [b"one", b"two"]

    def test_append__same_op_again__same_mark_and_one_entry(self) -> None:
        store = self.new_store()
        op = SystemIds().new()
        one = self.open(store)
        mark = one.append(b"x", after=one.start, op=op)
        assert one.append(b"x", after=one.start, op=op) == mark
        assert self.open(store).append(b"x", after=one.start, op=op) == mark
        assert bodies(one) == [b"x"]

    def test_add__same_op_again__same_mark_and_one_entry(self) -> None:
        store = self.new_store()
        op = SystemIds().new()
        log = self.open(store)
        log.add(b"before")
        mark = log.add(b"x", op=op)
        log.add(b"behind")
        assert log.add(b"x", op=op) == mark
        assert self.open(store).add(b"x", op=op) == mark
        assert bodies(log) == [b"before", b"x", b"behind"]

    def test_add__handles_in_turn__all_entries_once(self) -> None:
        store = self.new_store()
        logs = [self.open(store, writer=f"w{number}") for number in range(3)]
        for number in range(9):
            logs[number % 3].add(b"%d" % number)
        assert bodies(logs[0]) == [b"%d" % number for number in range(9)]

    def test_add__threads_with_their_own_handles__all_entries_once(self) -> None:
        store = self.new_store()
        registry = self.make_registry()
        self.open(store, registry)

        def work(writer: int) -> list[Mark]:
            log = self.open(store, registry, env=Env(patience_s=60))
            return [log.add(b"%d-%d" % (writer, number)) for number in range(ADDS)]

        with ThreadPoolExecutor(WRITERS) as pool:
            marks = list(itertools.chain(*pool.map(work, range(WRITERS))))
        found = list(self.open(store, registry).entries())
        assert sorted(entry.body for entry in found) == sorted(
            b"%d-%d" % (writer, number) for writer in range(WRITERS) for number in range(ADDS)
        )
        assert sorted(marks) == [entry.end for entry in found]

    def test_add__closed_handle__is_refused(self) -> None:
        log = self.open(self.new_store())
        log.add(b"one")
        log.close()
        log.close()
        with raises(ClosedError):
            log.add(b"two")
        assert bodies(log) == [b"one"]

    # -- lost answers ------------------------------------------------------------------------------------

    def test_add__store_loses_each_answer_in_turn__no_duplicate_and_no_false_conflict(self) -> None:
        store = self.new_store()
        log = self.open(store)
        added = 0
        for verb, fault in itertools.product(("create", "put", "delete"), LOST):
            for nth in itertools.count(1):
                store.script.clear()
                store.on(verb, fault, nth=nth)
                assert log.append(b"%d" % added, after=log.tip()).position == added + 1
                added += 1
                if sum(call.verb == verb for call in store.calls) < nth:
                    break
        assert bodies(log) == [b"%d" % number for number in range(added)]

    def test_add__store_says_exists_for_ones_own__no_duplicate_and_no_false_conflict(self) -> None:
        store = self.new_store()
        log = self.open(store)
        for fault in (Fault.EXISTS_OWN, Fault.EXISTS_NOTHING):
            store.on("create", fault)
            log.append(fault.name.encode(), after=log.tip())
            store.script.clear()
        assert bodies(log) == [b"EXISTS_OWN", b"EXISTS_NOTHING"]

    def test_add__commit_store_loses_each_answer__no_duplicate_and_no_false_conflict(self) -> None:
        inner = self.make_registry()
        if inner is None:
            return
        registry = FaultRegistry(inner)
        log = self.open(self.new_store(), registry)
        for verb, fault in itertools.product(("claim", "lookup"), LOST):
            registry.on(verb, fault)
            log.append(b"%s %s" % (verb.encode(), fault.name.encode()), after=log.tip())
            registry.script.clear()
        assert bodies(log) == [
            b"%s %s" % (verb.encode(), fault.name.encode()) for verb in ("claim", "lookup") for fault in LOST
        ]

    def test_open__each_answer_of_making_it_lost__one_log(self) -> None:
        for verb, fault in itertools.product(("create", "put", "delete"), LOST):
            store = self.new_store()
            store.on(verb, fault)
            log = self.open(store)
            assert self.open(store).identity == log.identity
            log.add(b"x")
            assert bodies(self.open(store)) == [b"x"]

    # -- fencing -------------------------------------------------------------------------------------------

    def test_fence__older_writer_goes_on__is_told_and_leaves_nothing(self) -> None:
        store = self.new_store()
        old, new = self.open(store), self.open(store)
        first = old.append(b"old", after=old.start, epoch=1)
        fence = new.fence(2)
        with raises(FencedError) as caught:
            old.append(b"late", after=first, epoch=1)
        assert (caught.error.facts["epoch"], caught.error.facts["found"]) == (1, 2)
        with raises(FencedError):
            old.append(b"late", after=fence, epoch=1)
        with raises(FencedError):
            old.add(b"late", epoch=1)
        new.append(b"new", after=fence)
        found = list(new.entries())
        assert [(entry.kind, entry.body, entry.epoch) for entry in found] == [
            ("data", b"old", 1),
            ("fence", b"", 2),
            ("data", b"new", 2),
        ]

    def test_fence__epoch_is_taken_or_passed__is_refused(self) -> None:
        store = self.new_store()
        one, two = self.open(store), self.open(store)
        one.fence(5)
        for epoch in (4, 5):
            with raises(FencedError):
                two.fence(epoch)
        with raises(FencedError):
            two.fence(6, confirm=lambda: False)
        assert [entry.epoch for entry in one.entries()] == [5, 6]

    def test_entries__of_a_fenced_writer__are_dead_and_stepped_over(self) -> None:
        store = self.new_store()
        log = self.open(store)
        fence = log.fence(2)
        put_dead(log, fence)
        end = log.append(b"alive", after=fence, epoch=2)
        assert [(entry.body, entry.dead) for entry in log.entries()] == [
            (b"", False),
            (b"dead", True),
            (b"alive", False),
        ]
        assert end.position == 3

    # -- looking ---------------------------------------------------------------------------------------------

    def test_tip__handle_far_behind__finds_the_end(self) -> None:
        store = self.new_store()
        behind, ahead = self.open(store), self.open(store)
        start = behind.tip()
        for number in range(12):
            end = ahead.add(b"%d" % number)
            assert behind.tip(start) == end
        assert behind.tip() == end
        assert self.open(store).tip() == end
        assert behind.add(b"last").position == 13

    def test_find__op_there_or_not__entry_or_none(self) -> None:
        log = self.open(self.new_store())
        ops = [SystemIds().new() for _ in range(4)]
        marks = [log.add(op.encode(), op=op) for op in ops]
        found = [log.find(op) for op in ops]
        assert [entry and entry.body for entry in found] == [op.encode() for op in ops]
        assert log.find(SystemIds().new()) is None
        assert log.find(ops[0], since=marks[1]) is None

    def test_check_receipt__entry_replaced_or_gone__is_told(self) -> None:
        store = self.new_store()
        log = self.open(store)
        receipts = [log.add(b"%d" % number) for number in range(3)]
        for receipt in (log.start, *receipts):
            log.check_receipt(receipt)
        [key] = keys_of(log, 1)
        whole = store.get(key)
        store.put(key, store.get(keys_of(log, 0)[0]))
        with raises(UnsafeStoreError, CorruptionError):
            log.check_receipt(receipts[1])
        store.delete([key])
        with raises(MissingObjectError):
            log.check_receipt(receipts[1])
        with raises(MissingObjectError):
            bodies(log)
        store.put(key, whole[:-1])
        with raises(CorruptionError):
            bodies(log)
        store.put(key, whole)
        assert bodies(log) == [b"0", b"1", b"2"]

    # -- truncating --------------------------------------------------------------------------------------------

    def test_truncate__trusting_nobody__removes_at_once_and_goes_on(self) -> None:
        store = self.new_store()
        log = self.open(store, trust_ms=0)
        marks = [log.add(b"%d" % number) for number in range(6)]
        done = log.truncate(marks[3])
        assert (done.floor, done.deleted_below) == (4, 4)
        assert done.deleted_objects >= 4
        assert bodies(log) == [b"4", b"5"]
        assert [keys_of(log, number) for number in range(4)] == [[], [], [], []]
        with raises(TruncatedError):
            list(log.entries(marks[0]))
        log.check_receipt(marks[0])
        fresh = self.open(store, create=False)
        assert fresh.first() == marks[3]
        assert fresh.add(b"6").position == 7
        assert bodies(log) == [b"4", b"5", b"6"]
        assert log.truncate(marks[1]).floor == 4

    def test_truncate__all__log_is_empty_and_goes_on(self) -> None:
        store = self.new_store()
        log = self.open(store, trust_ms=0)
        for number in range(3):
            end = log.add(b"%d" % number)
        log.truncate(end)
        log.truncate(end)
        assert bodies(log) == []
        assert self.open(store).tip() == end
        assert self.open(store).add(b"next").position == 4
        assert bodies(log) == [b"next"]

    def test_truncate__writers_are_trusted_for_a_while__keeps_the_entries_for_now(self) -> None:
        store = self.new_store()
        log = self.open(store)
        marks = [log.add(b"%d" % number) for number in range(4)]
        done = log.truncate(marks[1])
        assert (done.floor, done.deleted_below, done.deleted_objects) == (2, 0, 0)
        assert len(keys_of(log, 0)) == 1
        assert bodies(self.open(store)) == [b"2", b"3"]
        assert self.open(store).add(b"4").position == 5

    def test_truncate__stalled_writer_behind_it__is_never_told_committed(self) -> None:
        store = self.new_store()
        log, stalled = self.open(store, trust_ms=0), self.open(store)
        mark = log.add(b"0")
        for number in range(1, 4):
            end = log.add(b"%d" % number)
        log.truncate(end)
        before = bodies(log)
        with raises(Exception) as caught:
            stalled.append(b"late", after=mark)
        assert getattr(caught.error, "kind", "") == "commit-unknown", repr(caught.error)
        assert bodies(log) == before
        assert self.open(store).add(b"next").position == 5
