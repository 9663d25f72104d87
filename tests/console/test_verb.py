"""``siltstone console`` as a process: it says where it is, and ends when it is told to."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from console_worlds import make_notes
from siltstone.cli import main
from sources import ROOT

PLAIN = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def notes_place(tmp_path):
    make_notes(tmp_path / "notes").close()
    return tmp_path / "notes"


@pytest.fixture
def begin():
    """``begin(root)`` starts a console in a process of its own, which ends with the test."""
    begun: list[subprocess.Popen[bytes]] = []

    def go(*argv, stdout=subprocess.PIPE, **environment):
        child = subprocess.Popen(
            [sys.executable, "-m", "siltstone", "console", *map(str, argv)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment,
        )
        begun.append(child)
        return child

    yield go
    for child in begun:
        if child.poll() is None:
            child.kill()
            child.communicate()


def lines_until(stream, last):
    """What is printed, up to a line."""
    found = []
    while not found or not found[-1].startswith(last):
        line = stream.readline()
        assert line, found
        found.append(line.decode() if isinstance(line, bytes) else line)
    return "".join(found)


def end(child):
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def get(url, **headers):
    try:
        with PLAIN.open(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_console__json__prints_one_document_answers_and_ends_by_an_interrupt(begin, notes_place):
    child = begin(notes_place, "--json")
    found = json.loads(lines_until(child.stdout, "}"))
    assert sorted(found) == ["address", "port", "uri", "url"]
    assert found["address"] == f"http://127.0.0.1:{found['port']}/"
    token = found["url"].partition("token=")[2]
    status, body = get(f"{found['address']}api/history?table=", Authorization=f"Bearer {token}")
    assert (status, json.loads(body)["newest"]) == (200, 1)
    assert get(found["address"])[0] == 403
    assert end(child) == (0, b"", b"")


def test_console__on_a_terminal__opens_the_browser_with_an_address_that_counts_once(begin, notes_place, tmp_path):
    told = tmp_path / "told"
    os.mkfifo(told)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    browser.chmod(0o755)
    ours, theirs = pty.openpty()
    child = begin(notes_place, stdout=theirs, BROWSER=str(browser), DISPLAY=":9", TERM="dumb")
    os.close(theirs)
    reader = threading.Thread(target=_drain, args=(ours,), daemon=True)
    reader.start()
    url = told.read_text().strip()  # waits until the browser was started
    assert [get(url)[0] for _ in range(2)] == [200, 403]
    assert end(child)[0] == 0
    reader.join()
    os.close(ours)


def _drain(terminal):
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # Linux ends a terminal this way
        pass


def test_console__damaged_table__is_told_in_the_page_and_not_on_the_terminal(begin, tmp_path):
    make_notes(tmp_path / "notes").close()
    (tmp_path / "notes" / "log" / "entries" / f"{1:020}").write_bytes(b"nonsense")
    child = begin(tmp_path, "--json")
    found = json.loads(lines_until(child.stdout, "}"))
    token = found["url"].partition("token=")[2]
    status, body = get(f"{found['address']}api/tables", Authorization=f"Bearer {token}")
    assert (status, json.loads(body)["tables"][0]["error"]["kind"]) == (200, "corruption")
    assert end(child) == (0, b"", b"")


def test_console__text_and_no_table_yet__prints_the_address_and_a_note(begin, tmp_path):
    child = begin(tmp_path / "later")
    said = lines_until(child.stdout, "to browsers of this machine")
    (url,) = [word for word in said.split() if word.startswith("http://127.0.0.1:")]
    assert get(url)[0] == 200
    code, out, err = end(child)
    assert (code, out) == (0, b"")
    assert err.startswith(b"note: there is no table at or below")
    assert err.count(b"\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["--port", "70000"], 2, "usage"),
        (["--port", "x"], 2, "usage"),
        (["--wal-option", "a=b"], 2, "usage"),
        (["--storage-option", "nope"], 2, "usage"),
        (["--commits", "nothing:x"], 1, "invalid-input"),
    ],
)
def test_console__what_is_wrong_on_its_line__is_told_before_it_starts(capsys, notes_place, words, code, kind):
    assert main(["console", str(notes_place), "--json", *words]) == code
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == kind


def test_console__an_earlier_version__is_refused(capsys, notes_place):
    assert main(["console", f"{notes_place}@1"]) == 2
    assert "shows all versions" in capsys.readouterr().err


def test_console__root_that_is_a_file__is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("x")
    assert main(["console", str(tmp_path / "file")]) == 1
    assert "is not a directory" in capsys.readouterr().err
