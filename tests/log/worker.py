"""A writer in a process of its own. Its one argument is a JSON object; it tells each acknowledgement when it has it.

``{"uri", "options", "commits", "adds", "open": {...}}``: opens the log, says "ready", waits for a line, then adds.
A line of its output is ``{"op", "position", "digest"}`` for an acknowledged operation or ``{"op", "error"}``.
"""

from __future__ import annotations

import json
import os
import sys

from siltstone.env import Env
from siltstone.errors import CommitUnknownError, SiltstoneError
from siltstone.ids import SystemIds
from siltstone.log import open_log

STOPS = {"unsafe-store", "split-history", "corruption", "missing-object"}  # what a real writer would not go past


def tell(**facts) -> None:
    # One write for one line: a kill leaves a line whole or out, and nothing stays in a buffer.
    os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


def main() -> None:
    asked = json.loads(sys.argv[1])
    log = open_log(
        asked["uri"],
        storage_options=asked["options"] or None,
        commits=asked["commits"],
        env=Env(patience_s=asked.get("patience_s", 60)),
        **asked.get("open", {}),
    )
    tell(ready=True)
    if not sys.stdin.readline():
        return
    ids = SystemIds()
    for number in range(asked["adds"]):
        op = ids.new()
        try:
            mark = log.add(b"%d" % number, op=op if asked.get("ops") else "")
        except CommitUnknownError as error:
            tell(op=op, error=error.kind)
            continue
        except SiltstoneError as error:
            tell(op=op, error=error.kind, message=str(error))
            if error.kind in STOPS:
                return
            continue
        tell(op=op, position=mark.position, digest=mark.digest)
    try:
        log.close()
    except SiltstoneError as error:
        tell(op="close", error=error.kind, message=str(error))


main()
