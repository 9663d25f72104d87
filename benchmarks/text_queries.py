"""Queries for a corpus, drawn by a seed: words that stand together in one of its texts.

What must hold: the same texts and seed give the same queries. Words are taken from a text's distinct words, each as
likely as the other, so that common and rare ones are mixed; stop words are left out, which some would ignore.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from text_peers import COLUMN, Query

if TYPE_CHECKING:
    import pyarrow as pa

# Plain words, which every tokenizer takes for one.
_WORD = re.compile(r"(?<![\w'])[a-z]{3,16}(?![\w'])")
_PAIR = re.compile(r"(?<![\w'])(?=([a-z]{3,16}) ([a-z]{3,16})(?![\w']))")
# Whatever one of the peers leaves out as a stop word.
_STOP = frozenset(
    re.findall(
        r"\w+",
        """
        about above after again against all also and any are because been before being below between both but
        can cannot could did does doing down during each few for from further had has have having her here
        hers herself him himself his how into its itself just more most myself nor not now off once only other
        our ours ourselves out over own same she should some such than that the their theirs them themselves
        then there these they this those through too under until very was were what when where which while who
        whom why will with would you your yours yourself yourselves may must shall might one two
        """,
    )
)
CLASSES = {"1 term": 1, "2 terms": 2, "5 terms": 5}
PHRASE = "phrase of 2"
TRIES_MAX = 1_000


def draw(rows: pa.Table, *, each: int, seed: int = 7) -> dict[str, list[Query]]:
    """So many queries of each class."""
    rng = random.Random(seed)
    texts = rows[COLUMN]

    def text() -> str:
        return texts[rng.randrange(len(texts))].as_py().lower()  # type: ignore[no-any-return]

    def words(count: int) -> Query:
        for _ in range(TRIES_MAX):
            there = sorted(set(_WORD.findall(text())) - _STOP)
            if len(there) >= count:
                return Query(tuple(rng.sample(there, count)))
        raise AssertionError(f"no text has {count} words")

    def phrase() -> Query:
        for _ in range(TRIES_MAX):
            there = [pair for pair in _PAIR.findall(text()) if not _STOP.intersection(pair) and pair[0] != pair[1]]
            if there:
                return Query(rng.choice(there), phrase=True)
        raise AssertionError("no text has two words side by side")

    drawn = {name: [words(count) for _ in range(each)] for name, count in CLASSES.items()}
    return drawn | {PHRASE: [phrase() for _ in range(each)]}
