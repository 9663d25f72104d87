"""Running work in Spark's tasks, and bringing back what it says.

What must hold:
- A task's answer counts once, however often Spark runs the task: an attempt that is repeated, or overtaken by a
  speculative one, leaves at most objects that nothing names.
- An error that trying again would not mend ends the job at once and reaches the caller as it was raised.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from siltstone.errors import InternalError, SiltstoneError, UnavailableError
from siltstone.telemetry import flush

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

ANSWER = "answer"
TASKS_MAX = 10_000
SCHEMA = f"{ANSWER} binary"

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Failed(NamedTuple):
    error: SiltstoneError


def run_tasks(spark: SparkSession, items: Sequence[Item], work: Callable[[Item], Answer]) -> list[Answer]:
    """``work`` of each item, each in a task of its own; ``work`` must pickle. Answers are in the order of the items."""
    if not items:
        return []
    tasks = min(len(items), TASKS_MAX)
    lots = [list(items[number::tasks]) for number in range(tasks)]
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(partial(_run_lots, lots, work), SCHEMA)
    found: dict[int, list[Answer]] = dict(_answers(frame))
    if len(found) != tasks:
        raise InternalError(f"{len(found)} of {tasks} tasks answered")
    return [found[number % tasks][number // tasks] for number in range(len(items))]


def run_on_rows(frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Answer]) -> list[Answer]:
    """``work`` of the rows of each partition; partitions without rows are left out."""
    names = frame.columns
    if any("." in name or "`" in name for name in names):
        # mapInArrow reads names as if they were expressions, in which these mean something.
        frame = frame.toDF(*map(str, range(len(names))))
    return list(_answers(frame.mapInArrow(partial(_run_rows, names, work), SCHEMA)))


def _run_lots(
    lots: Sequence[Sequence[Item]], work: Callable[[Item], Answer], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield _packed(partial(_run_lot, number, lots[number], work))


def _run_lot(number: int, lot: Sequence[Item], work: Callable[[Item], Answer]) -> tuple[int, list[Answer]]:
    return number, [work(one) for one in lot]


def _run_rows(
    names: Sequence[str], work: Callable[[Iterator[pa.RecordBatch]], Answer], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    named = (batch.rename_columns(list(names)) for batch in batches)
    first = next((batch for batch in named if batch.num_rows), None)
    if first is not None:
        yield _packed(lambda: work(_chained(first, named)))


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _packed(work: Callable[[], object]) -> pa.RecordBatch:
    try:
        answer = work()
    except UnavailableError:
        raise  # Spark runs the task again
    except SiltstoneError as error:
        answer = _Failed(error)
    finally:
        flush()  # a worker of Spark ends without notice
    return pa.record_batch([pa.array([pickle.dumps(answer)], pa.binary())], names=[ANSWER])


def _answers(frame: DataFrame) -> Iterator[Any]:
    """What tasks sent; the first error among it is raised."""
    found = [pickle.loads(one) for one in _collected(frame)]  # noqa: S301 - sent by our own tasks
    for one in found:
        if isinstance(one, _Failed):
            raise one.error
    return iter(found)


def _collected(frame: DataFrame) -> list[bytes]:
    sent: list[bytes] = frame.toArrow().column(0).to_pylist()
    return sent
