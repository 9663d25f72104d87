"""Writes the logs of `tests/compat/v1`: format 1, one log for each way that entries are published and guarded.

``python tests/compat/make_v1.py DIRECTORY`` wrote the one that is committed. It is not run again for this format: what
an older siltstone wrote must stay readable as it is. A new format gets a script and a directory of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from siltstone import open_commits, open_log
from siltstone.commit.registry import Claim
from siltstone.store.local import LocalStore
from siltstone.store.wrapper import StoreWrapper
from siltstone.testing.manual import SeededIds, manual_env

COMMITS = "sqlite:claims.db"  # recorded as given by the siltstone that wrote v1, so no machine's path is in it


class Untrusted(StoreWrapper):
    """A store that nobody vouches for, on which places decided elsewhere are published by fork."""

    def __init__(self, directory):
        super().__init__(LocalStore(directory))
        self.traits = self.traits._replace(known_good=False)


def add(log, *bodies, epoch=None):
    return [log.add(body, epoch=epoch) for body in bodies]


def write_plain(directory, env):
    """Decided by the store; fenced once; a floor that is too young for anything below it to be deleted."""
    with open_log(directory, create=True, writer="first", env=env) as log:
        marks = add(log, b"one", b"", b"three\0\xff")
    with open_log(directory, writer="second", env=env) as log:
        log.fence(7)
        log.truncate(marks[0])
        add(log, "größer".encode(), epoch=7)


def write_witnessed(directory, env):
    """Decided by the store; a witness beside every entry."""
    with open_log(directory, create=True, guard="witness", env=env) as log:
        add(log, b"seen", b"seen again")


def write_forked(directory, env, registry):
    """Decided by a commit store, published by fork; the first two entries deleted; a place that was given up."""
    with open_log(Untrusted(directory), commits=registry, create=True, trust_ms=0, probe=False, env=env) as log:
        marks = add(log, b"gone", b"gone too", b"kept")
        log.fence(2)
        log.truncate(marks[1])
        add(log, b"last")


def write_aborted(directory, env, registry):
    """Decided by a commit store, published by create; place 1 was claimed by a writer whose bytes were lost."""
    with open_log(directory, commits=registry, create=True, env=env) as log:
        [mark] = add(log, b"before")
        staged = f"staged/{1:020d}-{env.ids.new()}"
        registry.claim(Claim(log.identity.log, 1, "ab" * 32, mark.digest, staged))
        add(log, b"after")


def write_all(directory, env, registry):
    write_plain(directory / "plain", env)
    write_witnessed(directory / "witnessed", env)
    write_forked(directory / "forked", env, registry)
    write_aborted(directory / "aborted", env, registry)


def expected(directory):
    """What the logs hold, as JSON can say it."""
    found = {}
    for name in ("plain", "witnessed", "forked", "aborted"):
        log = open_log(directory / name)
        found[name] = {
            "log": log.identity.log,
            "floor": log.first().position,
            "tip": [*log.tip()],
            "entries": [
                {
                    "position": entry.position,
                    "epoch": entry.epoch,
                    "kind": entry.kind,
                    "op": entry.op,
                    "writer": entry.writer,
                    "body": entry.body.hex(),
                    "digest": entry.digest,
                }
                for entry in log.entries()
            ],
        }
    return found


def main(directory: Path) -> None:
    directory.mkdir(parents=True)
    os.chdir(directory)
    with contextlib.closing(open_commits(COMMITS, ids=SeededIds(1))) as registry:
        write_all(Path(), manual_env(1), registry)
    Path("expected.json").write_text(json.dumps(expected(Path()), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
