"""Who gets an answer, and what every answer has."""

from __future__ import annotations

import socket
import threading

import pytest

from siltstone.console.root import Given
from siltstone.console.server import ASSETS, CONNECTIONS_MAX, Console, _asset
from siltstone.errors import UnavailableError
from sources import PACKAGE

EVERYWHERE = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def with_all_headers(reply):
    assert {name: reply.headers.get(name) for name in EVERYWHERE} == EVERYWHERE
    return reply


@pytest.mark.parametrize("path", ["/", "/static/console.css", "/api/about", "/api/nothing", "/nothing", "/favicon.ico"])
@pytest.mark.parametrize("known", [True, False])
def test_get__any_path__has_all_headers(quiet, path, known):
    with_all_headers(quiet.send("GET", path, quiet.bearer if known else {}))


@pytest.mark.parametrize("path", ["/", "/static/console.js", "/static/icon.svg", "/api/about", "/api/tables"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic x", "Bearer é"])
def test_get__without_the_token__is_refused_and_says_nothing(quiet, path, header):
    reply = quiet.send("GET", path, {"Authorization": header and header.encode().decode("latin-1")})
    assert reply.status == 403
    assert b"lake" not in reply.body


def test_page__with_the_token__gives_a_cookie_that_counts_from_then_on(quiet):
    page = quiet.send("GET", f"/?token={quiet.console.guard.token}")
    assert page.status == 200
    cookie = page.headers["set-cookie"]
    assert {part.strip() for part in cookie.split(";")[1:]} == {"Path=/", "HttpOnly", "SameSite=Strict"}
    name, _, value = cookie.partition(";")[0].partition("=")
    assert str(quiet.console.port) in name
    for path in ("/", "/static/console.js", "/api/about"):
        assert quiet.send("GET", path, {"Cookie": f"other=1; {name}={value}"}).status == 200
    assert quiet.send("GET", "/api/about", {"Cookie": f"{name}={value[:-1]}"}).status == 403
    assert quiet.send("GET", "/api/about", {"Cookie": '\x01=;;="'}).status == 403


def test_api__token_in_the_address__does_not_count(quiet):
    assert quiet.send("GET", f"/api/about?token={quiet.console.guard.token}").status == 403


def test_page__address_that_counts_once__counts_once(quiet):
    path = quiet.console.url_once.removeprefix(quiet.console.address.rstrip("/"))
    assert quiet.console.guard.token not in path
    assert [quiet.send("GET", path).status for _ in range(2)] == [200, 403]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "",
        None,
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/about"])
def test_get__by_another_name__is_refused(quiet, host, path):
    given = host and host.format(port=quiet.console.port)
    assert quiet.send("GET", path, quiet.bearer | {"Host": given}).status == 403


def test_get__by_localhost__is_answered(quiet):
    assert quiet.send("GET", "/api/about", quiet.bearer | {"Host": f"LOCALHOST:{quiet.console.port}"}).status == 200


@pytest.mark.parametrize("path", ["/api/search?table=notes&index=body&query=x", "/api/about", "/static/console.js"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    ],
)
def test_get__by_a_page_of_another_site__is_refused(quiet, path, headers):
    assert quiet.send("GET", path, quiet.bearer | headers).error == (403, "permission-denied")


def test_page__link_of_another_site_followed__is_shown_but_not_in_a_frame(quiet):
    path = f"/?token={quiet.console.guard.token}"
    site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert quiet.send("GET", path, site | {"Sec-Fetch-Dest": "document"}).status == 200
    assert quiet.send("GET", path, site | {"Sec-Fetch-Dest": "iframe"}).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_request__other_methods__are_refused_with_those_there_are(quiet, method):
    reply = with_all_headers(quiet.send(method, "/api/about", quiet.bearer))
    assert reply.error == (405, "method-not-allowed")
    assert reply.headers["allow"] == "GET, HEAD"


def test_head__any_path__has_the_headers_and_no_body(quiet):
    got, head = (quiet.send(method, "/static/console.js", quiet.bearer) for method in ("GET", "HEAD"))
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(got.body)))


@pytest.mark.parametrize("path", ["http://evil.example/", "*", "api/about"])
def test_get__target_that_is_no_path__is_refused(quiet, path):
    assert quiet.send("GET", path, quiet.bearer).status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/",
        "/static/server.py",
        "/static/console.js/",
        "/etc/passwd",
    ],
)
def test_get__path_that_is_not_in_the_list__is_not_there(quiet, path):
    assert quiet.send("GET", path, quiet.bearer).status == 404


