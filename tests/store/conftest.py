"""Shows the values in failed assertions of the suites, which live in the package."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("siltstone.testing.store_suite")
