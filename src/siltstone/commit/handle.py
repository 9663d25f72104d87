"""The part of a registry that is the same for every service: connections, threads, forks, pickling, errors.

What must hold:
- A connection on which anything went wrong is never used again: its next bytes may answer another request.
- A connection made before a fork is neither used nor closed in the child; both would reach the parent's.
- Whatever a driver raises leaves as a siltstone error, without the password.
- No answer is made up: a request that got none raises UnavailableError, and asking again is safe.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from siltstone.commit.checks import (
    Standing,
    check_claim,
    check_digest,
    check_identity,
    check_place,
    check_position,
    check_scope,
    judge,
)
from siltstone.commit.registry import Behind, Claim, Registry, Truncated
from siltstone.commit.tls import tls_error
from siltstone.errors import ClosedError, InternalError, SiltstoneError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.commit.location import Location

C = TypeVar("C")
R = TypeVar("R")

ATTEMPTS_MAX = 64
"""How often a place may change between looking and taking before a claim gives up as unavailable."""

# Connections inherited through a fork stay referenced here, so that no finalizer says goodbye in the parent's name.
_INHERITED: list[object] = []


class Link(Generic[C]):
    """One connection, closed when its thread ends."""

    def __init__(self, raw: C, close: Callable[[C], None]) -> None:
        self.raw = raw
        self.pid = os.getpid()
        self._close: Callable[[C], None] | None = close

    def close(self) -> None:
        close, self._close = self._close, None
        if close is None:
            return
        if self.pid != os.getpid():
            _INHERITED.append(self.raw)
            return
        with contextlib.suppress(Exception):  # the service may be gone; there is nothing left to release
            close(self.raw)

    def __del__(self) -> None:
        self.close()


class _Links(Generic[C]):
    """The connections of one handle in one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.local = threading.local()
        self.every: weakref.WeakSet[Link[C]] = weakref.WeakSet()
        self.lock = threading.Lock()
        self.shared: Link[C] | None = None


