"""Counts for all tests, where ``tests/figures.py`` keeps figures: scripted faults that were met, and outcomes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import figures
from siltstone.testing.script import Script

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from siltstone.testing.script import Fault


@pytest.fixture(autouse=True, scope="session")
def faults_are_counted() -> Iterator[None]:
    """Each rule of a script is counted when the first call meets it, by the name of its fault."""
    if not os.environ.get(figures.DIRECTORY):
        yield
        return
    following = Script._next

    def counted(script: Script, verb: str, key: str) -> Fault | None:
        fault = following(script, verb, key)
        if fault is not None and any(rule.fault is fault and seen == [rule.nth] for rule, seen in script._rules):
            figures.record(f"fault/{fault.name}")
        return fault

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Script, "_next", counted)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Each test is counted by its outcome, in the process that ran it."""
    report = yield
    if report.when == "call" or not report.passed:
        figures.record(f"test/{report.outcome}")
    return report
