"""Where the rest of siltstone says what it does: metrics, spans and alarms, handed to a sink where there is one.

What must hold:
- Without a sink a seam costs a look at one attribute, makes nothing and loads nothing.
- A sink changes no outcome: what it raises goes no further, and what the seam is around runs once, whatever it does.
- A metric has the attributes that it was declared with. Their values are few: never a key, a URI or a value of a row.
  Tables are told by name, and only so many of them.
- An error is told by its kind. Its message is told, masked, only where it can't quote a row.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, Self, TypeVar

from siltstone.errors import CommitUnknownError, CorruptionError, InvalidInputError, SiltstoneError, UnsafeStoreError
from siltstone.telemetry.text import name_of, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TABLES_MAX = 100  # names of tables in one process; further ones are told as OTHERS
OTHERS = "(others)"
OK = "ok"

Attributes = dict[str, str | int | float | bool]
P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class Span(Protocol):
    """A span under way."""

    def end(self, attributes: Mapping[str, object], error: BaseException | None) -> None:
        """It is over; ``error`` ended it, where there was one."""


class Sink(Protocol):
    """Who hears what is told."""

    requests: bool
    """Whether requests to stores get spans, too."""

    def measure(self, metric: Metric, value: float, attributes: Attributes) -> None:
        """Add to a counter, or to a histogram."""

    def begin(self, name: str, attributes: Attributes) -> Span:
        """Begin a span, below the one that is under way in this thread."""

    def note(self, name: str, attributes: Attributes) -> None:
        """Something happened in the span that is under way."""

    def flush(self, timeout_ms: int) -> None:
        """Hand on what was collected."""


class _Now:
    """Who hears, in this process; nobody where it is None."""

    sink: Sink | None = None


_tables: dict[str, str] = {}


def use(sink: Sink | None) -> None:
    """Tell a sink from now on, or nobody. Spans that are under way end where they began."""
    _Now.sink = sink


def sink() -> Sink | None:
    """Who is told now."""
    return _Now.sink


# -- metrics ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A number that is told; ``attributes`` are all that it may have."""

    name: str
    kind: Literal["counter", "histogram"]
    unit: str
    attributes: tuple[str, ...]
    about: str

    def add(self, value: float = 1, /, **attributes: str) -> None:
        """Count, or note a value; ``table`` is given as a URI."""
        hears = _Now.sink
        if hears is not None and value:
            hears.measure(self, value, self._chosen(attributes))

    def _chosen(self, given: Mapping[str, object]) -> Attributes:
        found: Attributes = {name: str(given[name]) for name in self.attributes if name in given}
        if "table" in found:
            found["table"] = _bounded(str(found["table"]))
        return found


def _bounded(uri: str) -> str:
    name = _tables.get(uri)
    if name is None:
        if len(_tables) >= TABLES_MAX:
            return OTHERS
        name = _tables[uri] = name_of(uri)
    return name


# -- spans -----------------------------------------------------------------------------------------


def _of_uri(*arguments: Any, **_: Any) -> Mapping[str, str]:
    uri = getattr(arguments[0], "uri", None) if arguments else None
    return {"table": uri} if isinstance(uri, str) else {}


def of_log(owner: Any, *_: Any, **__: Any) -> Mapping[str, str]:
    """What a call is about whose owner has a log, or a place with one."""
    place = getattr(owner, "place", owner)
    log = getattr(place, "log", None) or place._log  # noqa: SLF001 - what the seams' owners call it
    return {"table": log.store.uri}


