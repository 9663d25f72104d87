"""The page about scale says what is measured now, and its simulation agrees with the real thing where both are had."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

import siltstone as ss
from siltstone.errors import InvalidInputError

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.append(str(TOOLS))

import scale  # noqa: E402 - a script of tools/, which is no package
from scale_crowd import LATENCY_MS, crowd  # noqa: E402
from scale_growth import fit, limits_of, measure_history, measure_size  # noqa: E402
from scale_model import own_handles, shards  # noqa: E402
from scale_operations import CASES, QUICK, ROWS, measure  # noqa: E402
from scale_page import block_of, operation_line, races, replaced, table  # noqa: E402
from scale_paper import large, store_of  # noqa: E402
from scale_prices import ALL, REGIONAL  # noqa: E402
from scale_race import race  # noqa: E402
from scale_server import CREATE, DELETE, GET, LIST, Asked, Cost, RecordingServer, rounds_of  # noqa: E402

PAGE = scale.PAGE.read_text(encoding="utf-8")
TRIES = 5
PUT_PRICE = 1.5
AGREES = 1.5  # the factor that the page states


@pytest.fixture(scope="module")
def server():
    with RecordingServer() as running:
        yield running


@pytest.fixture(scope="module")
def quick():
    """What the small form of the script prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert scale.main(["--quick", "--only", "operations", "--put-price", str(PUT_PRICE)]) == 0
    return json.loads(printed.getvalue())


def lines(name):
    """The cells of a table of the page, line by line."""
    return cells(block_of(PAGE, name))


def cells(text):
    shown = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown]


# -- the page is not stale -------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUICK)
def test_page__requests_of_an_operation__are_those_of_a_run_now(server, quick, name):
    (case,) = [one for one in CASES if one.name == name]
    (told,) = [line for line in lines("operations") if line[0] == name]
    asked = quick["operations"][name]
    found = Cost(asked["requests"], asked["rounds"], asked["sent_bytes"], asked["received_bytes"])
    counted = len(operation_line(name, found))
    for _ in range(TRIES):  # a machine that stumbles shows more rounds than there are, never fewer
        if found.rounds <= int(told[counted - 1]):
            break
        found = measure(server, case, repeats=1)
    assert told[:counted] == operation_line(name, found)


def test_page__its_operations__are_the_cases():
    assert [line[0] for line in lines("operations")[2:]] == [case.name for case in CASES]


def test_page__its_prices__are_the_inputs():
    assert [line[0] for line in lines("prices")[2:]] == [one.name for one in ALL]
    assert scale.scale_prices.AS_OF in PAGE


def test_page__history_of_a_thousand_versions__costs_what_it_says(server):
    told = {line[0]: line[1:] for line in lines("history")[2:]}
    for place, aged in enumerate(measure_history(server, (10, 1_000), repeats=1)):
        for name, cost in aged.costs.items():
            assert told[f"{name}: requests"][place].partition(" ")[0] == str(cost.total)


def test_page__a_thousand_fragments__take_the_bytes_that_it_says(server):
    sized = measure_size(server, 1_000)
    (told,) = [line for line in lines("fragments") if line[0] == "1,000"]
    assert told[5] == str(sized.open.total)
    assert float(told[3].removesuffix(" kB")) == pytest.approx(sized.rollup_bytes / 1000, rel=0.05)
    assert limits_of(sized).fragments_in_rollup > 10**6


# -- the simulation --------------------------------------------------------------------------------


def agree(measured, simulated):
    pairs = (
        (measured.requests_per_append, simulated.requests_per_commit),
        (measured.rounds_per_append, simulated.rounds_per_commit),
    )
    return all(1 / AGREES < virtual / real < AGREES for real, virtual in pairs)


def test_race__of_eight_writers__agrees_with_threads_on_a_server(server):
    simulated = race(writers=8, appends_each=3, latency_ms=LATENCY_MS)
    for number in range(TRIES):  # a machine that has no time for its threads makes them slower, never faster
        measured = crowd(server, f"eight-{number}", writers=8, appends_each=3)
        assert measured.versions == measured.appends == simulated.commits == 24
        if agree(measured, simulated):
            break
    assert agree(measured, simulated), (measured, simulated)
    assert f"factor of {AGREES}" in PAGE


