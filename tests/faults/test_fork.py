"""A store used before ``os.fork()``: the child is told, where using it could hang; the parent works on."""

from __future__ import annotations

import os

import pytest

from siltstone.errors import ForkedError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_get__store_used_before_the_fork__child_is_told_and_parent_works_on(places):
    store = places.store("faulty").open()
    store.put("object", b"there")
    child = os.fork()
    if child == 0:
        try:
            store.get("object")
        except ForkedError:
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert store.get("object") == b"there"