def traced(
    name: str,
    *,
    about: Callable[..., Mapping[str, str]] = _of_uri,
    facts: Callable[[Any], Mapping[str, object]] | None = None,
    count: Metric | None = None,
    seconds: Metric | None = None,
    expects: tuple[type[SiltstoneError], ...] = (),
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function whose calls are spans, counted and timed; ``about`` is of its arguments, ``facts`` of its result.

    ``expects`` are errors that whoever calls it may mend: they are no alarm yet.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                if _Now.sink is None:
                    return function(*args, **kwargs)
                with Timed(name, _said(about, *args, **kwargs), count=count, seconds=seconds) as timed:
                    result = function(*args, **kwargs)
                    if facts is not None:
                        timed.attributes.update(_said(facts, result))
                    return result
            except SiltstoneError as error:
                if not isinstance(error, expects):
                    alarm(error)
                raise

        return call

    return decorate


def _said(about: Callable[..., Mapping[str, object]], *args: object, **kwargs: object) -> Mapping[str, object]:
    try:
        return about(*args, **kwargs)
    except Exception:  # wrong arguments are for the function itself to refuse
        return {}


class Timed:
    """A block that is a span, counted and timed, with what became of it. Nothing where nobody hears.

    ``answers`` are errors that are as good an answer as any: their spans did not fail.
    """

    def __init__(
        self,
        name: str,
        about: Mapping[str, object],
        *,
        count: Metric | None = None,
        seconds: Metric | None = None,
        span: bool = True,
        answers: tuple[type[SiltstoneError], ...] = (),
    ) -> None:
        self.attributes: dict[str, object] = dict(about)
        self._about = about
        self._name = name
        self._count = count
        self._seconds = seconds
        self._wants_span = span
        self._answers = answers
        self._sink = _Now.sink

    def __enter__(self) -> Self:
        self._span: Span | None = None
        if self._sink is not None:
            if self._wants_span:
                self._span = self._sink.begin(self._name, shown(self._about))
            self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._sink is None:
            return
        took_s = time.perf_counter() - self._began
        if error is not None:
            self.attributes["outcome"] = outcome_of(error)
        self.attributes.setdefault("outcome", OK)
        for metric, value in ((self._count, 1), (self._seconds, took_s)):
            if metric is not None:
                self._sink.measure(metric, value, metric._chosen(self.attributes))  # noqa: SLF001 - the same module's
        if self._span is not None:
            more = {name: value for name, value in self.attributes.items() if name not in self._about}
            self._span.end(shown(more), None if isinstance(error, self._answers) else error)


def shown(attributes: Mapping[str, object]) -> Attributes:
    """Attributes as a span has them."""
    found: Attributes = {}
    for name, value in attributes.items():
        if name == "table":
            found["siltstone.table"] = _tables.get(str(value)) or name_of(str(value))
        elif isinstance(value, bool | int | float):
            found[f"siltstone.{name}"] = value
        else:
            text = str(value)
            found[f"siltstone.{name}"] = text if text.isalnum() else told(text)
    return found


# -- errors ----------------------------------------------------------------------------------------


def outcome_of(error: BaseException) -> str:
    """What a call that failed is counted as: the kind of its error."""
    if isinstance(error, SiltstoneError):
        return error.kind
    return "other" if isinstance(error, Exception) else "interrupted"


def message_of(error: BaseException) -> str:
    """What may be told of an error: nothing of those that quote what a caller gave, or that are of unknown making."""
    if not isinstance(error, SiltstoneError) or isinstance(error, InvalidInputError):
        return ""
    return told(error.message)


_alarms: list[Callable[[SiltstoneError], None]] = []


def on_alarm(tell: Callable[[SiltstoneError], None]) -> None:
    """Whoever knows how alarms are told says so once."""
    _alarms.append(tell)


def alarm(error: E) -> E:
    """Tell, once, of an error that asks for a person: a store that lied, what is lost, what nobody knows."""
    if isinstance(error, UnsafeStoreError | CorruptionError | CommitUnknownError) and not _is_told(error):
        error.__dict__["told"] = True
        for tell in _alarms:
            tell(error)
    return error


def _is_told(error: BaseException | None) -> bool:
    """Whether it, or what it came from, was told before."""
    while error is not None:
        if error.__dict__.get("told"):
            return True
        error = error.__cause__
    return False
