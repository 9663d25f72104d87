"""The knobs of a shard's writer: what they mean, their defaults, and where else they may be set.

A knob that is left out is the table's (``shard.<knob>`` among its settings), and where the table has none, the default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from siltstone.errors import InvalidInputError
from siltstone.table.arguments import shown_object
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "shard."
_MIB = 1024 * 1024
ENTRY_BYTES_MAX = 40 * _MIB  # of rows in one entry of the WAL; its body may have a little more
_TRUTH = {"true": True, "false": False}
_DIGITS_MAX = 20


@dataclass(frozen=True)
class Knobs:
    """Every knob with a value. What ``ShardWriterConfig`` and the table's settings amount to."""

    durable_write: bool = True
    enable_memtable: bool = True
    max_wal_buffer_size: int = 10 * _MIB
    max_wal_flush_interval_ms: int = 100
    max_wal_append_attempts: int = 3
    max_memtable_size: int = 64 * _MIB
    max_memtable_rows: int = 200_000
    max_memtable_batches: int = 8_000
    max_unflushed_memtable_bytes: int = 256 * _MIB
    index_configs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShardWriterConfig:
    """What a writer does otherwise than its table says. Sizes are bytes.

    Attributes:
        durable_write: ``put`` and ``delete`` return when their rows are in the WAL (True by default). Otherwise they
            return at once; ``wait()`` of what they return, ``flush()`` and ``close()`` make them durable.
        enable_memtable: keep rows that are in the WAL in memory too, and flush them to fragments of the shard (True by
            default). Without it the writer is WAL only: ``scan``, ``get``, ``memtable_stats`` and ``active_memtable``
            are refused, ``index_configs`` must be empty, and ``max_memtable_size``, ``max_memtable_rows`` and
            ``max_memtable_batches`` mean nothing.
        max_wal_buffer_size: rows that wait are written to the WAL when they take as much, and no entry takes more but
            for a single row that does (10 MiB; at most 40 MiB).
        max_wal_flush_interval_ms: rows that nobody waits for are written to the WAL after so long (100). A put that
            waits is written at once.
        max_wal_append_attempts: an entry that can't be written is tried so often, the first time for as long as
            ``patience_s`` of the table's ``env`` lasts; then the writer is stopped, and must be opened again (3).
        max_memtable_size: a memtable of so many bytes is flushed (64 MiB).
        max_memtable_rows: a memtable of so many rows is flushed (200,000).
        max_memtable_batches: a memtable of so many batches is flushed (8,000).
        max_unflushed_memtable_bytes: ``put`` waits where memtables that are not flushed yet, and rows that are not in
            the WAL yet, take more (256 MiB). In a WAL-only writer it bounds the rows that are not in the WAL yet.
        index_configs: names of text indexes of the table. Rows are indexed as they are put, so that a search with them
            in this process need not do it; without it the first search that sees rows indexes them (none).
    """

    durable_write: bool | None = None
    enable_memtable: bool | None = None
    max_wal_buffer_size: int | None = None
    max_wal_flush_interval_ms: int | None = None
    max_wal_append_attempts: int | None = None
    max_memtable_size: int | None = None
    max_memtable_rows: int | None = None
    max_memtable_batches: int | None = None
    max_unflushed_memtable_bytes: int | None = None
    index_configs: tuple[str, ...] | None = None

    def settings(self) -> dict[str, str]:
        """The knobs that are set, as settings of a table."""
        checked = knobs(self, {})
        if checked.index_configs:
            raise InvalidInputError(
                "index_configs is up to each writer, and a table can't say it", hint="pass it to writer()"
            )
        given = [
            one.name for one in fields(self) if getattr(self, one.name) is not None and one.name != "index_configs"
        ]
        return {PREFIX + name: str(getattr(checked, name)).lower() for name in given}


_LIMITS = {
    "max_wal_buffer_size": (1, ENTRY_BYTES_MAX),
    "max_wal_flush_interval_ms": (1, 3_600_000),
    "max_wal_append_attempts": (1, 1000),
    "max_memtable_size": (1, 1024 * _MIB),
    "max_memtable_rows": (1, 2**31 - 1),
    "max_memtable_batches": (1, 2**31 - 1),
    "max_unflushed_memtable_bytes": (1, 2**60),
}


def knobs(config: object, settings: Mapping[str, str]) -> Knobs:
    """What a writer works with.

    Raises:
        InvalidInputError: a knob has a value that it can't have, or two of them contradict each other.
    """
    if config is None:
        config = ShardWriterConfig()
    if not isinstance(config, ShardWriterConfig):
        raise InvalidInputError(
            f"config must be a ShardWriterConfig, got {type(config).__name__}",
            hint="such as siltstone.ShardWriterConfig(durable_write=False)",
        )
    values: dict[str, Any] = _from_settings(settings)
    for one in fields(Knobs):
        given = getattr(config, one.name)
        if given is not None:
            values[one.name] = _checked(one.name, given)
    found = Knobs(**values)
    if found.index_configs and not found.enable_memtable:
        raise InvalidInputError(
            "index_configs needs a memtable, and enable_memtable is False",
            hint="leave index_configs empty, or enable the memtable",
        )
    return found


def _from_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """What a table says of its writers. All of it must be right, also what a writer says otherwise."""
    known = {one.name for one in fields(Knobs)} - {"index_configs"}
    values = {}
    for setting, text in settings.items():
        name = setting.removeprefix(PREFIX)
        if name == setting:
            continue
        if name not in known:
            raise InvalidInputError(
                f"the table has the setting {shown(setting)}, and its writers have no such knob",
                hint=f'remove it with set({{"{setting}": None}}); known are {", ".join(sorted(known))}',
            )
        try:
            values[name] = _checked(name, _from_text(text))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the table's setting {setting} can't be used: {error.message}",
                hint=f'mend it with set({{"{setting}": "..."}}); None removes it',
            ) from error
    return values


def _from_text(text: str) -> object:
    if text in _TRUTH:
        return _TRUTH[text]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else text


def _checked(name: str, value: object) -> object:
    if name == "index_configs":
        if not isinstance(value, tuple | list) or not all(isinstance(one, str) for one in value):
            raise InvalidInputError(
                f"index_configs must be a tuple of names, got {shown_object(value)}",
                hint='such as index_configs=("body",)',
            )
        return tuple(value)
    if name not in _LIMITS:
        if not isinstance(value, bool):
            raise InvalidInputError(f"{name} must be True or False, got {shown_object(value)}")
        return value
    least, most = _LIMITS[name]
    if type(value) is not int or not least <= value <= most:
        raise InvalidInputError(f"{name} must be a whole number from {least} to {most}, got {shown_object(value)}")
    return value
