"""Creating and opening tables."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from siltstone.api.table import Table, missing
from siltstone.env import REAL, Env
from siltstone.errors import AlreadyExistsError, ConflictError, NotFoundError, SiltstoneError
from siltstone.format.table import Change, encode_body, encode_change
from siltstone.log import open_log
from siltstone.paths import LOG
from siltstone.store.connect import open_store
from siltstone.table import arguments
from siltstone.table.schema import arrow_schema, make_schema
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from siltstone.commit.registry import Registry
    from siltstone.log.open import Guard
    from siltstone.store.base import Store


def create_table(
    uri: str | Path | Store,
    *,
    schema: pa.Schema,
    key: str | Sequence[str] | None = None,
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
    the same columns and key is opened instead.

    Raises AlreadyExistsError, UnsafeStoreError (the store would lose data; pass ``commits``), InvalidInputError.
    """
    arguments.check_flag(exist_ok, "exist_ok")
    record = make_schema(schema, key)
    change = Change(operation="create", schema=record, settings=arguments.check_settings(settings or {}))
    log = open_log(
        uri, commits=commits, create=True, root=LOG, guard=guard, probe=probe, storage_options=storage_options,
        sync=sync, env=env,
    )  # fmt: skip
    created = False
    if not exist_ok or log.published(0) is None:
        try:
            log.append(encode_body(encode_change(change)), after=log.start)
            created = True
        except ConflictError:
            if not exist_ok:
                raise _exists(log.store.uri) from None
    table = Table(log, env=env)
    if not created and (not table.schema.equals(arrow_schema(record)) or table.key != _names(key)):
        raise AlreadyExistsError(
            f"there is a table with other columns or another key at {table.uri}", hint="open it, or choose another URI"
        )
    return table


def open_table(
    uri: str | Path | Store,
    *,
    version: int | None = None,
    tag: str | None = None,
    commits: str | Registry | None = None,
    storage_options: Mapping[str, str] | None = None,
    probe: bool = True,
    sync: bool = True,
    env: Env = REAL,
) -> Table:
    """Open the table at a URI, or one version of it. Raises NotFoundError, and what ``create`` raises of stores."""
    store = open_store(uri, storage_options, sync=sync)
    try:
        log = open_log(store, commits=commits, root=LOG, probe=probe, sync=sync, env=env)
    except NotFoundError as error:
        raise _missing(store) from error
    table = Table(log, env=env)
    return table if version is None and tag is None else table.at(version=version, tag=tag)


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
