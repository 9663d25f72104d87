"""OpenTelemetry as a sink. The package is loaded when telemetry is turned on, and by nobody else.

What must hold: whatever a provider, a processor or an exporter raises stays here; it is logged once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone._version import __version__
from siltstone.errors import InvalidInputError, MissingDependencyError
from siltstone.telemetry import events, metrics
from siltstone.telemetry.seams import message_of, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.telemetry.seams import Attributes, Metric

SCOPE = "siltstone"
INSTALL = "pip install 'siltstone[telemetry]', or pip install opentelemetry-api"
# From a request on a disk to a collection of a large table.
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class OtelSink:
    """Hands metrics and spans to providers of OpenTelemetry: those given, or the global ones."""

    def __init__(self, tracer_provider: Any, meter_provider: Any, *, requests: bool) -> None:
        context, trace, meters = _load()
        _check(tracer_provider, "tracer_provider", "get_tracer")
        _check(meter_provider, "meter_provider", "get_meter")
        self.requests = requests
        self._context = context
        self._trace = trace
        self._providers = (
            trace.get_tracer_provider() if tracer_provider is None else tracer_provider,
            meters.get_meter_provider() if meter_provider is None else meter_provider,
        )
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
        meter = meters.get_meter(SCOPE, __version__, meter_provider)
        self._tells = {one.name: _instrument(meter, one) for one in metrics.ALL.values()}
        self._is_broken = False

    def measure(self, metric: Metric, value: float, attributes: Attributes) -> None:
        try:
            self._tells[metric.name](value, attributes)
        except Exception as error:
            self._failed(error)

    def begin(self, name: str, attributes: Attributes) -> _Span:
        try:
            span = self._tracer.start_span(
                name, attributes=attributes, record_exception=False, set_status_on_exception=False
            )
            return _Span(self, span, self._context.attach(self._trace.set_span_in_context(span)))
        except Exception as error:
            self._failed(error)
            return _Span(self, None, None)

    def note(self, name: str, attributes: Attributes) -> None:
        try:
            self._trace.get_current_span().add_event(name, attributes)
        except Exception as error:
            self._failed(error)

    def flush(self, timeout_ms: int) -> None:
        for provider in self._providers:
            try:
                if hasattr(provider, "force_flush"):
                    provider.force_flush(timeout_ms)
            except Exception as error:
                self._failed(error)

    def end(self, span: Any, token: Any, attributes: Mapping[str, object], error: BaseException | None) -> None:
        """End a span and let the one around it be the one under way again."""
        try:
            if token is not None:
                self._context.detach(token)
            if span is not None:
                span.set_attributes(attributes)
                if error is not None:
                    span.set_attribute("error.type", _type_of(error))
                    span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, message_of(error) or None))
                span.end()
        except Exception as failed:
            self._failed(failed)

    def _failed(self, error: Exception) -> None:
        if not self._is_broken:
            self._is_broken = True
            events.TELEMETRY_FAILED.tell(kind=type(error).__name__)


class _Span(NamedTuple):
    """A span, and what makes the one around it the one under way again."""

    sink: OtelSink
    span: Any
    token: Any

    def end(self, attributes: Mapping[str, object], error: BaseException | None) -> None:
        self.sink.end(self.span, self.token, attributes, error)


def _type_of(error: BaseException) -> str:
    """The kind of an error of siltstone's, the class of any other."""
    kind = outcome_of(error)
    return type(error).__name__ if kind in {"other", "interrupted"} else kind


def _load() -> tuple[Any, Any, Any]:
    try:
        from opentelemetry import context, trace  # noqa: PLC0415 - optional
        from opentelemetry import metrics as meters  # noqa: PLC0415 - optional
    except ImportError as error:
        raise MissingDependencyError(
            f"telemetry needs OpenTelemetry, which can't be imported: {error}", hint=INSTALL
        ) from error
    return context, trace, meters


def _instrument(meter: Any, metric: Metric) -> Any:
    if metric.kind == "counter":
        return meter.create_counter(metric.name, unit=metric.unit, description=metric.about).add
    return meter.create_histogram(
        metric.name, unit=metric.unit, description=metric.about, explicit_bucket_boundaries_advisory=BOUNDS_S
    ).record


def _check(provider: object, name: str, method: str) -> None:
    if provider is not None and not callable(getattr(provider, method, None)):
        raise InvalidInputError(
            f"{name} must be a provider of OpenTelemetry, got {type(provider).__name__}",
            hint="leave it out for the global one",
        )
