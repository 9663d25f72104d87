"""``version``, ``doctor`` and ``completion`` as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cli.options import add_store, add_verb

if TYPE_CHECKING:
    from siltstone.cli.options import Verbs

SHELLS = ("bash", "zsh", "tcsh")

_VERSION = """\
Example:
  siltstone version --json
"""
_DOCTOR = """\
Looks at what siltstone needs here, and with URI at the store and the tables there: versions of packages and which
extras are installed, Java and Spark, limits and disk space of this machine, whether the store and the commit store can
be reached and what may be done there, and clocks. Each line is ok, NO where something that is needed is wrong, or --
where something is not there, not known or was not tried, with what to do. Shows no secrets. Nothing is written unless
--write says so. Exit code 1 where a line says NO.

Examples:
  siltstone doctor
  siltstone doctor s3://bucket/reviews --commits postgresql://me@db.example.com/commits --write
  siltstone doctor --spark --json
"""
_COMPLETION = """\
Prints a script that lets the shell complete verbs, options, formats and files. For good:
  bash   siltstone completion bash > ~/.local/share/bash-completion/completions/siltstone
  zsh    siltstone completion zsh > DIR/_siltstone, in a directory DIR of $fpath
  tcsh   siltstone completion tcsh > ~/.siltstone.tcsh, and source that in ~/.tcshrc

Examples:
  siltstone completion bash
  siltstone completion zsh --json
"""


def add_verbs(verbs: Verbs) -> None:
    """The verbs about the command itself."""
    parser = add_verb(
        verbs,
        "doctor",
        "doctor.run_doctor",
        says="Is everything here that siltstone needs?",
        teaches=_DOCTOR,
        shape=("ok", "uri", "checks"),
    )
    add_store(parser, what="a store or a table to look at", needed=False)
    parser.add_argument("--write", action="store_true", help="try the store with an object of its own, then remove it")
    parser.add_argument("--spark", action="store_true", help="start a Spark session, and stop it")

    parser = add_verb(
        verbs,
        "completion",
        "completion.run_completion",
        says="Print a script that completes command lines.",
        teaches=_COMPLETION,
        shape=("shell", "script"),
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))

    shape = ("siltstone", "python", "obstore", "format", "frame", "commit_stores")
    add_verb(verbs, "version", "about.run_version", says="What is installed here.", teaches=_VERSION, shape=shape)
