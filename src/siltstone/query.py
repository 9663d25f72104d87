"""Queries of ``table.search()``, as Python: what a user imports."""

from siltstone.index.highlight import snippets
from siltstone.index.query import Boolean, Boost, Fuzzy, Match, MultiMatch, Phrase, Prefix, Query

__all__ = ["Boolean", "Boost", "Fuzzy", "Match", "MultiMatch", "Phrase", "Prefix", "Query", "snippets"]
