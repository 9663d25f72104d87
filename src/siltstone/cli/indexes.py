"""``index``: the text indexes of a table; builds that many processes work on are in ``builds``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from siltstone.cli.builds import say_begun
from siltstone.cli.documents import say_version, version_document
from siltstone.cli.errors import DONE, UsageError
from siltstone.cli.opening import reading, writing
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text

if TYPE_CHECKING:
    import argparse

    from siltstone.api import Table
    from siltstone.api.indexes import IndexInfo
    from siltstone.cli.output import Output
    from siltstone.format.text import Analyzer
    from siltstone.table.versions import Version

_FLAGS = ("stem", "stop_words", "positions", "lower", "fold")
_VALUES = ("language", "tokenizer", "ngram_min", "ngram_max", "max_token_bytes")


# -- indexes -------------------------------------------------------------------------------------


def run_create(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``create``."""
    chosen = {name: given for name in (*_FLAGS, *_VALUES) if (given := getattr(arguments, name)) is not None}
    items = _items(arguments)
    with writing(arguments) as table:
        column, name = arguments.column, arguments.name
        if arguments.begin:
            say_begun(table, table.begin_text_index(column, name=name, items=items, **chosen), output)
            return DONE
        called = clean(name or column)
        with Progress(output, f"index {called}") as bar:
            made = table.create_text_index(column, name=name, progress=bar.stages(called), **chosen)
        _say_made(table, made, column if name is None else name, output)
    return DONE


def run_optimize(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``optimize``."""
    items = _items(arguments)
    with writing(arguments) as table:
        name = arguments.name
        if arguments.begin:
            build = table.begin_optimize_index(name, items=items, whole=arguments.whole)
            if build is None:
                say_version(table, None, output)
            else:
                say_begun(table, build, output)
            return DONE
        with Progress(output, f"optimize {clean(name)}") as bar:
            made = table.optimize_index(name, whole=arguments.whole, progress=bar.stages(clean(name)))
        _say_made(table, made, name, output)
    return DONE


def run_drop(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``drop``."""
    with writing(arguments) as table:
        say_version(table, table.drop_index(arguments.name), output, what=f"{clean(arguments.name)} dropped")
    return DONE


def run_list(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``list``."""
    with reading(arguments) as table:
        found = table.indexes()
        output.result({"uri": table.uri, "version": table.version, "indexes": [index_document(one) for one in found]})
    rows = [
        (
            one.name,
            one.column,
            _analyzer_text(one.analyzer),
            f"{one.indexed_rows:,}",
            f"{one.unindexed_rows:,}",
            one.segments,
            one.parts,
            size_text(one.bytes),
        )
        for one in found
    ]
    heads = ("index", "column", "words", "indexed", "not yet", "segments", "parts", "size")
    output.table(heads, rows, right=frozenset(heads[3:]))
    return DONE


def _items(arguments: argparse.Namespace) -> int:
    if arguments.items is not None and not arguments.begin:
        raise UsageError("--items goes with --begin", hint="without it all of the work is done here")
    return 1 if arguments.items is None else int(arguments.items)


# -- what is said --------------------------------------------------------------------------------


def _say_made(table: Table, version: Version | None, name: str, output: Output) -> None:
    info = next((one for one in table.indexes() if one.name == name), None)  # another one may have dropped it
    document: dict[str, Any] = {"uri": table.uri, "changed": version is not None}
    document["index"] = None if info is None else index_document(info)
    output.result(document | version_document(version, at=table.version))
    if version is None:
        output.line(f"nothing to do: the table is at version {table.version}")
        return
    has = "" if info is None else f" has {info.indexed_rows:,} rows, {size_text(info.bytes)}"
    output.line(f"version {version.version}: index {clean(name)}{has}")


def index_document(one: IndexInfo) -> dict[str, Any]:
    """An index as JSON, for scripts: keys are added, never renamed."""
    return {
        "name": one.name,
        "column": one.column,
        "analyzer": msgspec.structs.asdict(one.analyzer),
        "segments": one.segments,
        "parts": one.parts,
        "bytes": one.bytes,
        "indexed_rows": one.indexed_rows,
        "unindexed_rows": one.unindexed_rows,
        "unindexed_fragments": one.unindexed_fragments,
    }


def _analyzer_text(analyzer: Analyzer) -> str:
    """How texts become words, for people."""
    words: list[str] = [analyzer.tokenizer]
    if analyzer.tokenizer == "ngram":
        words[0] += f" {analyzer.ngram_min} to {analyzer.ngram_max}"
    if analyzer.stem or analyzer.stop_words:
        words.append(analyzer.language)
    if analyzer.tokenizer == "simple":
        words += ["no stems"] * (not analyzer.stem) + ["with stop words"] * (not analyzer.stop_words)
    return ", ".join(words + ["no positions"] * (not analyzer.positions))
