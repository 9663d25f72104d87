"""What a user may import is a short list, changed on purpose only."""

from __future__ import annotations

import siltstone
from sources import PACKAGE

PUBLIC_NAMES_MAX = 25
PUBLIC_NAMES = [
    "Checkpoint",
    "Collected",
    "Entry",
    "Log",
    "Mark",
    "ShardWriter",
    "ShardWriterConfig",
    "Table",
    "__version__",
    "check_store",
    "create",
    "drop",
    "errors",
    "open",
    "open_commits",
    "open_log",
    "open_store",
    "query",
    "repair",
    "spark",
    "verify",
]


def test_package__its_public_names__are_the_pinned_ones():
    assert sorted(siltstone.__all__) == PUBLIC_NAMES
    assert len(PUBLIC_NAMES) <= PUBLIC_NAMES_MAX


def test_package__each_public_name__is_there():
    assert [name for name in siltstone.__all__ if not hasattr(siltstone, name)] == []


def test_package__its_own_namespace__shows_nothing_else():
    submodules = {path.stem for path in PACKAGE.iterdir()}
    shown = {name for name in vars(siltstone) if not name.startswith("_")}
    assert shown - submodules - {"annotations"} <= set(siltstone.__all__)
