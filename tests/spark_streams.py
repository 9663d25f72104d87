"""Files that arrive, and streams of them."""

from __future__ import annotations

import json

ROWS = 20  # of each file


def write_files(directory, count: int, *, first: int = 0) -> None:
    """Files of rows; each appears as a whole."""
    directory.mkdir(exist_ok=True)
    for number in range(first, first + count):
        text = "".join(json.dumps({"id": number * ROWS + row, "x": number}) + "\n" for row in range(ROWS))
        hidden = directory / f".{number}"
        hidden.write_text(text)
        hidden.rename(directory / f"{number:04}.json")


def stream_of(spark, directory, *, files: int = 1):
    """The files of a directory as a stream, so many in a batch."""
    return spark.readStream.schema("id long, x long").option("maxFilesPerTrigger", files).json(str(directory))


def finish(query) -> None:
    """Wait until a query that ends by itself has; raise what it failed with."""
    query.awaitTermination(240)
    assert not query.isActive
    if query.exception() is not None:
        raise query.exception()
