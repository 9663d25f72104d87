"""A process that puts rows into a shard, as many as it is told to, and says each one that was acknowledged.

Its argument is a job in JSON: ``{"uri", "shard", "count"}``. Each line that it is given is a number of rows.
"""

from __future__ import annotations

import itertools
import json
import sys

import siltstone as ss
from shard_models import ids_of, rows_of


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    job = json.loads(sys.argv[1])
    ids = ids_of(job["shard"], job["count"])
    writer = ss.open(job["uri"]).shard(job["shard"]).writer()
    say(ready=True)
    for line in sys.stdin:
        for id_ in itertools.islice(ids, int(line)):
            writer.put(rows_of({id_: 1}))
            say(put=id_)
        if job.get("flush"):
            writer.freeze()


main()
