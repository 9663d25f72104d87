"""``version``: what is installed here."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from siltstone._version import __version__
from siltstone.cli.errors import DONE
from siltstone.commit.connect import supported_schemes
from siltstone.format import frame, records

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.output import Output


def run_version(_: argparse.Namespace, output: Output) -> int:
    """The verb ``version``."""
    try:
        obstore = version("obstore")
    except PackageNotFoundError:
        obstore = "unknown"
    found = {
        "siltstone": __version__,
        "python": platform.python_version(),
        "obstore": obstore,
        "format": records.FORMAT,
        "frame": frame.VERSION,
        "commit_stores": supported_schemes(),
    }
    output.result(found)
    output.fields([(name, ", ".join(value) if isinstance(value, list) else value) for name, value in found.items()])
    return DONE
