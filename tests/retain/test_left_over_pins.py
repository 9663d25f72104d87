"""A pin whose clone was dropped before its maker, which then died, could let go: it can be deleted, others can't."""

from __future__ import annotations

import pyarrow as pa
import pytest

import siltstone as ss
from siltstone.errors import ConflictError, InvalidInputError, NotFoundError
from siltstone.retain.pins import Asked, Pin, claim_of
from siltstone.table.history import History

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def parent(tmp_path):
    table = ss.create(tmp_path / "parent", schema=SCHEMA, key="id")
    table.append([{"id": 1}])
    return table


def pinned(parent, clone):
    """What a maker of the clone leaves that dies behind its pin."""
    claim = claim_of(clone._log, History(clone._log).at(1))
    parent._do(Pin(claim, Asked(parent.version), pin="a" * 32, created_ms=0))
    return claim.name


def test_delete_checkpoint__clone_was_dropped_since__lets_go_and_the_parent_can_be_dropped(parent, tmp_path):
    clone = parent.clone(tmp_path / "clone")
    ss.drop(clone.uri)
    name = pinned(parent, clone)
    with pytest.raises(ConflictError, match="clones read from it"):
        ss.drop(parent.uri)
    parent.delete_checkpoint(name)
    assert parent.checkpoints() == []
    ss.drop(parent.uri)


def test_delete_checkpoint__another_clone_came_there_since__is_left_over_too(parent, tmp_path):
    clone = parent.clone(tmp_path / "clone")
    ss.drop(clone.uri)
    name = pinned(parent, clone)
    again = parent.clone(tmp_path / "clone")
    [own] = [one.name for one in parent.checkpoints() if one.name != name]
    with pytest.raises(InvalidInputError, match="reads from it"):
        parent.delete_checkpoint(own)
    parent.delete_checkpoint(name)
    assert [one.name for one in parent.checkpoints()] == [own]
    assert again.count() == 1


def test_delete_checkpoint__clone_is_not_where_it_was__is_refused(parent, tmp_path):
    parent.clone(tmp_path / "clone")
    (tmp_path / "clone").rename(tmp_path / "elsewhere")
    [held] = parent.checkpoints()
    with pytest.raises(InvalidInputError, match="reads from it"):
        parent.delete_checkpoint(held)
    with pytest.raises(NotFoundError):
        ss.open(tmp_path / "clone")
    assert ss.open(tmp_path / "elsewhere").count() == 1
