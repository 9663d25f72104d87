"""An operation that names the version it makes, where an entry lands first that holds no change at all."""

from __future__ import annotations

from clone_worlds import content, parent
from siltstone.format.frame import digest
from siltstone.format.records import Header, encode_entry
from siltstone.testing.manual import SeededIds


def put_abort(world):
    """What `repair` and a commit store leave in a place whose bytes were lost."""
    log = world.open("parent")._log
    mark, ids = log.tip(), SeededIds(7)
    header = Header(
        log=log.identity.log,
        position=mark.position,
        epoch=mark.epoch,
        op=ids.new(),
        nonce=ids.new(),
        prev=mark.digest,
        kind="abort",
    )
    data = encode_entry(header, b"")
    assert digest(log.commits.decide(log.place(mark), data)) == digest(data)


def test_clone__an_abort_entry_takes_its_place__the_pin_names_the_version_that_was_made():
    world = parent()
    store = world.interleaves("parent")
    handle = world.open("parent", store=store)
    store.before("create", lambda: put_abort(world), key="log/entries")
    made = world.clone(handle, "clone")
    assert not store.pending
    assert content(made) == world.expected
    (pin,) = world.open("parent").checkpoints()
    assert world.open("parent").history(1)[0].version == pin.version
