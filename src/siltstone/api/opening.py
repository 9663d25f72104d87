"""Creating and opening tables."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from siltstone.api.given import given_wal
from siltstone.api.missing import missing
from siltstone.api.table import Table
from siltstone.env import REAL, Env
from siltstone.errors import AlreadyExistsError, InvalidInputError, NotFoundError, SiltstoneError
from siltstone.format.table import SHARDS_MAX, Change
from siltstone.log import open_log
from siltstone.paths import LOG
from siltstone.retain.birth import be_born, cursors_of, new_sharding
from siltstone.retain.drop import end_drop
from siltstone.shard.config import PREFIX, Knobs, ShardWriterConfig, knobs
from siltstone.store.connect import open_store
from siltstone.table import arguments
from siltstone.table.origins import Others, check_origins
from siltstone.table.schema import arrow_schema, make_schema
from siltstone.table.types import shown
from siltstone.telemetry.seams import traced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from siltstone.commit.registry import Registry
    from siltstone.format.table import Schema
    from siltstone.log.open import Guard
    from siltstone.store.base import Store
    from siltstone.table.origins import Given
    from siltstone.table.state import State


@traced("siltstone.create", facts=lambda table: {"table": table.uri})
def create_table(
    uri: str | Path | Store,
    *,
    schema: pa.Schema,
    key: str | Sequence[str] | None = None,
    shards: int | None = None,
    shard_config: ShardWriterConfig | Mapping[str, str] | None = None,
    wal: str | Path | Store | None = None,
    wal_options: Mapping[str, str] | None = None,
    commits: str | Registry | None = None,
    exist_ok: bool = False,
    settings: Mapping[str, str | None] | None = None,
    storage_options: Mapping[str, str] | None = None,
    guard: Guard = "auto",
    probe: bool = True,
    sync: bool = True,
    env: Env = REAL,
) -> Table:
    """Create a table at a URI and open it.

    ``key`` names the column, or columns, that tell rows apart: no two rows have the same. ``commits`` names the
    commit store that decides its versions, see docs/commit-stores.md. With ``exist_ok`` a table that is there and has
    the same columns and key, and as many shards where ``shards`` is given, is opened instead.

    ``shards`` spreads a keyed table's rows over so many shards, each with a writer and a WAL of its own;
    ``shard_config`` says how they write where they are not told otherwise: a ShardWriterConfig, or texts by knob.
    ``wal`` names another store for the WALs, and ``wal_options`` its storage options; see docs/retention.md.

    Raises AlreadyExistsError, UnsafeStoreError (the store would lose data; pass ``commits``), InvalidInputError.
    """
    arguments.check_flag(exist_ok, "exist_ok")
    record = make_schema(schema, key)
    count = _check_shards(shards, keyed=bool(record.key))
    kept = _all_settings(settings or {}, shard_config)
    store = open_store(uri, storage_options, sync=sync)
    other = given_wal(wal, wal_options, storage_options, store, sync=sync)
    others = Others(store.uri, storage_options, {}, sync)
    log = open_log(store, commits=commits, create=True, root=LOG, guard=guard, probe=probe, sync=sync, env=env)

    def make(before: State) -> Change:
        sharding = new_sharding(log.store, before, count) if count else None
        return Change(
            operation="create",
            schema=record,
            settings=kept,
            shards=cursors_of(sharding),
            sharding=sharding,
            wal=None if other is None else other.make(log),
        )

    created = be_born(log, make, clear=lambda before: end_drop(log, before, others, other)) is None
    if not created and not exist_ok:
        raise _exists(log.store.uri)
    table = Table(log, env=env, others=others, other=other)
    if not created:
        _check_same(table, record, key=_names(key), shards=count)
    return table


@traced("siltstone.open", facts=lambda table: {"table": table.uri})
def open_table(
    uri: str | Path | Store,
    *,
    version: int | None = None,
    tag: str | None = None,
    commits: str | Registry | None = None,
    storage_options: Mapping[str, str] | None = None,
    origins: Mapping[str | int, Given] | None = None,
    wal: str | Path | Store | None = None,
    wal_options: Mapping[str, str] | None = None,
    probe: bool = True,
    sync: bool = True,
    env: Env = REAL,
) -> Table:
    """Open the table at a URI, or one version of it. Raises NotFoundError, and what ``create`` raises of stores.

    A clone opens the tables that it reads from, too: with the same ``storage_options`` where they are in the same
    bucket, else with what is in the environment. ``origins`` says otherwise, by their recorded URI or their number:
    the URI or the Store where one is now, or its storage options, with ``commits`` beside them for ``detach``.

    ``wal`` is the store of the shards' WALs, where they are not in the table's own: whoever writes shards, merges them
    or reads them freshly needs it, with ``wal_options`` as its storage options.
    """
    store = open_store(uri, storage_options, sync=sync)
    others = Others(store.uri, storage_options, check_origins(origins), sync)
    other = given_wal(wal, wal_options, storage_options, store, sync=sync)
    try:
        log = open_log(store, commits=commits, root=LOG, probe=probe, sync=sync, env=env)
    except NotFoundError as error:
        raise _missing(store) from error
    table = Table(log, env=env, others=others, other=other)
    return table if version is None and tag is None else table.at(version=version, tag=tag)


def _all_settings(settings: Mapping[str, str | None], shard_config: object) -> dict[str, str | None]:
    """What the first version of a table sets."""
    known = arguments.check_settings(settings)
    written = _shard_settings(shard_config)
    for name in sorted(written.keys() & known.keys()):
        raise InvalidInputError(f"{shown(name)} is in settings= and in shard_config= too", hint="give it once")
    return {**known, **written}


def _check_shards(shards: object, *, keyed: bool) -> int:
    """How many shards a table gets; 0 where none are asked for."""
    if shards is None:
        return 0
    if type(shards) is not int or not 1 <= shards <= SHARDS_MAX:
        raise InvalidInputError(
            f"shards must be a whole number from 1 to {SHARDS_MAX}, got {arguments.shown_object(shards)}",
            hint="leave it out for a table without shards",
        )
    if not keyed:
        raise InvalidInputError(
            "shards= spreads rows by their key, and this table has none",
            hint="a table without a key may have shards of any name: open them with table.shard('name')",
        )
    return shards


def _shard_settings(config: object) -> dict[str, str]:
    """The settings that keep a shard_config=."""
    if config is None:
        return {}
    hint = "pass a ShardWriterConfig, or such as {'max_memtable_rows': '100000'}"
    try:
        if isinstance(config, ShardWriterConfig):
            return config.settings()
        found = _knob_settings(config)
        knobs(None, found)
    except InvalidInputError as error:
        raise InvalidInputError(f"shard_config can't be used: {error.message}", hint=hint) from error
    return found


def _knob_settings(config: object) -> dict[str, str]:
    if not isinstance(config, Mapping):
        raise InvalidInputError(f"{type(config).__name__} is no mapping")
    names = {one.name for one in fields(Knobs)}
    for name, text in config.items():
        if name not in names:
            raise InvalidInputError(f"{arguments.shown_object(name)} is no knob of a shard's writer")
        if not isinstance(text, str):
            raise InvalidInputError(f"the value of {name} must be a string, got {type(text).__name__}")
    return {PREFIX + name: text for name, text in config.items()}


def _check_same(table: Table, schema: Schema, *, key: tuple[str, ...], shards: int) -> None:
    """Raise AlreadyExistsError where a table that is there is not the one that was asked for."""
    there = table._now().sharding  # noqa: SLF001 - the same package's
    problem = ""
    if not table.schema.equals(arrow_schema(schema)) or table.key != key:
        problem = "other columns or another key"
    elif shards and (there is None or there.count != shards):
        problem = f"{there.count if there else 'no'} shards"
    if problem:
        raise AlreadyExistsError(
            f"there is a table with {problem} at {table.uri}", hint="open it, or choose another URI"
        )


def _names(key: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if key is None else (key,) if isinstance(key, str) else tuple(key)


def _missing(store: Store) -> NotFoundError:
    """The error for a place without a table, with what is there instead."""
    error = missing(store.uri)
    with contextlib.suppress(SiltstoneError):
        for info in store.list():
            error.hint += f"; other objects are there, such as {shown(info.key)}"
            break
    return error


def _exists(uri: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {uri} already", hint="open it with siltstone.open(), or pass exist_ok=True"
    )
