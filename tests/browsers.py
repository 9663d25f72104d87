"""The browser that pages are tried in."""

from __future__ import annotations

import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root in a container: no sandbox, and shared memory may be small. Busy machines take long to start it.
LAUNCH = {"args": ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"], "timeout": 180_000}
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
MISSING = (
    "there is no Chromium or Chrome to try pages in: install it (on Debian and Ubuntu `apt-get install chromium`, on "
    "macOS Google Chrome), so that one of chromium, chromium-browser and google-chrome is on PATH"
)


def browser_program() -> str:
    """Where Chromium or Chrome is."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and MAC.is_file():
        found = str(MAC)
    assert found is not None, MISSING
    return found
