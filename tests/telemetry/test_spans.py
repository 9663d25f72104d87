"""Spans: one for each thing that was asked for, in its place, with what became of it."""

from __future__ import annotations

import pytest
from opentelemetry.trace import StatusCode

import siltstone as ss
from siltstone.errors import DuplicateKeyError
from siltstone.telemetry import seams
from telemetry_worlds import commits_and_reads, conflicts, fenced, lying_store, new_table, note, unknown_commit

WORK_SPANS = {
    "siltstone.append",
    "siltstone.checkpoint",
    "siltstone.clone",
    "siltstone.commit",
    "siltstone.compact",
    "siltstone.create",
    "siltstone.delete",
    "siltstone.detach",
    "siltstone.gc",
    "siltstone.get",
    "siltstone.index.finalize",
    "siltstone.index.item",
    "siltstone.memtable.flush",
    "siltstone.merge",
    "siltstone.open",
    "siltstone.overwrite",
    "siltstone.replay",
    "siltstone.scan",
    "siltstone.scan.plan",
    "siltstone.search",
    "siltstone.shard.put",
    "siltstone.update",
    "siltstone.upsert",
    "siltstone.wal.flush",
}


def inside(span, spans):
    """The names of the spans that one is in, from the outermost on."""
    by_id = {one.context.span_id: one for one in spans}
    names = []
    while span.parent is not None:
        span = by_id[span.parent.span_id]
        names.insert(0, span.name)
    return names


def test_spans__everything_is_done__there_is_one_of_each_kind(ears, tmp_path):
    commits_and_reads(tmp_path)
    fenced()
    conflicts()
    assert {span.name for span in ears.finished()} == WORK_SPANS
    assert {span.attributes["siltstone.outcome"] for span in ears.finished("siltstone.commit")} <= {"ok", "unchanged"}


def test_spans__an_append__holds_its_commit(ears):
    table = new_table()
    ears.spans.clear()
    table.append(note(1))
    commit, append = ears.finished()
    assert (commit.name, inside(commit, ears.finished())) == ("siltstone.commit", ["siltstone.append"])
    assert append.parent is None
    assert dict(commit.attributes) == {
        "siltstone.table": "orders",
        "siltstone.operation": "append",
        "siltstone.outcome": "ok",
        "siltstone.version": 1,
    }
    assert commit.status.status_code is StatusCode.UNSET


def test_spans__requests_not_asked_for__are_none(ears):
    new_table().append(note(1))
    assert not any(span.name.startswith("siltstone.store.") for span in ears.finished())


def test_spans__requests_asked_for__are_inside_what_made_them(ears, tmp_path):
    ears.enable(requests=True)
    table = new_table(commits=f"sqlite:{tmp_path}/claims.db")
    ears.spans.clear()
    table.append(note(1))
    spans = ears.finished()
    places = {span.name: inside(span, spans) for span in spans}
    assert places["siltstone.store.create"][-2:] == ["siltstone.append", "siltstone.commit"]
    assert places["siltstone.commit_store.claim"] == ["siltstone.append", "siltstone.commit"]
    requests = [span for span in spans if span.name.startswith("siltstone.store.")]
    assert {frozenset(span.attributes) for span in requests} == {
        frozenset({"siltstone.store", "siltstone.verb", "siltstone.outcome"})
    }


def test_spans__refused_input__say_the_kind_and_quote_no_row(ears):
    table = new_table()
    table.append(note(77123))
    with pytest.raises(DuplicateKeyError, match="77123"):
        table.append(note(77123))
    failed = [span for span in ears.finished() if span.status.status_code is StatusCode.ERROR]
    assert [span.name for span in failed] == ["siltstone.commit", "siltstone.append"]
    for span in failed:
        assert span.attributes["error.type"] == "duplicate-key"
        assert span.status.description is None
    assert "77123" not in ears.everything()


def test_spans__a_writer_is_fenced__say_why(ears):
    told = fenced()
    failed = [span for span in ears.finished("siltstone.shard.put") if span.status.status_code is StatusCode.ERROR]
    assert [span.attributes["error.type"] for span in failed] == ["fenced"]
    assert failed[0].status.description == told.message
    noted = [event.name for span in ears.finished("siltstone.wal.flush") for event in span.events]
    assert noted == ["fenced"]


def test_spans__a_commit_is_unknown_or_a_store_lies__have_the_kind_and_the_event(ears):
    unknown_commit()
    lying_store()
    kinds = {span.name: span.attributes.get("error.type") for span in ears.finished() if span.status.description}
    assert kinds["siltstone.commit"] == kinds["siltstone.append"] == "commit-unknown"
    assert kinds["siltstone.create"] == "unsafe-store"


def test_spans__an_error_that_is_not_ours__is_told_by_its_class_alone(ears):
    @seams.traced("siltstone.trial")
    def fail():
        raise RuntimeError("with a secret in it")

    with pytest.raises(RuntimeError):
        fail()
    (span,) = ears.finished()
    assert span.attributes["error.type"] == "RuntimeError"
    assert span.attributes["siltstone.outcome"] == "other"
    assert span.status.description is None
    assert span.events == ()


def test_spans__an_interrupt__ends_them_and_goes_on(ears):
    @seams.traced("siltstone.trial")
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert ears.finished()[0].attributes["siltstone.outcome"] == "interrupted"


def test_spans__of_other_programs__hold_ours(ears):
    table = new_table()
    ears.spans.clear()
    with ears.tracers.get_tracer("theirs").start_as_current_span("job"):
        table.append(note(1))
    spans = ears.finished()
    assert inside(next(span for span in spans if span.name == "siltstone.commit"), spans) == ["job", "siltstone.append"]


def test_create__nothing_is_there_or_wrong_arguments__fails_as_it_does_without_telemetry(ears):
    with pytest.raises(TypeError):
        ss.open()
    with pytest.raises(ss.errors.NotFoundError):
        ss.open("memory://telemetry-nothing", probe=False)
