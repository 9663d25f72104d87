"""The page and the dashboard name what is told, all of it, and nothing else."""

from __future__ import annotations

import json
import re

from siltstone.telemetry import events, metrics
from sources import ROOT
from telemetry_worlds import all_of_it

PAGE = (ROOT / "docs/observe.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((ROOT / "docs/telemetry/dashboard.json").read_text(encoding="utf-8"))
UNITS = {"s": "seconds", "By": "bytes"}


def rows(heading):
    """The cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| "]
    return found[1:]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def prometheus(metric):
    """What Prometheus calls a metric's series, as OpenTelemetry's exporters name them."""
    base = metric.name.replace(".", "_")
    unit = UNITS.get(metric.unit, "")
    if unit and not base.endswith(unit):
        base += f"_{unit}"
    if metric.kind == "counter":
        return {f"{base}_total": {*metric.attributes}}
    labels = {*metric.attributes}
    return {f"{base}_bucket": {*labels, "le"}, f"{base}_sum": labels, f"{base}_count": labels}


def panels(found):
    for one in found:
        yield one
        yield from panels(one.get("panels", []))


def test_page__its_metrics__are_those_that_there_are():
    listed = {
        names(name)[0]: (kind, names(unit)[0], tuple(names(have))) for name, kind, unit, have, _ in rows("Metrics")
    }
    assert listed == {one.name: (one.kind, one.unit, one.attributes) for one in metrics.ALL.values()}


def test_page__what_it_says_of_a_metric__is_what_a_collector_is_told():
    assert {names(row[0])[0]: row[4] for row in rows("Metrics")} == {
        one.name: one.about for one in metrics.ALL.values()
    }


def test_page__its_events__are_those_that_there_are():
    listed = {
        names(name)[0]: (logger.strip("`"), level, tuple(names(have))) for name, logger, level, have, _ in rows("Logs")
    }
    assert listed == {
        name: (
            one.logger.name,
            {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}[one.level],
            one.fields,
        )
        for name, one in events.ALL.items()
    }


def test_page__its_metrics_and_events__are_all_told_by_some_work(ears, tmp_path):
    all_of_it(tmp_path)
    assert ears.names() == set(metrics.ALL)
    assert {one["event"] for one in ears.events()} == set(events.ALL) - {"telemetry_failed"}  # see test_enable.py


def test_page__its_spans__are_those_that_some_work_makes(ears, tmp_path):
    ears.enable(requests=True)
    all_of_it(tmp_path)
    listed = {name for row in rows("Spans") for name in names(row[0])}
    made = {span.name for span in ears.finished()}
    families = {name.removesuffix("*") for name in listed if name.endswith("*")}
    assert {name for name in made if not name.startswith(tuple(families))} == {one for one in listed if one[-1] != "*"}
    assert all(any(name.startswith(family) for name in made) for family in families)


def test_dashboard__each_query__is_of_series_and_labels_that_there_are():
    known = {series: labels for metric in metrics.ALL.values() for series, labels in prometheus(metric).items()}
    asked = set()
    queries = [target["expr"] for panel in panels(DASHBOARD["panels"]) for target in panel.get("targets", [])]
    assert len(queries) >= 12
    for query in queries:
        found = re.findall(r"siltstone_\w+", query)
        assert found, query
        assert set(found) <= known.keys(), query
        labels = {label for some in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", some)}
        labels |= set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", query))
        assert labels - {"job", "instance"} <= set().union(*(known[one] for one in found)), query
        asked |= set(found)
    # Whatever asks for a person is on it.
    assert {"siltstone_alarms_total", "siltstone_commits_unknown_total", "siltstone_shard_fenced_total"} <= asked


def test_dashboard__as_a_document__has_what_grafana_asks_of_one():
    ids = [panel["id"] for panel in panels(DASHBOARD["panels"])]
    assert len(ids) == len(set(ids))
    assert DASHBOARD["title"]
    assert DASHBOARD["schemaVersion"] >= 36
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) - {"__rate_interval", "__range"}
    assert used == variables
    for panel in panels(DASHBOARD["panels"]):
        assert panel["type"] in {"row", "timeseries", "stat"}
        assert set(panel["gridPos"]) == {"h", "w", "x", "y"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
