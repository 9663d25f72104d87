"""The command line: the library's nouns and verbs, for people and for scripts."""

from siltstone.cli.run import main

__all__ = ["main"]
