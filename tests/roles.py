"""What writers of tables do, as data: dicts that ``perform`` runs on a table, and ``replay`` on a plain dict."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from replay import digest

POOL = 400  # keys below are everybody's; those above belong to whoever appended them
OWN = 1_000_000
EXTRAS_MAX = 2


# -- performing ----------------------------------------------------------------------------------------


def perform(table, operation: dict) -> dict:
    """Run an operation; the facts that its caller was told."""
    if operation["do"] == "compact":
        done = table.compact()
        return {"version": done.state.version, "noop": not done.versions}
    if operation["do"] == "read":
        pinned = table.at(version=table.version)
        return {"version": pinned.version, "noop": True, "digest": digest(pinned.scan().to_arrow())}
    if operation["do"] == "transaction":
        with table.transaction(once=operation.get("once"), message=operation.get("message", "")) as transaction:
            for part in operation["parts"]:
                do(transaction, part)
        return told(transaction.result)
    return told(do(table, operation))


def told(version) -> dict:
    return {
        "version": version.version,
        "noop": version.operation == "none",
        "counts": [version.inserted, version.updated, version.deleted],
    }


def do(target, operation: dict):
    """One operation on a table or a transaction."""
    kind = operation["do"]
    if kind in {"append", "upsert", "overwrite"}:
        return getattr(target, kind)(operation["rows"] if "rows" in operation else many_rows(**operation["many"]))
    if kind == "delete":
        return target.delete("score % {mod} = {rest} and id < {below}".format(**operation))
    if kind == "update":
        where = "id % {mod} = {rest} and id >= {low} and id < {high}".format(**operation)
        return target.update(
            {"score": f"score + {operation['plus']}", "note": f"concat(note, '+{operation['plus']}')"}, where
        )
    if kind == "add_column":
        return target.add_column(operation["name"], pa.int64(), default=operation["default"])
    if kind == "rename_column":
        return target.rename_column(operation["name"], operation["to"])
    if kind == "restore":
        return target.restore(version=operation["version"])
    assert kind == "drop_column"
    return target.drop_column(operation["name"])


# -- rows ----------------------------------------------------------------------------------------------


def many_rows(*, first: int, count: int, worker: int) -> pa.Table:
    """Rows with keys from ``first`` on."""
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "worker": [worker] * count})


def make_rows(table, ids, chance) -> list[dict]:
    """Rows with these keys, and a value for every column that the handle knows of."""
    extras = [one for one in table.schema if one.name not in {"id", "score", "note"}]
    return [
        {"id": id_, "score": chance.randrange(1000), "note": f"n{chance.randrange(100)}"}
        | {one.name: None if one.nullable and id_ % 5 == 0 else id_ % 1000 for one in extras}
        for id_ in ids
    ]


def pool_ids(chance) -> list[int]:
    return chance.sample(range(POOL), chance.randrange(1, 12))


# -- roles: each is called with a table, a book, its job, a random source and the number of the round --------


def appender(table, book, job, chance, turn) -> None:
    """``count`` appends of ``rows`` rows that nobody else has."""
    for number in range(job["count"]):
        first = job["number"] * OWN + number * job["rows"]
        book(table, {"do": "append", "many": {"first": first, "count": job["rows"], "worker": job["number"]}})


def threads(table, book, job, chance, turn) -> None:
    """Eight threads share the handle; each appends rows that nobody else has, and a row that all of them have."""

    def run(number: int) -> None:
        for again in range(job["count"]):
            first = job["number"] * OWN + (number * job["count"] + again) * 100
            book(
                table, {"do": "append", "rows": [{"id": first + 1 + row, "score": 0, "note": ""} for row in range(10)]}
            )
            book(table, {"do": "append", "rows": [{"id": again, "score": job["number"] * 10 + number, "note": ""}]})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))


def same_key(table, book, job, chance, turn) -> None:
    """One row with the key that all have in this round."""
    book(table, {"do": job["do"], "rows": [{"id": turn, "score": job["number"], "note": ""}]})


def transactions(table, book, job, chance, turn) -> None:
    """The same transaction that all have in this round."""
    rows = [{"id": turn * 100 + number, "score": job["number"], "note": ""} for number in range(20)]
    delete = {"do": "delete", "mod": 1, "rest": 0, "below": turn * 100 - 100}
    book(table, {"do": "transaction", "once": f"job-{turn}", "parts": [delete, {"do": "append", "rows": rows}]})


def again_and_again(table, book, job, chance, turn) -> None:
    """The same transaction until it is killed."""
    rows = [{"id": job["first"] + number, "score": job["number"], "note": ""} for number in range(20)]
    while True:
        book(table, {"do": "transaction", "once": job["once"], "parts": [{"do": "append", "rows": rows}]})


def until_over(role):
    """The role again and again for ``seconds``, with a rest of up to ``rest_s`` between, as writers have."""

    def again(table, book, job, chance, turn) -> None:
        end = time.monotonic() + job["seconds"]
        number = 0
        while time.monotonic() < end:
            number += 1
            role(table, book, job, chance, number)
            time.sleep(chance.uniform(0, job.get("rest_s", 0)))

    return again


def appends(table, book, job, chance, number) -> None:
    first = (job["number"] + 1) * OWN + number * 100
    book(table, {"do": "append", "rows": make_rows(table, range(first, first + chance.randrange(1, 30)), chance)})
    if number % 3 == 0:  # keys that may be there: then it is refused
        book(table, {"do": "append", "rows": make_rows(table, pool_ids(chance)[:2], chance)})


def upserts(table, book, job, chance, number) -> None:
    ids = pool_ids(chance)
    if number % 4 == 0:
        ids += (
            table.scan(["id"], where=f"id >= {OWN} and id % 7 = {chance.randrange(7)}", limit=20)
            .to_arrow()["id"]
            .to_pylist()
        )
    book(table, {"do": "upsert", "rows": make_rows(table, ids, chance)})


def deletes(table, book, job, chance, number) -> None:
    below = chance.choice([POOL // 2, POOL, 10 * OWN])
    mod = chance.choice([7, 11, 13]) if below < OWN else 17
    book(table, {"do": "delete", "mod": mod, "rest": chance.randrange(mod), "below": below})
    updates(table, book, job, chance, number)


def updates(table, book, job, chance, number) -> None:
    low = chance.choice([0, POOL // 2, OWN, 2 * OWN])
    mod = chance.choice([5, 9, 31])
    span = {"low": low, "high": low + chance.choice([100, POOL, OWN])}
    book(table, {"do": "update", "plus": chance.randrange(1, 4), "mod": mod, "rest": chance.randrange(mod), **span})


def compacts(table, book, job, chance, number) -> None:
    book(table, {"do": "compact"})
    book(table, {"do": "read"})


def columns(table, book, job, chance, number) -> None:
    """Adds a column, renames it, drops it; at most two at a time. Names are never used again."""
    extras = [name for name in table.schema.names if name.startswith(("extra", "named"))]
    fresh = [name for name in extras if name.startswith("extra")]
    if len(extras) >= EXTRAS_MAX and not fresh:
        book(table, {"do": "drop_column", "name": extras[0]})
    elif fresh and chance.random() < 0.5:
        book(table, {"do": "rename_column", "name": fresh[0], "to": fresh[0].replace("extra", "named")})
    elif len(extras) < EXTRAS_MAX:
        default = chance.choice([None, number])
        book(table, {"do": "add_column", "name": f"extra_{job['number']}_{number}", "default": default})
    book(table, {"do": "read"})


def retries(table, book, job, chance, number) -> None:
    """A transaction that several workers run, some of them more than once: it is applied once."""
    left = chance.randrange(1, 3)
    while left:
        parts = [
            {"do": "delete", "mod": 19, "rest": chance.randrange(19), "below": POOL},
            {"do": "upsert", "rows": make_rows(table, pool_ids(chance), chance)},
        ]
        facts = book(table, {"do": "transaction", "once": f"{job.get('once', '')}-{number}", "parts": parts})
        if facts.get("error") not in {
            "schema-mismatch",
            "conflict",
        }:  # the columns were changed since the rows were made
            left -= 1


appending, upserting, deleting, compacting, evolving, retrying = map(
    until_over, (appends, upserts, deletes, compacts, columns, retries)
)


@until_over
def everything(table, book, job, chance, number) -> None:
    """One thing after another, by chance."""
    chance.choice([appends, appends, upserts, deletes, updates, compacts, columns, retries])(
        table, book, job, chance, number
    )
