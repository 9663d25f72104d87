"""What the format takes and refuses, and what calls with mixed-up arguments are told. Most of it needs no session."""

from __future__ import annotations

import re
import traceback

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import siltstone as ss
from siltstone.errors import DuplicateKeyError, InternalError, InvalidInputError
from siltstone.spark.options import KNOWN, PLACE, SECRET_STORAGE, STORAGE, read_options
from siltstone.spark.plainly import plainly
from siltstone.spark.source import SiltstoneSource
from siltstone.spark.types import spark_schema
from sources import ROOT

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.string())])


@pytest.fixture
def table(tmp_path):
    made = ss.create(str(tmp_path / "t"), schema=SCHEMA, key="id")
    made.append([{"id": n, "x": "a"} for n in range(10)])
    return made


# -- options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doing", "options", "words"),
    [
        ("read", {"Versoin": "3"}, r"there is no option 'Versoin' here \(did you mean version\?\)"),
        ("read", {"q": "3"}, r"there is no option 'q' here \(options of read are checkpoint, commits, .*storage.NAME"),
        ("write", {"onec": "job"}, r"no option 'onec' here \(did you mean once\?\)"),
        ("read", {"versionAsOf": "3"}, r"no option versionAsOf here \(the option is version"),
        ("read", {"versionasof": "3"}, r"no option versionAsOf here \(the option is version"),
        ("read", {"timestampAsOf": "2026-01-01"}, r"timestampAsOf here \(.*spark\.read\(spark, table\.at\(timestamp="),
        ("read", {"changes": "true"}, r"option changes is one of readStream, not of read \(.*table\.changes\("),
        ("read", {"since": "1"}, r"option since is one of readStream, not of read \(.*table\.changes\("),
        ("read", {"readChangeFeed": "true"}, r"readChangeFeed here \(use spark\.readStream with option changes"),
        ("readStream", {"version": "1"}, "option version is one of read, not of readStream"),
        ("readStream", {"startingVersion": "1"}, "the option is since here"),
        ("write", {"mergeSchema": "true"}, r"no option mergeSchema here \(add columns first, with table\.add_column"),
        ("writeStream", {"mergeschema": "TRUE"}, r"no option mergeSchema here \(add columns first"),
        ("write", {"replaceWhere": "x = 1"}, r"replaceWhere here \(call delete\(where\) and append"),
        ("writeStream", {"once": "a"}, r"option once is one of write, not of writeStream \(leave it out"),
        ("write", {"version": "1"}, "option version is one of read, not of write"),
    ],
)
def test_read_options__not_for_this__is_refused_with_what_helps(doing, options, words):
    with pytest.raises(InvalidInputError, match=words):
        read_options({"path": "t", **options}, doing=doing)


def test_read_options__switches_of_other_formats_that_are_off__ask_for_nothing():
    found = read_options({"path": "t", "mergeSchema": "false", "ignoreDeletes": "False"}, doing="write")
    assert found.place.uri == "t"


def test_writer__merge_schema__is_refused_before_a_table_is_made(tmp_path):
    source = SiltstoneSource({"path": str(tmp_path / "new"), "mergeSchema": "true"})
    with pytest.raises(InvalidInputError, match="mergeSchema"):
        source.writer(spark_schema(SCHEMA), overwrite=False)
    assert not (tmp_path / "new").exists()


def test_spark_page__its_tables_of_options__are_those_that_are_taken():
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    found = {}
    for heading, section in re.findall(r"^### Options of (.+?)\n(.*?)(?=^#)", page, re.MULTILINE | re.DOTALL):
        found[heading.replace("`", "")] = set(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE))
    everywhere = found.pop("all four")
    assert everywhere == PLACE - {"path"} | {f"{STORAGE}NAME", f"{SECRET_STORAGE}NAME"}
    assert found == KNOWN


# -- errors ------------------------------------------------------------------------------------------------------


def test_plainly__error_that_a_user_can_mend__comes_without_the_calls_that_found_it(table):
    with pytest.raises(InvalidInputError) as caught:
        SiltstoneSource({"path": table.uri, "versoin": "1"}).schema()
    shown = "".join(traceback.format_exception(caught.value))
    assert "read_options" not in shown
    assert shown.splitlines()[-1].endswith("there is no option 'versoin' here (did you mean version?)")


def test_plainly__error_of_our_own__comes_with_all_calls():
    def inner():
        raise InternalError("it broke")

    with pytest.raises(InternalError) as caught:
        plainly(inner)()
    assert "in inner" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("delete", ["id = 3"]),
        ("update", [{"x": "1"}]),
        ("compact", []),
        ("read", []),
        ("merge_shards", []),
        ("build_text_index", ["x"]),
        ("optimize_text_index", ["x"]),
        ("search", ["x", "word"]),
    ],
)
def test_call__session_is_left_out__is_told_in_a_sentence(table, name, others):
    with pytest.raises(InvalidInputError, match=rf"got Table \(it comes first: siltstone\.spark\.{name}\(spark, "):
        getattr(ss.spark, name)(table, *others)


def test_append__table_comes_first__is_told_in_a_sentence(table):
    with pytest.raises(InvalidInputError, match=r"DataFrame is needed, got Table \(it comes first"):
        ss.spark.append(table, [1])


# -- with a session ----------------------------------------------------------------------------------------------


def test_write__wrong_in_some_way__the_sentence_says_what_helps(spark, table):
    new = spark.createDataFrame([(100, "b"), (101, "c")], "id long, x string")

    def save(**options):
        new.write.format("siltstone").mode("append").options(**options).save(table.uri)

    with pytest.raises(PySparkException) as caught:
        save(mergeSchema="true")
    lines = str(caught.value).splitlines()
    told = [number for number, line in enumerate(lines) if "no option mergeSchema here (add columns first" in line]
    assert told
    assert told[0] <= 3, "the sentence comes behind a few lines at most"

    with pytest.raises(DuplicateKeyError, match=r"dropDuplicates\(\[\"id\"\]\).*row_number\(\)"):
        ss.spark.upsert(new.union(new), table)

    assert ss.spark.upsert(new, table, once="x").operation == "upsert"
    with pytest.raises(
        InvalidInputError, match="once='x' was applied as an upsert in version 2, and this is an append"
    ):
        ss.spark.append(new, table, once="x")
    with pytest.raises(PySparkException, match="once='x' was applied as an upsert in version 2"):
        save(once="x")
    assert ss.spark.upsert(new, table, once="x").operation == "none"
    assert table.version == 2

    first = table.at(version=1)
    then = ss.spark.read(spark, table.at(timestamp=first.history(1)[0].time))
    assert then.count() == 10
