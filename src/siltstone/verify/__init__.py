"""Finding out what is wrong with logs, and mending it."""

from siltstone.verify.inspect import verify
from siltstone.verify.repair import repair
from siltstone.verify.report import LogReport, Problem

__all__ = ["LogReport", "Problem", "repair", "verify"]
