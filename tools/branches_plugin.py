"""Measures, in each process of pytest that runs tests, which branches are taken: ``tools/branches.py`` loads it.

It is loaded before anything of siltstone is imported. Children that tests fork or start are not measured: most of them
are killed, and what is shown in a child is to be shown in the test's own process, too.
"""

from __future__ import annotations

from pathlib import Path

from coverage import Coverage

MEASURED = Coverage(config_file=str(Path(__file__).resolve().parent.parent / "pyproject.toml"), data_suffix=True)
MEASURED.start()


def pytest_unconfigure() -> None:
    """Write what this process saw beside the file that ``COVERAGE_FILE`` names."""
    MEASURED.stop()
    MEASURED.save()
