"""Logs to be damaged, and what the command line says of them."""

from __future__ import annotations

from siltstone.log import open_log


def fill(uri, bodies, **options):
    """Marks behind the entries added."""
    with open_log(uri, create=True, **options) as log:
        return [log.add(body) for body in bodies]


def bodies(uri, **options):
    """Bodies of the data entries."""
    return [entry.body for entry in open_log(uri, **options).entries() if entry.kind == "data"]


def faults(result):
    """(fault, position) of each problem in a JSON document."""
    return [(problem["fault"], problem["position"]) for log in result.json["logs"] for problem in log["problems"]]
