"""What every store must do, as tests: subclass ``StoreSuite``, implement ``make``, and let your test runner find it.

What must hold: a store that passes keeps what ``siltstone.store.base`` promises. Each test gets a root of its own.
"""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from siltstone.errors import AlreadyExistsError, CorruptionError, InvalidInputError, NotFoundError
from siltstone.testing.expect import raises
from siltstone.testing.hostile import HOSTILE_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from siltstone.store.base import Store

RACERS = 8
MANY = 1100  # one more page than a listing request returns
LARGE_BYTES = 5 * 1024 * 1024
ODD_KEYS = (
    "with space",
    "plus+and=equals",
    "amp&at@comma,semi;",
    "bang!quote'(round)[square]{curly}",
    "tilde~caret^tick`dollar$",
    "dash-_underscore",
    "...dots",
    ".hidden",
    "a.b.c/..d",
    "grüße/日本語/🪨",
    "é",
)


class StoreSuite:
    """Tests of one kind of store."""

    rounds = 6  # races
    # "a/b" before "a-b", and nothing of "a/" after "a"; siltstone's own names never meet the difference.
    sorts_by_segment = False

    def make(self) -> Store:
        """A handle on an empty root that no other test uses."""
        raise NotImplementedError

    def secrets(self) -> Sequence[str]:
        """Texts that must be shown nowhere."""
        return ()

    def request_count(self) -> int:
        """Requests that reached the service; 0 for ever where that can't be told."""
        return 0

    # -- create, put, get --------------------------------------------------------------------------

    def test_create__twice__second_is_refused_and_changes_nothing(self) -> None:
        store = self.make()
        store.create("a/b", b"first")
        with raises(AlreadyExistsError):
            store.create("a/b", b"second")
        assert store.get("a/b") == b"first"

    def test_create__over_a_put__is_refused(self) -> None:
        store = self.make()
        store.put("a", b"put")
        with raises(AlreadyExistsError):
            store.create("a", b"created")
        assert store.get("a") == b"put"

    def test_create__after_delete__makes_it_anew(self) -> None:
        store = self.make()
        store.create("a", b"1")
        store.delete(["a"])
        store.create("a", b"2")
        assert store.get("a") == b"2"

    def test_create__many_at_once__one_wins_and_its_bytes_are_there(self) -> None:
        store = self.make()
        for number in range(self.rounds):
            key = f"race/{number}"
            winners = _race(lambda racer, key=key: store.create(key, b"racer %d" % racer))  # type: ignore[misc]
            assert len(winners) == 1
            assert store.get(key) == b"racer %d" % winners[0]

    def test_put__twice__replaces(self) -> None:
        store = self.make()
        store.put("a", b"a longer one")
        store.put("a", b"new")
        assert store.get("a") == b"new"

    def test_get__missing__is_not_found(self) -> None:
        store = self.make()
        with raises(NotFoundError) as caught:
            store.get("nothing/here")
        assert caught.error.facts["object"] == "nothing/here"

    def test_get__over_the_limit__is_refused(self) -> None:
        store = self.make()
        store.put("a", b"12345")
        with raises(CorruptionError):
            store.get("a", limit=4)
        assert store.get("a", limit=5) == b"12345"

    def test_get__empty_object__is_empty(self) -> None:
        store = self.make()
        store.create("empty", b"")
        assert store.get("empty") == b""
        info = store.head("empty")
        assert info is not None
        assert info.size == 0

    def test_get__large_object__comes_back_whole(self) -> None:
        store = self.make()
        data = bytes(range(256)) * (LARGE_BYTES // 256)
        store.put("put", data)
        store.create("created", data)
        assert store.get("put") == data
        assert store.get("created") == data

    def test_get_ranges__several__come_in_the_order_asked_for(self) -> None:
        store = self.make()
        store.put("a", b"0123456789")
        assert store.get_ranges("a", [(7, 9), (0, 3), (9, 10), (2, 3)]) == [b"78", b"012", b"9", b"2"]
        with raises(NotFoundError):
            store.get_ranges("missing", [(0, 1)])

    def test_read_into__a_range__fills_the_memory_as_far_as_there_are_bytes(self) -> None:
        store = self.make()
        store.put("a", b"0123456789")
        space = bytearray(b"....")
        assert store.read_into("a", 2, memoryview(space)) == len(space)
        assert bytes(space) == b"2345"
        assert store.read_into("a", 8, memoryview(space)[:2]) == len(b"89")
        assert bytes(space) == b"8945"
        with raises(NotFoundError):
            store.read_into("missing", 0, memoryview(space))

    def test_get_many__some_missing__keeps_the_order_with_none(self) -> None:
        store = self.make()
        names = [f"n/{number:03d}" for number in range(150)]
        for name in names[::2]:
            store.put(name, name.encode())
        assert list(store.get_many(names)) == [name.encode() if at % 2 == 0 else None for at, name in enumerate(names)]
        assert list(store.get_many([])) == []

    def test_get_many__left_early__store_works_on(self) -> None:
        store = self.make()
        store.put("a", b"1")
        found = store.get_many(["a"] * 300)
        assert next(found) == b"1"
        del found
        assert store.get("a") == b"1"

    def test_head__there_or_not__says_size_or_none(self) -> None:
        store = self.make()
        store.put("a/b", b"12345")
        info = store.head("a/b")
        assert info is not None
        assert (info.key, info.size) == ("a/b", 5)
        assert info.modified_ms > 0
        assert store.head("a/c") is None
        assert store.head("a") is None

    # -- copy, delete --------------------------------------------------------------------------------

    def test_copy__onto_another__replaces_it(self) -> None:
        store = self.make()
        store.put("a/source", b"data")
        store.put("b/target", b"old")
        store.copy("a/source", "b/target")
        assert store.get("b/target") == b"data"
        assert store.get("a/source") == b"data"

    def test_copy__missing_source__is_not_found(self) -> None:
        store = self.make()
        with raises(NotFoundError):
            store.copy("missing", "target")
        assert store.head("target") is None

    def test_delete__missing_ones_among_others__removes_the_rest(self) -> None:
        store = self.make()
        for name in ("a", "b", "c"):
            store.put(name, b"x")
        store.delete(["a", "missing", "c", "also/missing"])
        assert [info.key for info in store.list()] == ["b"]
        store.delete(["missing"])
        store.delete([])

    # -- list ------------------------------------------------------------------------------------------

    def test_list__nothing_there__is_empty(self) -> None:
        store = self.make()
        assert list(store.list()) == []
        assert list(store.list("no/such/prefix")) == []

    def test_list__any__is_in_key_order_with_sizes(self) -> None:
        store = self.make()
        names = ["b", "a/b", "a/a/z", "a0", "Z", "_x", "é", "a/b0"]
        names += [] if self.sorts_by_segment else ["a-b", "a.b", "a/a-z"]
        for name in names:
            store.put(name, name.encode())
        found = list(store.list())
        assert [info.key for info in found] == sorted(names)
        assert all(info.size == len(info.key.encode()) for info in found)

    def test_list__prefix__is_of_whole_segments(self) -> None:
        store = self.make()
        for name in ("ab/c", "ab/d/e", "ab.", "abc", "ab0/d", "a"):
            store.put(name, b"x")
        assert [info.key for info in store.list("ab")] == ["ab/c", "ab/d/e"]
        assert [info.key for info in store.list("ab/")] == ["ab/c", "ab/d/e"]
        assert [info.key for info in store.list("ab/d")] == ["ab/d/e"]

    def test_list__after_a_key__starts_behind_it(self) -> None:
        store = self.make()
        names = [*([] if self.sorts_by_segment else ["p/a-"]), "p/a/x", "p/a/y/z", "p/a0", "p/b", "p/c/x"]
        for name in names:
            store.put(name, b"x")
        directories = [] if self.sorts_by_segment else ["p/a", "p/a/", "p/a/y", "p/c", "p/"]
        for after in [*names, *directories, "p/a/z", "p/aa", "p/d", "o", "q"]:
            expected = [name for name in names if name > after]
            assert [info.key for info in store.list("p", after=after)] == expected, after

    def test_list__more_than_a_page__shows_all_once(self) -> None:
        store = self.make()
        names = [f"many/{number:05d}" for number in range(MANY)]
        with ThreadPoolExecutor(RACERS) as pool:
            list(pool.map(lambda name: store.put(name, b""), names))
        assert [info.key for info in store.list("many")] == names
        assert [info.key for info in store.list("many", after=names[1000])] == names[1001:]
        assert next(iter(store.list("many"))).key == names[0]
        store.delete(names)
        assert list(store.list("many")) == []

    # -- names -----------------------------------------------------------------------------------------

    def test_keys__odd_characters__come_back_as_they_are(self) -> None:
        store = self.make()
        for key in ODD_KEYS:
            store.create(key, key.encode())
        assert [store.get(key).decode() for key in ODD_KEYS] == list(ODD_KEYS)
        assert [info.key for info in store.list()] == sorted(ODD_KEYS)
        store.copy(ODD_KEYS[0], "copied")
        assert store.get("copied") == ODD_KEYS[0].encode()
        store.delete(ODD_KEYS)
        assert [info.key for info in store.list()] == ["copied"]

    def test_keys__hostile__are_refused_before_any_request(self) -> None:
        store = self.make()
        store.put("here", b"x")
        before = self.request_count()
        for key in HOSTILE_KEYS:
            for call in _calls(store, key):
                with raises(InvalidInputError):
                    call()
        assert self.request_count() == before
        assert [info.key for info in store.list()] == ["here"]

    # -- handles ---------------------------------------------------------------------------------------

    def test_pickle__handle__reaches_the_same_objects(self) -> None:
        store = self.make()
        store.put("a", b"1")
        twin = pickle.loads(pickle.dumps(store))  # noqa: S301 - made on the line itself
        assert twin.location == store.location
        assert twin.traits == store.traits
        assert twin.get("a") == b"1"

    def test_repr__of_handle_and_errors__shows_no_secret(self) -> None:
        store = self.make()
        shown = [repr(store), str(store), store.uri, store.location]
        for key in ("missing", "../x"):
            with raises(NotFoundError, InvalidInputError) as caught:
                store.get(key)
            shown += [str(caught.error), repr(caught.error), repr(caught.error.facts)]
        for text in shown:
            assert not [secret for secret in self.secrets() if secret in text]

    def test_handle__shared_by_threads__serves_them_all(self) -> None:
        store = self.make()

        def work(number: int) -> bytes:
            store.put(f"t/{number}", b"%d" % number)
            return store.get(f"t/{number}")

        with ThreadPoolExecutor(RACERS) as pool:
            assert list(pool.map(work, range(64))) == [b"%d" % number for number in range(64)]
        assert len(list(store.list("t"))) == 64


def _race(attempt: Callable[[int], None]) -> list[int]:
    start = threading.Barrier(RACERS)

    def run(racer: int) -> bool:
        start.wait()
        try:
            attempt(racer)
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(RACERS) as pool:
        return [racer for racer, won in enumerate(pool.map(run, range(RACERS))) if won]


def _calls(store: Store, key: Any) -> list[Callable[[], object]]:
    calls: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.get_ranges(key, [(0, 1)]),
        lambda: list(store.get_many([key])),
        lambda: store.head(key),
        lambda: store.create(key, b"x"),
        lambda: store.put(key, b"x"),
        lambda: store.copy(key, "target"),
        lambda: store.copy("here", key),
        lambda: store.delete([key]),
    ]
    if isinstance(key, str) and key.rstrip("/") not in {"", "a"}:  # a closing slash is fine in a prefix
        calls.append(lambda: list(store.list(key)))
    return calls