class RegistryHandle(ABC, Generic[C]):
    """A registry over connections of type ``C``, one for each thread, or one for all where ``C`` is thread safe."""

    kind: str
    thread_safe_connection = False

    def __init__(self, reopen: Callable[..., Registry], uri: str, options: dict[str, Any], location: Location) -> None:
        self.uri = location.shown
        self._location = location
        self._reopen = (reopen, uri, options)
        self._links: _Links[C] = _Links()
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, self._reopen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the registry's calls: check, then ask ----------------------------------------------------

    def identity(self) -> str:
        return self._call(self._identity)

    def claim(self, claim: Claim) -> Claim | Behind | Truncated:
        check_claim(claim)
        return self._call(lambda raw: self._bind(raw, claim, chained=True))

    def restore(self, claim: Claim) -> Claim | Truncated:
        check_claim(claim)
        answer = self._call(lambda raw: self._bind(raw, claim, chained=False))
        if isinstance(answer, Behind):
            raise InternalError("a restored claim was asked for its predecessor", subject=self.uri)
        return answer

    def lookup(self, scope: str, position: int) -> Claim | None:
        check_place(scope, position)
        return self._call(lambda raw: self._lookup(raw, scope, position))

    def newest(self, scope: str) -> Claim | None:
        check_scope(scope)
        return self._call(lambda raw: self._newest(raw, scope))

    def truncate(self, scope: str, *, below: int, digest: str) -> None:
        check_scope(scope)
        check_position(below, "below")
        check_digest(digest, "digest")
        if below > 0:
            self._call(lambda raw: self._truncate(raw, scope, below, digest))

    def adopt(self, identity: str) -> None:
        check_identity(identity)
        self._call(lambda raw: self._adopt(raw, identity))

    def close(self) -> None:
        self._closed = True
        links, self._links = self._links, _Links()
        if links.pid != os.getpid():
            _INHERITED.append(links)
        # Otherwise nothing more: idle connections close when this last reference goes, and one that another thread
        # is using when its call returns. To close that one now would pull it from under the driver.

    # -- what a service fills in --------------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> C:
        """Open and check a connection."""

    @abstractmethod
    def _disconnect(self, raw: C) -> None:
        """Close a connection."""

    def _is_current(self, raw: C) -> bool:
        """Whether the connection still reaches what the URI names."""
        return True

    @abstractmethod
    def _translate(self, error: Exception) -> SiltstoneError | None:
        """The siltstone error for a driver's; None where it is not the driver's."""

    @abstractmethod
    def _identity(self, raw: C) -> str: ...

    @abstractmethod
    def _adopt(self, raw: C, identity: str) -> None: ...

    @abstractmethod
    def _bind(self, raw: C, claim: Claim, *, chained: bool) -> Claim | Behind | Truncated: ...

    @abstractmethod
    def _lookup(self, raw: C, scope: str, position: int) -> Claim | None: ...

    @abstractmethod
    def _newest(self, raw: C, scope: str) -> Claim | None: ...

    @abstractmethod
    def _truncate(self, raw: C, scope: str, below: int, digest: str) -> None: ...

    # -- connections -------------------------------------------------------------------------------

    def _call(self, work: Callable[[C], R]) -> R:
        try:
            link = self._link()
        except SiltstoneError:
            raise
        except Exception as error:
            raise self._translated(error) from error
        try:
            return work(link.raw)
        except Exception as error:
            self._drop(link)
            if isinstance(error, SiltstoneError):
                raise
            raise self._translated(error) from error
        except BaseException:
            self._drop(link)
            raise

    def _translated(self, error: Exception) -> SiltstoneError:
        translated = tls_error(error, self._location) or self._translate(error)
        if translated is not None:
            return translated
        return InternalError(f"{self.uri}: {type(error).__name__}: {self._scrubbed(error)}", subject=self.uri)

    def _scrubbed(self, error: object) -> str:
        """A driver's words on one line, without the password."""
        return self._location.scrub(" ".join(str(error).split()))

    def _unavailable(self, error: object, *, hint: str = "") -> UnavailableError:
        # A server without TLS may just hang up.
        tls = ", speaks TLS (or pass insecure=True on a network you trust)" if self._location.verify_tls else ""
        return UnavailableError(
            f"{self.uri} did not answer: {self._scrubbed(error)}",
            hint=hint or f"check that the service runs{tls} and can be reached, then try again",
            subject=self.uri,
        )

    def _link(self) -> Link[C]:
        if self._closed:
            raise ClosedError(f"{self.uri} was closed", hint="open it again", subject=self.uri)
        links = self._links
        if links.pid != os.getpid():
            _INHERITED.append(links)
            links = self._links = _Links()
        if self.thread_safe_connection:
            with links.lock:
                if links.shared is None:
                    links.shared = Link(self._connect(), self._disconnect)
                    links.every.add(links.shared)
                return links.shared
        link: Link[C] | None = getattr(links.local, "link", None)
        if link is not None and not self._is_current(link.raw):
            self._drop(link)
            link = None
        if link is None:
            link = Link(self._connect(), self._disconnect)
            with links.lock:
                links.every.add(link)
            links.local.link = link
        return link

    def _drop(self, link: Link[C]) -> None:
        if self.thread_safe_connection:
            return  # other threads are using it, and such a client replaces broken sockets by itself
        links = self._links
        if getattr(links.local, "link", None) is link:
            del links.local.link
        link.close()


class LookingHandle(RegistryHandle[C]):
    """A registry whose service takes a claim or not, and says why not when it is asked."""

    @abstractmethod
    def _take(self, raw: C, claim: Claim, standing: Standing | None, *, chained: bool) -> bool:
        """Bind the place in one atomic step if the service finds it free and the predecessor right.

        ``standing`` is what was last seen there. False means only that nothing was bound by this step.
        """

    @abstractmethod
    def _look(self, raw: C, claim: Claim) -> Standing:
        """What decides about the claim's place, at one instant."""

    def _bind(self, raw: C, claim: Claim, *, chained: bool) -> Claim | Behind | Truncated:
        standing: Standing | None = None
        for _ in range(ATTEMPTS_MAX):
            if self._take(raw, claim, standing, chained=chained):
                return claim
            standing = self._look(raw, claim)
            answer = judge(claim, standing, chained=chained)
            if answer is not None:
                return answer
        raise UnavailableError(
            f"{self.uri} could neither take nor refuse a claim in {ATTEMPTS_MAX} attempts",
            hint="too many clients want the same place; try again",
            subject=self.uri,
            scope=claim.scope,
            position=claim.position,
        )


def _reopen(reopen: Callable[..., Registry], uri: str, options: dict[str, Any]) -> Registry:
    return reopen(uri, **options)
