"""``python models [--large]``: check every variant; exit 1 where one that must hold breaks, or the other way round."""

from __future__ import annotations

import argparse
import sys
import time

import external
import finalize
import floor
import loud
import retention
import wal
from checker import check

import commit

MODELS = (commit, external, finalize, floor, loud, retention, wal)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python models", description="check every variant of every model")
    parser.add_argument("--large", action="store_true", help="larger settings too: 42 million states more, minutes")
    large = parser.parse_args().large
    surprises = states = variants = 0
    began = time.monotonic()
    for model in MODELS:
        for name, (variant, must_hold) in (model.VARIANTS | (getattr(model, "LARGE", {}) if large else {})).items():
            verdict = check(variant)
            surprises += verdict.holds != must_hold
            states += verdict.states
            variants += 1
            said = "holds" if verdict.holds else f"breaks: {verdict.wrong}"
            mark = "  " if verdict.holds == must_hold else "!!"
            print(f"{mark} {model.__name__}: {name}: {said} ({verdict.states:,} states)", flush=True)
            for number, label in enumerate(verdict.trace if verdict.holds != must_hold else (), 1):
                print(f"     {number}. {label}")
    print(f"{variants} variants, {states:,} states, {time.monotonic() - began:.0f} s, {surprises} surprises")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
