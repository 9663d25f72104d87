"""The kinds of steps. One more is one function and one row of ``KINDS``.

What must hold:
- A step that changes a table gives ``task.once`` to the one commit that does so: the table's own log says then
  whether it was applied, and no other record can disagree.
- A step that can't be run twice without harm names the table that is marked (``marks``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone import spark as on_spark
from siltstone.api import create_table
from siltstone.api.staging import Staging
from siltstone.errors import InvalidInputError
from siltstone.format.table import SHARDS_MAX
from siltstone.pipeline.columns import parse_columns
from siltstone.pipeline.kinds import COUNTS, CheckFailedError, Done, Key, Kind, check_count, made
from siltstone.pipeline.retention import check_checkpoint, check_clone, checkpoint, clone, collect
from siltstone.pipeline.shards import ingest, merge
from siltstone.pipeline.sources import FILE_FORMATS, FROM, SHAPING, frame
from siltstone.pipeline.streams import OPERATIONS, take_in
from siltstone.pipeline.text import INDEX, SEARCH, check_index, check_search, index, search
from siltstone.table import arguments
from siltstone.table.operations import Tags
from siltstone.table.schema import make_schema
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from siltstone.pipeline.kinds import Task
    from siltstone.table.versions import Version

ROWS_SHOWN_MAX = 20
ROWS_READ_MAX = 10_000  # of an answer that is compared with what is expected


# -- tables ------------------------------------------------------------------------------------------


def _create(task: Task) -> Done:
    with create_table(
        task.settings["table"],
        schema=parse_columns(task.settings["schema"]),
        key=task.get("key"),
        shards=task.get("shards"),
        commits=task.get("commits"),
        storage_options=task.get("storage"),
        exist_ok=True,
    ) as table:
        fresh = table.version == 0
        return Done(
            f"{len(table.schema)} columns" if fresh else f"it is there, at version {table.version}", 0, 1, table.version
        )


def _tag(task: Task) -> Done:
    name = arguments.check_label(task.settings["name"], "tag")
    with task.table() as table:
        staging = Staging(table, once=arguments.check_once(task.once), message=task.message)
        newest = staging.state.version
        version = task.get("version")
        version = newest if version is None else arguments.check_version(version, newest=newest)
        done = staging.commit([Tags({name: version})])
        return Done(f"version {table.tags[name]} is now {name}", 0, 1, done.version)


def _compact(task: Task) -> Done:
    with task.table() as table:
        version = on_spark.compact(task.spark, table)
        if version.operation == "none":
            return Done("nothing to do", version=version.version)
        says = f"{version.fragments_added} fragments in the place of {version.fragments_removed}"
        return Done(says, 0, 1, version.version)


# -- rows --------------------------------------------------------------------------------------------


def _append(task: Task) -> Done:
    return _written(task, on_spark.append)


def _overwrite(task: Task) -> Done:
    return _written(task, on_spark.overwrite)


def _upsert(task: Task) -> Done:
    return _written(task, on_spark.upsert)


def _written(task: Task, write: Callable[..., Version]) -> Done:
    with task.table("into") as table:
        version = write(frame(task, table), table, once=task.once, message=task.message)
        return _took(version)


def _took(version: Version) -> Done:
    done = made(version, "wrote", version.inserted + version.updated)
    replaced = f", {version.updated:,} of them in the place of others" if version.updated else ""
    return Done(done.says + replaced, done.rows, done.versions, done.version)


def _delete(task: Task) -> Done:
    with task.table() as table:
        version = on_spark.delete(task.spark, table, task.settings["where"], once=task.once, message=task.message)
        return made(version, "deleted", version.deleted)


def _update(task: Task) -> Done:
    values, where = task.settings["set"], task.get("where")
    with task.table() as table:
        version = on_spark.update(task.spark, table, values, where, once=task.once, message=task.message)
        return made(version, "updated", version.updated)


# -- questions ---------------------------------------------------------------------------------------


def _check(task: Task) -> Done:
    with task.open(task.settings["table"], version=task.get("version"), tag=task.get("tag")) as table:
        fresh = bool(task.get("fresh"))
        rows = on_spark.read(task.spark, table, where=task.get("where"), fresh=fresh).count()
        version = table.version
    which = "" if task.get("where") is None else f" where {shown(task.settings['where'])[1:-1]}"
    check_count(
        task, rows, which=which, version=version, hint="look what changed with `siltstone log` and `siltstone changes`"
    )
    return Done(f"{rows:,} rows", rows, version=version)


def _sql(task: Task) -> Done:
    names = task.settings["tables"]
    opened = {name: task.open(**one) for name, one in names.items()}
    try:
        for name, table in opened.items():
            on_spark.read(task.spark, table).createOrReplaceTempView(name)
        answer = task.spark.sql(task.settings["query"])
        if task.get("into") is not None:
            return _keep(task, answer)
        found = answer.limit(ROWS_READ_MAX + 1).toArrow()
        return _compare(task, found)
    finally:
        for name, table in opened.items():
            task.spark.catalog.dropTempView(name)
            table.close()


def _keep(task: Task, answer: Any) -> Done:
    write = {"append": on_spark.append, "overwrite": on_spark.overwrite, "upsert": on_spark.upsert}
    with task.table("into") as table:
        return _took(write[task.get("operation") or "append"](answer, table, once=task.once, message=task.message))


def _compare(task: Task, found: pa.Table) -> Done:
    expected = task.get("expect")
    # By column: two columns of an answer may have one name.
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    said = f"{found.num_rows:,} rows"
    if rows and len(rows) <= 3 and len(rows[0]) <= 4:
        said = "; ".join(", ".join(map(_text, row)) for row in rows)
    if expected is None:
        return Done(said, len(rows))
    wanted = [tuple(row) for row in expected]
    if found.num_rows > ROWS_READ_MAX:
        raise InvalidInputError(
            f"the answer has more than {ROWS_READ_MAX:,} rows, too many to compare", hint="aggregate, or write it into"
        )
    if [tuple(map(_text, row)) for row in rows] != [tuple(map(_text, row)) for row in wanted]:
        raise CheckFailedError(
            f"the answer is {_shown(rows)}, and expect says {_shown(wanted)}",
            hint="rows are compared in their order: the query needs an order by",
        )
    return Done(f"{said}, as expected", len(rows))


def _text(value: object) -> str:
    """A value as YAML would write it, so that 4 and 4.0 are the same, and a date is its text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _shown(rows: Sequence[tuple[object, ...]]) -> str:
    cut = "..." if len(rows) > ROWS_SHOWN_MAX else ""
    return shown(str([list(row) for row in rows[:ROWS_SHOWN_MAX]]) + cut)[1:-1]


