"""An S3-compatible server that misbehaves as told: lies about conditions, loses answers, fails, is slow, is full.

What must hold: with ``Faults()`` it is an honest S3 for every client; each fault is deterministic and counted.
"""

from siltstone.testing.s3server.faults import UNLIMITED, Faults
from siltstone.testing.s3server.server import FaultServer, ObjectFacts, Stats

__all__ = ["UNLIMITED", "FaultServer", "Faults", "ObjectFacts", "Stats"]
