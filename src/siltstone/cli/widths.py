"""How much room texts take on a terminal, and how columns share what there is.

What must hold: what is cut says so; nothing is wider than it was given room for.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

CELL_WIDTH_MAX = 40  # on a terminal, while there are other columns
CELL_WIDTH_LEAST = 4
GAP = "  "
CUT = "…"


def width_of(text: str) -> int:
    """How many places a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def cut(text: str, width: int) -> str:
    """As much of a text as so many places of a terminal hold."""
    if width_of(text) <= width:
        return text
    kept, used = [], 0
    for one in text:
        size = width_of(one)
        if used + size > width - 1:
            break
        kept.append(one)
        used += size
    return "".join(kept) + CUT


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A cell of a column."""
    room = " " * (width - width_of(text))
    return room + text if right else text + room


def fitted(needed: Sequence[int], width: int, *, whole: Container[int] = ()) -> list[int]:
    """Widths that fit a terminal: wide columns give way first, those in ``whole`` never.

    Where even that is not enough, lines are long.
    """
    kept = [number in whole for number in range(len(needed))]
    widths = [
        one if keep or len(needed) == 1 else min(one, CELL_WIDTH_MAX) for one, keep in zip(needed, kept, strict=True)
    ]
    room = width - len(GAP) * (len(widths) - 1)
    while sum(widths) > room:
        widest = max((one for one, keep in zip(widths, kept, strict=True) if not keep), default=0)
        if widest <= CELL_WIDTH_LEAST:
            break
        widths[next(at for at, one in enumerate(widths) if one == widest and not kept[at])] -= 1
    # What is left goes to those that were cut.
    for number, one in enumerate(needed):
        spare = room - sum(widths)
        if spare > 0 and widths[number] < one:
            widths[number] += min(spare, one - widths[number])
    return widths
