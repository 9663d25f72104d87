"""Lance commits, one at a time: ``lance.write_dataset(..., commit_lock=commit_lock(...))`` on any object store.

What must hold:
- At most one live participant is between entering and leaving the lock of a dataset. Lance looks there whether the
  manifest of its version exists, and writes it only where it does not, so on a store that lies about conditional
  writes every commit still finds the one before it.
- Turns are a chain of claims in a commit store's registry, each behind the one before: ``hold`` and ``free``.
  Whoever binds the next position took the step; nobody else can have taken it too.
- A holder that is alive renews its hold. One that is not is passed over, as soon as a waiter has seen the same
  hold unchanged for the time that the hold itself asks for, by the waiter's own monotonic clock.
- A holder that was passed over is told so when it leaves, loudly: its commit may be overwritten, or overwrite.

What Lance's interface can't give, and no lock behind it can mend:
- The store is not shown who holds the lock. A process that stands still for longer than ``takeover_after_s``
  between Lance's look and its write can, when it goes on, replace the manifest of the one that passed it over.
  It gets an error; the other one, if it finished meanwhile, does not. The same goes for a write that the client
  gave up and the network delivers later. Choose ``takeover_after_s`` longer than either takes.
- Lance leaves the lock in the same way after a commit, a conflict and a failure. What was committed is therefore
  never recorded here: the next one in turn finds it out by Lance's own look at the manifest.
- Lance does not know ``CommitConflictError`` when a lock raises it (pylance 14), so this one does not. Every
  error of the lock reaches the caller of Lance as an OSError that has the original's name and text.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeVar

from siltstone.commit.connect import open_registry
from siltstone.commit.registry import Behind, Claim, Registry
from siltstone.env import REAL, Env
from siltstone.errors import (
    CommitStoreBehindError,
    CommitUnknownError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    MissingDependencyError,
    SiltstoneError,
    UnavailableError,
)
from siltstone.format.frame import digest
from siltstone.ids import is_id

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Callable

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
TAKEOVER_S = 60.0
PATIENCE_S = 300.0
SECONDS_MAX = 86_400.0
RENEWALS_PER_TAKEOVER = 3
RENEWALS_MAX = 30  # then a holder that is stuck for good is passed over too
POLL_FIRST_S = 0.002
POLL_MOST_S = 0.1
KEPT_CLAIMS = 100
TRUNCATE_EVERY = 64
_WITH_SECRET = re.compile(r"://[^/]*:[^/@]*@|://.*\?")


class Record(NamedTuple):
    """What one claim of the chain says. ``nonce`` names the turn, of which a hold may be renewed."""

    state: Literal["hold", "free"]
    version: int
    nonce: str
    takeover_ms: int
    renewal: int = 0

    def encode(self) -> str:
        """As the value of a claim."""
        return " ".join(map(str, self))


def parse_record(claim: Claim) -> Record:
    """The record that a claim holds. Raises CorruptionError."""
    state, *rest = claim.value.split(" ")
    try:
        version, nonce, takeover_ms, renewal = rest
        record = Record("hold" if state == "hold" else "free", int(version), nonce, int(takeover_ms), int(renewal))
    except ValueError:
        record = None
    if record is None or not is_id(record.nonce) or record.encode() != claim.value:
        raise CorruptionError(
            f"claim {claim.position} of {claim.scope} is not one of a Lance lock",
            hint="the name of the dataset may be in use for something else, or was written by a newer siltstone",
            position=claim.position,
        )
    return record


def commit_lock(
    commits: str | Registry,
    *,
    dataset: str,
    takeover_after_s: float = TAKEOVER_S,
    patience_s: float = PATIENCE_S,
    env: Env = REAL,
) -> CommitLock:
    """A lock for ``lance.write_dataset(..., commit_lock=)`` and ``LanceDataset.commit(..., commit_lock=)``.

    ``commits`` is a commit store (a URI or a Registry), ``dataset`` any name for the dataset that all its writers
    use, such as its URI without credentials; a branch needs a name of its own. A holder that died is passed over
    after ``takeover_after_s``; a waiter gives up after ``patience_s``, and nothing of its was committed then.
    The lock pickles, and may be used by many threads and processes.

    Raises InvalidInputError, MissingDependencyError. What it raises inside Lance comes out as an OSError:
    UnavailableError (nothing was committed), CommitUnknownError (look into the dataset before trying again).
    """
    if importlib.util.find_spec("lance") is None:
        raise MissingDependencyError("Lance is not installed", hint="pip install 'siltstone[lance]'")
    _check_dataset(dataset)
    _check_seconds("takeover_after_s", takeover_after_s)
    _check_seconds("patience_s", patience_s)
    if patience_s <= takeover_after_s:
        raise InvalidInputError(
            f"patience_s is {patience_s}, takeover_after_s {takeover_after_s}: nobody would wait for a takeover",
            hint="make patience_s the longer one",
        )
    registry = open_registry(commits) if isinstance(commits, str) else commits
    return CommitLock(registry, _same_name(dataset), float(takeover_after_s), float(patience_s), env)


def _same_name(dataset: str) -> str:
    """One name for one dataset, however its URI is written."""
    scheme, found, path = dataset.partition("://")
    if not found:
        return dataset.rstrip("/")
    return f"{_SCHEMES.get(scheme.lower(), scheme.lower())}://{re.sub('/+', '/', path).rstrip('/')}"


@dataclass(frozen=True)
class CommitLock:
    """Called with a version, gives the turn in which Lance may commit it."""

    registry: Registry
    dataset: str
    takeover_after_s: float
    patience_s: float
    env: Env

    def __call__(self, version: int) -> Turn:
        """A turn for one version, to be entered once."""
        return Turn(_Chain(self), version)

    def __repr__(self) -> str:
        return f"CommitLock({self.dataset!r}, decided by {self.registry.uri})"


class _Chain:
    """The steps of one dataset's lock in the registry; a lost answer is resolved by asking again."""

    def __init__(self, lock: CommitLock) -> None:
        self.lock = lock
        self.env = lock.env
        self.scope = f"lance:{digest(lock.dataset.encode())}"
        self._registry = lock.registry

    def newest(self) -> Claim | None:
        """The last step taken."""
        return self._ask(lambda: self._registry.newest(self.scope))

    def step(self, after: Claim | None, record: Record) -> Claim | None:
        """Try to take the step behind ``after``; return the claim that is there, or None where it is long gone."""
        parent = after.digest if after else ""
        value = record.encode()
        mine = Claim(
            self.scope, after.position + 1 if after else 0, digest(f"{parent} {value}".encode()), parent, value
        )
        answer = self._ask(lambda: self._registry.claim(mine))
        if isinstance(answer, Behind):
            raise CommitStoreBehindError(
                f"{self._registry.uri} lost claims of the lock on {self.lock.dataset}",
                hint="it was emptied or restored while the lock was in use: check the newest versions of the dataset",
                position=mine.position,
            )
        return answer if isinstance(answer, Claim) else None

    def truncate(self, *, since: int, tip: int) -> None:
        """Drop old claims where the claims from ``since`` to ``tip`` hold a round number; best effort."""
        below = tip - KEPT_CLAIMS
        if (since - 1) // TRUNCATE_EVERY == tip // TRUNCATE_EVERY or below <= 0:
            return
        with contextlib.suppress(SiltstoneError):  # the next turn that passes a round number does it too
            last = self._registry.lookup(self.scope, below - 1)
            if last is not None:
                self._registry.truncate(self.scope, below=below, digest=last.digest)

    def _ask(self, request: Callable[[], T]) -> T:
        failure: UnavailableError | None = None
        for _ in self.env.tries():
            try:
                return request()
            except UnavailableError as error:
                failure = error
        raise failure or InternalError("no try was made")


