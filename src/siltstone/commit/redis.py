"""Commit store in Redis or Valkey: a script decides.

What must hold:
- Each decision is one script over one key, which Redis runs alone and whole.
- No key ever gets a time to live, and a server that may evict keys is refused.
- A server that answers before the claim is on its disk is refused, unless the caller accepted it.

A scope is one hash: field ``position`` (19 digits, so that text compares as numbers do: Lua's own end at
2**53) holds ``digest:parent:value``; ``below`` and ``digest`` are the range claim, ``newest`` the highest position.
Even then a failover to a replica may forget a claim: published objects and the chain make that loud.
"""

from __future__ import annotations

from typing import Any

from siltstone.commit.checks import parse_row
from siltstone.commit.handle import RegistryHandle
from siltstone.commit.location import parse_location, require_driver
from siltstone.commit.registry import Behind, Claim, Truncated
from siltstone.errors import (
    InvalidInputError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
    UnsafeStoreError,
)
from siltstone.ids import Ids, SystemIds

NAMESPACE_DEFAULT = "siltstone"
NAMESPACE_BYTES_MAX = 128
SCAN_FIELDS = 1000
"""Fields looked at in one step of ``truncate``, which may not keep others waiting."""

_BIND = """
local below = redis.call('HGET', KEYS[1], 'below')
if below and ARGV[1] < below then return {'truncated', below} end
local bound = redis.call('HGET', KEYS[1], ARGV[1])
if bound then return {'bound', bound} end
if ARGV[2] ~= '' then
  local found
  if below == ARGV[1] then
    found = redis.call('HGET', KEYS[1], 'digest') .. '::'
  else
    found = redis.call('HGET', KEYS[1], ARGV[2])
  end
  if not found then return {'absent'} end
  if string.match(found, '^[^:]*') ~= ARGV[3] then return {'other', found} end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
local newest = redis.call('HGET', KEYS[1], 'newest')
if not newest or newest < ARGV[1] then redis.call('HSET', KEYS[1], 'newest', ARGV[1]) end
return {'bound', ARGV[4]}
"""

_NEWEST = """
local newest = redis.call('HGET', KEYS[1], 'newest')
if not newest then return {} end
if redis.call('HEXISTS', KEYS[1], newest) == 0 then  -- truncated, or lost: then the one before it counts
  newest = ''
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.match(field, '^%d+$') and field > newest then newest = field end
  end
  if newest == '' then return {} end
end
return {newest, redis.call('HGET', KEYS[1], newest)}
"""

_TRUNCATE = """
local below = redis.call('HGET', KEYS[1], 'below')
if below and below >= ARGV[1] then return below end
redis.call('HSET', KEYS[1], 'below', ARGV[1], 'digest', ARGV[2])
return ARGV[1]
"""

_IDENTITY = """
redis.call('SETNX', KEYS[1], ARGV[1])
return redis.call('GET', KEYS[1])
"""


