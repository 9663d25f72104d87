"""Logs: one line for each thing that an operator would want to know, and none that says too much."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from siltstone import telemetry
from siltstone.cli import main
from siltstone.errors import InvalidInputError, UnavailableError
from siltstone.telemetry import events
from siltstone.telemetry.logs import STABLE, TextFormatter
from telemetry_worlds import (
    commits_and_reads,
    conflicts,
    failed_flush,
    fenced,
    lost_answer,
    lying_store,
    unknown_commit,
    waits_for_room,
)


@pytest.fixture
def quiet():
    """Whatever a test asks for, nothing is configured afterwards."""
    yield
    telemetry.log_to_stderr("")
    assert [type(one) for one in logging.getLogger("siltstone").handlers] == [logging.NullHandler]


def record(text="it happened", *given, level=logging.INFO, error=None, **extra):
    made = logging.LogRecord("theirs", level, __file__, 1, text, given, (type(error), error, None) if error else None)
    vars(made).update(extra)
    return made


# -- events ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (fenced, ["takeover", "replayed", "fenced"]),
        (failed_flush, ["flush_failed"]),
        (conflicts, ["conflict"]),
        (lost_answer, ["lost_answer"]),
        (unknown_commit, ["commit_unknown"]),
        (lying_store, ["alarm"]),
        (waits_for_room, ["backpressure_begins", "backpressure_ends"]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_events__something_happens__is_told_once_with_all_of_its_fields(ears, work, expected):
    work()
    assert [one["event"] for one in ears.events()] == expected
    for one in ears.events():
        event = events.ALL[one["event"]]
        assert one["logger"] == event.logger.name
        assert set(one) - set(STABLE) <= set(event.fields)
        assert "?" not in one["message"]


def test_events__of_upkeep__say_what_was_done(ears, tmp_path):
    commits_and_reads(tmp_path)
    (collected,) = ears.events("collected")
    assert (collected["table"], collected["left"]) == ("orders", 0)
    assert collected["objects"] > 0
    (finalized,) = ears.events("index_finalized")
    assert (finalized["parts"], finalized["rows"]) == (1, 2)


def test_events__telemetry_is_off__are_logged_all_the_same(ears):
    telemetry.disable()
    fenced()
    assert [one["event"] for one in ears.events()] == ["takeover", "replayed", "fenced"]


def test_events__a_damaged_store_is_found_with_telemetry_off__is_an_alarm(ears):
    telemetry.disable()
    lying_store()
    (alarm,) = ears.events()
    assert (alarm["event"], alarm["level"], alarm["kind"]) == ("alarm", "critical", "unsafe-store")


def test_events__their_fields__are_no_names_that_logging_uses_itself():
    taken = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
    for event in events.ALL.values():
        assert not {"event", *event.fields} & (taken | set(STABLE) - {"event"}), event.name


# -- lines -----------------------------------------------------------------------------------------


def test_json__any_record__is_one_line_with_stable_names():
    line = telemetry.JsonFormatter().format(
        record("row %d of %s", 3, "a\nb\x1b[2J\x7f", event="seen", table="t", n=1.5)
    )
    assert line.isprintable()
    found = json.loads(line)
    assert list(found) == ["time", "level", "logger", "event", "message", "table", "n"]
    assert (found["level"], found["logger"], found["event"]) == ("info", "theirs", "seen")
    assert found["message"] == r"row 3 of a\nb\x1b[2J\x7f"
    assert (found["table"], found["n"]) == ("t", 1.5)
    assert found["time"].endswith("Z")


def test_json__values_that_json_does_not_have__are_texts():
    line = telemetry.JsonFormatter().format(record(a=float("nan"), b={1}, c=b"x", d=None, time="mine", e=["\u2028"]))
    found = json.loads(line, parse_constant=pytest.fail)
    assert (found["a"], found["b"], found["c"], found["d"]) == ("nan", "{1}", "b'x'", None)
    assert found["time_"] == "mine"
    assert "\u2028" not in line


def test_json__an_error__has_its_type_and_a_message_only_where_it_quotes_no_row():
    def shown(error):
        return json.loads(telemetry.JsonFormatter().format(record(error=error)))["error"]

    assert shown(UnavailableError("the store is away")) == {"type": "UnavailableError", "message": "the store is away"}
    assert shown(InvalidInputError("row 'Jane' is wrong")) == {"type": "InvalidInputError", "message": ""}
    assert shown(ValueError("row 'Jane' is wrong")) == {"type": "ValueError", "message": ""}


def test_json__a_text_that_does_not_fit_its_values__is_kept():
    assert json.loads(telemetry.JsonFormatter().format(record("%d rows", "many")))["message"] == "%d rows"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ana:s3cr3t@db/claims is away", "postgresql://***@db/claims is away"),
        ("redis://:s3cr3t@h:1/0", "redis://***@h:1/0"),
        ("password=s3cr3t host=db", "password=*** host=db"),
        ('{"aws_secret_access_key": "s3cr3t"}', '{"aws_secret_access_key": "***"}'),
        ("AWS_SESSION_TOKEN=s3cr3t&x=1", "AWS_SESSION_TOKEN=***&x=1"),
        ("Authorization: Bearer s3cr3t", "Authorization: ***"),
        ("https://b/x?sv=1&sig=s3cr3t&se=2", "https://b/x?sv=1&sig=***&se=2"),
        ("given as s3cr3t", "given as ***"),
        ("3 of 4 tokens were read", "3 of 4 tokens were read"),
    ],
)
def test_lines__with_secrets__show_none(text, shown):
    for formatter in (telemetry.JsonFormatter(["s3cr3t"]), TextFormatter(["s3cr3t"])):
        line = formatter.format(record(text))
        assert "s3cr3t" not in line
    assert json.loads(telemetry.JsonFormatter(["s3cr3t"]).format(record(text)))["message"] == shown
    if "given" not in text:
        assert json.loads(telemetry.JsonFormatter().format(record(text)))["message"] == shown


# -- asking for them -------------------------------------------------------------------------------


def test_log_to_stderr__asked_twice__logs_once_as_the_last_call_says(quiet, capsys):
    telemetry.log_to_stderr("debug")
    telemetry.log_to_stderr("warning,json")
    events.TAKEOVER.tell(table="memory://t", shard="a", epoch=2)
    events.FENCED.tell(table="memory://t", shard="a", reason="another came")
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["fenced"]


def test_log_to_stderr__as_text__is_one_line_for_people(quiet, capsys):
    telemetry.log_to_stderr("info")
    events.TAKEOVER.tell(table="memory://x/t\n", shard="a", epoch=2)
    line = capsys.readouterr().err
    assert line.endswith("Z info siltstone.shard takeover: shard a of t\\n was taken over, with epoch 2\n")


@pytest.mark.parametrize("setting", ["loud", "info,xml", "info,", ",json", "info,json,json", 7, None])
def test_log_to_stderr__no_such_setting__is_refused_and_changes_nothing(quiet, setting):
    with pytest.raises(InvalidInputError):
        telemetry.log_to_stderr(setting)


def test_cli__logs_asked_for_in_the_environment__go_to_stderr_and_nothing_else_changes(
    quiet, monkeypatch, capsys, tmp_path
):
    table = str(tmp_path / "t")
    assert main(["create", table, "--schema", "id int64, note string", "--key", "id", "--shards", "1"]) == 0
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "note": "Jane"}\n')
    capsys.readouterr()
    assert main(["put", table, str(rows), "--json"]) == 0
    plain = capsys.readouterr()
    monkeypatch.setenv("SILTSTONE_LOG", "info,json")
    assert main(["put", table, str(rows), "--json"]) == 0
    logged = capsys.readouterr()
    assert json.loads(logged.out).keys() == json.loads(plain.out).keys()
    assert plain.err == ""
    found = [json.loads(line) for line in logged.err.splitlines()]
    assert {"takeover", "replayed"} <= {one["event"] for one in found}
    assert "Jane" not in logged.err
    monkeypatch.setenv("SILTSTONE_LOG", "shout")
    assert main(["put", table, str(rows)]) != 0
    assert "debug, info or warning" in capsys.readouterr().err


def test_handlers__of_other_programs__get_events_with_fields(quiet, caplog):
    caplog.set_level(logging.INFO, logger="siltstone")
    events.COLLECTED.tell(table="s3://bucket/orders", objects=3, bytes=10, floor=2, left=0)
    (told,) = caplog.records
    assert (told.name, told.event, told.table, told.objects) == ("siltstone.retain", "collected", "orders", 3)
    assert told.funcName == sys._getframe().f_code.co_name
