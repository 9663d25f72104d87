"""Which tables are found below a root, and what is said of those that can't be read."""

from __future__ import annotations

import pytest

from console_worlds import NOTES
from siltstone.api import create_table, drop_table
from siltstone.console.finding import find_tables
from siltstone.errors import PermissionDeniedError, UnavailableError
from siltstone.log import open_log
from siltstone.store.connect import open_store
from siltstone.store.meter import MeteredStore
from siltstone.store.wrapper import StoreWrapper


def make(store_uri, *paths):
    for path in paths:
        create_table(f"{store_uri}/{path}", schema=NOTES, key="id", sync=False).close()


def test_find_tables__several_depths_and_strangers__are_found_in_order(tmp_path):
    make(tmp_path, "b", "a/deep/er", "a-b", "b0")
    (tmp_path / "a" / "data").mkdir()
    (tmp_path / "a" / "data" / "file.csv").write_text("no table's")
    open_log(tmp_path / "raw", create=True).close()
    assert find_tables(open_store(tmp_path)).paths == ("a-b", "a/deep/er", "b", "b0")


def test_find_tables__root_is_a_table__is_the_only_one(tmp_path):
    make(tmp_path, "t", "t/inside")
    assert find_tables(open_store(tmp_path / "t")).paths == ("",)


def test_find_tables__nothing_there__is_empty(tmp_path):
    assert find_tables(open_store(tmp_path / "none")).paths == ()


def test_find_tables__tables_with_many_objects__costs_as_much_as_with_few(tmp_path):
    make(tmp_path, "one", "two")
    store = MeteredStore(open_store(tmp_path))
    find_tables(store)
    few = store.usage().total
    with create_table(tmp_path / "three", schema=NOTES, key="id", sync=False) as table:
        for number in range(10):
            table.append([{"id": number, "body": "x"}])
    store.reset()
    assert find_tables(store).paths == ("one", "three", "two")
    assert store.usage().total <= few * 3 / 2 + 1, "three tables cost half as much again as two"


def test_find_tables__no_time__says_that_it_ended_early(tmp_path):
    make(tmp_path, "one")
    (tmp_path / "a.txt").write_text("x")
    found = find_tables(open_store(tmp_path), seconds_max=0)
    assert found.paths == ()
    assert "not everything was looked at" in found.notes[0]


class Closed(StoreWrapper):
    """A store that may not be listed below a part, as a directory without rights."""

    def list(self, prefix="", *, after=""):
        for info in self.inner.list(prefix, after=after):
            if info.key.startswith("closed/"):
                raise PermissionDeniedError("list closed/: permission denied", object="closed/")
            yield info


def test_find_tables__a_part_is_closed__the_others_are_found(tmp_path):
    make(tmp_path, "a", "closed/t", "z")
    found = find_tables(Closed(open_store(tmp_path)))
    assert found.paths == ("a", "z")
    assert [error.kind for error in found.refused] == ["permission-denied"]


def test_tables__damaged_dropped_and_sound_ones__each_has_its_own_line(start, tmp_path):
    make(tmp_path, "bad", "gone", "good")
    (tmp_path / "bad" / "log" / "entries" / f"{0:020}").write_bytes(b"nonsense")
    drop_table(tmp_path / "gone")
    found = start(tmp_path)("tables")
    assert found["total"] == 3
    bad, gone, good = found["tables"]
    assert (bad["path"], bad["error"]["kind"]) == ("bad", "corruption")
    assert "verify" in bad["error"]["hint"]
    assert (gone["path"], gone["error"]["kind"]) == ("gone", "not-found")
    assert (good["path"], good["error"], good["version"], good["rows"]) == ("good", None, 0, 0)


def test_tables__made_again_after_a_drop__is_read_anew(start, tmp_path):
    make(tmp_path, "t", "u")
    ask = start(tmp_path)
    assert ask("table", table="t")["version"] == 0
    drop_table(tmp_path / "t")
    with create_table(tmp_path / "t", schema=NOTES, key="id", sync=False) as table:
        table.append([{"id": 1, "body": "again"}])
    found = ask.until(lambda table: table["rows"] == 1, "table", table="t")
    assert found["oldest"] == 2
    assert [one["operation"] for one in ask("history", table="t")["versions"]] == ["append", "create"]


@pytest.fixture
def eager(monkeypatch):
    """A console that looks for tables whenever it is asked."""
    monkeypatch.setattr("siltstone.console.root.LOOK_KEPT_S", 0.0)
    monkeypatch.setattr("siltstone.console.root.LOOK_SHARE", 0)


def test_tables__made_while_the_console_runs__is_found(eager, ask, tmp_path):
    make(tmp_path / "lake", "later")
    ask.until(lambda found: [one["path"] for one in found["tables"]] == ["later", "notes"], "tables")


@pytest.mark.parametrize("path", ["nowhere", "../lake", "notes/", "/", "notes/log"])
def test_table__path_that_was_not_found_by_the_look__is_refused(ask, path):
    assert ask.get("table", table=path).error == (404, "not-found")


def test_tables__many__come_in_pages_and_by_name(start, tmp_path):
    make(tmp_path, *(f"t{number:02}" for number in range(12)))
    ask = start(tmp_path)
    page = ask("tables", offset=10, limit=5)
    assert (page["total"], len(page["tables"]), page["tables"][0]["path"]) == (12, 2, "t10")
    found = ask("tables", match="T0", limit=3)
    assert ([one["path"] for one in found["tables"]], found["matching"]) == (["t00", "t01", "t02"], 10)


class Unreachable(StoreWrapper):
    """A store that stops answering when it is told to."""

    down = False

    def list(self, prefix="", *, after=""):
        if self.down:
            raise UnavailableError("the store does not answer")
        return self.inner.list(prefix, after=after)

    def get(self, key, *, limit=2**30):
        if self.down:
            raise UnavailableError("the store does not answer")
        return self.inner.get(key, limit=limit)


def test_tables__store_stops_answering__known_tables_stay_with_what_is_wrong(eager, ask, monkeypatch):
    assert ask("tables")["total"] == 1
    root = ask.console.root
    monkeypatch.setattr(root, "store", Unreachable(root.store))
    root.store.down = True
    found = ask.until(lambda found: found["refused"], "tables")
    assert (found["refused"][0]["kind"], found["total"]) == ("unavailable", 1)
    root.store.down = False
    ask.until(lambda found: not found["refused"], "tables")


def test_find_tables__root_that_can_not_be_reached__is_told(tmp_path):
    store = Unreachable(open_store(tmp_path))
    store.down = True
    with pytest.raises(UnavailableError):
        find_tables(store)