class _Connection:
    """One connection and the scripts on it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.bind = client.register_script(_BIND)
        self.newest = client.register_script(_NEWEST)
        self.truncate = client.register_script(_TRUNCATE)
        self.identity = client.register_script(_IDENTITY)


class RedisRegistry(RegistryHandle[_Connection]):
    """Claims in hashes of a Redis server."""

    kind = "redis"

    def __init__(self, uri: str, options: dict[str, Any], *, ids: Ids) -> None:
        accepts = {"namespace": str, "accept_weak_durability": bool}
        location = parse_location(uri, options, accepts=accepts, default_port=6379)
        database = location.path.strip("/") or "0"
        namespace = location.options.get("namespace", NAMESPACE_DEFAULT)
        if not location.host or not (database.isascii() and database.isdigit()):
            raise InvalidInputError("the Redis URI names no host, or no database number", hint="redis://host:6379/0")
        if not 0 < len(namespace.encode()) <= NAMESPACE_BYTES_MAX:
            raise InvalidInputError(
                "the namespace is empty or too long", hint=f"use 1 to {NAMESPACE_BYTES_MAX} bytes", found=namespace
            )
        if location.scheme == "redis":
            location.refuse_plain(secure_scheme="rediss")
        super().__init__(open_registry, uri, {**options, "ids": ids}, location)
        self._redis = require_driver("redis", extra="redis")
        self._database = int(database)
        self._prefix = b"siltstone:%d:%s:" % (len(namespace.encode()), namespace.encode())
        self._ids = ids

    # -- connection ----------------------------------------------------------------------------------

    def _connect(self) -> _Connection:
        location = self._location
        secure: dict[str, Any] = {}
        if location.scheme == "rediss":
            verify = "none" if location.options.get("insecure", False) else "required"
            secure = {"ssl": True, "ssl_cert_reqs": verify, "ssl_check_hostname": verify == "required"}
            secure["ssl_ca_certs"] = location.options.get("ca_file")
        client = self._redis.Redis(
            host=location.host,
            port=location.port,
            db=self._database,
            username=location.user or None,
            password=location.secret() or None,
            socket_timeout=location.timeout_s,
            socket_connect_timeout=location.connect_timeout_s,
            single_connection_client=True,
            # The driver must not send a request again by itself: after a reconnect the server is to be checked first.
            retry=require_driver("redis.retry", extra="redis").Retry(
                require_driver("redis.backoff", extra="redis").NoBackoff(), 0
            ),
            **secure,
        )
        try:
            self._check_server(client)
        except BaseException:
            client.close()
            raise
        return _Connection(client)

    def _disconnect(self, raw: _Connection) -> None:
        raw.client.close()

    def _check_server(self, client: Any) -> None:
        info = client.info("everything")
        if info.get("role", "master") != "master":
            raise UnavailableError(
                f"{self.uri} is a replica",
                hint="name the primary: a replica may answer with the past",
                subject=self.uri,
            )
        policy = str(info.get("maxmemory_policy", "unknown"))
        try:
            settings = {**client.config_get("appendonly"), **client.config_get("appendfsync")}
            policy = client.config_get("maxmemory-policy").get("maxmemory-policy", policy)
        except self._redis.ResponseError:  # managed services forbid CONFIG
            settings = {}
        if policy not in {"noeviction", "unknown"}:
            raise UnsafeStoreError(
                f"{self.uri} may evict claims: maxmemory-policy is {policy}",
                hint="set maxmemory-policy noeviction",
                subject=self.uri,
                found=policy,
            )
        if self._location.options.get("accept_weak_durability", False):
            return
        found = ", ".join(f"{name} {settings.get(name, 'unknown')}" for name in ("appendonly", "appendfsync"))
        if found != "appendonly yes, appendfsync always" or policy == "unknown":
            raise UnsafeStoreError(
                f"{self.uri} may forget claims when it stops: {found}",
                hint="set appendonly yes and appendfsync always, or pass accept_weak_durability=True",
                subject=self.uri,
                found=found,
            )

    def _translate(self, error: Exception) -> SiltstoneError | None:
        kinds = self._redis.exceptions
        if isinstance(error, (kinds.AuthenticationError, kinds.NoPermissionError)):
            return self._denied(error)
        if isinstance(error, kinds.OutOfMemoryError):
            return StoreFullError(f"{self.uri} has no memory left", hint="raise maxmemory", subject=self.uri)
        if isinstance(error, kinds.ResponseError):
            return self._translate_refusal(error)
        if isinstance(error, (kinds.RedisError, OSError)):
            return self._unavailable(error)
        return None

    def _translate_refusal(self, error: Exception) -> SiltstoneError:
        words = self._scrubbed(error)
        if "NOAUTH" in words or "WRONGPASS" in words or "Authentication required" in words:
            return self._denied(error)
        if "DB index" in words:
            hint = "use a lower number"
            return InvalidInputError(f"{self.uri} has no such database: {words}", hint=hint, subject=self.uri)
        return self._unavailable(error)

    def _denied(self, error: Exception) -> PermissionDeniedError:
        hint = "check user, password and ACL"
        return PermissionDeniedError(f"{self.uri} refused access: {self._scrubbed(error)}", hint=hint, subject=self.uri)

    # -- decisions -----------------------------------------------------------------------------------

    def _bind(self, raw: _Connection, claim: Claim, *, chained: bool) -> Claim | Behind | Truncated:
        scope, position = claim.scope, claim.position
        before = _field(position - 1) if chained and position > 0 else b""
        row = f"{claim.digest}:{claim.parent}:{claim.value}".encode()
        answer = raw.bind(keys=[self._key(scope)], args=[_field(position), before, claim.parent.encode(), row])
        match answer[0]:
            case b"truncated":
                return Truncated(int(answer[1]))
            case b"absent":
                return Behind(None)
            case b"other":
                return Behind(parse_row(scope, position - 1, answer[1]))
            case _:
                return parse_row(scope, position, answer[1])

    def _lookup(self, raw: _Connection, scope: str, position: int) -> Claim | None:
        row = raw.client.hget(self._key(scope), _field(position))
        return None if row is None else parse_row(scope, position, row)

    def _newest(self, raw: _Connection, scope: str) -> Claim | None:
        answer = raw.newest(keys=[self._key(scope)], args=[])
        return parse_row(scope, int(answer[0]), answer[1]) if len(answer) == 2 and answer[1] is not None else None

    def _truncate(self, raw: _Connection, scope: str, below: int, digest: str) -> None:
        key = self._key(scope)
        until = raw.truncate(keys=[key], args=[_field(below), digest.encode()])
        cursor = 0
        while True:
            cursor, rows = raw.client.hscan(key, cursor, count=SCAN_FIELDS)
            under = [field for field in rows if field.isdigit() and field < until]
            if under:
                raw.client.hdel(key, *under)
            if cursor == 0:
                return

    def _identity(self, raw: _Connection) -> str:
        found: bytes = raw.identity(keys=[self._prefix + b"identity"], args=[self._ids.new().encode()])
        return found.decode()

    def _adopt(self, raw: _Connection, identity: str) -> None:
        raw.client.set(self._prefix + b"identity", identity.encode())

    def _key(self, scope: str) -> bytes:
        name = scope.encode()
        return self._prefix + b"%d:%s" % (len(name), name)


def _field(position: int) -> bytes:
    return b"%019d" % position


def open_registry(uri: str, *, ids: Ids | None = None, **options: Any) -> RedisRegistry:
    """Open ``redis://host:port/database`` or, with TLS, ``rediss://``.

    Options: ``namespace``, ``timeout_s``, ``insecure``, ``ca_file``, ``password_env``, ``accept_weak_durability``.
    """
    return RedisRegistry(uri, options, ids=ids or SystemIds())