@pytest.mark.parametrize(("writers", "latency_ms"), [(1, 10), (8, 10), (8, 100)])
def test_page__a_race__is_what_the_simulation_gives_now(writers, latency_ms):
    found = race(writers=writers, appends_each=dict(scale.CROWDS)[writers], latency_ms=latency_ms)
    (told,) = [line for line in lines("races") if line[:2] == [str(writers), f"{latency_ms} ms"]]
    assert [told] == cells(races([found], REGIONAL))[2:]


def test_race__of_one_writer__takes_two_rounds_an_append():
    alone = race(writers=1, appends_each=5, latency_ms=10)
    assert (alone.commits, alone.gave_up, alone.requests) == (5, 0, {CREATE: 10})
    assert alone.rounds_per_commit == pytest.approx(2, rel=0.1)


def test_race__with_the_same_seed__is_the_same():
    first, second, other = (race(writers=5, appends_each=2, latency_ms=10, seed=seed) for seed in (1, 1, 2))
    assert first == second != other


def test_race__of_more_writers_than_patience_allows__tells_who_gave_up():
    crowded = race(writers=20, appends_each=1, latency_ms=100, patience_s=1.0)
    assert crowded.commits + crowded.gave_up == 20
    assert crowded.gave_up > 0
    assert "gave up" in own_handles(crowded).note


# -- what the figures are made with ----------------------------------------------------------------


def asked(*spans):
    return [Asked(GET, "key", 0, 0, began, ended) for began, ended in spans]


def test_rounds_of__requests_under_way_together__are_one_round():
    assert rounds_of([]) == 0
    assert rounds_of(asked((0, 2), (1, 3), (1, 2))) == 1
    assert rounds_of(asked((0, 2), (2, 4), (1, 3), (4, 5))) == 3


def test_fit__of_costs_by_size__tells_how_they_grow():
    sizes = (10, 1_000, 100_000)
    assert fit(sizes, (20, 20, 21)) == "constant"
    assert fit(sizes, (4, 9, 14)) == "log"
    assert fit(sizes, (10, 1_010, 100_000)) == "linear"


def test_prices__of_requests__count_lists_as_puts_and_deletes_as_nothing():
    assert REGIONAL.of({CREATE: 1000, LIST: 1000, GET: 10_000, DELETE: 50}) == pytest.approx(0.005 * 2 + 0.004)


def test_shards__two_merges__give_what_an_entry_adds():
    put, fewer, more = Cost({CREATE: 1}, 1, 0, 0), Cost({GET: 36, LIST: 7}, 3, 0, 0), Cost({GET: 116, LIST: 7}, 3, 0, 0)
    way = shards(put, (fewer, more), writers=100, latency_ms=10)
    assert way.requests == {CREATE: 1, GET: 2}
    assert way.per_s == 10_000


def test_large__opened__is_a_table_of_so_many_fragments():
    with ss.open(store_of(large(300, columns=3)), probe=False) as opened:
        assert opened.count() == 300 * ROWS
        assert opened.scan(where="id < 0").to_arrow().num_rows == 0


def test_replaced__a_block__leaves_the_rest_and_can_be_read_again():
    made = table(("a", "b"), [("x", "1")])
    page = "before\n<!-- one: begin -->\nold\n<!-- one: end -->\nbehind\n"
    changed = replaced(page, {"one": made})
    assert block_of(changed, "one") == made
    assert changed.startswith("before\n")
    assert changed.endswith("behind\n")
    assert replaced(changed, {"one": made}) == changed


def test_replaced__a_block_that_the_page_has_no_place_for__is_refused():
    with pytest.raises(InvalidInputError, match="no place for"):
        replaced("nothing", {"one": "text"})


def test_main__quick_with_other_prices__prints_costs_by_them(quick):
    assert quick["prices"]["put_per_1000"] == PUT_PRICE
    assert quick["operations"]["append"]["dollars"] == pytest.approx(2 * PUT_PRICE / 1000)
    assert quick["operations"]["append"]["requests"] == {CREATE: 2}


def test_main__quick_and_write__is_refused(tmp_path, capsys):
    page = tmp_path / "scale.md"
    with pytest.raises(SystemExit):
        scale.main(["--quick", "--write"], path=page)
    assert "writes nothing" in capsys.readouterr().err
    assert not page.exists()
