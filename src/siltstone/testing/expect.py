"""Expecting errors without a test framework, so that the suites run under any."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E", bound=BaseException)


class Caught(Generic[E]):
    """The error that a ``with raises(...)`` block ended with."""

    def __init__(self) -> None:
        self._error: E | None = None

    @property
    def error(self) -> E:
        """The error; only after the block."""
        assert self._error is not None, "the block has not ended"
        return self._error

    def set(self, error: E) -> None:
        """Keep the error."""
        self._error = error


@contextmanager
def raises(*kinds: type[E]) -> Iterator[Caught[E]]:
    """A block that must end with one of some errors; any other error passes through."""
    caught: Caught[E] = Caught()
    try:
        yield caught
    except kinds as error:
        caught.set(error)
    else:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise AssertionError(f"{names} was expected, and nothing was raised")
