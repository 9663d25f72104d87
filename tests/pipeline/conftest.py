"""Files that arrive, and a pipeline that takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

import siltstone
from siltstone.pipeline import load_pipeline, run_pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from siltstone.api import Table
    from siltstone.pipeline import Report


class Yard(NamedTuple):
    """A directory with files for a pipeline, which is written and run there."""

    root: Path

    def write(self, steps: str, *, name: str = "yard.yaml", head: str = "") -> Path:
        path = self.root / name
        path.write_text(f"name: yard\n{head}vars: {{t: '${{here}}/table'}}\nsteps:\n{steps}", encoding="utf-8")
        return path

    def rows(self, directory: str, file: str, *ids: int, stars: int = 3, body: str = "x") -> None:
        (self.root / directory).mkdir(exist_ok=True)
        lines = [json.dumps({"id": one, "stars": stars, "body": body}) + "\n" for one in ids]
        (self.root / directory / file).write_text("".join(lines), encoding="utf-8")

    def run(self, spark: SparkSession | None, steps: str, *, run: str = "1", head: str = "") -> Report:
        return run_pipeline(load_pipeline(self.write(steps, head=head), run=run), spark=spark)

    def open(self, name: str = "table") -> Table:
        return siltstone.open(self.root / name)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)
