"""Fixtures for tests of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crew import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Writers in processes of their own, started when a test first asks for so many."""
    made = Crew(tmp_path_factory.mktemp("crew"))
    yield made
    made.close()
