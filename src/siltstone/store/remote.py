"""S3 and what speaks its language, Google Cloud Storage and Azure Blob Storage, through obstore.

What must hold:
- No request is made before it is needed, and none with an obstore handle from before a fork: obstore
  is not fork safe, so a child gets ForkedError where using it could hang.
- ``create`` is one conditional PUT, sent once: were obstore to repeat it inside, the answer to the repetition
  would hide that the first may have taken effect. The commit layer repeats, and knows. Only where the user says that
  the service refuses conditions it is a look and a put, and then no log may leave decisions to the store.
- A handle pickles as its URI and options; credentials from the environment stay in the environment.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import obstore
from obstore import exceptions as obstore_errors
from obstore.store import AzureStore, GCSStore, S3Store

from siltstone import paths
from siltstone.errors import (
    AlreadyExistsError,
    CorruptionError,
    ForkedError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
)
from siltstone.locks import ForkLock
from siltstone.store.base import OBJECT_BYTES_MAX, REFUSED, REFUSING_REMEDY, ObjectInfo, Store, Traits
from siltstone.store.options import StoreUri, near_option, parse_uri, resolve_options, scrub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

IN_FLIGHT = 96
AHEAD = 2 * IN_FLIGHT  # queued reads keep every thread busy while the oldest one is waited for
AHEAD_FIRST = 16  # until it is known how large the objects are
AHEAD_BYTES = 64 * 1024 * 1024
CLIENT_OPTIONS = frozenset({"timeout", "connect_timeout", "allow_http", "user_agent", "proxy_url", "pool_idle_timeout"})
OWN_OPTIONS = frozenset({"known_good", "conditional_create"})
RETRY = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=2), "base": 2},
}
NO_RETRY = {**RETRY, "max_retries": 0}
_ENDPOINTS = {
    "s3": (
        "endpoint",
        "aws_endpoint",
        "endpoint_url",
        "aws_endpoint_url",
        "endpoint_url_s3",
        "aws_endpoint_url_s3",
    ),
    "gs": ("base_url", "google_base_url"),
    "az": ("endpoint", "azure_endpoint", "azure_storage_endpoint", "use_emulator", "azure_storage_use_emulator"),
}
_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR"),
}
_ACCOUNTS = ("account_name", "azure_storage_account_name", "azure_account_name")
_STORES = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")


class _Process:
    """What this process shares: one thread pool, and whether obstore ran before a fork."""

    def __init__(self) -> None:
        self.used = False
        self.forked = False
        self.lock = threading.Lock()
        self.pool: ThreadPoolExecutor | None = None

    def threads(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.pool is None:
                self.pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="siltstone-read")
            return self.pool

    def after_fork(self) -> None:
        self.forked = self.used
        self.lock = threading.Lock()
        self.pool = None


_process = _Process()
os.register_at_fork(after_in_child=_process.after_fork)


class RemoteStore(Store):
    """A bucket or container, and a path in it."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._options = dict(storage_options or {})
        self._place: StoreUri = parse_uri(uri)
        self.uri = str(self._place)
        self._keep_account()
        given = resolve_options(self._options, frozenset())
        self._secrets = given
        self._config, self._client = _split(given)
        self.endpoint = _endpoint(self._place.scheme, self._config)
        if "@" in self.endpoint:
            raise InvalidInputError(
                f"the endpoint of {self.uri} holds a user or password", hint="pass credentials in options of their own"
            )
        if self.endpoint.startswith("http://"):
            self._client["allow_http"] = True
        self._service = " ".join(filter(None, (_account(self._place.scheme, self._config), self.endpoint)))
        trusted = given.get("known_good", "" if self.endpoint else "true") == "true"
        conditional = _flag(given, "conditional_create")
        self.traits = Traits(
            kind=self._place.scheme, known_good=trusted and conditional, cheap_probes=False, conditional=conditional
        )
        self._store: Any = None
        self._creator: Any = None
        self._lock = ForkLock()

    def _keep_account(self) -> None:
        """An account that the URI names is an option from here on; another one beside it is refused."""
        account = self._place.account
        given = next((self._options[name] for name in _ACCOUNTS if name in self._options), "")
        if account and given and given != account:
            raise InvalidInputError(
                f"the URI of {self.uri} names the account {account!a}, the options {given!a}",
                hint="leave out one of the two",
            )
        if account and not given:
            self._options["account_name"] = account

    @property
    def location(self) -> str:
        return f"{self.uri} at {self._service}" if self._service else self.uri

    @property
    def domain(self) -> str:
        return f"{self._place.scheme}://{self._place.bucket} at {self._service}"

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        def read(store: Any) -> bytes:
            result = obstore.get(store, key)
            size = result.meta["size"]
            if size > limit:
                raise CorruptionError(f"object {key} has {size} bytes, over the limit of {limit}", object=key)
            return bytes(result.bytes())

        data: bytes = self._call("get", key, read)
        return data

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, ends = [s for s, _ in ranges], [e for _, e in ranges]
        try:
            found = self._call("get", key, lambda store: obstore.get_ranges(store, key, starts=starts, ends=ends))
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # what obstore raises where an object has shrunk
                raise
            raise CorruptionError(f"{key} in {self.uri} ends before byte {max(ends)}", object=key) from error
        return [bytes(part) for part in found]

    def get_many(self, keys: Iterable[str], *, limit: int = OBJECT_BYTES_MAX) -> Iterator[bytes | None]:
        ahead, largest = AHEAD_FIRST, 1

        def read(key: str) -> bytes | None:
            nonlocal largest
            try:
                data = self.get(key, limit=limit)
            except NotFoundError:
                return None
            largest = max(largest, len(data))
            return data

        self._connected()
        pool = _process.threads()
        waiting: deque[Future[bytes | None]] = deque()
        try:
            for key in keys:
                waiting.append(pool.submit(read, key))
                while len(waiting) >= ahead:
                    data = waiting.popleft().result()
                    largest = max(1, largest * 7 // 8, len(data or b""))  # one large object must not slow down the rest
                    ahead = max(2, min(AHEAD, AHEAD_BYTES // largest))
                    yield data
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def head(self, key: str) -> ObjectInfo | None:
        try:
            meta = self._call("head", key, lambda store: obstore.head(store, key))
        except NotFoundError:
            return None
        return _info(meta)

    def create(self, key: str, data: bytes) -> None:
        if not self.traits.conditional:  # a commit store decides; nothing that is created here is fought over
            if self.head(key) is not None:
                raise AlreadyExistsError(f"{self.uri} already has an object {key}", object=key, verb="create")
            self.put(key, data)
            return

        def put(store: Any) -> None:
            obstore.put(store, key, data, mode="create", use_multipart=False)

        self._call("create", key, put)

    def put(self, key: str, data: bytes) -> None:
        self._call("put", key, lambda store: obstore.put(store, key, data))

    def copy(self, source: str, target: str) -> None:
        paths.check_key(source)
        self._call("copy", target, lambda store: obstore.copy(store, source, target))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        found = self._listed(paths.check_prefix(prefix), after)
        # Directory buckets of S3 Express list in no order.
        return iter(sorted(found)) if self._place.bucket.endswith("--x-s3") else found

    def _listed(self, start: str, after: str) -> Iterator[ObjectInfo]:
        store = self._connected()
        try:
            for chunk in obstore.list(store, start or None, offset=after or None, chunk_size=1000):
                for meta in chunk:
                    info = _info(meta)
                    if info.key > after:  # Azure's emulator forgets the offset in some set-ups
                        yield info
        except Exception as error:
            self._raise(error, "list", start)

    def delete(self, keys: Iterable[str]) -> None:
        names = [paths.check_key(key) for key in keys]
        if not names:
            return
        store = self._connected()
        try:
            obstore.delete(store, names)
        except FileNotFoundError:
            self._delete_one_by_one(names)  # Azure stops at the first one that is missing
        except Exception as error:
            self._raise(error, "delete", names[0])

    def _delete_one_by_one(self, names: Sequence[str]) -> None:
        store = self._connected()
        for name in names:
            try:
                obstore.delete(store, name)
            except FileNotFoundError:
                continue
            except Exception as error:
                self._raise(error, "delete", name)

    def _call(self, verb: str, key: str, work: Callable[[Any], Any]) -> Any:
        paths.check_key(key)
        store = self._connected(once=verb == "create")
        try:
            return work(store)
        except SiltstoneError:
            raise
        except Exception as error:
            self._raise(error, verb, key)

    def _connected(self, *, once: bool = False) -> Any:
        """obstore's handle; with ``once``, one that sends a request a single time."""
        if _process.forked:
            raise ForkedError(
                f"{self.uri} was used before os.fork(), and object store connections do not survive a fork",
                hint="start workers with the multiprocessing start method 'spawn', or open stores only in the child",
            )
        with self._lock:
            _process.used = True
            if once:
                self._creator = self._creator or self._connect(NO_RETRY)
                return self._creator
            self._store = self._store or self._connect(RETRY)
            return self._store

    def _connect(self, retry: Mapping[str, Any]) -> Any:
        kind: Any = _STORES[self._place.scheme]
        try:
            return kind(
                self._place.bucket,
                prefix=self._place.path or None,
                config=self._config,
                client_options=self._client,
                retry_config=retry,
            )
        except obstore_errors.UnknownConfigurationKeyError as error:
            name = re.search(r"key: '([A-Za-z0-9_]+)'", str(error))
            raise InvalidInputError(
                f"unknown storage option {name.group(1) if name else ''} for {self.uri}",
                hint=f"{near_option(name[1] if name else '')}see docs/stores.md for the options of each store",
            ) from None
        except Exception as error:
            reason = scrub(_first_line(error), self._secrets)
            raise InvalidInputError(
                f"{self.uri} can't be opened with these options: {reason}", hint="check storage_options"
            ) from None

    def _raise(self, error: Exception, verb: str, key: str) -> NoReturn:
        raise _translate(error, verb, key, self) from None

    def __getstate__(self) -> dict[str, object]:
        return {"uri": self.uri, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["uri"], state["options"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"RemoteStore({self.uri})"


def _split(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """obstore keeps a bucket's settings and the HTTP client's apart; users should not have to."""
    config: dict[str, str] = {}
    client: dict[str, Any] = {"timeout": "30s", "connect_timeout": "5s"}
    for name, value in given.items():
        plain = name.removeprefix("aws_").removeprefix("azure_").removeprefix("google_")
        if plain in CLIENT_OPTIONS:
            client[plain] = value == "true" if plain == "allow_http" else value
        elif plain not in OWN_OPTIONS:
            config[name] = value
    return config, client


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "true")
    if value not in {"true", "false"}:
        raise InvalidInputError(f"{name} must be 'true' or 'false', got {value!a}")
    return value == "true"


def _endpoint(scheme: str, config: Mapping[str, str]) -> str:
    given = next((config[name] for name in _ENDPOINTS[scheme] if config.get(name)), "")
    return given or next((os.environ[name] for name in _ENDPOINT_VARIABLES[scheme] if os.environ.get(name)), "")


def _account(scheme: str, config: Mapping[str, str]) -> str:
    """Azure names a container below an account; elsewhere a bucket's name is enough."""
    if scheme != "az":
        return ""
    given = next((config[name] for name in _ACCOUNTS if name in config), "")
    return given or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:400]


def _translate(error: Exception, verb: str, key: str, store: RemoteStore) -> SiltstoneError:
    text = str(error)
    code = next(iter(_CODE.findall(text)), "")
    status = next(iter(_STATUS.findall(text)), "")
    what = f"{verb} {key} in {store.uri}" if key else f"{verb} {store.uri}"
    answer = " ".join(filter(None, (status, code)))
    facts = {"object": key, "verb": verb, "status": status}
    if code in {"NoSuchBucket", "ContainerNotFound"}:
        return InvalidInputError(f"{what}: the bucket does not exist", hint="create it, or correct the URI", **facts)
    if isinstance(error, obstore_errors.AlreadyExistsError | obstore_errors.PreconditionError):
        return AlreadyExistsError(f"{store.uri} already has an object {key}", **facts)
    if isinstance(error, FileNotFoundError | obstore_errors.NotFoundError):
        return NotFoundError(f"{store.uri} has no object {key}", **facts)
    denied = isinstance(error, obstore_errors.PermissionDeniedError | obstore_errors.UnauthenticatedError)
    if denied or status in {"401", "403"}:
        hint = f"check the credentials and that they allow {verb}"
        return PermissionDeniedError(f"{what}: not allowed ({answer or 'refused'})", hint=hint, **facts)
    if status == "416":
        return CorruptionError(f"{what}: it ends before the bytes that were asked for", **facts)
    if status == "507" or code in {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"}:
        return StoreFullError(f"{what}: the store is full ({answer})", hint="free some space", **facts)
    if isinstance(error, obstore_errors.InvalidPathError | obstore_errors.NotSupportedError):
        return InvalidInputError(f"{what}: {scrub(_first_line(error), store._secrets)}", **facts)  # noqa: SLF001
    reason = answer or scrub(_first_line(error), store._secrets)  # noqa: SLF001
    hint = "certificates are never skipped" if "certificate" in text else "check the endpoint and the network"
    if verb == "create" and status in REFUSED:
        hint = f"the store may refuse conditional puts: {REFUSING_REMEDY}"
    return UnavailableError(f"{what}: no usable answer ({reason})", hint=hint, **facts)