def test_get__with_a_body__is_refused(quiet):
    reply = quiet.send("GET", "/api/about", quiet.bearer | {"Content-Length": "5"}, body=b"hello")
    assert (reply.status, reply.headers["connection"]) == (400, "close")


def test_connect__what_is_no_http__gets_an_answer_and_the_console_goes_on(quiet):
    with socket.create_connection(("127.0.0.1", quiet.console.port), timeout=30) as other:
        other.sendall(b"\x16\x03\x01\x00 nonsense\r\n\r\n")
        assert b"the request can't be understood" in other.recv(4096)
    assert quiet.get("about").status == 200


def test_connect__more_than_it_takes__are_closed_and_others_go_on(quiet):
    idle = [socket.create_connection(("127.0.0.1", quiet.console.port), timeout=30) for _ in range(CONNECTIONS_MAX)]
    with socket.create_connection(("127.0.0.1", quiet.console.port), timeout=30) as over:
        assert over.recv(1) == b""
    for one in idle:
        one.close()
    assert _answers(quiet)


def _answers(quiet):
    """Whether a place was freed: that of a connection is, when its thread has seen that it was closed."""
    tick = threading.Event()
    for _ in range(1000):
        try:
            return quiet.get("about").status == 200
        except OSError:
            tick.wait(0.01)
    return False


def test_console__listens__on_this_machine_alone(quiet):
    assert quiet.console._server.socket.getsockname()[0] == "127.0.0.1"


def test_console__port_in_use__is_told_and_nothing_stays_open(quiet, tmp_path):
    with pytest.raises(UnavailableError, match="can't be used"):
        Console(Given(str(tmp_path)), port=quiet.console.port)


def test_assets__of_the_package__are_exactly_those_in_the_list():
    there = {f"/static/{path.name}" for path in (PACKAGE / "console" / "static").iterdir() if path.name != "index.html"}
    assert there == set(ASSETS)


def test_page__its_markup__has_no_script_style_or_address_of_elsewhere():
    page = _asset("index.html").decode()
    assert page.count("<script") == page.count('<script type="module" src="/static/')
    assert "style=" not in page
    assert "http" not in page.replace('href="/', "")


@pytest.mark.parametrize("path", sorted(path for path in ASSETS if path.endswith(".js")))
def test_scripts__whatever_they_show__never_make_markup_of_text(path):
    text = _asset(path.rpartition("/")[2]).decode()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ):
        assert word not in text


# -- answers ---------------------------------------------------------------------------------------


def test_api__same_answer_asked_for_again__is_not_sent_again(ask, notes):
    first = ask.get("table", table="notes")
    tag = first.headers["etag"]
    again = ask.send("GET", "/api/table?table=notes", ask.bearer | {"If-None-Match": tag})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    notes.append([{"id": 50, "body": "new"}])
    ask.until(lambda table: table["version"] == 2, "table", table="notes")
    assert ask.send("GET", "/api/table?table=notes", ask.bearer | {"If-None-Match": tag}).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "tables?limit=0", "tables?limit=201", "tables?limit=-1", "tables?limit=1&limit=2", "tables?offset=x",
        "tables?offset=%F0%9F", "tables?other=1", "tables?" + "a=1&" * 30, "tables?limit=1;x", "tables?=", "tables?x",
        "table", "history?table=notes&before=-2", "rows?table=notes&fresh=yes", "rows?table=notes&limit=1000000",
        "search?table=notes&index=body", "search?table=notes&index=body&query=+", "tables?match=" + "x" * 20_000,
        "rows?table=notes&where=" + "x" * 5000,
    ],
)  # fmt: skip
def test_api__parameters_that_are_wrong__are_refused_with_what_to_do(quiet, query):
    reply = quiet.send("GET", f"/api/{query}", quiet.bearer)
    assert reply.status == 400
    assert reply.json["error"]["kind"] in {"invalid-input", "limit-exceeded"}
    assert len(reply.json["error"]["message"]) < 1000


@pytest.mark.parametrize("name", ["", "nothing", "call", "__init__", "../about", "about/", "_about"])
def test_api__call_that_is_not_there__is_not_found(quiet, name):
    assert quiet.send("GET", f"/api/{name}", quiet.bearer).error == (404, "not-found")


def test_api__many_at_once__are_all_answered(ask, notes):
    calls = ["tables", "table", "history", "fragments", "rows", "health"] * 4
    statuses = []

    def go(call):
        statuses.append(ask.get(call, **({} if call == "tables" else {"table": "notes"})).status)

    threads = [threading.Thread(target=go, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    notes.append([{"id": 70, "body": "meanwhile"}])
    for thread in threads:
        thread.join()
    assert statuses == [200] * len(calls)
