"""``pipeline`` and its verbs as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_group, add_verb

if TYPE_CHECKING:
    import argparse

    from siltstone.cli.options import Verbs

RUN_SHAPE = ("name", "run", "did", "seconds", "steps")
CHECK_SHAPE = ("name", "run", "master", "steps")
_TEACHES = """\
A file names the steps: files that arrive are streamed in, corrections are upserted, rows are deleted and updated,
tables are tagged, compacted, asked and checked. docs/pipeline.md has every key.

Examples:
  siltstone pipeline check nightly.yaml
  siltstone pipeline run nightly.yaml --run 2026-11-14
"""
_RUN = """\
Steps that were applied before in the same run are not applied again: after a crash, or after mending the step that
failed, the same command goes on where it stopped. The tables' own logs know what was applied. For new work, such as
the next night, give --run another name.

Examples:
  siltstone pipeline run nightly.yaml --run 2026-11-14
  siltstone pipeline run nightly.yaml --run 2026-11-14 --master spark://host:7077 --set root=s3://lake/reviews
"""
_CHECK = """\
Nothing is opened or changed: only the file is read, and its variables filled in.

Example:
  siltstone pipeline check nightly.yaml --set root=s3://lake/reviews
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs of ``pipeline``."""
    inside = add_group(
        verbs, "pipeline", inside=("run", "check"), says="Run the steps of a file on Spark.", teaches=_TEACHES
    )
    run = add_verb(
        inside, "run", "pipeline.run_run", says="Run a pipeline, or go on with it.", teaches=_RUN, shape=RUN_SHAPE
    )
    _add_file(run)
    run.add_argument("--master", metavar="URL", help="the Spark master, such as local[2]; wins over the file's")
    check = add_verb(
        inside, "check", "pipeline.run_check", says="Is this file right?", teaches=_CHECK, shape=CHECK_SHAPE
    )
    _add_file(check)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    parser.add_argument(
        "--run", dest="run_id", default="1", metavar="NAME", help="the name of the run (default %(default)s)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable; wins over the file's; repeatable"
    )
