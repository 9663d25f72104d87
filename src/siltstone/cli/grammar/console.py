"""``console`` as it is written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from siltstone.cli.options import add_store, add_verb, add_wal, whole_number

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

PORT_MAX = 65_535
_CONSOLE = """\
A page in the browser of this machine that shows the table at ROOT, or all tables below it, and follows what writers
do: versions and what each one changed, fragments, shards, text indexes, checkpoints and clones, rows, and how store and
commit store are. It can search and preview rows. It writes nothing. Only this machine reaches it, and only with the
token in the address that is printed. Ctrl-C ends it.

Examples:
  siltstone console reviews
  siltstone console s3://bucket/lake --port 8787 --no-open
  siltstone console DIR --commits sqlite:claims.db
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb ``console``."""
    parser = add_verb(
        verbs,
        "console",
        "console.run_console",
        says="Look at tables in a browser.",
        teaches=_CONSOLE,
        shape=("uri", "address", "url", "port"),
    )
    add_store(parser, what="a table, or what tables are below", name="root")
    add_wal(parser)
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="of 127.0.0.1; default: one that is free")
    parser.add_argument("--no-open", action="store_true", help="don't open a browser")


def _port(text: str) -> int:
    """The number of a port, for argparse."""
    found = whole_number(text)
    if found > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is no port: the last one is {PORT_MAX}")
    return found
