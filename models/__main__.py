"""``python models``: check every variant; exit 1 where one that must hold breaks, or the other way round."""

from __future__ import annotations

import sys

import finalize
import floor
import retention
import wal
from checker import check

MODELS = {"finalize": finalize.VARIANTS, "floor": floor.VARIANTS, "retention": retention.VARIANTS, "wal": wal.VARIANTS}


def main() -> int:
    surprises = 0
    for model, variants in MODELS.items():
        for name, (variant, must_hold) in variants.items():
            verdict = check(variant)
            surprises += verdict.holds != must_hold
            said = "holds" if verdict.holds else f"breaks: {verdict.wrong}"
            print(f"{'  ' if verdict.holds == must_hold else '!!'} {model}: {name}: {said} ({verdict.states:,} states)")
            for number, label in enumerate(verdict.trace if verdict.holds != must_hold else (), 1):
                print(f"     {number}. {label}")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
