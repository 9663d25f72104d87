"""What is refused leaves nothing behind."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import WrongWalStoreError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def made(place, **options):
    table = ss.create(place, schema=SCHEMA, key="id", **options)
    table.append([{"id": 1}])
    return table


def test_checkpoint__durable_without_the_wal_store_that_it_needs__leaves_no_name_behind(tmp_path):
    table = made(tmp_path / "t", shards=1, wal=tmp_path / "wal")
    with table.writer() as writer:
        writer.put([{"id": 2}])
    blind = ss.open(tmp_path / "t")
    with pytest.raises(WrongWalStoreError):
        blind.checkpoint("kept", scope="durable")
    assert blind.checkpoints() == []
    assert table.checkpoint("kept", scope="durable").name == "kept"
    assert table.at(checkpoint="kept").count() == 2


@pytest.mark.parametrize("inside", ["data", "data/deeper", "vectors/t", "shards", "inside"])
def test_drop__another_table_is_below_it__keeps_all_its_rows(tmp_path, inside):
    inner = made(tmp_path / "outer" / inside)
    inner.append([{"id": number} for number in range(2, 50)])
    inner.delete("id > 40")
    made(tmp_path / "outer")
    ss.drop(tmp_path / "outer")
    assert ss.open(tmp_path / "outer" / inside).count() == 40
    assert ss.open(tmp_path / "outer" / inside).scan().to_arrow().num_rows == 40