# -- what keys must say together ---------------------------------------------------------------------


def _check_create(settings: Mapping[str, Any]) -> None:
    make_schema(parse_columns(settings["schema"]), settings.get("key"))
    if "shards" not in settings:
        return
    if not 1 <= settings["shards"] <= SHARDS_MAX:
        raise InvalidInputError(
            f"shards takes a number from 1 to {SHARDS_MAX}", hint="leave it out for a table without shards"
        )
    if "key" not in settings:
        raise InvalidInputError("shards is given without a key", hint="rows go to shards by their key")


def _check_tag(settings: Mapping[str, Any]) -> None:
    arguments.check_label(settings["name"], "tag")


def _check_sql(settings: Mapping[str, Any]) -> None:
    if "into" in settings and "expect" in settings:
        raise InvalidInputError("into and expect are both given", hint="write the answer, or compare it")
    if "operation" in settings and "into" not in settings:
        raise InvalidInputError("operation is given without into", hint="name the table that takes the answer")


def _check_check(settings: Mapping[str, Any]) -> None:
    given = [key for key in ("version", "tag") if key in settings] + ["fresh"] * bool(settings.get("fresh"))
    if len(given) > 1:
        raise InvalidInputError(f"{given[0]} and {given[1]} are both given", hint="give one of them")


# -- all of them -------------------------------------------------------------------------------------

