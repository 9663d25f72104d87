"""One writer of the demo, in a process of its own.

Reads its orders as one JSON line on standard input, says "ready", and begins at the next line. Every entry that
was acknowledged is a JSON line on standard output; the last line says how it ended.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from siltstone.errors import SiltstoneError
from siltstone.ids import SystemIds
from siltstone.log import open_log

if TYPE_CHECKING:
    from collections.abc import Mapping


def main() -> int:
    """Append as ordered; the exit code."""
    try:
        _write(json.loads(sys.stdin.readline()))
    except SiltstoneError as error:
        _say(sys.stdout, {"failed": error.kind, "message": error.message})
        return 1
    return 0


def _write(orders: Mapping[str, Any]) -> None:
    with open_log(
        orders["uri"],
        commits=orders["commits"] or None,
        storage_options=orders["storage_options"] or None,
        writer=orders["writer"],
    ) as log:
        _say(sys.stdout, {"ready": True})
        sys.stdin.readline()
        ids = SystemIds()
        for number in range(orders["entries"]):
            body = json.dumps({"writer": orders["writer"], "number": number, "id": ids.new()}).encode()
            end = log.add(body)
            _say(sys.stdout, {"position": end.position - 1, "digest": end.digest})
    _say(sys.stdout, {"done": orders["entries"]})


def _say(stream: TextIO, fact: Mapping[str, Any]) -> None:
    stream.write(json.dumps(fact) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
