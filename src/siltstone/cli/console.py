"""``console``: tables in a browser.

What must hold: an interrupt is the way to end it, and no error; nothing is printed but where it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING

from siltstone.cli.errors import DONE
from siltstone.cli.opening import newest_only
from siltstone.cli.options import secrets, storage_options, wal_of
from siltstone.cli.output import clean
from siltstone.console.root import Given
from siltstone.console.server import Console

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.output import Output


def run_console(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``console``."""
    wal = wal_of(arguments)
    given = Given(
        uri=newest_only(arguments.root, "console", does="shows all versions and"),
        storage_options=storage_options(arguments),
        commits=arguments.commits,
        wal=wal["wal"],
        wal_options=wal["wal_options"],
        secrets=tuple(secrets(arguments)),
    )
    with contextlib.suppress(KeyboardInterrupt), Console(given, port=arguments.port) as console:
        found = console.root.tables()  # a store that can't be reached is told here, not in the page
        console.start()
        if not found.paths:
            output.note(f"note: there is no table at or below {clean(console.root.store.uri)} yet")
        _say(console, output)
        if output.on_terminal and not output.as_json and not arguments.no_open and _has_screen():
            # Some browsers return only when they are closed.
            threading.Thread(target=webbrowser.open, args=(console.url_once,), daemon=True).start()
        console.wait()
    return DONE


def _say(console: Console, output: Output) -> None:
    uri = console.root.store.uri
    output.result({"uri": uri, "address": console.address, "url": console.url, "port": console.port})
    output.line(f"{clean(uri)} is shown at")
    output.line(f"  {output.paint(console.url, 'bold')}")
    output.line("to browsers of this machine alone; Ctrl-C ends it")
    output.end()  # whoever waits for the address has it now


def _has_screen() -> bool:
    """Whether a browser would have a window: without one, some would take the terminal over."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
