"""The commits of one handle: threads take turns, and appends that come while one is under way share the next version.

What must hold:
- Each thread is told what became of its own operations; an append that is refused spoils no other.
- A transaction with an id or a message has a version of its own.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.errors import CommitUnknownError, ConflictError, InternalError, InvalidInputError
from siltstone.locks import ForkLock
from siltstone.table.commit import Committed, commit
from siltstone.table.once import ANYTIME, Once
from siltstone.table.operations import Append

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from siltstone.table.history import History
    from siltstone.table.operations import Work
    from siltstone.table.state import State
    from siltstone.table.tools import Tools

TOGETHER_MAX = 256


@dataclass(eq=False)
class Request:
    """Operations of one thread that are to become a version."""

    works: Sequence[Work]
    base: int
    once: Once = ANYTIME
    message: str = ""
    op: str = ""
    done: Committed | None = None
    failed: BaseException | None = None

    @property
    def shares(self) -> bool:
        """Whether it may become a version together with others."""
        return not (self.once or self.message) and all(type(work) is Append for work in self.works)


class Turns:
    """Commits for the threads of one handle. ``state`` gives the newest known state, ``seen`` takes a newer one."""

    def __init__(
        self,
        tools: Tools,
        history: History,
        *,
        state: Callable[[], State],
        seen: Callable[[State], State],
        complete: Callable[[Sequence[Work]], Sequence[Work]] = list,
    ) -> None:
        self._tools = tools
        self._history = history
        self._state = state
        self._seen = seen
        self._complete = complete  # operations, with what they need before them
        self._turn = ForkLock()
        self._waiting: list[Request] = []
        self._guard = ForkLock()

    def commit(self, request: Request) -> Committed:
        """Make a version of a request, alone or with those of other threads."""
        with self._guard:
            self._waiting.append(request)
        try:
            with self._turn:
                if request.done is None and request.failed is None:
                    self._run(self._take(request))
        except BaseException:
            # Whoever is interrupted while it waits must not be served later.
            with self._guard:
                self._waiting = [one for one in self._waiting if one is not request]
            raise
        if request.failed is not None:
            raise request.failed
        if request.done is None:
            raise InternalError("a request was taken and not answered")
        return request.done

    def _take(self, request: Request) -> list[Request]:
        with self._guard:
            others = [one for one in self._waiting if one is not request and one.shares] if request.shares else []
            batch = [request, *others[: TOGETHER_MAX - 1]]
            self._waiting = [one for one in self._waiting if one not in batch]
        return batch

    def _run(self, batch: list[Request]) -> None:
        try:
            if len(batch) > 1 and self._together(batch):
                return
            for request in batch:
                self._alone(request)
        except BaseException as error:
            for request in batch[1:]:
                if request.done is None and request.failed is None:
                    request.failed = _told(error, request)
            raise

    def _together(self, batch: list[Request]) -> bool:
        """One version for all; False where one of them is refused."""
        works = self._complete([work for request in batch for work in request.works])
        op = self._tools.env.ids.new()
        for request in batch:
            request.op = op
        try:
            done = commit(self._tools, self._history, self._state(), works, base=batch[0].base, op=op)
        except InvalidInputError:
            return False
        except ConflictError as error:
            if error.facts.get("op") == op:  # patience ran out; what is wrong with one of them has no op
                raise
            return False
        self._seen(done.state)
        for request in batch:
            request.done = done
        return True

    def _alone(self, request: Request) -> None:
        try:
            done = commit(
                self._tools,
                self._history,
                self._state(),
                self._complete(request.works),
                base=request.base,
                once=request.once,
                message=request.message,
            )
        except Exception as error:
            request.failed = error
            return
        self._seen(done.state)
        request.done = done


def _told(error: BaseException, request: Request) -> BaseException:
    """What a thread is told when the one that committed for it failed."""
    if isinstance(error, Exception):
        return copy.copy(error)
    return CommitUnknownError(
        "the thread that committed for this one was interrupted",
        hint="look the op id up with resolve() before running it again",
        op=request.op,
    )
