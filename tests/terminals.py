"""Reading what a process writes to a terminal."""

from __future__ import annotations

import os


def read_terminal(ours: int) -> bytes:
    """All of it; closes our end."""
    said = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # Linux ends a terminal this way
            data = b""
        if not data:
            break
        said += data
    os.close(ours)
    return said
