"""Bytes that something happened to."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

NUMBERS = (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def mutate(data: bytes, dice: random.Random) -> bytes:
    """A few bits flipped, the end cut off, a piece put in, taken out or doubled, or a number replaced."""
    out = bytearray(data)
    place, length = dice.randrange(len(out)), dice.randrange(1, 9)
    how = dice.randrange(7)
    if how < 3:
        for _ in range(dice.choice((1, 1, 3))):
            out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    elif how == 3:
        del out[place:]
    elif how == 4:
        out[place : place + dice.randrange(9)] = dice.randbytes(length)
    elif how == 5:
        out[place:place] = out[place : place + length]
    else:
        out[place : place + 8] = struct.pack("<Q", dice.choice(NUMBERS))
    return bytes(out)
