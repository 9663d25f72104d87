"""What one version of a table changed.

What must hold: what a version is said to have changed is what its entry in the log records; the version before it is
asked only for what was there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.cli.documents import version_document
from siltstone.console.cells import counted, cut, time_text
from siltstone.errors import NotFoundError, SiltstoneError
from siltstone.table.arguments import check_version
from siltstone.table.history import to_step
from siltstone.table.operations import check_kept
from siltstone.table.versions import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.console.root import Held
    from siltstone.format.table import Change, Field, Fragment, Schema
    from siltstone.format.text import TextIndex
    from siltstone.table.state import State, Step

LISTED_MAX = 50  # of the fragments, or shards, that one version changed


def show_version(held: Held, number: int) -> dict[str, Any]:
    """What a version changed. Raises NotFoundError and TruncatedError."""
    state = held.state()
    check_kept(state, check_version(number, newest=state.version))
    data = held.log.published(number)
    if data is None:
        raise NotFoundError(f"version {number} was collected meanwhile", hint="look at the history again")
    step = to_step(held.log.read(data, number))
    before, note = _before(held, number)
    document = version_document(describe(step)) | {"note": note, "changes": []}
    if step.change is not None:
        document["changes"] = [one for one in _changes(step.change, before) if one["items"]]
        document["flags"] = _flags(step.change)
    document["shards"] = document["shards"][:LISTED_MAX]
    return document | _place(step)


def _before(held: Held, number: int) -> tuple[State, str]:
    """The version before one, or an empty one and why."""
    history = held.table._history  # noqa: SLF001 - a version that was collected may still be there to compare
    if number == 0:
        return history.base, ""
    try:
        return history.at(number - 1), ""
    except SiltstoneError as error:
        return history.base, f"The version before it can't be read, so all it has counts as new ({error.message})."


def _place(step: Step) -> dict[str, Any]:
    return {"digest": step.digest, "epoch": step.epoch, "recorded": time_text(step.time_ms)}


def _flags(change: Change) -> list[str]:
    said = {
        "rewrite": "the same rows in other files",
        "revives": "rows that were gone may be back",
        "dropped": "the table is gone from here on",
    }
    return [text for name, text in said.items() if getattr(change, name)]


def _changes(change: Change, before: State) -> list[dict[str, Any]]:
    """What changed, by kind: each item has a sign (+ added, - removed, ~ changed), a name and what is said of it."""
    parts = [
        _group("columns", _columns(change.schema, before)),
        _group("fragments", _fragments(change, before), total=len(change.add) + len(change.remove)),
        _group("deleted rows", _masks(change, before), total=len(change.mask) + len(change.unmask)),
        _group("shards", _cursors(change, before)),
        _group("indexes", _indexes(change.indexes, before)),
        _group("checkpoints", _named(change.checkpoints, before.checkpoints, _checkpoint)),
        _group("tags", _named(change.tags, before.tags, lambda version: f"version {version}")),
        _group("settings", _named(change.settings, before.settings, cut)),
        _group("streams", _named(change.batches, before.batches, lambda batch: f"batch {batch}")),
        _group("origins", _named(change.origins, before.origins, lambda one: f"{one.uri}@{one.version}")),
    ]
    return [*parts, _group("table", _others(change, before))]


def _group(kind: str, items: list[dict[str, str]], *, total: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "items": items[:LISTED_MAX], "total": len(items) if total is None else total}


def _item(sign: str, name: str, detail: str = "") -> dict[str, str]:
    return {"sign": sign, "name": cut(name), "detail": cut(detail)}


def _named(news: Mapping[str, Any], had: Mapping[str, Any], show: Any) -> list[dict[str, str]]:
    items = []
    for name, value in sorted(news.items()):
        old = had.get(name)
        if value is None:
            items.append(_item("-", name, "" if old is None else show(old)))
        elif old is None:
            items.append(_item("+", name, show(value)))
        elif show(old) != show(value):
            items.append(_item("~", name, f"{show(old)} → {show(value)}"))
    return items


def _checkpoint(one: Any) -> str:
    until = "for ever" if one.expires_ms is None else f"until {time_text(one.expires_ms)}"
    held = f", held by {one.holder.uri}" if one.holder else ""
    pending = ", not ended yet" if one.pending else ""
    return f"version {one.version}, {one.scope}, {until}{held}{pending}"


def _columns(schema: Schema | None, before: State) -> list[dict[str, str]]:
    if schema is None:
        return []
    had = {one.id: one for one in before.schema.fields}
    has = {one.id: one for one in schema.fields}
    items = [_item("-", one.name, _type(one)) for id_, one in had.items() if id_ not in has]
    for id_, one in has.items():
        old = had.get(id_)
        if old is None:
            default = "" if one.default is None else f", {one.default} in earlier rows"
            items.append(_item("+", one.name, _type(one) + (", key" if id_ in schema.key else "") + default))
        elif (old.name, _type(old)) != (one.name, _type(one)):
            was = f"{old.name} {_type(old)}" if old.name != one.name else _type(old)
            items.append(_item("~", one.name, f"{was} → {_type(one)}"))
    if had and [one for one in had if one in has] != [one for one in has if one in had]:
        items.append(_item("~", "order", ", ".join(one.name for one in schema.fields)))
    return items


def _type(field: Field) -> str:
    inner = f"<{', '.join(f'{one.name}: {_type(one)}' for one in field.children)}>" if field.children else ""
    return f"{field.type}{inner}{'' if field.nullable else ' not null'}"


def _fragments(change: Change, before: State) -> list[dict[str, str]]:
    # Half of the room for each, so that neither hides the other.
    items = [
        _item("+", one.name, _size(one)) for one in change.add[: max(LISTED_MAX // 2, LISTED_MAX - len(change.remove))]
    ]
    for name in change.remove[: LISTED_MAX - len(items)]:
        live = before.fragments.get(name)
        items.append(_item("-", name, "" if live is None else _size(live.fragment)))
    return items


def _size(fragment: Fragment) -> str:
    return f"{counted(fragment.rows, 'row')}, {counted(fragment.bytes, 'byte')}"


def _masks(change: Change, before: State) -> list[dict[str, str]]:
    items = []
    for name, vector in list(change.mask.items())[:LISTED_MAX]:
        live = before.fragments.get(name)
        had = 0 if live is None or live.vector is None else live.vector.rows
        of = "" if live is None else f" of {live.fragment.rows:,}"
        items.append(_item("~", name, f"{had:,} → {vector.rows:,}{of} rows deleted"))
    items += [_item("-", name, "none of its rows is deleted now") for name in change.unmask[:LISTED_MAX]]
    return items


def _cursors(change: Change, before: State) -> list[dict[str, str]]:
    items = []
    for name, cursor in sorted(change.shards.items())[:LISTED_MAX]:
        had = before.shards.get(name)
        if cursor is None:
            items.append(_item("-", name, "the shard goes"))
        elif had is None:
            items.append(_item("+", name, "a new shard" if not cursor.position else f"merged up to {cursor.position}"))
        else:
            count = cursor.position - had.position
            items.append(
                _item("~", name, f"merged {had.position} → {cursor.position} ({counted(count, 'entry')} of its WAL)")
            )
    return items


def _indexes(news: Mapping[str, TextIndex | None], before: State) -> list[dict[str, str]]:
    items = []
    for name, index in sorted(news.items()):
        old = before.indexes.get(name)
        if index is None:
            items.append(_item("-", name, "" if old is None else _index(old)))
        elif old is None:
            items.append(_item("+", name, _index(index)))
        else:
            items.append(_item("~", name, f"{_index(old)} → {_index(index)}"))
    return items


def _index(index: TextIndex) -> str:
    rows = sum(one.rows for one in index.segments)
    return f"{counted(len(index.segments), 'segment')}, {counted(rows, 'row')}"


def _others(change: Change, before: State) -> list[dict[str, str]]:
    items = [_item("+", "applied once", name) for name in change.once]
    if change.sharding is not None:
        had = None if before.sharding is None else before.sharding.count
        items.append(_item("~" if had else "+", "shards", f"{had or 'none'} → {change.sharding.count}"))
    if change.floor is not None:
        items.append(_item("~", "oldest version", f"{before.floor} → {change.floor}"))
    if change.clone is not None:
        where = f" where {change.clone.where}" if change.clone.where else ""
        items.append(_item("+", "clone of", f"{change.clone.uri}@{change.clone.version}{where}"))
    if change.wal is not None:
        items.append(_item("~", "WAL store", change.wal.uri))
    return items
