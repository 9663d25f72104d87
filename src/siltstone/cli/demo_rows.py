"""The reviews of the demo: made up, the same every time, and what each step must make of them.

What must hold: what is expected is worked out here from the rows alone, by other means than the tables use.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILES = 8
ROWS_EACH = 5_000
ROWS = FILES * ROWS_EACH
CORRECTED = 1_500  # of the rows that are there
ADDED = 500
DELETE = "stars = 1 and lang = 'fr'"
PHRASE = "arrived late"
QUERY = f'+shining "{PHRASE}" -radio'  # reviews say "shines": words are found by their stems
BEST = 3
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("product", pa.string()),
        pa.field("stars", pa.int32()),
        pa.field("lang", pa.string()),
        pa.field("body", pa.string()),
        pa.field("time", pa.timestamp("us", "UTC")),
    ]
)
_BEGIN_US = 1_767_225_600_000_000  # 2026 in UTC
_LANGUAGES = ("de", "en", "fr", "ja", None)
_THINGS = ("kettle", "lamp", "desk", "tent", "radio", "bicycle", "drill", "mirror", "clock")
_WORDS = ("arrived late", "works well", "broke at once", "is as shown", "was a gift", "makes noise", "shines")


def reviews(first: int, count: int, *, note: str = "") -> pa.Table:
    """Reviews with the ids from ``first`` on; ``note`` is put before what they say."""
    ids = np.arange(first, first + count, dtype=np.int64)
    mixed = (ids * 2_654_435_761) % 2**32  # the same for an id in every file
    things = _pick(_THINGS, mixed // 7)
    bodies = pc.binary_join_element_wise(things, _pick(_WORDS, mixed // 11), _pick(_WORDS, mixed // 13), " ")
    columns = [
        pa.array(ids),
        pc.binary_join_element_wise(things, pa.array((mixed % 90).astype(np.str_)), "-"),
        pa.array((mixed // 3 % 5 + 1).astype(np.int32)),
        _pick(_LANGUAGES, mixed // 17),
        pc.binary_join_element_wise(pa.array([note] * count), bodies, ""),
        pa.array(_BEGIN_US + ids * 1_000_000).cast(pa.timestamp("us", "UTC")),
    ]
    return pa.table(columns, schema=SCHEMA)


def written() -> pa.Table:
    """All that arrives in files."""
    return reviews(0, ROWS)


def corrections() -> pa.Table:
    """Some of the last rows again, with another text, and some that are new."""
    return reviews(ROWS - CORRECTED, CORRECTED + ADDED, note="corrected: ")


def corrected() -> pa.Table:
    """What is there after the corrections."""
    kept = written().filter(pc.less(pc.field("id"), ROWS - CORRECTED))
    return pa.concat_tables([kept, corrections()])


def deleted() -> pa.Table:
    """What is there after the delete."""
    gone = (pc.field("stars") == 1) & (pc.field("lang") == "fr")
    return corrected().filter(~pc.if_else(gone.is_null(), pc.scalar(False), gone))


def finished() -> pa.Table:
    """What is there at the end: where no language is named, it is English."""
    rows = deleted()
    return rows.set_column(SCHEMA.get_field_index("lang"), SCHEMA.field("lang"), pc.fill_null(rows["lang"], "en"))


def unnamed() -> int:
    """How many rows the update changes."""
    return int(deleted()["lang"].null_count)


def matching() -> pa.Table:
    """What the search must find."""
    rows = finished()
    has, lacks = (pc.match_substring(rows["body"], one) for one in ("shines", "radio"))
    return rows.filter(pc.and_(has, pc.invert(lacks)))


def stars_by_language() -> list[tuple[str, int]]:
    """The answer to the question at the end."""
    rows = finished().group_by("lang").aggregate([("stars", "sum")]).sort_by("lang")
    return list(zip(rows["lang"].to_pylist(), rows["stars_sum"].to_pylist(), strict=True))


def write_arrivals(directory: Path) -> None:
    """The files, each as a whole: a stream must not see half of one. Those that are there stay."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        path = directory / f"reviews-{number}.json"
        if not path.exists():
            rows = reviews(number * ROWS_EACH, ROWS_EACH).to_pylist()
            hidden = directory / f".{path.name}"
            hidden.write_text("".join(f"{json.dumps(row, default=_time_text)}\n" for row in rows), encoding="utf-8")
            hidden.rename(path)


def _time_text(value: object) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}"


def _pick(values: Sequence[str | None], numbers: np.ndarray) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(numbers % len(values)))
