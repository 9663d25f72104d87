"""What several verbs say of a version and of columns, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.cli.output import clean

if TYPE_CHECKING:
    import pyarrow as pa

    from siltstone.api import Table
    from siltstone.cli.output import Output
    from siltstone.table.versions import Version

SHARDS_SHOWN = 3
_UNCHANGED: dict[str, Any] = {
    "version": 0, "time": None, "operation": "none", "inserted": 0, "updated": 0, "deleted": 0, "fragments_added": 0,
    "fragments_removed": 0, "once": [], "message": "", "op": "", "shards": [],
}  # fmt: skip


def version_document(version: Version | None, *, at: int = 0) -> dict[str, Any]:
    """A version as JSON, for scripts: keys are added, never renamed. None stands for ``at``, which was not changed."""
    if version is None:
        return _UNCHANGED | {"version": at}
    return {
        "version": version.version,
        "time": time_text(version),
        "operation": version.operation,
        "inserted": version.inserted,
        "updated": version.updated,
        "deleted": version.deleted,
        "fragments_added": version.fragments_added,
        "fragments_removed": version.fragments_removed,
        "once": list(version.once),
        "message": version.message,
        "op": version.op,
        "shards": list(version.shards),
    }


def time_text(version: Version) -> str:
    """When a version was made, in UTC."""
    return version.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rows_text(version: Version) -> str:
    """What a version did to rows."""
    parts = [
        f"{count:,} {what}" for what in ("inserted", "updated", "deleted") if (count := int(getattr(version, what)))
    ]
    return ", ".join(parts)


def shards_text(version: Version) -> str:
    """The shards whose rows a version took into the table, or that it made or let go."""
    names = ", ".join(version.shards[:SHARDS_SHOWN])
    return f"{names} and {len(version.shards) - SHARDS_SHOWN} more" if len(version.shards) > SHARDS_SHOWN else names


def say_version(table: Table, version: Version | None, output: Output, *, what: str = "") -> None:
    """Report what a write became, of ``what``: ``changed`` is false where there was nothing to do."""
    made = version is not None and version.operation != "none"
    number = table.version if version is None else version.version
    output.result({"uri": table.uri, "changed": made} | version_document(version, at=number))
    if version is None or not made:
        output.line(f"nothing to do: the table is at version {number}")
        return
    rows = rows_text(version)
    done = f"{clean(version.operation)} {what}".rstrip()
    output.line(f"version {number}: {done}{f', {rows}' if rows else ''}")


def column_documents(schema: pa.Schema) -> list[dict[str, Any]]:
    """Columns as JSON."""
    return [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]


def say_columns(table: Table, output: Output) -> None:
    """Columns as a table."""
    key = table.key
    rows = [
        (field.name, str(field.type), "" if field.nullable else "not null", "key" if field.name in key else "")
        for field in table.schema
    ]
    output.table(("column", "type", "", ""), rows)
