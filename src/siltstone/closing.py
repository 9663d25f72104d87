"""The ``with`` block of handles."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import Self

from siltstone.errors import SiltstoneError


class Closing:
    """A handle that is closed at the end of its block."""

    @abstractmethod
    def close(self) -> None:
        """End it; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # the error that ended the block matters more than one of closing
            with contextlib.suppress(SiltstoneError):
                self.close()