_TABLE = {"table": Key("the table", "table", needed=True)}
_INTO = {"into": Key("the table that is written", "table", needed=True)}

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "create", "make a table, unless it is there", _create,
            {
                **_TABLE,
                "schema": Key("columns and their types", "types", needed=True),
                "key": Key("the column, or columns, that tell rows apart", "texts"),
                "shards": Key("how many writers may put rows at once, each into a shard of its own", "whole"),
            },
            check=_check_create,
        ),
        Kind(
            "stream", "take in the files that are there, in batches, each exactly once", take_in,
            {
                "from": Key("the directory in which files arrive", needed=True),
                "format": Key("what is in them", needed=True, choices=FILE_FORMATS),
                **_INTO,
                "operation": Key("what is done with the rows; append without it", choices=OPERATIONS),
                "checkpoint": Key("a directory in which Spark keeps how far it is", needed=True),
                "files_per_batch": Key("how many files a batch has at most", "whole"),
                **SHAPING,
            },
            marks="into",
        ),
        Kind("append", "add rows", _append, {**FROM, **_INTO}, marks="into"),
        Kind("upsert", "add rows in the place of those with the same keys", _upsert, {**FROM, **_INTO}, marks="into"),
        Kind("ingest", "put rows into the shards of a table", ingest, {**FROM, **_INTO}, marks="into"),
        Kind("merge", "take what is in the shards into the table", merge, _TABLE),
        Kind("overwrite", "add rows in the place of all", _overwrite, {**FROM, **_INTO}, marks="into"),
        Kind(
            "delete", "delete the rows that match", _delete,
            {**_TABLE, "where": Key('a SQL condition; "true" for every row', needed=True)}, marks="table",
        ),
        Kind(
            "update", "give columns new values", _update,
            {
                **_TABLE,
                "set": Key("columns and SQL expressions", "map", needed=True),
                "where": Key("a SQL condition; without it every row"),
            },
            marks="table",
        ),
        Kind(
            "tag", "name a version", _tag,
            {**_TABLE, "name": Key("its name", needed=True), "version": Key("which; without it the newest", "whole")},
            marks="table", check=_check_tag,
        ),
        Kind(
            "checkpoint", "keep the table as it is", checkpoint,
            {
                **_TABLE,
                "name": Key("its name", needed=True),
                "scope": Key("all, or durable to rewrite nothing; all without it", choices=("all", "durable")),
                "keep_days": Key("for how long; without it for ever", "whole"),
            },
            check=check_checkpoint,
        ),
        Kind(
            "clone", "make a table that begins as another one is, and copies no row", clone,
            {
                **_TABLE,
                "into": Key("where the clone is made", "table", needed=True),
                "at": Key("a checkpoint or a tag; without it all that is durable now"),
                "where": Key("a SQL condition; without it every row"),
            },
            check=check_clone,
        ),
        Kind(
            "gc", "remove what no version that is kept needs", collect,
            {
                **_TABLE,
                "keep_days": Key("how long versions are kept; without it as the table says, or 7", "whole"),
                "keep_versions": Key("how many of the newest are kept, however old", "whole"),
            },
        ),
        Kind("index", "index the words of a column, or what is new", index, {**_TABLE, **INDEX}, check=check_index),
        Kind("search", "search texts, show the best rows, and count", search, {**_TABLE, **SEARCH}, check=check_search),
        Kind("compact", "rewrite small fragments into full ones, clustered by key", _compact, _TABLE),
        Kind(
            "sql", "ask a question, and keep or compare the answer", _sql,
            {
                "tables": Key("tables by their names in the query; {table, version} or {table, tag} for an "
                              "earlier version", "tables", needed=True),
                "query": Key("a SELECT as Spark understands it", needed=True),
                "into": Key("the table that takes the answer", "table"),
                "operation": Key("how it takes it; append without it", choices=("append", "overwrite", "upsert")),
                "expect": Key("what the answer must be", "rows"),
            },
            marks="into", check=_check_sql,
        ),
        Kind(
            "check", "count rows, and stop where the count is off", _check,
            {
                **_TABLE,
                "where": Key("a SQL condition; without it every row"),
                **COUNTS,
                "version": Key("the version that is counted; without it the newest", "whole"),
                "tag": Key("the same by its tag"),
                "fresh": Key("whether rows that are in shards, and not merged, are counted too", "flag"),
            },
            one_of=("rows", "at_least", "at_most"), check=_check_check,
        ),
    )
}  # fmt: skip
