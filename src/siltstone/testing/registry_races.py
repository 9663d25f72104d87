"""Many clients on one registry, and a service that crashes or is emptied: part of the conformance suite."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from siltstone.commit.registry import Behind, Claim, Registry, Truncated
from siltstone.ids import SystemIds, is_id
from siltstone.testing.registry_harness import RegistryHarness, asked, chain, digest_of, refused, together

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENTS = 8
PLACES = 50
JOIN_SECONDS_MAX = 120.0


class RegistryRaces(RegistryHarness):
    """One winner of each place, whoever asks and whatever happens to the service."""

    # -- many clients -----------------------------------------------------------------------------------

    def test_claim__eight_clients_race__one_winner_of_each_place(self) -> None:
        self._race([self.handle() for _ in range(CLIENTS)])

    def test_claim__eight_threads_share_a_handle__one_winner_of_each_place(self) -> None:
        self._race([self.handle()] * CLIENTS)

    def _race(self, registries: Sequence[Registry]) -> None:
        scope, gate = self.scope(), threading.Barrier(len(registries))

        def run(client: int) -> list[Claim]:
            winners: list[Claim] = []
            for position in range(PLACES):
                parent = winners[-1].digest if winners else ""
                mine = Claim(scope, position, digest_of(f"{client}/{position}"), parent, f"client {client}")
                gate.wait(JOIN_SECONDS_MAX)
                answer = registries[client].claim(mine)
                assert isinstance(answer, Claim), answer
                winners.append(answer)
            return winners

        seen = together(len(registries), run, gate)
        assert all(winners == seen[0] for winners in seen)
        assert [registries[0].lookup(scope, position) for position in range(PLACES)] == seen[0]
        for position, winner in enumerate(seen[0]):
            client = int(winner.value.removeprefix("client "))
            assert winner.digest == digest_of(f"{client}/{position}")
        assert registries[0].newest(scope) == seen[0][-1]

    def test_claim__while_the_log_is_truncated__never_won_below_the_range(self) -> None:
        scope, gate = self.scope(), threading.Barrier(2)
        claims = chain(scope, PLACES)
        registries = [self.handle(), self.handle()]
        self.fill(registries[0], claims)
        rivals = [Claim(scope, claim.position, digest_of("rival"), claim.parent, "rival") for claim in claims]

        def truncate() -> list[object]:
            for below in range(1, PLACES):
                gate.wait(JOIN_SECONDS_MAX)
                registries[0].truncate(scope, below=below, digest=claims[below - 1].digest)
            return []

        def claim() -> list[object]:
            answers: list[object] = []
            for below in range(1, PLACES):
                gate.wait(JOIN_SECONDS_MAX)
                answers.append(registries[1].claim(rivals[below - 1]))
            return answers

        _, answers = together(2, lambda client: (truncate, claim)[client](), gate)
        for position, answer in enumerate(answers):
            assert answer in (claims[position], Truncated(position + 1)), answer
        for rival in rivals[: PLACES - 1]:
            assert registries[1].claim(rival) == Truncated(PLACES - 1)

    # -- the service ------------------------------------------------------------------------------------

    def test_identity__several_clients_at_once__one_id(self) -> None:
        gate = threading.Barrier(CLIENTS)
        registries = [self.handle() for _ in range(CLIENTS)]

        def ask(client: int) -> list[str]:
            gate.wait(JOIN_SECONDS_MAX)
            return [registries[client].identity() for _ in range(3)]

        [found] = {identity for answers in together(CLIENTS, ask, gate) for identity in answers}
        assert is_id(found)
        assert self.handle().identity() == found

    def test_adopt__identity_of_a_lost_service__everyone_gets_it(self) -> None:
        registry, other, lost = self.handle(), self.handle(), SystemIds().new()
        assert other.identity() != lost
        for _ in range(2):
            registry.adopt(lost)
            assert [registry.identity(), other.identity(), self.handle().identity()] == [lost] * 3
        assert refused(lambda: registry.adopt("not an id"))
        assert registry.identity() == lost

    def test_adopt__service_never_used__takes_it(self) -> None:
        lost = SystemIds().new()
        self.handle().adopt(lost)
        assert self.handle().identity() == lost

    def test_identity__service_was_emptied__another_id_and_claims_are_behind(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 3)
        self.fill(registry, claims[:2])
        before = registry.identity()
        self.empty()
        after = asked(registry.identity)
        assert is_id(after)
        assert after != before
        assert self.handle().identity() == after
        assert registry.claim(claims[2]) == Behind(None)
        assert registry.lookup(scope, 0) is None

    def test_claim__service_crashed__acknowledged_claims_stay_and_calls_reconnect(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 40)
        self.fill(registry, claims[:20])
        identity = registry.identity()
        self.crash()
        assert asked(lambda: registry.claim(claims[20])) == claims[20]
        assert [registry.lookup(scope, claim.position) for claim in claims[:21]] == claims[:21]
        assert registry.identity() == identity
        self.fill(self.handle(), claims[21:])

    def test_claim__service_crashes_under_load__every_acknowledged_claim_stays(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 5000)
        kept: list[Claim] = []
        under_way, crashed = threading.Event(), threading.Event()

        def write() -> list[object]:
            for claim in claims:
                if crashed.is_set() and len(kept) > 30:
                    break
                answer = asked(lambda claim=claim: registry.claim(claim))  # type: ignore[misc]
                assert answer == claim, answer
                kept.append(claim)
                if len(kept) == 10:
                    under_way.set()
            return []

        def fail() -> list[object]:
            try:
                assert under_way.wait(JOIN_SECONDS_MAX)
                self.crash()
            finally:
                crashed.set()
            return []

        together(2, lambda client: (write, fail)[client]())
        other = self.handle()
        assert [other.lookup(scope, claim.position) for claim in kept] == kept
        assert other.newest(scope) == kept[-1]
