"""``gc``: remove what no version needs that is kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from siltstone.cli.errors import DONE
from siltstone.cli.grammar.collect import SHAPE
from siltstone.cli.opening import writing
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress, size_text

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.output import Output
    from siltstone.retain.gc import Collected

SHOWN_MOST = 1000  # of the objects that --dry-run names for people; --json names all
_WORDS = {
    "fragment": ("fragment", "fragments"),
    "vectors": ("object of deletion vectors", "objects of deletion vectors"),
    "index": ("object of an index", "objects of indexes"),
    "rollup": ("rollup", "rollups"),
    "entry": ("entry of the log", "entries of the log"),
    "shard fragment": ("fragment of a shard", "fragments of shards"),
    "staged": ("staged object", "staged objects"),
    "unfinished": ("unfinished file", "unfinished files"),
    "probe": ("probe", "probes"),
}


def run_gc(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``gc``."""
    with writing(arguments) as table:
        with Progress(output, f"gc {table.name}", unit="objects") as bar:
            done = table.gc(
                keep_days=arguments.keep_days,
                keep_versions=arguments.keep_versions,
                dry_run=arguments.dry_run,
                progress=bar.done,
            )
        document = asdict(done)
        for one in document["doomed"]:
            del one["base"]
        output.result({"uri": table.uri} | {name: document[name] for name in SHAPE[1:]})
    if done.dry_run:
        _explain(done, output)
    for name in done.expired:
        output.line(f"checkpoint {clean(name)} {'is over and would go' if done.dry_run else 'was over and went'}")
    for what in done.left:
        output.line(f"{output.paint('left for the next time', 'yellow')}: {clean(what)}")
    output.line(_summary(done))
    return DONE


def _explain(done: Collected, output: Output) -> None:
    rows = [(one.key, one.kind, size_text(one.bytes), one.why) for one in done.doomed[:SHOWN_MOST]]
    if rows:
        output.table(("object", "kind", "size", "why it may go"), rows, right=frozenset({"size"}))
    if len(done.doomed) > SHOWN_MOST:
        output.line(f"... and {len(done.doomed) - SHOWN_MOST:,} more; --json names all of them")


def _summary(done: Collected) -> str:
    verb = "would be removed" if done.dry_run else "removed"
    parts = [
        f"{number:,} {_WORDS[kind][number != 1]} ({size_text(done.bytes[kind])})"
        for kind, number in sorted(done.objects.items())
    ]
    what = ", ".join(parts) if parts else "nothing"
    kept = f", and {', '.join(map(str, done.kept[:10]))}{'...' if len(done.kept) > 10 else ''}" if done.kept else ""
    return f"{what} {verb}; versions from {done.floor} to {done.version} stay{kept}"
