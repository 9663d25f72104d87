"""A crowd of processes that append to one table under a fault, and what is there afterwards.

What must hold:
- Every product gets the same server, faults, processes, rows and time, and is read by a fresh process in the end.
- Each append is acknowledged, told as an error, or without an answer when time is up; nothing is left out of the count.
- The fault is still there when the rows are counted, unless it is one of answers, which a reader need not suffer.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, NamedTuple

from common import SPAWN, WORKER_SECONDS_MAX
from peers_fault_products import ROWS, Delta, Lance, LockedLance, Place, Product, Siltstone, SiltstoneCommits, ids_of
from peers_fault_writers import SiltstoneShard, SiltstoneShardCommits, Slate

from siltstone.testing.s3server import Faults, FaultServer, Stats

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCTS: dict[str, type[Product]] = {
    "pylance": Lance,
    "pylance, siltstone's lock": LockedLance,
    "deltalake": Delta,
    "slatedb": Slate,
    "siltstone": Siltstone,
    "siltstone, commit store": SiltstoneCommits,
    "siltstone shard": SiltstoneShard,
    "siltstone shard, commit store": SiltstoneShardCommits,
}
TOLD_CHARS_MAX = 200
END_SECONDS_MAX = 5.0


class Case(NamedTuple):
    """A fault: from the start, or from the moment that half of the appends have been answered.

    Answers are lost of every second object that decides, whatever a product's are.
    """

    name: str
    from_start: Faults
    from_half: Faults | None = None

    def faults(self, decides: str) -> Faults:
        """Those from the start, for a product whose deciding objects have this in their keys."""
        return self.from_start.changed({"lose_answer_match": decides}) if self.loses else self.from_start

    @property
    def loses(self) -> bool:
        return bool(self.from_start.lose_answer_every)

    def hits(self, stats: Stats) -> int:
        """How often the fault struck: creates that overwrote, or answers that were lost."""
        if self.loses:
            return stats.statuses.get(self.from_start.status_after_effect, 0)
        return stats.conditional["overwrote"]


ALWAYS = Faults(lie="always")
CASES = {
    "none": Case("honest store", Faults()),
    "overwrites": Case("create overwrites, always", ALWAYS),
    "window": Case("create looks, and writes 10 ms later", Faults(lie="check-then-put", window_ms=10)),
    "half-way": Case("create overwrites, from half way on", Faults(), ALWAYS),
    "reset": Case("lost answer: connection closed", Faults(lose_answer_every=2)),
    "503": Case("lost answer: 503", Faults(lose_answer_every=2, status_after_effect=503)),
}


class Row(NamedTuple):
    """What became of the appends to one table. ``found`` is None where a fresh reader was refused."""

    product: str
    version: str
    fault: str
    appends: int
    acknowledged: int
    errors_told: int
    rows_acknowledged: int
    rows_found: int | None
    rows_lost_silently: int
    rows_doubled: int
    failed_yet_there: int
    told: str
    reader_told: str = ""
    rows_missing_after_repair: int | None = None
    lost_named_by_verify: int | None = None
    versions: int | None = None
    fault_hits: int = 0
    unanswered: int = 0

    @property
    def right(self) -> bool:
        """Whether what was said is what is there."""
        return not (self.rows_lost_silently or self.rows_doubled or self.unanswered) and self.rows_found is not None


def ask(call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """What a call gives in a process of its own, or the error that it raised; then the process is killed."""
    answers: Any = SPAWN.Queue()
    child = SPAWN.Process(target=_answer, args=(call, arguments, answers))
    child.start()
    try:
        return answers.get(timeout=WORKER_SECONDS_MAX)  # type: ignore[no-any-return]
    except Empty:
        return None, f"no answer within {WORKER_SECONDS_MAX:g} s"
    finally:
        child.kill()
        child.join()


def _answer(call: Callable[..., Any], arguments: tuple[Any, ...], answers: Any) -> None:
    _hush()
    try:
        answers.put((call(*arguments), ""))
    except Exception as error:
        answers.put((None, _shown(error)))
    time.sleep(WORKER_SECONDS_MAX)  # whatever it holds stays open until it is killed


def create(name: str, place: Place) -> None:
    PRODUCTS[name](place).create()


def read(name: str, place: Place) -> tuple[list[int], int | None]:
    """The ids of all rows, and the number of versions."""
    handle = PRODUCTS[name](place)
    return handle.ids(), handle.versions()


def named(name: str, place: Place) -> int:
    """How many operations siltstone's ``verify`` names as lost."""
    return PRODUCTS[name](place).named_lost()  # type: ignore[attr-defined, no-any-return]


