"""Waiting is bounded, and errors survive a trip to another process."""

from __future__ import annotations

import pickle

import pytest

from siltstone import errors
from siltstone.env import BACKOFF_MOST_S, Env
from siltstone.ids import SystemIds, is_id
from siltstone.testing.manual import ManualClock, manual_env


def test_tries__time_passes__ends_when_patience_does():
    clock = ManualClock()
    numbers = list(manual_env(1, clock=clock, patience_s=30).tries())
    assert numbers == list(range(len(numbers)))
    assert 30 <= clock.monotonic() < 30 + BACKOFF_MOST_S


def test_tries__no_patience__still_tries_twice():
    assert len(list(manual_env(patience_s=0).tries())) == 2


def test_tries__a_limit_for_each_wait__none_is_longer():
    waits = []

    class Noted(ManualClock):
        def sleep(self, seconds):
            waits.append(seconds)
            super().sleep(seconds)

    list(manual_env(1, clock=Noted(), patience_s=5).tries(most_s=0.25))
    assert max(waits) <= 0.25


def test_tries__caller_stops__no_wait_after_it():
    clock = ManualClock()
    next(Env(clock=clock).tries())
    assert clock.monotonic() == 0


def test_system_ids__many__are_ids_and_differ():
    ids = [SystemIds().new() for _ in range(1000)]
    assert all(is_id(one) for one in ids)
    assert len(set(ids)) == 1000


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SiltstoneError)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_error__pickled__keeps_its_words_and_facts(kind):
    error = kind("it broke", hint="mend it", position=3, object="a/b")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is kind
    assert (str(twin), twin.hint, twin.facts) == ("it broke (mend it)", "mend it", {"position": 3, "object": "a/b"})


def test_errors__their_kinds__are_one_for_each():
    kinds = [kind.kind for kind in ERRORS]
    assert len(kinds) == len(set(kinds))


def test_errors__unknown_outcome__is_never_called_retryable():
    assert not errors.CommitUnknownError.retryable
    assert not errors.StoreFullError.retryable
    assert not errors.WriterStoppedError.retryable
    assert errors.UnavailableError.retryable
    assert errors.ConflictError.retryable
