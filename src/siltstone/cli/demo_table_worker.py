"""One writer of the demo's table, in a process of its own; its orders and its words are those of ``demo_worker``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from siltstone.api import open_table
from siltstone.cli.demo_rows import ROWS_EACH, reviews
from siltstone.errors import SiltstoneError

if TYPE_CHECKING:
    from collections.abc import Mapping


def main() -> int:
    """Append as ordered; the exit code."""
    try:
        _write(json.loads(sys.stdin.readline()))
    except SiltstoneError as error:
        _say({"failed": error.kind, "message": error.message})
        return 1
    return 0


def _write(orders: Mapping[str, Any]) -> None:
    first = int(orders["writer"].rpartition("-")[2]) * orders["entries"]
    with open_table(orders["uri"]) as table:
        _say({"ready": True})
        sys.stdin.readline()
        for lot in range(first, first + orders["entries"]):
            version = table.append(reviews(lot * ROWS_EACH, ROWS_EACH))
            _say({"position": -1 if version is None else version.version, "digest": ""})
    _say({"done": orders["entries"]})


def _say(fact: Mapping[str, Any]) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    sys.exit(main())
