"""How often something really happened in a run of the tests: kills, faults, mutations, restarts.

``SILTSTONE_FIGURES`` names a directory; each process adds lines of JSON to a file of its own there, and
``tools/reliability.py`` sums them up for ``docs/reliability.md``. Without it nothing is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

DIRECTORY = "SILTSTONE_FIGURES"


def record(name: str, amount: int = 1, *, of: str = "") -> None:
    """Something happened so many times, in the test that runs now, or in what is called ``of``."""
    directory = os.environ.get(DIRECTORY)
    if not directory or not amount:
        return
    test, _, _ = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")  # behind it: setup, call or teardown
    line = json.dumps({"name": name, "amount": int(amount), "test": of or test})
    # One write for one line, and no file is kept open: tests fork, and are killed.
    with (Path(directory) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
