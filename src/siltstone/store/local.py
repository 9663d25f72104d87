"""Objects as files below a directory: ``file:///path`` or a plain path.

What must hold:
- ``create`` is a hard link from a finished, synced file: whole or absent, one winner, on any POSIX
  file system that has hard links (where there are none, the error says so).
- With ``sync`` (the default) a returned ``create`` or ``put`` survives a power cut: the file and the
  directories that name it were synced. A refused ``create`` syncs the directory too, because the
  caller builds on the object that is there.
- No key leads out of the root, also not through a symbolic link.

obstore's own local store is not used: it never syncs, lists unsorted and follows links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from siltstone import paths
from siltstone.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    SiltstoneError,
    StoreFullError,
    UnavailableError,
    UnsafeStoreError,
)
from siltstone.ids import SystemIds
from siltstone.store.base import OBJECT_BYTES_MAX, ObjectInfo, Store, Traits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TEMP_START = ".siltstone-"
CHECKED_DIRECTORIES_MAX = 4096
WRITING = frozenset({"write", "create", "put", "sync"})
# O_NONBLOCK: a planted FIFO must not hang a reader.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalStore(Store):
    """Files below one directory, which the first write makes."""

    traits = Traits(kind="file", known_good=True, cheap_probes=True)

    def __init__(self, directory: str | Path, *, sync: bool = True) -> None:
        self.root = os.path.realpath(directory)
        self.uri = f"file://{self.root}"
        self.sync = sync
        self._ids = SystemIds()
        self._checked: set[str] = set()
        self._durable: set[str] = set()
        if os.path.lexists(self.root) and not Path(self.root).is_dir():
            raise InvalidInputError(f"{self.uri} is not a directory", hint="name a directory, or a path that is free")

    @property
    def domain(self) -> str:
        """The file system: what one directory of it does, the others do too."""
        place = Path(self.root)
        while not place.exists() and place != place.parent:
            place = place.parent
        return f"file:{place.stat().st_dev}"

    # -- reading -------------------------------------------------------------------------------

    def get(self, key: str, *, limit: int = OBJECT_BYTES_MAX) -> bytes:
        with self._open(key) as file:
            size = os.fstat(file).st_size
            if size > limit:
                raise CorruptionError(f"object {key} has {size} bytes, over the limit of {limit}", object=key)
            return _read(file, 0, size)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._open(key) as file:
            return [_read(file, start, end - start) for start, end in ranges]

    def read_into(self, key: str, start: int, into: memoryview) -> int:
        if not hasattr(os, "preadv"):  # older systems of Apple's
            return super().read_into(key, start, into)
        done = 0
        with self._open(key) as file:
            while done < len(into) and (count := os.preadv(file, [into[done:]], start + done)):
                done += count
        return done

    def head(self, key: str) -> ObjectInfo | None:
        try:
            with self._open(key) as file:
                facts = os.fstat(file)
        except NotFoundError:
            return None
        return ObjectInfo(key, facts.st_size, facts.st_mtime_ns // 1_000_000)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        start = paths.check_prefix(prefix)
        yield from self._walk(f"{start}/" if start else "", after)

    def _walk(self, start: str, after: str) -> Iterator[ObjectInfo]:
        directory = os.path.join(self.root, start)  # noqa: PTH118 - a hot path
        try:
            self._check_directory(directory.rstrip("/"))
            with os.scandir(directory) as entries:
                names = sorted(e.name + "/" if e.is_dir(follow_symlinks=False) else e.name for e in entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._raise(error, "list", start)
        for name in names:
            key = start + name
            if name.startswith(TEMP_START) or (key <= after and not after.startswith(key)):
                continue
            if name.endswith("/"):
                yield from self._walk(key, after)
            elif key > after:
                with contextlib.suppress(OSError):
                    facts = os.lstat(directory + name)
                    yield ObjectInfo(key, facts.st_size, facts.st_mtime_ns // 1_000_000)

    # -- writing -------------------------------------------------------------------------------

    def create(self, key: str, data: bytes) -> None:
        path = self._path(key)
        temporary = self._write_temporary(key, path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            self._sync_directory(path)
            raise AlreadyExistsError(f"{self.uri} already has an object {key}", object=key) from None
        except OSError as error:
            if error.errno in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}:
                raise UnsafeStoreError(
                    f"the file system of {self.uri} can't make hard links, so it can't create an object only once",
                    hint="use another directory, or a commit store such as sqlite:///path/to/claims.db",
                ) from error
            self._raise(error, "create", key)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
        self._sync_directory(path)

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        temporary = self._write_temporary(key, path, data)
        try:
            os.replace(temporary, path)  # noqa: PTH105
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            self._raise(error, "put", key)
        self._sync_directory(path)

    def copy(self, source: str, target: str) -> None:
        with self._open(source) as file:
            data = _read(file, 0, os.fstat(file).st_size)
        self.put(target, data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                os.unlink(self._path(key))  # noqa: PTH108
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                self._raise(error, "delete", key)

    def sweep(self, *, before_ms: int, remove: bool) -> Sequence[ObjectInfo]:
        found = []
        for directory, _, names in os.walk(self.root):
            for name in names:
                if not name.startswith(TEMP_START):
                    continue
                path = f"{directory}/{name}"
                with contextlib.suppress(OSError):  # its writer ended after all
                    facts = os.lstat(path)
                    info = ObjectInfo(path[len(self.root) + 1 :], facts.st_size, facts.st_mtime_ns // 1_000_000)
                    if info.modified_ms < before_ms:
                        if remove:
                            os.unlink(path)  # noqa: PTH108
                        found.append(info)
        return found

    def _write_temporary(self, key: str, path: str, data: bytes) -> str:
        directory = os.path.dirname(path)  # noqa: PTH120
        temporary = f"{directory}/{TEMP_START}{self._ids.new()}"
        try:
            try:
                file = os.open(temporary, _WRITE_FLAGS, 0o644)
            except FileNotFoundError:
                self._make_directories(directory)
                self._check_directory(directory)
                file = os.open(temporary, _WRITE_FLAGS, 0o644)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
                if self.sync:
                    os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            self._raise(error, "write", key)
        return temporary

    def _make_directories(self, directory: str) -> None:
        missing = []
        while not os.path.isdir(directory):  # noqa: PTH112
            missing.append(directory)
            directory = os.path.dirname(directory)  # noqa: PTH120
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)  # noqa: PTH102
            self._sync_directory(path)

    def _sync_directory(self, path: str) -> None:
        """Make the name of ``path`` last, and once for each handle those of the directories above it.

        Another may have made a directory and died before it was synced. Every error here comes after the
        effect, so it is one of an unknown outcome.
        """
        if not self.sync:
            return
        directory = os.path.dirname(path)  # noqa: PTH120
        above = os.path.dirname(self.root)  # noqa: PTH120
        try:
            _sync(directory)
            while directory not in self._durable and directory != above:
                if len(self._durable) < CHECKED_DIRECTORIES_MAX:
                    self._durable.add(directory)
                directory = os.path.dirname(directory)  # noqa: PTH120
                with contextlib.suppress(PermissionError):  # nobody just made a directory that we may not even read
                    _sync(directory)
        except OSError as error:
            raise UnavailableError(
                f"{path} was written, but its directory can't be synced: {os.strerror(error.errno or 0).lower()}",
                hint="it may not survive a power cut; check the disk, or open the store with sync=False",
                object=path,
            ) from error

    # -- names ---------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        paths.check_key(key)
        if TEMP_START in key:
            raise InvalidInputError(f"object key {key!a} holds {TEMP_START!r}, which is kept for unfinished files")
        path = f"{self.root}/{key}"
        self._check_directory(os.path.dirname(path))  # noqa: PTH120
        return path

    def _check_directory(self, directory: str) -> None:
        if directory in self._checked or directory == self.root:
            return
        real = os.path.realpath(directory)
        if real != directory:
            raise InvalidInputError(
                f"{directory} leads through a symbolic link to {real}, outside of what {self.uri} names",
                hint="replace the link by a directory",
            )
        if len(self._checked) < CHECKED_DIRECTORIES_MAX and os.path.isdir(directory):  # noqa: PTH112
            self._checked.add(directory)

    @contextlib.contextmanager
    def _open(self, key: str) -> Iterator[int]:
        path = self._path(key)
        try:
            file = os.open(path, _READ_FLAGS)
        except OSError as error:
            self._raise(error, "get", key)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NotFoundError(f"{self.uri} has no object {key}", object=key, verb="get")
            yield file
        except OSError as error:
            self._raise(error, "get", key)
        finally:
            os.close(file)

    def _raise(self, error: OSError, verb: str, key: str) -> NoReturn:
        raise _translate(error, verb, key, self.uri) from error

    def __getstate__(self) -> dict[str, object]:
        return {"directory": self.root, "sync": self.sync}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(str(state["directory"]), sync=bool(state["sync"]))  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"LocalStore({self.uri}{'' if self.sync else ', sync=False'})"


def _sync(directory: str) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # file systems that sync names by themselves
            raise
    finally:
        os.close(file)


def _read(file: int, start: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = os.pread(file, length, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _translate(error: OSError, verb: str, key: str, uri: str) -> SiltstoneError:
    code = error.errno
    reason = os.strerror(code or 0).lower()
    facts = {"object": key, "verb": verb}
    if code in {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}:
        if verb in WRITING:
            hint = "use a directory where files can be made"
            return InvalidInputError(f"{verb} {uri}/{key}: {reason}", hint=hint, **facts)
        return NotFoundError(f"{uri} has no object {key}", **facts)
    if code == errno.ELOOP:
        return InvalidInputError(f"{uri}/{key} is a symbolic link", hint="replace it by a file", **facts)
    if code in {errno.EACCES, errno.EPERM, errno.EROFS}:
        hint = "give this user the right to " + ("read" if verb in {"get", "list"} else "write") + " there"
        return PermissionDeniedError(f"{verb} {uri}/{key}: {reason}", hint=hint, **facts)
    if code in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return StoreFullError(f"{verb} {uri}/{key}: {reason}", hint="free some space; nothing was written", **facts)
    if code in {errno.ENAMETOOLONG, errno.EINVAL, errno.EEXIST}:
        hint = "choose a shorter path" if code == errno.ENAMETOOLONG else "use a directory where files can be made"
        return InvalidInputError(f"{verb} {uri}/{key}: {reason}", hint=hint, **facts)
    return UnavailableError(f"{verb} {uri}/{key}: {reason}", **facts)