def repair(name: str, place: Place) -> None:
    PRODUCTS[name](place).repair()  # type: ignore[attr-defined]


def _work(name: str, place: Place, barrier: Any, results: Any, *, writer: int, appends: int) -> None:
    _hush()
    handle = PRODUCTS[name](place)
    barrier.wait(WORKER_SECONDS_MAX)
    for number in range(appends):
        try:
            handle.append(ids_of(writer, number))
            results.put((writer, number, ""))
        except Exception as error:
            results.put((writer, number, _shown(error)))
    try:
        handle.close()
    except Exception as error:  # of one that lost its place, after all its appends were answered
        del error


def _hush() -> None:
    """What a product prints when it panics comes to us as its error, too."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:TOLD_CHARS_MAX]


def _end(children: list[Any]) -> None:
    for child in children:
        child.join(END_SECONDS_MAX)
        if child.is_alive():
            child.kill()
            child.join()


def crowd(
    name: str, place: Place, server: FaultServer, case: Case, *, writers: int, appends: int
) -> dict[tuple[int, int], str]:
    """The answer to each append, by writer and number: "" where it was acknowledged."""
    barrier, results = SPAWN.Barrier(writers), SPAWN.Queue()
    children = [
        SPAWN.Process(target=_work, args=(name, place, barrier, results), kwargs={"writer": writer, "appends": appends})
        for writer in range(writers)
    ]
    for child in children:
        child.start()
    answers: dict[tuple[int, int], str] = {}
    until = time.monotonic() + WORKER_SECONDS_MAX
    try:
        while len(answers) < writers * appends and time.monotonic() < until:
            try:
                writer, number, told = results.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            answers[writer, number] = told
            if case.from_half is not None and len(answers) == writers * appends // 2:
                server.set(case.from_half)
    finally:
        _end(children)
    return answers


def run(name: str, key: str, where: Path, *, writers: int, appends: int) -> Row:
    """One product under one fault, on a server of its own."""
    case, kind = CASES[key], PRODUCTS[name]
    with FaultServer(case.faults(kind.decides)) as server:
        place = Place("table", server.storage_options, f"sqlite:///{where}/claims-{kind.__name__}-{key}.db")
        _, refused = ask(create, name, place)
        if refused:
            facts = counted({}, [], refused)
            return Row(name, kind.version(), case.name, appends=writers * appends, **facts)
        answers = crowd(name, place, server, case, writers=writers, appends=appends)
        hits = case.hits(server.stats())
        if case.loses:
            server.set(Faults())
        seen, reader_told = ask(read, name, place)
        found, versions = seen or (None, None)
        facts = counted(answers, found, "") | {"reader_told": reader_told, "versions": versions, "fault_hits": hits}
        facts["unanswered"] = writers * appends - len(answers)
        if issubclass(kind, Siltstone) and (facts["rows_lost_silently"] or reader_told):
            facts["lost_named_by_verify"], _ = ask(named, name, place)
            ask(repair, name, place)
            seen, _ = ask(read, name, place)
            facts["rows_missing_after_repair"] = len(acknowledged(answers) - set(seen[0] if seen else []))
        return Row(name, kind.version(), case.name, appends=writers * appends, **facts)


def acknowledged(answers: dict[tuple[int, int], str]) -> set[int]:
    """The ids of all rows that a product said are kept."""
    return {one for (writer, number), told in answers.items() if not told for one in ids_of(writer, number)}


def counted(answers: dict[tuple[int, int], str], found: list[int] | None, refused: str) -> dict[str, Any]:
    """What a row says of answers and of the ids that a reader found; None where it was refused."""
    kept, there = acknowledged(answers), set(found or [])
    failed = [ids_of(writer, number) for (writer, number), told in answers.items() if told]
    errors = [told for told in (refused, *answers.values()) if told]
    return {
        "acknowledged": len(kept) // ROWS,
        "errors_told": len(errors),
        "rows_acknowledged": len(kept),
        "rows_found": None if found is None else len(found),
        "rows_lost_silently": 0 if found is None else len(kept - there),
        "rows_doubled": len(found or []) - len(there),
        "failed_yet_there": sum(ids[0] in there for ids in failed),
        "told": errors[0] if errors else "",
    }
