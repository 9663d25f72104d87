"""The conformance suite of registries: subclass it, say how to open yours, and run it with pytest.

What must hold: a registry that passes decides each place once, for every client, and says so when it lost
rows. Each test uses scopes of its own, so the service may be shared and is never emptied, unless ``empty``
says how.

    class TestMine(RegistrySuite):
        def make(self):
            return open_registry("mine://127.0.0.1:4000")
"""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING

from siltstone.commit.memory import MemoryRegistry, MemoryService
from siltstone.commit.registry import POSITION_MAX, SCOPE_BYTES_MAX, VALUE_BYTES_MAX, Behind, Claim, Registry, Truncated
from siltstone.ids import SystemIds
from siltstone.testing.registry_harness import chain, digest_of, refused
from siltstone.testing.registry_races import RegistryRaces

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RegistrySuite", "chain", "digest_of"]

SEQUENCES = 12
CALLS = 30

_CLOSE_SCOPES = (
    "a",
    "A",
    "a ",
    " a",
    "a\u0301",
    "\u00e1",
    "a/",
    "a/0",
    "1:a",
    "a%",
    "a_",
    "\uff41",
    "\U0001f300",
    "ß",
    "ss",
)
_HARD_VALUES = ("", ":", "a:b:c", "'; --", '"', "\\", "%s", "{0}", "\u00e9\U0001f300", "a ", " a", "\n\t\r")


