"""The tables of docs/reliability.md, made of figures alone.

What must hold: a figure that no run gave is shown as not measured, never as a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliability_figures import at, below, total
from scale_page import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reliability_figures import Amount, Figures

NOT_MEASURED = "not measured"
STATES, SEEDS, MISTAKES, KILLS, MUTATIONS, PAIRS = 5_000_000, 20_000, 30, 1_000, 2_000, 1_000  # the goals
BRANCHES = 100  # per cent
BAD_INPUT_FILES = ("tests/test_bad_input.py", "tests/test_bad_surroundings.py")
LYING_FILES = (
    "tests/faults/test_lying_store.py",
    "tests/faults/test_lying_matrix.py",
    "tests/faults/test_lost_claims.py",
    "tests/index/test_build_lying_store.py",
)
REGISTRIES = "tests/commit/test_registries.py::Test"
ON_LYING_STORES = (
    "acknowledged on a lying store",
    "alarms on a lying store",
    "rows lost on a lying store, and told",
    "honest seeds behind witnesses",
)
UNDER_LOAD = ("faults under load", "processes under load that grew by less than 10 %")
OF_COMMIT_STORES = (
    "servers killed",
    "acknowledged while commit stores were killed",
    "rows of commit stores lost",
    "acknowledged around lost rows",
)


def shown(amount: int) -> str:
    """A figure, or that there is none."""
    return f"{amount:,}" if amount else NOT_MEASURED


def against(amount: int, goal: int) -> str:
    """Whether a goal is reached."""
    if not amount:
        return NOT_MEASURED
    return "reached" if amount >= goal else f"below: {amount * 100 // goal} %"


def bad_inputs(figures: Figures) -> int:
    """Refusals that were checked one by one, and tests that are one each."""
    return total(figures, "bad inputs") + sum(total(figures, "test/passed", of=one) for one in BAD_INPUT_FILES)


def least_mutated(figures: Figures) -> int:
    """The changes of the format that has the fewest."""
    return min(
        (sum(one.amount for one in places.values()) for places in below(figures, "mutated/").values()), default=0
    )


def faults(figures: Figures) -> int:
    """Calls that met a scripted fault."""
    return sum(total(figures, name) for name in figures if name.startswith("fault/"))


def summary(figures: Figures) -> str:
    """One line for each kind of proof."""
    passed = "test/passed"
    lying = sum(total(figures, passed, of=one) for one in LYING_FILES)
    lines: list[tuple[str, int, int | None]] = [
        ("[models](#models): states gone through", total(figures, "states"), STATES),
        ("[simulation](#simulation): seeds played", total(figures, "seeds"), SEEDS),
        ("[planted mistakes](#planted-mistakes) that were found", total(figures, "mistakes found"), MISTAKES),
        ("[store calls that went wrong](#every-call), one in each run of a workflow", faults(figures), None),
        ("[processes killed](#kills) with SIGKILL", total(figures, "kills"), KILLS),
        ("[lying stores](#lying-stores): tests", lying, None),
        ("[commit stores](#commit-stores): tests of the suite", total(figures, passed, of=REGISTRIES), None),
        (
            "[corrupt input](#corrupt-input): changes of the format that has the fewest",
            least_mutated(figures),
            MUTATIONS,
        ),
        ("[bad input](#bad-input): pairs of a call and an input", bad_inputs(figures), PAIRS),
        (
            "[load](#load): operations acknowledged by processes at once",
            total(figures, "acknowledged under load"),
            None,
        ),
        ("[security](#security): threats with tests", total(figures, "threats"), None),
        (
            "[branches of the protocol](#branch-coverage) that tests take, or that have a reason, in %",
            accounted(figures),
            BRANCHES,
        ),
    ]
    rows = ((what, shown(n), f"{goal:,}" if goal else "", against(n, goal) if goal else "") for what, n, goal in lines)
    return table(("what", "figure", "goal", "goal is"), rows)


def by_place(places: dict[str, Amount], head: tuple[str, str, str]) -> str:
    """Amounts by file."""
    rows = [(f"`{place}`", f"{one.amount:,}", f"{one.tests:,}") for place, one in places.items()]
    return table(head, rows) if rows else NOT_MEASURED


def models(figures: Figures) -> str:
    """States by model."""
    states = figures.get("states", {})
    lines = [
        (f"`{place}`", f"{one.amount:,}", *(f"{at(figures, f'variants that {verb}', place).tests}" for verb in VERBS))
        for place, one in states.items()
    ]
    return (
        table(("model", "states", "variants that hold", "that break, as they must"), lines) if lines else NOT_MEASURED
    )


VERBS = ("hold", "break")


def simulation(figures: Figures) -> str:
    """What the seeds came to."""
    seeds = total(figures, "seeds")
    if not seeds:
        return NOT_MEASURED
    lines = [
        ("seeds", f"{seeds:,}"),
        ("scenarios", f"{len(figures['seeds'])}"),
        ("faults, in all", f"{total(figures, 'simulated faults'):,}"),
        ("faults of a seed, on average", f"{total(figures, 'simulated faults') / seeds:.1f}"),
        ("operations", f"{total(figures, 'simulated operations'):,}"),
        ("seeds played twice, event for event the same", shown(total(figures, "seeds twice"))),
    ]
    return table(("", "figure"), lines)


def mistakes(figures: Figures) -> str:
    """Planted mistakes by scenario."""
    found = figures.get("mistakes found", {})
    lines = [
        (f"`{place}`", f"{one.amount}", f"{at(figures, 'mistakes planted', place).amount}")
        for place, one in found.items()
    ]
    return table(("scenario", "found", "planted"), lines) if lines else NOT_MEASURED


def calls(figures: Figures) -> str:
    """Faults by file, and by kind."""
    kinds = below(figures, "fault/")
    places: dict[str, int] = {}
    for amounts in kinds.values():
        for place, one in amounts.items():
            places[place] = places.get(place, 0) + one.amount
    if not places:
        return NOT_MEASURED
    files = table(("tests", "calls that met a fault"), ((f"`{one}`", f"{n:,}") for one, n in sorted(places.items())))
    by_kind = ((f"`{kind}`", f"{sum(one.amount for one in found.values()):,}") for kind, found in kinds.items())
    return f"{files}\n\n{table(('fault', 'calls that met it'), by_kind)}"


def corrupt(figures: Figures) -> str:
    """Changes and cuts by format."""
    changed, cut = below(figures, "mutated/"), below(figures, "cut/")

    def amount(found: dict[str, dict[str, Amount]], kind: str) -> str:
        return f"{sum(one.amount for one in found.get(kind, {}).values()):,}"

    lines = [(kind, amount(changed, kind), amount(cut, kind)) for kind in sorted({*changed, *cut}, key=str.lower)]
    return table(("format", "changed", "cut"), lines) if lines else NOT_MEASURED


def passed(*starts: str, counted: tuple[str, ...]) -> Callable[[Figures], str]:
    """Tests that passed, of some files, and what else was counted in them."""

    def block(figures: Figures) -> str:
        found = figures.get("test/passed", {})
        lines = [(f"`{place}`", f"{one.amount}") for place, one in found.items() if place.startswith(starts)]
        if not lines:
            return NOT_MEASURED
        return "\n\n".join([table(("tests", "passed"), lines), *counted_table(figures, counted)])

    return block


def counted_table(figures: Figures, names: Iterable[str]) -> list[str]:
    """A table of what was counted under these names, if anything was."""
    sums = [(name, f"{total(figures, name):,}") for name in names if name in figures]
    return [table(("what", "figure"), sums)] if sums else []


def bad(figures: Figures) -> str:
    """Pairs by file."""
    lines = [(f"`{place}`", f"{one.amount:,}") for place, one in figures.get("bad inputs", {}).items()]
    lines += [(f"`{one}`", shown(total(figures, "test/passed", of=one))) for one in BAD_INPUT_FILES]
    return table(("tests", "pairs"), lines)


def load(figures: Figures) -> str:
    """Operations by file, and what else was counted."""
    files = by_place(figures.get("acknowledged under load", {}), ("tests", "operations acknowledged", "crowds"))
    return "\n\n".join([files, *counted_table(figures, UNDER_LOAD)])


def accounted(figures: Figures) -> int:
    """Of a hundred branches, those that tests take or that are listed with a reason, rounded down."""
    taken, excused = (total(figures, f"branches {what}") for what in ("taken", "with a reason"))
    return (taken + excused) * 100 // (total(figures, "branches") or 1)


def branches(figures: Figures) -> str:
    """Branches by package, and how many of them no test takes."""
    lines = []
    for place, one in figures.get("branches", {}).items():
        taken, excused = (at(figures, f"branches {what}", place).amount for what in ("taken", "with a reason"))
        counts = (one.tests, one.amount, taken, excused, one.amount - taken - excused)
        lines.append((f"`{place}`", *(f"{count:,}" for count in counts)))
    head = ("package", "modules", "branches", "taken", "not, for a reason", "not yet")
    return table(head, lines) if lines else NOT_MEASURED


def kills(figures: Figures) -> str:
    """Kills by file."""
    return by_place(figures.get("kills", {}), ("tests", "killed", "in so many tests"))


BLOCKS: dict[str, Callable[[Figures], str]] = {
    "summary": summary,
    "models": models,
    "simulation": simulation,
    "mistakes": mistakes,
    "calls": calls,
    "kills": kills,
    "lying": passed(*LYING_FILES, counted=ON_LYING_STORES),
    "commit stores": passed(REGISTRIES, "tests/commit/test_restarts.py", counted=OF_COMMIT_STORES),
    "corrupt": corrupt,
    "bad input": bad,
    "load": load,
    "branches": branches,
}


def blocks(figures: Figures, *, when: str, failed: Iterable[str]) -> dict[str, str]:
    """All tables of the page, and when the run was."""
    out = {name: make(figures) for name, make in BLOCKS.items()}
    left_out = [f"`{one.partition('[')[0]}`" for one in failed]
    told = (
        "No test of it failed." if not left_out else f"Left out, since they failed: {', '.join(sorted(set(left_out)))}."
    )
    out["run"] = f"The figures are of a run on {when}. {told}"
    return out
