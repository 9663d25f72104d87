"""Steps on the texts of a table: their words are indexed, and searched.

What must hold: each may be run again without harm. An index that is there takes in what is new, and a build that a run
left behind is gone on with; a search changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone import spark as on_spark
from siltstone.errors import InvalidInputError
from siltstone.index.parse import parse
from siltstone.index.results import SCORE
from siltstone.index.settings import TOKENIZERS, analyzer_of
from siltstone.pipeline.kinds import COUNTS, Done, Key, check_count
from siltstone.table import arguments
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from siltstone.pipeline.kinds import Task

SHOWN = 3
SHOWN_MAX = 100
TEXT_CHARACTERS_MAX = 80  # of a value that is shown

_COLUMN = {"column": Key("the column, of texts", needed=True)}
ANALYZER = {
    "language": Key("the language of the texts; english without it"),
    "tokenizer": Key("how texts are cut into words; simple without it", choices=TOKENIZERS),
    "stem": Key("whether words are found by their stems", "flag"),
    "stop_words": Key("whether words such as `the` are left out", "flag"),
    "positions": Key("whether phrases can be found", "flag"),
    "lower": Key("whether capitals are the same as small letters", "flag"),
    "fold": Key("whether accents are left out", "flag"),
    "ngram_min": Key("how short parts of words are, for the tokenizer ngram", "whole"),
    "ngram_max": Key("how long they are", "whole"),
    "max_token_bytes": Key("longer words are left out", "whole"),
}
INDEX = {**_COLUMN, "name": Key("what the index is called; without it as the column"), **ANALYZER}
SEARCH = {
    **_COLUMN,
    "query": Key("what is looked for, as in docs/search.md", needed=True),
    "where": Key("a SQL condition that rows must meet as well"),
    "columns": Key("the columns that are shown; without it the key and the texts", "texts"),
    "limit": Key(f"how many of the best rows are shown; {SHOWN} without it", "whole"),
    "fresh": Key("whether rows that are in shards, and not merged, are found too", "flag"),
    **COUNTS,
}


def index(task: Task) -> Done:
    """Index the words of a column, in tasks."""
    with task.table() as table:
        done = on_spark.build_text_index(
            task.spark, table, task.settings["column"], name=task.get("name"), **_analyzer(task.settings)
        )
    if done.build is None:
        return Done("nothing to do", version=done.version)
    items = "one item" if done.items == 1 else f"{done.items} items"
    return Done(f"indexed {done.rows:,} rows in {items}", done.rows, 1, done.version)


def search(task: Task) -> Done:
    """Count the rows that match, and show the best of them."""
    limit = task.get("limit")
    column, query = task.settings["column"], task.settings["query"]
    asked = {"where": task.get("where"), "fresh": bool(task.get("fresh"))}
    with task.table() as table:
        columns = task.get("columns") or list(dict.fromkeys([*table.key, column]))
        best = table.search(column, query, columns=columns, limit=SHOWN if limit is None else limit, **asked)
        # What is counted is the same version, unless rows that are not merged count too.
        seen = table if asked["fresh"] else table.at(version=best.version)
        rows, version = seen.search(column, query, columns=columns, limit=None, **asked).count(), best.version
        lines = tuple(_line(row) for row in best.to_arrow().to_pylist())
    which = f" that match {shown(query)}"
    check_count(task, rows, which=which, version=version, hint="look what matches with `siltstone search`")
    return Done(f"{rows:,} rows match", rows, version=version, lines=lines)


def _line(row: dict[str, object]) -> str:
    score = row.pop(SCORE)
    return f"{score:.3f}  " + ", ".join(f"{name}: {_value(one)}" for name, one in row.items())


def _value(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."


def _analyzer(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: settings[key] for key in ANALYZER if key in settings}


def check_index(settings: Mapping[str, Any]) -> None:
    """The index must have a name and options that make sense."""
    arguments.check_label(settings.get("name", settings["column"]), "index")
    analyzer_of(_analyzer(settings))


def check_search(settings: Mapping[str, Any]) -> None:
    """The query must be one."""
    parse(settings["query"])
    if settings.get("limit", 0) > SHOWN_MAX:
        raise InvalidInputError(
            f"limit takes a number up to {SHOWN_MAX}: so many rows are shown",
            hint="all rows that match are counted, whatever it is",
        )
