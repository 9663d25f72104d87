"""``checkpoint``: promises to keep a table as it is, for a while or for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.cli.documents import version_document
from siltstone.cli.errors import DONE
from siltstone.cli.opening import reading, writing
from siltstone.cli.output import clean
from siltstone.cli.progress import Progress

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from siltstone.cli.output import Output
    from siltstone.table.checkpoints import Checkpoint


def run_create(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``create``."""
    with writing(arguments) as table:
        with Progress(output, f"checkpoint {table.name}"):
            made = table.checkpoint(
                arguments.name, scope=arguments.scope, keep_days=arguments.keep_days, version=arguments.version
            )
        output.result({"uri": table.uri} | _document(made))
        output.line(f"{clean(made.name)} keeps version {made.version} {_until(made)}{_and_shards(made)}")
    return DONE


def run_list(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``list``."""
    with reading(arguments) as table:
        found = table.checkpoints()
        output.result({"uri": table.uri, "version": table.version, "checkpoints": [_document(one) for one in found]})
    rows = [
        (
            one.name,
            one.version,
            one.scope,
            _time(one.created),
            "never" if one.expires is None else _time(one.expires),
            "begun and not ended" if one.pending else f"held by {one.holder}" if one.holder else "",
        )
        for one in found
    ]
    output.table(("checkpoint", "version", "scope", "created", "expires", ""), rows, right=frozenset({"version"}))
    return DONE


def run_refresh(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``refresh``."""
    with writing(arguments) as table:
        made = table.refresh_checkpoint(arguments.name, keep_days=arguments.keep_days)
        output.result({"uri": table.uri} | _document(made))
        output.line(f"{clean(made.name)} keeps version {made.version} {_until(made)}{_and_shards(made)}")
    return DONE


def run_delete(arguments: argparse.Namespace, output: Output) -> int:
    """The verb ``delete``."""
    with writing(arguments) as table:
        made = table.delete_checkpoint(arguments.name)
        output.result({"uri": table.uri, "name": arguments.name} | version_document(made))
        output.line(f"{clean(arguments.name)} is no checkpoint any more (said by version {made.version})")
    return DONE


def _document(one: Checkpoint) -> dict[str, Any]:
    """A checkpoint as JSON, for scripts: keys are added, never renamed."""
    return {
        "name": one.name,
        "version": one.version,
        "scope": one.scope,
        "created": _time(one.created),
        "expires": None if one.expires is None else _time(one.expires),
        "pending": one.pending,
        "holder": one.holder,
        "shards": list(one.shards),
        "id": one.id,
    }


def _until(one: Checkpoint) -> str:
    return "for ever" if one.expires is None else f"until {_time(one.expires)}"


def _and_shards(one: Checkpoint) -> str:
    return f", and what is durable in {len(one.shards)} shards" if one.shards else ""


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
