"""Fixtures for tests of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crew import Crew
from siltstone.table import layout, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Writers in processes of their own, started when a test first asks for so many."""
    made = Crew(tmp_path_factory.mktemp("crew"))
    yield made
    made.close()


@pytest.fixture(params=["row groups", "pages", "small fragments"])
def sizes(request, monkeypatch):
    """Fragments of a few thousand rows are many row groups, or many pages, or small ones that are read together."""
    if request.param != "small fragments":
        monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
        monkeypatch.setattr(layout, "GROUP_ROWS", 250 if request.param == "row groups" else 4000)
        monkeypatch.setattr(layout, "PAGE_ROWS", 50)
        monkeypatch.setattr(layout, "_BATCH_ROWS", 50)
    return request.param


@pytest.fixture
def large(monkeypatch):
    """No fragment is small, and row groups have 100 rows."""
    monkeypatch.setattr(tasks, "SMALL_ROWS", 0)
    monkeypatch.setattr(layout, "GROUP_ROWS", 100)
