"""What the doctor's lines are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "no", "unknown"]


@dataclass(frozen=True)
class Check:
    """Something that was looked at: ``no`` is wrong and needed, ``unknown`` is missing, not known or not tried."""

    part: str
    what: str
    state: State
    detail: str
    advice: str = ""
