"""Are the tables there that a clone reads from, and do they keep what it needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from siltstone.errors import SiltstoneError
from siltstone.log import open_log
from siltstone.paths import LOG
from siltstone.retain.pins import claim_of
from siltstone.store.origins import OriginsStore
from siltstone.table.history import History
from siltstone.table.origins import open_origin
from siltstone.verify import Problem

if TYPE_CHECKING:
    from siltstone.format.table import Origin
    from siltstone.log import Log
    from siltstone.retain.pins import Claim
    from siltstone.store.base import Store
    from siltstone.table.origins import OpensOthers
    from siltstone.table.state import State


class CheckedOrigins(NamedTuple):
    """The table's store with those of the others, what is wrong with them, and which can't be read."""

    store: Store
    problems: list[Problem]
    missing: frozenset[int]


def check_origins(log: Log, state: State, opens: OpensOthers) -> CheckedOrigins:
    """Open the tables that a table reads from, and look for its pins there."""
    found: dict[int, Store] = {}
    problems: list[Problem] = []
    claim = claim_of(log, state)
    for number, origin in state.origins.items():
        try:
            found[int(number)] = open_origin(origin, int(number), opens)
            problems += _check_pin(found[int(number)], origin, claim)
        except SiltstoneError as error:
            problems.append(Problem("missing", f"{error.message} ({error.hint})", object=origin.uri))
    missing = frozenset(int(number) for number in state.origins) - found.keys()
    return CheckedOrigins(OriginsStore(log.store, found) if state.origins else log.store, problems, missing)


def _check_pin(store: Store, origin: Origin, claim: Claim) -> list[Problem]:
    with open_log(store, root=LOG, probe=False) as log:
        pin = History(log).newest().checkpoints.get(claim.name)
    if pin is not None and pin.holder == claim.holder:
        return []
    detail = (
        f"{origin.uri} does not keep version {origin.version} for this table, and may delete what it needs: "
        "it was copied or moved here; detach() makes it stand alone"
    )
    return [Problem("missing", detail, object=origin.uri)]