class RegistrySuite(RegistryRaces):
    """Tests that every registry passes."""

    # -- one client ---------------------------------------------------------------------------------

    def test_claim__free_place__is_won_and_found(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 3)
        self.fill(registry, claims)
        other = self.handle()
        assert [other.lookup(scope, position) for position in range(4)] == [*claims, None]
        assert other.newest(scope) == claims[-1]

    def test_claim__repeated__same_winner(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 3)
        self.fill(registry, claims)
        for claim in claims:
            assert registry.claim(claim) == claim
            assert self.handle().claim(claim) == claim

    def test_claim__place_taken__earlier_claim_is_returned_whatever_the_parent(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 2)
        self.fill(registry, claims)
        for parent in (claims[0].digest, digest_of("another parent"), ""):
            rival = Claim(scope, 1, digest_of("rival"), parent, "rival")
            assert self.handle().claim(rival) == claims[1]
        assert registry.lookup(scope, 1) == claims[1]

    def test_claim__predecessor_absent__behind_and_nothing_bound(self) -> None:
        registry, scope = self.handle(), self.scope()
        for position in (1, 7, POSITION_MAX):
            orphan = Claim(scope, position, digest_of("orphan"), digest_of("parent"), "orphan")
            assert registry.claim(orphan) == Behind(None)
            assert registry.lookup(scope, position) is None
        assert registry.claim(Claim(scope, 1, digest_of("orphan"), "", "orphan")) == Behind(None)
        assert registry.newest(scope) is None

    def test_claim__predecessor_has_another_digest__behind_with_what_is_there(self) -> None:
        registry = self.handle()
        for start in "0123456789abcdef":  # a comparison of text may go wrong for some digests only
            scope = self.scope()
            first = Claim(scope, 0, start + digest_of(scope)[1:], "", "first")
            self.fill(registry, [first])
            for parent in (
                "",
                start + digest_of("another history")[1:],
                first.digest[:-1] + "0",
                first.digest[:-1] + "f",
            ):
                if parent != first.digest:
                    assert registry.claim(Claim(scope, 1, digest_of("x"), parent, "x")) == Behind(first)
            assert registry.lookup(scope, 1) is None

    def test_claim__first_place__needs_no_predecessor(self) -> None:
        registry = self.handle()
        for parent in ("", digest_of("from elsewhere")):
            claim = Claim(self.scope(), 0, digest_of("first"), parent, "first")
            assert registry.claim(claim) == claim

    def test_claim__hard_values__come_back_unchanged(self) -> None:
        registry, scope = self.handle(), self.scope()
        parent = ""
        for position, value in enumerate([*_HARD_VALUES, "v" * VALUE_BYTES_MAX]):
            claim = Claim(scope, position, digest_of(f"value {position}"), parent, value)
            assert registry.claim(claim) == claim
            assert self.handle().lookup(scope, position) == claim
            parent = claim.digest

    def test_claim__scopes_that_look_alike__are_distinct(self) -> None:
        registry, base = self.handle(), self.scope()
        claims = [Claim(f"{base}{end}", 0, digest_of(end), "", end) for end in _CLOSE_SCOPES]
        assert [registry.claim(claim) for claim in claims] == claims
        assert [self.handle().lookup(claim.scope, 0) for claim in claims] == claims
        assert [registry.newest(claim.scope) for claim in claims] == claims
        for claim in claims:
            registry.truncate(claim.scope, below=1, digest=claim.digest)
            later = claims[claims.index(claim) + 1 :]
            assert [registry.lookup(left.scope, 0) for left in later] == later

    def test_claim__longest_scope__is_kept_apart_from_its_neighbour(self) -> None:
        registry, base = self.handle(), self.scope()
        longest = base + "x" * (SCOPE_BYTES_MAX - len(base))
        one, other = (Claim(name, 0, digest_of(name), "", "") for name in (longest, longest[:-1] + "y"))
        assert registry.claim(one) == one
        assert registry.claim(other) == other
        assert registry.lookup(longest, 0) == one

    def test_claim__highest_positions__are_exact(self) -> None:
        registry, scope = self.handle(), self.scope()
        # Numbers that a double-precision float can't tell apart.
        for start in (2**31 - 1, 2**53 - 1, POSITION_MAX - 2):
            below = digest_of(f"before {start}")
            registry.truncate(scope, below=start, digest=below)
            claims = chain(scope, 3, start=start, parent=below)
            self.fill(registry, claims)
            assert [registry.lookup(scope, claim.position) for claim in claims] == claims
            assert registry.newest(scope) == claims[-1]
            assert registry.claim(Claim(scope, start - 1, digest_of("late"), "", "late")) == Truncated(start)

    def test_call__argument_out_of_bounds__refused_and_nothing_bound(self) -> None:
        registry, scope = self.handle(), self.scope()
        good = Claim(scope, 0, digest_of("good"), "", "good")
        wrong: list[Callable[[], object]] = [
            lambda: registry.claim(Claim("", 0, good.digest, "", "")),
            lambda: registry.claim(Claim("s" * (SCOPE_BYTES_MAX + 1), 0, good.digest, "", "")),
            lambda: registry.claim(Claim("é" * (SCOPE_BYTES_MAX // 2 + 1), 0, good.digest, "", "")),
            lambda: registry.claim(Claim(f"{scope}\0", 0, good.digest, "", "")),
            lambda: registry.claim(Claim(f"{scope}\ud800", 0, good.digest, "", "")),
            lambda: registry.claim(Claim(scope, -1, good.digest, "", "")),
            lambda: registry.claim(Claim(scope, POSITION_MAX + 1, good.digest, "", "")),
            lambda: registry.claim(Claim(scope, True, good.digest, "", "")),
            lambda: registry.claim(Claim(scope, 0, "short", "", "")),
            lambda: registry.claim(Claim(scope, 0, good.digest.upper() + "A", "", "")),
            lambda: registry.claim(Claim(scope, 0, good.digest, "no digest", "")),
            lambda: registry.claim(Claim(scope, 0, good.digest, "", "v" * (VALUE_BYTES_MAX + 1))),
            lambda: registry.restore(Claim(scope, -1, good.digest, "", "")),
            lambda: registry.lookup("", 0),
            lambda: registry.lookup(scope, -1),
            lambda: registry.newest("\0"),
            lambda: registry.truncate(scope, below=-1, digest=""),
            lambda: registry.truncate(scope, below=1, digest="x"),
        ]
        for call in wrong:
            assert refused(call)
        assert registry.newest(scope) is None

    # -- truncating and restoring ---------------------------------------------------------------------

    def test_truncate__lower_places__stay_taken_for_ever(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 6)
        self.fill(registry, claims)
        registry.truncate(scope, below=4, digest=claims[3].digest)
        for handle in (registry, self.handle()):
            for claim in claims[:4]:
                assert handle.claim(claim) == Truncated(4)
                assert handle.restore(claim) == Truncated(4)
                assert handle.lookup(scope, claim.position) is None
            assert [handle.lookup(scope, claim.position) for claim in claims[4:]] == claims[4:]
            assert handle.newest(scope) == claims[5]

    def test_truncate__up_to_the_tip__chain_goes_on_from_the_last_digest(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 5)
        self.fill(registry, claims[:3])
        registry.truncate(scope, below=3, digest=claims[2].digest)
        wrong = Claim(scope, 3, digest_of("x"), digest_of("another history"), "x")
        refusal = registry.claim(wrong)
        assert isinstance(refusal, Behind)
        assert refusal.found is not None
        assert (refusal.found.position, refusal.found.digest) == (2, claims[2].digest)
        assert registry.newest(scope) is None
        self.fill(self.handle(), claims[3:])
        assert registry.claim(claims[3]) == claims[3]
        assert registry.newest(scope) == claims[4]

    def test_truncate__repeated_or_lower__changes_nothing(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 6)
        self.fill(registry, claims[:4])
        registry.truncate(scope, below=4, digest=claims[3].digest)
        wrong = digest_of("wrong")
        for below, digest in ((4, claims[3].digest), (2, wrong), (4, wrong), (0, "")):
            registry.truncate(scope, below=below, digest=digest)
            assert registry.claim(claims[3]) == Truncated(4)
        assert registry.claim(claims[4]) == claims[4]
        registry.truncate(scope, below=5, digest=claims[4].digest)
        assert registry.claim(claims[5]) == claims[5]

    def test_truncate__unknown_scope__starts_the_chain_there(self) -> None:
        registry, scope = self.handle(), self.scope()
        registry.truncate(scope, below=10, digest=digest_of("nine"))
        [tenth] = chain(scope, 1, start=10, parent=digest_of("nine"))
        assert registry.claim(tenth) == tenth

    def test_restore__lost_rows__are_put_back_in_any_order(self) -> None:
        registry, scope = self.handle(), self.scope()
        claims = chain(scope, 5)
        for claim in (claims[3], claims[1], claims[0], claims[2]):
            assert registry.restore(claim) == claim
            assert registry.restore(claim) == claim
        assert registry.newest(scope) == claims[3]
        assert registry.restore(Claim(scope, 2, digest_of("rival"), "", "rival")) == claims[2]
        assert self.handle().claim(claims[4]) == claims[4]

    def test_newest__claims_below_it_come_later__highest_position(self) -> None:
        registry, scope = self.handle(), self.scope()
        assert registry.newest(scope) is None
        claims = chain(scope, 12)
        for claim in reversed(claims):
            registry.restore(claim)
            assert registry.newest(scope) == claims[-1]

    def test_calls__random_sequences__same_answers_as_the_registry_in_memory(self) -> None:
        registry, model = self.handle(), MemoryRegistry(MemoryService(), ids=SystemIds())
        for seed in range(SEQUENCES):
            draw, scope, done = random.Random(seed), self.scope(), []
            # Few positions and digests that begin alike, so that most calls meet an earlier one.
            digests = ["", *(f"{start:x}" * 63 + end for start in (0, 9, 15) for end in "0f")]
            for _ in range(CALLS):
                name = draw.choice(["claim", "claim", "claim", "restore", "lookup", "newest", "truncate"])
                position, mine, parent = draw.randrange(6), draw.choice(digests), draw.choice(digests)
                newest = model.newest(scope)
                if name == "claim" and newest is not None and draw.random() < 0.8:
                    position = newest.position + 1
                    parent = newest.digest if draw.random() < 0.6 else parent
                done.append((name, position, mine, parent))
                answers = [
                    _called(each, name, Claim(scope, position, mine, parent, name)) for each in (registry, model)
                ]
                assert answers[0] == answers[1], (seed, done)

    # -- the handle -------------------------------------------------------------------------------------

    def test_pickle__handle__reaches_the_same_service(self) -> None:
        registry, scope = self.handle(), self.scope()
        [claim] = chain(scope, 1)
        self.fill(registry, [claim])
        copy: Registry = pickle.loads(pickle.dumps(registry))  # noqa: S301 - our own bytes
        self._handles.append(copy)
        assert copy.lookup(scope, 0) == claim
        assert copy.identity() == registry.identity()
        assert (copy.kind, copy.uri) == (registry.kind, registry.uri)

    def test_close__twice__harmless(self) -> None:
        registry = self.handle()
        registry.identity()
        registry.close()
        registry.close()
        self.handle().identity()


def _called(registry: Registry, name: str, claim: Claim) -> object:
    match name:
        case "claim":
            return registry.claim(claim)
        case "restore":
            return registry.restore(claim)
        case "lookup":
            return registry.lookup(claim.scope, claim.position)
        case "newest":
            return registry.newest(claim.scope)
        case _:
            registry.truncate(claim.scope, below=claim.position, digest=claim.digest)
            return None
