"""verify of tables with text indexes: what is missing, cut or changed is named, and so is what does not add up."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from siltstone import paths
from siltstone.api import create_table, open_table
from siltstone.format.frame import digest
from siltstone.format.text import encode, plain
from siltstone.index.build import read_marker
from siltstone.index.operations import AddIndex

SCHEMA = pa.schema([("id", pa.int64()), ("body", pa.string())])


@pytest.fixture
def indexed(tmp_path):
    """A table with an index of two parts, and rows that it does not have."""
    with create_table(tmp_path / "t", schema=SCHEMA) as table:
        table.append([{"id": number, "body": f"late delivery {number}"} for number in range(10)])
        table.append([{"id": number, "body": f"slow refund {number}"} for number in range(10, 15)])
        table.begin_text_index("body", items=2).run_all()
        table.append([{"id": 20, "body": "not indexed"}])
    return tmp_path / "t"


def segment_of(uri):
    with open_table(uri) as table:
        return table._now().indexes["body"].segments[0]


def parts_of(uri):
    return sorted((uri / paths.INDEXES / segment_of(uri).build).glob("part_*"))


def marker_of(uri):
    return uri / paths.index(segment_of(uri).build, paths.MARKER)


def problems_of(cli, uri, *words):
    result = cli("verify", uri, *words, "--json")
    [table] = result.json["tables"]
    assert result.code == (1 if table["problems"] else 0)
    return [(one["fault"], one["object"], one["detail"]) for one in table["problems"]]


def test_verify__table_with_an_index__says_so(cli, indexed):
    for words in ((), ("--deep",)):
        result = cli("verify", indexed, *words)
        assert result.code == 0, result.out
        assert ", 1 index, " in result.out
        assert problems_of(cli, indexed, *words) == []
    assert cli("verify", indexed, "--json").json["tables"][0]["indexes"] == 1


def test_verify__a_part_is_gone_or_cut__named(cli, indexed):
    first, second = parts_of(indexed)
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    size = len(second.read_bytes())
    one, other = problems_of(cli, indexed)
    assert one == ("missing", str(first.relative_to(indexed)), "a part of index 'body', with 10 rows, is gone")
    assert other[:2] == ("corrupt", str(second.relative_to(indexed)))
    assert f"has {size} bytes, not the {size + 1} of its marker" in other[2]


def test_verify__one_bit_of_a_part_is_flipped__found_by_deep_only(cli, indexed):
    part = parts_of(indexed)[1]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert problems_of(cli, indexed) == []
    [(fault, key, detail)] = problems_of(cli, indexed, "--deep")
    assert (fault, key) == ("corrupt", str(part.relative_to(indexed)))
    assert detail == "a part of index 'body', with 5 rows, does not have the bytes that were written"


def test_verify__the_marker_is_gone__named(cli, indexed):
    key = marker_of(indexed)
    key.unlink()
    assert problems_of(cli, indexed) == [
        ("missing", str(key.relative_to(indexed)), "the marker of index 'body', with 15 rows, is gone")
    ]


@pytest.mark.parametrize("how", ["cut", "another"])
def test_verify__the_marker_is_another_one__named(cli, indexed, how):
    key = marker_of(indexed)
    with open_table(indexed) as table:
        marker = read_marker(table._own_tools.store, segment_of(indexed))
    other = encode(msgspec.structs.replace(marker, parts=marker.parts[:1]))
    key.write_bytes(other if how == "another" else key.read_bytes()[:-4])
    [(fault, where, detail)] = problems_of(cli, indexed)
    assert (fault, where) == ("corrupt", str(key.relative_to(indexed)))
    assert detail.startswith("the marker of index 'body', with 15 rows, can't be used: ")


def claim(uri, *, marker=None, **facts):
    """Let the newest version say other things of its index than are so."""
    with open_table(uri) as table:
        index = table._now().indexes["body"]
        segment = index.segments[0]
        if marker is not None:
            made = marker(read_marker(table._own_tools.store, segment))
            (uri / paths.index(segment.build, paths.MARKER)).write_bytes(encode(made))
            facts["digest"] = digest(plain(made))
        table.drop_index("body")
        said = msgspec.structs.replace(segment, **facts)
        table._do(AddIndex("body", msgspec.structs.replace(index, segments=(said,))))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"rows": 14}, "has 15 rows, not the 14 that the version names"),
        ({"parts": 3}, "has 2 parts, not the 3 that the version names"),
        ({"stored_bytes": 7}, "stored bytes, not the 7 that the version names"),
        ({"fragments": 1}, "has 2 fragments, not the 1 that the version names"),
    ],
)
def test_verify__numbers_of_a_version_do_not_add_up__named(cli, indexed, facts, told):
    claim(indexed, **facts)
    [(fault, key, detail)] = problems_of(cli, indexed)
    assert (fault, key) == ("corrupt", str(marker_of(indexed).relative_to(indexed)))
    assert told in detail


def test_verify__a_marker_of_another_analyzer__named(cli, indexed):
    claim(
        indexed,
        marker=lambda made: msgspec.structs.replace(made, analyzer=msgspec.structs.replace(made.analyzer, stem=False)),
    )
    [(fault, _, detail)] = problems_of(cli, indexed)
    assert fault == "corrupt"
    assert "is of another index, column or analyzer" in detail


def test_verify__a_marker_that_covers_less_of_a_fragment__named(cli, indexed):
    def shortened(made):
        first = made.parts[0]
        covered = msgspec.structs.replace(first.fragments[0], rows=9)
        first = msgspec.structs.replace(first, fragments=(covered,))
        return msgspec.structs.replace(made, parts=(first, *made.parts[1:]))

    claim(indexed, marker=shortened)
    told = [detail for _, _, detail in problems_of(cli, indexed)]
    assert len(told) == 2
    assert "has 9 rows of fragments in part_0_0.text, which has 10" in told[0]
    assert "covers 9 rows of fragment" in told[1]


def test_verify__two_segments_cover_the_same_fragment__named(cli, indexed):
    other = paths.name(0, "ab" * 16)
    with open_table(indexed) as table:
        index = table._now().indexes["body"]
        store, segment = table._own_tools.store, index.segments[0]
        marker = msgspec.structs.replace(read_marker(store, segment), build=other)
        for part in marker.parts:
            store.copy(paths.index(segment.build, part.name), paths.index(other, part.name))
        store.put(paths.index(other, paths.MARKER), encode(marker))
        twice = msgspec.structs.replace(segment, build=other, digest=digest(plain(marker)))
        table.drop_index("body")
        table._do(AddIndex("body", msgspec.structs.replace(index, segments=(segment, twice))))
    told = problems_of(cli, indexed)
    assert {key for _, key, _ in told} == {paths.index(other, paths.MARKER)}
    assert len(told) == 2
    assert all(f"which build {segment.build} covers too" in detail for _, _, detail in told)


def test_verify__a_clone_whose_parent_lost_a_part__named_where_it_is(cli, indexed, tmp_path):
    with open_table(indexed) as table:
        table.clone(tmp_path / "clone").close()
    assert problems_of(cli, tmp_path / "clone", "--deep") == []
    part = parts_of(indexed)[0]
    part.unlink()
    [(fault, key, _)] = problems_of(cli, tmp_path / "clone")
    assert (fault, key) == ("missing", paths.in_origin(1, str(part.relative_to(indexed))))


def test_verify__the_parent_of_a_clone_is_gone__is_told_once(cli, indexed, tmp_path):
    with open_table(indexed) as table:
        table.clone(tmp_path / "clone").close()
    indexed.rename(tmp_path / "elsewhere")
    [(fault, key, _)] = problems_of(cli, tmp_path / "clone")
    assert fault == "missing"
    assert key.endswith("/t")


def test_verify__objects_that_no_version_names__no_problem(cli, indexed):
    with open_table(indexed) as table:
        begun = table.begin_text_index("body", name="unfinished")
        for item in begun.missing():
            begun.run(item)
        (indexed / paths.index(begun.name, "staging/left")).write_bytes(b"left")
    assert problems_of(cli, indexed, "--deep") == []


def test_gc__dry_run__says_of_objects_of_indexes_why(cli, indexed):
    with open_table(indexed) as table:
        table.drop_index("body")
    result = cli("gc", indexed, "--keep-days", "0", "--dry-run")
    assert result.code == 0
    assert "objects of indexes" in result.out
    assert cli("gc", indexed, "--keep-days", "0").code == 0
    assert [one for one in (indexed / "indexes").rglob("*") if one.is_file()] == []
