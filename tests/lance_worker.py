"""A process that appends rows to a Lance dataset: says "ready", waits for a line, tells how each append went."""

from __future__ import annotations

import base64
import json
import pickle
import sys

import lance
import pyarrow as pa


def main() -> None:
    job = json.loads(sys.argv[1])
    lock = pickle.loads(base64.b64decode(job["lock"])) if job["lock"] else None
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(job["rows"]):
        row = pa.table({"writer": [job["writer"]], "number": [number]})
        try:
            options = job["storage_options"]
            lance.write_dataset(row, job["uri"], mode="append", storage_options=options, commit_lock=lock)
        except OSError as error:
            print(json.dumps({"number": number, "error": str(error)}), flush=True)
        else:
            print(json.dumps({"number": number, "error": ""}), flush=True)


main()
