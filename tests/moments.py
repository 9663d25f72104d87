"""Work that must end soon, measured so that no busy machine can fail it."""

from __future__ import annotations

import contextlib
import time

SECONDS_MAX = 30  # a collection of a large heap takes some; what looks back for each character takes hours


@contextlib.contextmanager
def ends_soon(seconds=SECONDS_MAX):
    """A block that takes little of the processor, however long it has to wait for it."""
    begun = time.process_time()
    yield
    took = time.process_time() - begun
    assert took < seconds, f"took {took:.1f} s of the processor"
