"""What all tests of telemetry listen with."""

from __future__ import annotations

from telemetry_worlds import ears

__all__ = ["ears"]
