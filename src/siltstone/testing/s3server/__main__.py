"""Run the fault server from a command line: ``python -m siltstone.testing.s3server --port 9000 --bucket bkt``.

What must hold: the first line on standard output ends with the port, written once the server answers.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import signal
import sys
from typing import Any

from siltstone.testing.s3server.faults import Faults
from siltstone.testing.s3server.messages import Refusal
from siltstone.testing.s3server.server import HOST, serve


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m siltstone.testing.s3server",
        description="An S3-compatible server on 127.0.0.1 that keeps objects in memory and misbehaves as told.",
    )
    parser.add_argument("--port", type=int, default=9000, help="0 picks a free one (default: 9000)")
    parser.add_argument("--bucket", action="append", default=[], help="a bucket to start with; may be repeated")
    parser.add_argument("--owner", type=int, default=0, help="end when this parent process is gone")
    parser.add_argument("--faults", default="{}", metavar="JSON", help="all faults as one JSON object")
    group = parser.add_argument_group("faults, each also a field of --faults")
    for field in dataclasses.fields(Faults):
        name = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            group.add_argument(name, action="store_true", default=None)
        elif isinstance(field.default, tuple):
            group.add_argument(name, action="append", metavar="RIGHT")
        else:
            group.add_argument(name, type=type(field.default), metavar=type(field.default).__name__.upper())
    return parser


def _faults(arguments: argparse.Namespace) -> Faults:
    given: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(Faults)}
    whole = json.loads(arguments.faults)
    if not isinstance(whole, dict):
        raise ValueError("--faults is a JSON object")  # noqa: TRY004 - reported like any bad value
    return Faults().changed(whole | {name: value for name, value in given.items() if value is not None})


async def _run(faults: Faults, arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def say(port: int) -> None:
        sys.stdout.write(f"listening on http://{HOST}:{port}\n")
        sys.stdout.flush()

    await serve(faults, buckets=arguments.bucket, port=arguments.port, on_ready=say, stop=stop, owner=arguments.owner)


def main() -> int:
    """Serve until a signal comes or the owner is gone; the exit code."""
    parser = _parser()
    arguments = parser.parse_args()
    try:
        faults = _faults(arguments)
    except ValueError as error:
        parser.error(str(error))
    try:
        asyncio.run(_run(faults, arguments))
    except (OSError, OverflowError, Refusal) as error:
        sys.stderr.write(f"the fault server can't start: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
