"""Stores that misbehave as told, and stores that let a test step in between two calls.

What must hold: without a script both are the store inside them, call for call. Reads of several objects are
made one by one, so that each of them can be hit. Listings are taken whole at the call, not while they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from siltstone.errors import InvalidInputError, NotFoundError
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store
from siltstone.store.wrapper import StoreWrapper
from siltstone.testing.script import ANY, Call, Crashed, Fault, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["VERBS", "Crashed", "Fault", "FaultStore", "Interleaves"]

T = TypeVar("T")
VERBS = ("get", "get_ranges", "head", "create", "put", "copy", "list", "delete")


class _CallByCall(StoreWrapper):
    """Sends every call through ``_around``, with what it would do."""

    def _around(self, verb: str, key: str, effect: Callable[[], T], special: Callable[[Fault], T] | None = None) -> T:
        raise NotImplementedError

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        return self._around("get", key, lambda: self.inner.get(key, limit=limit))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._around("get_ranges", key, lambda: self.inner.get_ranges(key, ranges))

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        for key in keys:
            try:
                yield self.get(key, limit=limit)
            except NotFoundError:
                yield None

    def head(self, key: str) -> ObjectInfo | None:
        return self._around("head", key, lambda: self.inner.head(key))

    def create(self, key: str, data: bytes) -> None:
        self._around("create", key, lambda: self.inner.create(key, data), lambda _: self.inner.put(key, data))

    def put(self, key: str, data: bytes) -> None:
        self._around("put", key, lambda: self.inner.put(key, data))

    def copy(self, source: str, target: str) -> None:
        self._around("copy", target, lambda: self.inner.copy(source, target))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        found = self._around(
            "list",
            prefix,
            lambda: [*self.inner.list(prefix, after=after)],
            lambda _: [info for info in self.inner.list(prefix, after=after) if info.key != self._newest()],
        )
        return iter(found)

    def delete(self, keys: Iterable[str]) -> None:
        names = [*keys]
        self._around("delete", " ".join(map(str, names)), lambda: self.inner.delete(names))

    def _newest(self) -> str:
        return ""


class FaultStore(_CallByCall):
    """A store whose n-th call of a verb goes wrong in a stated way.

    ``store.on("create", Fault.LOSE, key="entries/")`` loses the answer of the next create below ``entries/``;
    ``calls`` holds what was called, so that a test can go through all the calls of a workflow one by one.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.script = Script(VERBS)

    def on(self, verb: str, fault: Fault, *, key: str = "", nth: int = 1, times: int = 1) -> None:
        """As ``Script.on``."""
        self.script.on(verb, fault, key=key, nth=nth, times=times)

    @property
    def calls(self) -> list[Call]:
        """What was called so far, hit or not."""
        return self.script.calls

    def release(self) -> int:
        """Let delayed calls take effect."""
        return self.script.release()

    def _around(self, verb: str, key: str, effect: Callable[[], T], special: Callable[[Fault], T] | None = None) -> T:
        return self.script.run(verb, key, effect, special)

    def _newest(self) -> str:
        written = [call.key for call in self.script.calls if call.verb in {"create", "put", "copy"}]
        return written[-1] if written else ""


class _Step(NamedTuple):
    verb: str
    key: str
    nth: int
    after: bool
    action: Callable[[], object]


class Interleaves(_CallByCall):
    """Runs something else right before or after a call: a race, without threads and without luck.

    What is run may use the same objects through another handle; calls through this one are not counted meanwhile.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []
        self._steps: dict[_Step, int] = {}
        self._inside = False

    def before(self, verb: str, action: Callable[[], object], *, key: str = "", nth: int = 1) -> None:
        """Run ``action`` once, right before the ``nth`` call of ``verb`` (``"*"``: of any) on such a key."""
        self._add(_Step(verb, key, nth, False, action))

    def after(self, verb: str, action: Callable[[], object], *, key: str = "", nth: int = 1) -> None:
        """Run ``action`` once, right after that call took effect, also where it raised."""
        self._add(_Step(verb, key, nth, True, action))

    @property
    def pending(self) -> int:
        """Actions that have not run yet."""
        return len(self._steps)

    def _add(self, step: _Step) -> None:
        if step.verb not in {*VERBS, ANY} or step.nth < 1:
            raise InvalidInputError(f"there is no call {step.nth} of {step.verb!r}")
        self._steps[step] = 0

    def _around(self, verb: str, key: str, effect: Callable[[], T], special: Callable[[Fault], T] | None = None) -> T:
        if self._inside:
            return effect()
        self.calls.append(Call(verb, key))
        due = self._due(verb, key)
        self._act(step for step in due if not step.after)
        try:
            return effect()
        finally:
            self._act(step for step in due if step.after)

    def _due(self, verb: str, key: str) -> list[_Step]:
        due = []
        for step in [*self._steps]:
            if step.verb in {verb, ANY} and step.key in key:
                self._steps[step] += 1
                if self._steps[step] == step.nth:
                    del self._steps[step]
                    due.append(step)
        return due

    def _act(self, steps: Iterable[_Step]) -> None:
        for step in steps:
            self._inside = True
            try:
                step.action()
            finally:
                self._inside = False
