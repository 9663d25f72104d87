"""Prices: the one place to change them. They are assumptions, in US dollars, and no advice.

Taken from public pages that were read in November 2026, for one region each, without volume discounts, free allowances
or transfer out of the region. Deleting costs nothing in any of them. ``--put-price``, ``--get-price`` and
``--storage-price`` put others in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scale_server import CREATE, GET, HEAD, LIST, PUT, RANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

AS_OF = "November 2026"
WRITES = (PUT, CREATE, LIST, "other")
READS = (GET, RANGE, HEAD)


class Prices(NamedTuple):
    """What a kind of store asks for."""

    name: str
    put_per_1000: float  # PUT, COPY, LIST
    get_per_1000: float  # GET, HEAD
    gb_month: float
    source: str

    def of(self, requests: Mapping[str, float]) -> float:
        """Dollars for requests."""
        writes = sum(requests.get(kind, 0) for kind in WRITES)
        reads = sum(requests.get(kind, 0) for kind in READS)
        return (writes * self.put_per_1000 + reads * self.get_per_1000) / 1000

    def of_storage(self, stored_bytes: float) -> float:
        """Dollars a month for bytes that stay."""
        return stored_bytes / 1e9 * self.gb_month


REGIONAL = Prices("regional", 0.005, 0.0004, 0.023, "what guides to S3's standard class said in 2026")
OPEN = Prices("regional, transfer free", 0.0045, 0.00036, 0.015, "R2's price page")
ONE_ZONE = Prices(
    "one zone, faster", 0.00113, 0.00003, 0.11, "an example in S3's questions and answers; bytes cost, too"
)
ALL = (REGIONAL, OPEN, ONE_ZONE)
