"""Logs in odd places: long names, names that are not UTF-8, and a place where another log was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from siltstone.errors import InvalidInputError, SiltstoneError
from siltstone.log import open_log
from siltstone.testing.peek import bodies
from worlds import World, attempt

LONG = "数据湖提交记录" * 9


def test_open_log__commit_store_with_a_very_long_path__can_be_opened_again(tmp_path):
    directory = tmp_path / LONG / LONG
    directory.mkdir(parents=True)
    commits = f"sqlite://{directory}/claims.db"
    assert open_log(tmp_path / "log", commits=commits, create=True).add(b"zero").position == 1
    again = open_log(tmp_path / "log", commits=commits)
    assert again.add(b"one").position == 2
    assert bodies(open_log(tmp_path / "log")) == [b"zero", b"one"]


@pytest.mark.parametrize("kind", [str, Path])
def test_open_log__directory_name_is_not_utf8__works_or_is_refused(tmp_path, kind):
    name = kind(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    told = attempt(lambda: open_log(name, create=True))
    if isinstance(told, SiltstoneError):
        assert isinstance(told, InvalidInputError)
        shown = str(told).isprintable()  # told as a flag: a report with such a name could itself not be written
        assert shown
        assert [*tmp_path.iterdir()] == []
    else:
        told.add(b"x")
        assert bodies(open_log(name)) == [b"x"]


@pytest.mark.parametrize("mode", ["external", "fork"])
def test_open_log__removed_and_made_anew_with_its_commit_store__is_told_to_take_another_root(mode):
    world = World(mode).seeded()
    world.store().delete(list(world.bucket.objects))
    told = attempt(world.open)
    assert isinstance(told, SiltstoneError)
    assert "root" in told.hint
    assert "siltstone repair" not in str(told)
    log = world.open(root="another")
    assert log.add(b"x").position == 1
    assert bodies(world.open(root="another")) == [b"x"]
