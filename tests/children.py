"""What workers in processes of their own have in common: children that are forked, and lines that a test reads."""

from __future__ import annotations

import json
import os
import sys
import traceback


def fork(call, *arguments) -> int:
    """Call something in a child, which ends with it; its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        call(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def say(**facts) -> None:
    """Tell a test something, in one line."""
    os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")
