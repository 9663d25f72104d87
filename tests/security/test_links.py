"""Symbolic links below a file:// root: none is followed, by whatever call meets it, and nothing outside is touched."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import siltstone as ss
from bad_tables import QUICK
from siltstone.errors import SiltstoneError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("body", pa.string())])
ROWS = [{"id": one, "body": f"word{one} and more"} for one in range(20)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table that has every kind of object."""
    root = tmp_path_factory.mktemp("links") / "table"
    table = ss.create(root, schema=SCHEMA, key="id", shards=1, env=QUICK, sync=False)
    table.append(ROWS)
    table.delete("id = 3")
    table.create_text_index("body")
    with table.writer() as writer:
        writer.put([{"id": 100, "body": "put"}])
    for number in range(40):
        table.set({"turn": str(number)})
    return root


def calls(root):
    """All that reads or writes; each opens the table anew."""
    table = ss.open(root, env=QUICK, sync=False)
    table.scan().to_arrow()
    table.scan(fresh=True).to_arrow()
    table.search("body", "word5").to_arrow()
    table.history()
    ss.verify(root)
    table.append([{"id": 1000, "body": "x"}])
    table.merge_shards()
    table.compact()
    table.optimize_index("body")
    table.gc(keep_days=0)


def tree(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


FOLDERS = ("data", "vectors", "rollups", "log", "log/entries", "shards", "indexes")


@pytest.mark.parametrize("folder", FOLDERS)
def test_calls__a_folder_is_a_link_out_of_the_root__nothing_outside_is_read_into_the_table_or_changed(
    made, tmp_path, folder
):
    root, outside = tmp_path / "table", tmp_path / "outside"
    shutil.copytree(made, root)
    (root / folder).rename(outside)
    (root / folder).symlink_to(outside)
    before = tree(outside)
    assert before
    with pytest.raises(SiltstoneError):
        calls(root)
    assert tree(outside) == before


@pytest.mark.parametrize("folder", FOLDERS)
def test_calls__objects_are_links_out_of_the_root__none_is_followed_and_their_targets_stay(made, tmp_path, folder):
    root, outside = tmp_path / "table", tmp_path / "outside"
    shutil.copytree(made, root)
    outside.mkdir()
    for number, path in enumerate(sorted(one for one in (root / folder).rglob("*") if one.is_file())):
        target = outside / str(number)
        path.rename(target)
        path.symlink_to(target)
    before = tree(outside)
    with pytest.raises(SiltstoneError):
        calls(root)
    assert tree(outside) == before


def test_gc__links_to_what_looks_like_rubbish__removes_the_links_at_most(made, tmp_path):
    root, outside = tmp_path / "table", tmp_path / "outside"
    shutil.copytree(made, root)
    outside.mkdir()
    name = f"{0:020d}-{'b' * 32}.parquet"
    (outside / name).write_bytes(b"mine")
    (outside / ".siltstone-abc").write_bytes(b"mine too")
    (root / "data" / name).symlink_to(outside / name)
    (root / "data" / "folder").symlink_to(outside)
    (root / "unrelated").symlink_to(outside)
    ss.open(root, env=QUICK, sync=False).gc(keep_days=0)
    assert tree(outside) == {name: b"mine", ".siltstone-abc": b"mine too"}
