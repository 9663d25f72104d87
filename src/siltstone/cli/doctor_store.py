"""What the doctor sees of a store and of a commit store: what can be reached, what may be done, and clocks.

What must hold: without ``write`` nothing is written to the store; with it one object of our own is, and goes again.
"""

from __future__ import annotations

import contextlib
import os
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from siltstone import paths
from siltstone.api import open_table
from siltstone.cli.doctor_checks import Check
from siltstone.cli.progress import time_text
from siltstone.commit.connect import open_registry
from siltstone.errors import AlreadyExistsError, NotFoundError, SiltstoneError
from siltstone.ids import SystemIds
from siltstone.store.connect import open_store
from siltstone.store.options import ENV_REFERENCE, parse_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from siltstone.store.base import Store

STORE = "store"
COMMITS = "commit store"
SKEW_MOST_S = 60.0
ANSWER_SECONDS_MAX = 5.0
_SKEW = "it matters only for how long gc spares what is new, and for the times that are shown"
_NOT_TRIED = "--write tries it with an object of its own"
_ENDPOINTS = (
    "aws_endpoint",
    "aws_endpoint_url",
    "endpoint",
    "endpoint_url",
    "azure_storage_endpoint",
    "azure_endpoint",
)
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def check_place(uri: str, commits: str | None, options: Mapping[str, str], *, write: bool) -> Iterator[Check]:
    """A store, and the table that may be there."""
    try:
        store = open_store(uri, options)
    except SiltstoneError as error:
        yield Check(STORE, "address", "no", error.message, error.hint)
        return
    with store:
        yield Check(STORE, "address", "ok", store.uri)
        listed = _tried("list", lambda: _list(store))
        yield listed
        if listed.state == "no":
            return
        yield from (
            _writes(store, decided=commits is not None)
            if write
            else (Check(STORE, "write", "unknown", "not tried", _NOT_TRIED),)
        )
        if not write:
            yield _clock_by_answer(uri, options)
    yield _table(uri, commits, options)


def _list(store: Store) -> str:
    """One object tells as much as all of them, and reading it tells the rest."""
    info = next(iter(store.list()), None)
    if info is None:
        return "may be listed; nothing is there yet"
    if info.size:
        store.get_ranges(info.key, [(0, 1)])
    return "may be listed and read"


def _tried(what: str, call: Callable[[], str]) -> Check:
    try:
        return Check(STORE, what, "ok", call())
    except SiltstoneError as error:
        return Check(STORE, what, "no", error.message, error.hint)


def _table(uri: str, commits: str | None, options: Mapping[str, str]) -> Check:
    try:
        with open_table(uri, commits=commits, storage_options=options) as table:
            return Check(STORE, "table", "ok", f"version {table.version}, {table.count():,} rows")
    except NotFoundError:
        return Check(STORE, "table", "unknown", "none is there", "`siltstone create` makes one")
    except SiltstoneError as error:
        return Check(STORE, "table", "no", error.message, error.hint)


# -- writing -------------------------------------------------------------------------------------


def _writes(store: Store, *, decided: bool) -> Iterator[Check]:
    """Create, read, create once more, delete; what is known of clocks comes with it."""
    key = f"{paths.PROBE}/{SystemIds().new()}-doctor"
    try:
        created = _tried("create", lambda: _create(store, key))
        yield created
        if created.state == "ok":
            yield _tried("read", lambda: _read(store, key))
            yield _once(store, key, decided=decided)
            yield _clock_by_object(store, key)
    finally:
        with contextlib.suppress(SiltstoneError):  # said by the line below where it matters
            store.delete([key])
    yield _tried("delete", lambda: _delete(store, key))


def _create(store: Store, key: str) -> str:
    store.create(key, b"doctor")
    return "an object was created"


def _read(store: Store, key: str) -> str:
    if store.get(key) != b"doctor":
        raise NotFoundError("what was read is not what was written", hint="see `siltstone check-store`")
    return "it was read back"


def _once(store: Store, key: str, *, decided: bool) -> Check:
    try:
        store.create(key, b"again")
    except AlreadyExistsError:
        return Check(STORE, "create once", "ok", "a second one under the same name is refused")
    except SiltstoneError as error:
        return Check(STORE, "create once", "no", error.message, error.hint)
    said = "a second one under the same name was accepted"
    if decided:
        return Check(STORE, "create once", "unknown", f"{said}; the commit store decides, so tables are safe")
    advice = "`siltstone check-store` says more; a commit store makes it safe: --commits"
    return Check(STORE, "create once", "no", said, advice)


def _delete(store: Store, key: str) -> str:
    store.delete([key])
    if store.head(key) is not None:
        raise NotFoundError("an object that was deleted is still there", hint=f"{key} is ours, and may be removed")
    return "the object is gone again"


# -- clocks --------------------------------------------------------------------------------------


def _clock_by_object(store: Store, key: str) -> Check:
    info = store.head(key)
    if info is None:
        return Check(STORE, "clock", "unknown", "not known: the object that was written is not there")
    return _skew(time.time() - info.modified_ms / 1000)


def _clock_by_answer(uri: str, options: Mapping[str, str]) -> Check:
    """What the store's server says in its header Date, whatever else it answers."""
    if parse_uri(uri).scheme in {"file", "memory"}:
        return Check(STORE, "clock", "ok", "the one of this machine, on a disk of its own")
    named = next((options[name] for name in _ENDPOINTS if name in options), None)
    if named is not None and named.startswith(ENV_REFERENCE):
        named = os.environ.get(named.removeprefix(ENV_REFERENCE))
    endpoint = named or next((os.environ[name] for name in _ENDPOINT_VARIABLES if os.environ.get(name)), None)
    unknown = Check(STORE, "clock", "unknown", "not known", f"{_NOT_TRIED}, whose time is compared")
    if endpoint is None or not endpoint.startswith(("http://", "https://")):
        return unknown
    try:
        request = urllib.request.Request(endpoint, method="HEAD")  # noqa: S310 - http, by the check above
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:  # noqa: S310
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        date = error.headers.get("Date")
        error.close()
    except (OSError, ValueError):
        return unknown
    try:
        return _skew(time.time() - parsedate_to_datetime(date or "").timestamp())
    except ValueError:
        return unknown


def _skew(seconds: float) -> Check:
    if abs(seconds) < SKEW_MOST_S:
        return Check(STORE, "clock", "ok", "this machine and the store agree within a minute")
    side = "ahead of" if seconds > 0 else "behind"
    said = f"this machine is {time_text(abs(seconds))} {side} the store; {_SKEW}"
    return Check(STORE, "clock", "unknown", said, "set the clock by NTP")


# -- the commit store ----------------------------------------------------------------------------


def check_commits(commits: str, *, write: bool) -> Iterator[Check]:
    """Whether a commit store answers, and how fast."""
    try:
        registry = open_registry(commits)
    except SiltstoneError as error:
        yield Check(COMMITS, "address", "no", error.message, error.hint)
        return
    try:
        yield Check(COMMITS, "address", "ok", registry.uri)
        began = time.monotonic()
        try:
            said = f"calls itself {registry.identity()}" if write else _looked_up(registry.newest("doctor"))
        except SiltstoneError as error:
            yield Check(COMMITS, "answers", "no", error.message, error.hint)
            return
        yield Check(COMMITS, "answers", "ok", f"within {(time.monotonic() - began) * 1000:.0f} ms, {said}")
    finally:
        registry.close()


def _looked_up(_: object) -> str:
    return "to a look-up"
