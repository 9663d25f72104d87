"""Errors of the format "siltstone" as Spark shows them: Spark prints all that Python knows, with the sentence last.

What must hold:
- What a user can mend is shown without the calls inside siltstone that found it.
- An error of siltstone's own is shown with all of them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from siltstone.errors import CorruptionError, InternalError, SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Callable

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def plainly(call: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The same call, whose errors come from here."""

    @functools.wraps(call)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        try:
            return call(*args, **kwargs)
        except (InternalError, CorruptionError):
            raise
        except SiltstoneError as error:
            raise error.with_traceback(None) from None

    return called
