"""Commit store in etcd (3.4 or newer), through its JSON gateway: a transaction decides.

What must hold:
- A claim is one transaction that compares the place, the predecessor and the range claim, and puts.
- Every read is linearizable; no key has a lease.

Keys, below the prefix: ``identity``; ``claim/<bytes of scope>:<scope>/<position>`` holding
``digest:parent:value``; ``range/<bytes of scope>:<scope>`` holding ``below:digest``. Numbers have 19 digits, so
that etcd's comparison of bytes is one of numbers. The scope's length keeps a scope apart from those it begins.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from typing import TYPE_CHECKING, Any

from siltstone.commit.checks import NO_RANGE, Range, Standing, parse_row
from siltstone.commit.handle import LookingHandle
from siltstone.commit.location import parse_location, require_driver
from siltstone.errors import InvalidInputError, PermissionDeniedError, SiltstoneError, StoreFullError
from siltstone.ids import Ids, SystemIds

if TYPE_CHECKING:
    from siltstone.commit.registry import Claim

PREFIX_DEFAULT = "siltstone"
PREFIX_BYTES_MAX = 256
ANSWER_BYTES_MAX = 1024 * 1024
POOL_SIZE = 16

# gRPC status codes in the gateway's errors.
_INVALID_ARGUMENT, _PERMISSION_DENIED, _RESOURCE_EXHAUSTED, _FAILED_PRECONDITION, _UNAUTHENTICATED = 3, 7, 8, 9, 16

_Json = dict[str, Any]


class _RefusedError(Exception):
    """The gateway answered with an error."""

    def __init__(self, status: int, code: int, words: str) -> None:
        super().__init__(f"{words} (HTTP {status}, code {code})")
        self.status = status
        self.code = code
        self.words = words


class _Gateway:
    """A pool of connections, safe for threads, with the token of a user who logged in."""

    def __init__(self, pool: Any, base: str, user: str, password: str) -> None:
        self.pool = pool
        self._base = base
        self._login = {"name": user, "password": password} if user else None
        self._token = ""
        self._lock = threading.Lock()

    def ask(self, path: str, body: _Json) -> _Json:
        """POST a request; log in first where there is a user, and once more where the token has run out."""
        if self._login is None:
            return self._post(path, body, "")
        for last in (False, True):
            token = self._token or self._log_in()
            try:
                return self._post(path, body, token)
            except _RefusedError as error:
                if last or (error.code != _UNAUTHENTICATED and "invalid auth token" not in error.words):
                    raise
                with self._lock:
                    self._token = "" if self._token == token else self._token
        raise AssertionError

    def _log_in(self) -> str:
        with self._lock:
            if not self._token:
                self._token = str(self._post("/v3/auth/authenticate", self._login or {}, "")["token"])
            return self._token

    def _post(self, path: str, body: _Json, token: str) -> _Json:
        headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
        response = self.pool.request(
            "POST", self._base + path, body=json.dumps(body), headers=headers, preload_content=False, redirect=False
        )
        try:
            data = response.read(ANSWER_BYTES_MAX + 1)
            if len(data) > ANSWER_BYTES_MAX:
                raise _RefusedError(response.status, 0, "the answer is too long")
            answer = json.loads(data) if data else {}
        except ValueError as error:
            raise _RefusedError(response.status, 0, "the answer is no JSON") from error
        finally:
            response.release_conn()
        if response.status != 200 or not isinstance(answer, dict) or "error" in answer:
            found = answer if isinstance(answer, dict) else {}
            words = str(found.get("message") or found.get("error") or response.reason)
            raise _RefusedError(response.status, int(found.get("code") or 0), words)
        return answer


class EtcdRegistry(LookingHandle[_Gateway]):
    """Claims in keys of an etcd cluster."""

    kind = "etcd"
    thread_safe_connection = True

    def __init__(self, uri: str, options: dict[str, Any], *, ids: Ids) -> None:
        location = parse_location(uri, options, accepts={"prefix": str}, default_port=2379)
        if not location.host:
            raise InvalidInputError("the etcd URI names no host", hint="use etcd://host:2379/prefix")
        path = location.path.strip("/")
        if path and "prefix" in location.options:
            raise InvalidInputError("the prefix is given twice", hint="give it in the URI's path or as prefix=")
        prefix = location.options.get("prefix", path or PREFIX_DEFAULT)
        if not 0 < len(prefix.encode()) <= PREFIX_BYTES_MAX:
            raise InvalidInputError("the prefix is empty or too long", hint=f"use 1 to {PREFIX_BYTES_MAX} bytes")
        if location.scheme == "etcd":
            location.refuse_plain(secure_scheme="etcds")
        super().__init__(open_registry, uri, {**options, "ids": ids}, location)
        self._urllib3 = require_driver("urllib3", extra="etcd")
        self._prefix = f"{prefix}/".encode()
        self._ids = ids

    # -- connection ----------------------------------------------------------------------------------

    def _connect(self) -> _Gateway:
        location = self._location
        host = f"[{location.host}]" if ":" in location.host else location.host
        scheme = "https" if location.scheme == "etcds" else "http"
        secure: dict[str, Any] = {}
        if scheme == "https":
            insecure = location.options.get("insecure", False)
            secure = {"cert_reqs": "CERT_NONE" if insecure else "CERT_REQUIRED"}
            secure["ca_certs"] = location.options.get("ca_file")
        pool = self._urllib3.PoolManager(
            maxsize=POOL_SIZE,
            retries=False,
            timeout=self._urllib3.Timeout(connect=location.connect_timeout_s, read=location.timeout_s),
            **secure,
        )
        return _Gateway(pool, f"{scheme}://{host}:{location.port}", location.user, location.secret())

    def _disconnect(self, raw: _Gateway) -> None:
        raw.pool.clear()

    def _translate(self, error: Exception) -> SiltstoneError | None:
        if isinstance(error, _RefusedError):
            words = self._scrubbed(error)
            denied = {_PERMISSION_DENIED, _UNAUTHENTICATED, _INVALID_ARGUMENT, _FAILED_PRECONDITION}
            about_access = any(word in error.words for word in ("auth", "permission", "user name", "password"))
            if error.status in {401, 403} or (error.code in denied and about_access):
                hint = "check user, password and role"
                return PermissionDeniedError(f"{self.uri} refused access: {words}", hint=hint, subject=self.uri)
            if error.code == _RESOURCE_EXHAUSTED and "space" in error.words:
                hint = "compact and defragment etcd, then disarm the alarm"
                return StoreFullError(f"{self.uri} has no space left: {words}", hint=hint, subject=self.uri)
            if error.status == 404:
                hint = "this needs etcd 3.4 or newer with its JSON gateway on"
                return InvalidInputError(f"{self.uri} is not an etcd gateway: {words}", hint=hint, subject=self.uri)
            return self._unavailable(error)
        if isinstance(error, (self._urllib3.exceptions.HTTPError, OSError)):
            return self._unavailable(error)
        if isinstance(error, (KeyError, binascii.Error)):
            return self._unavailable(f"the answer is not one of etcd ({error!r})")
        return None

    # -- decisions -----------------------------------------------------------------------------------

    def _take(self, raw: _Gateway, claim: Claim, standing: Standing | None, *, chained: bool) -> bool:
        place, ranged = self._place(claim.scope, claim.position), self._range(claim.scope)
        put = [_put(place, f"{claim.digest}:{claim.parent}:{claim.value}".encode())]
        free = _absent(place)
        if chained and standing is not None and claim.position == standing.truncated.below > 0:
            last = _range_value(claim.position, claim.parent)
            return _succeeded(raw.ask("/v3/kv/txn", _txn([free, _value(ranged, "EQUAL", last)], put)))
        compare = [free]
        if chained and claim.position > 0:
            # The predecessor's row begins with its digest and a colon; a semicolon is the next byte.
            previous, parent = self._place(claim.scope, claim.position - 1), claim.parent.encode()
            compare += [_value(previous, "GREATER", parent + b":"), _value(previous, "LESS", parent + b";")]
        above = _txn([_value(ranged, "LESS", _number(claim.position) + b";")], put)
        inner = _txn([_absent(ranged)], put, [{"request_txn": above}])
        answer = raw.ask("/v3/kv/txn", _txn(compare, [{"request_txn": inner}]))
        return _succeeded(answer) and _any_succeeded(answer["responses"][0]["response_txn"])

    def _look(self, raw: _Gateway, claim: Claim) -> Standing:
        scope, position = claim.scope, claim.position
        before = self._place(scope, position - 1) if position > 0 else b"\0"
        keys = (self._range(scope), self._place(scope, position), before)
        answer = raw.ask("/v3/kv/txn", _txn([], [{"request_range": {"key": _b64(key)}} for key in keys]))
        rows = [_first_value(response["response_range"]) for response in answer["responses"]]
        truncated = NO_RANGE
        if rows[0] is not None:
            below, _, digest = rows[0].decode().partition(":")
            truncated = Range(int(below), digest)
        bound = None if rows[1] is None else parse_row(scope, position, rows[1])
        previous = None if rows[2] is None else parse_row(scope, position - 1, rows[2])
        return Standing(truncated, bound, previous)

    def _lookup(self, raw: _Gateway, scope: str, position: int) -> Claim | None:
        row = _first_value(raw.ask("/v3/kv/range", {"key": _b64(self._place(scope, position))}))
        return None if row is None else parse_row(scope, position, row)

    def _newest(self, raw: _Gateway, scope: str) -> Claim | None:
        start = self._scope(scope)
        request = {"key": _b64(start), "range_end": _b64(start + b":"), "limit": 1}
        answer = raw.ask("/v3/kv/range", {**request, "sort_order": "DESCEND", "sort_target": "KEY"})
        if not answer.get("kvs"):
            return None
        [row] = answer["kvs"]
        position = int(base64.b64decode(row["key"])[len(start) :])
        return parse_row(scope, position, base64.b64decode(row["value"]))

    def _truncate(self, raw: _Gateway, scope: str, below: int, digest: str) -> None:
        ranged = self._range(scope)
        put = [_put(ranged, _range_value(below, digest))]
        higher = _txn([_value(ranged, "LESS", _number(below))], put)
        raw.ask("/v3/kv/txn", _txn([_absent(ranged)], put, [{"request_txn": higher}]))
        start = self._scope(scope)
        raw.ask("/v3/kv/deleterange", {"key": _b64(start), "range_end": _b64(start + _number(below))})

    def _identity(self, raw: _Gateway) -> str:
        key = self._prefix + b"identity"
        mine = self._ids.new()
        get = [{"request_range": {"key": _b64(key)}}]
        answer = raw.ask("/v3/kv/txn", _txn([_absent(key)], [_put(key, mine.encode())], get))
        if _succeeded(answer):
            return mine
        return (_first_value(answer["responses"][0]["response_range"]) or b"").decode()

    def _adopt(self, raw: _Gateway, identity: str) -> None:
        raw.ask("/v3/kv/txn", _txn([], [_put(self._prefix + b"identity", identity.encode())]))

    def _scope(self, scope: str) -> bytes:
        name = scope.encode()
        return self._prefix + b"claim/%d:%s/" % (len(name), name)

    def _place(self, scope: str, position: int) -> bytes:
        return self._scope(scope) + _number(position)

    def _range(self, scope: str) -> bytes:
        name = scope.encode()
        return self._prefix + b"range/%d:%s" % (len(name), name)


# -- requests and answers ----------------------------------------------------------------------------


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _number(position: int) -> bytes:
    return b"%019d" % position


def _range_value(below: int, digest: str) -> bytes:
    return _number(below) + b":" + digest.encode()


def _txn(compare: list[_Json], success: list[_Json], failure: list[_Json] | None = None) -> _Json:
    return {"compare": compare, "success": success, "failure": failure or []}


def _put(key: bytes, value: bytes) -> _Json:
    return {"request_put": {"key": _b64(key), "value": _b64(value)}}


def _absent(key: bytes) -> _Json:
    return {"target": "CREATE", "result": "EQUAL", "key": _b64(key), "create_revision": "0"}


def _value(key: bytes, result: str, value: bytes) -> _Json:
    return {"target": "VALUE", "result": result, "key": _b64(key), "value": _b64(value)}


def _succeeded(answer: _Json) -> bool:
    return answer.get("succeeded") is True


def _any_succeeded(answer: _Json) -> bool:
    return _succeeded(answer) or _succeeded(answer["responses"][0]["response_txn"])


def _first_value(answer: _Json) -> bytes | None:
    rows = answer.get("kvs")
    return base64.b64decode(rows[0].get("value", "")) if rows else None


def open_registry(uri: str, *, ids: Ids | None = None, **options: Any) -> EtcdRegistry:
    """Open ``etcd://host:port/prefix`` or, with TLS, ``etcds://``.

    Options: ``prefix``, ``timeout_s``, ``insecure``, ``ca_file``, ``password_env``.
    """
    return EtcdRegistry(uri, options, ids=ids or SystemIds())