class Turn:
    """One stay in the lock: a context manager, entered and left by Lance."""

    def __init__(self, chain: _Chain, version: int) -> None:
        self._chain = chain
        self._clock = chain.env.clock
        self._takeover_s = chain.lock.takeover_after_s
        self._record = Record("hold", version, chain.env.ids.new(), math.ceil(self._takeover_s * 1000))
        self._held: Claim | None = None  # the newest claim of this turn
        self._since = 0  # its first position
        self._sure_until = 0.0  # nobody passes this turn over before
        self._left = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="siltstone-lance-lock", daemon=True)

    # -- entering --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        tip = self._chain.newest()
        seen_at = started = self._clock.monotonic()
        polls = 0
        while self._clock.monotonic() - started < self._chain.lock.patience_s:
            if self._is_open(tip, seen_at):
                found = self._hold(tip)
                if self._held is not None:
                    self._renewer.start()
                    return self
            else:
                self._pause(polls)
                found = self._chain.newest()
            if found != tip:
                tip, seen_at, polls = found, self._clock.monotonic(), 0
            polls += 1
        raise self._waited_too_long(tip)

    def _is_open(self, tip: Claim | None, seen_at: float) -> bool:
        if tip is None:
            return True
        record = parse_record(tip)
        return record.state == "free" or self._clock.monotonic() - seen_at >= record.takeover_ms / 1000

    def _hold(self, tip: Claim | None) -> Claim | None:
        asked_at = self._clock.monotonic()
        found = self._chain.step(tip, self._record)
        if found is not None and parse_record(found).nonce == self._record.nonce:
            self._held, self._since = found, found.position
            self._sure_until = asked_at + self._takeover_s
        return found if found is not None else self._chain.newest()

    def _pause(self, polls: int) -> None:
        most = min(POLL_MOST_S, POLL_FIRST_S * 2 ** min(polls, 16))
        self._clock.sleep(self._chain.env.ids.uniform(most / 2, most))

    def _waited_too_long(self, tip: Claim | None) -> UnavailableError:
        lock = self._chain.lock
        holder = f"; version {parse_record(tip).version} has it" if tip else ""
        return UnavailableError(
            f"version {self._record.version} of {lock.dataset} got no turn within {lock.patience_s} s{holder}",
            hint="nothing was committed; try again, with fewer writers or more patience_s",
            version=self._record.version,
        )

    # -- staying ---------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Runs beside Lance's write, so that a slow store is not taken for a dead process."""
        for number in range(1, RENEWALS_MAX + 1):
            if self._left.wait(self._takeover_s / RENEWALS_PER_TAKEOVER):
                return
            asked_at = self._clock.monotonic()
            try:
                found = self._chain.step(self._held, self._record._replace(renewal=number))
            except SiltstoneError:
                return  # leaving finds out how it stands
            if found is None or parse_record(found).nonce != self._record.nonce:
                return
            self._held = found
            self._sure_until = asked_at + self._takeover_s

    # -- leaving ---------------------------------------------------------------------------------

    def __exit__(self, *_: object) -> None:
        left_at = self._clock.monotonic()
        self._left.set()
        self._renewer.join()
        try:
            freed = self._free()
        except UnavailableError as error:
            if left_at < self._sure_until:
                return  # nobody came between: Lance's result stands, and the next one waits for the takeover
            raise self._passed_over(f"the commit store can't be asked: {error.message}") from error
        self._chain.truncate(since=self._since, tip=freed.position)

    def _free(self) -> Claim:
        record = self._record._replace(state="free")
        for _ in range(RENEWALS_MAX):
            found = self._chain.step(self._held, record)
            if found is None or parse_record(found).nonce != record.nonce:
                by = f" by one that wants version {parse_record(found).version}" if found else ""
                raise self._passed_over(f"this turn was taken over{by}")
            self._held = found
            if parse_record(found).state == "free":
                return found
            # A renewal of ours whose answer was lost.
        raise InternalError(f"a turn of the lock on {self._chain.lock.dataset} was renewed without end")

    def _passed_over(self, why: str) -> CommitUnknownError:
        version, dataset = self._record.version, self._chain.lock.dataset
        return CommitUnknownError(
            f"it is not known whose commit version {version} of {dataset} is: this process held the lock for over "
            f"{self._takeover_s} s, and {why}",
            hint=f"look into version {version} for the rows of this commit and of others before trying again; "
            f"takeover_after_s must be longer than a writer ever stands still",
            version=version,
        )


def _check_dataset(dataset: object) -> None:
    if not isinstance(dataset, str) or not dataset.strip("/ "):
        raise InvalidInputError("dataset must name the dataset", hint="use its URI, the same in every process")
    if _WITH_SECRET.search(dataset):
        raise InvalidInputError("dataset holds a password or a query", hint="name it without credentials")


def _check_seconds(name: str, seconds: object) -> None:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < float(seconds) <= SECONDS_MAX:  # type: ignore[arg-type]
        raise InvalidInputError(f"{name} must be a number above 0, at most {SECONDS_MAX}, got {seconds!a}")
