"""Every store keeps what ``siltstone.store.base`` promises."""

from __future__ import annotations

import pytest

from siltstone.testing.store_suite import StoreSuite


class _Placed(StoreSuite):
    name = ""

    @pytest.fixture(autouse=True)
    def _places(self, places):
        self.places = places

    def make(self):
        return self.places.store(self.name).open()


class TestMemory(_Placed):
    name = "memory"


class TestFile(_Placed):
    name = "file"


class TestFileWithoutSync(_Placed):
    name = "file-nosync"


class TestFaultServer(_Placed):
    name = "faulty"

    def secrets(self):
        return ["aws_secret", "secret_access_key"]

    def request_count(self):
        return self.places.honest.stats().requests


class TestSeaweedFS(_Placed):
    name = "seaweedfs"
    rounds = 2  # the losers of a race wait for a second there
    sorts_by_segment = True  # it keeps directories, and sorts the names in each

    def secrets(self):
        return ["siltstone-tests-secret"]


class TestMinistack(_Placed):
    name = "ministack"

    def secrets(self):
        return ["siltstone-tests-secret"]


class TestAzurite(_Placed):
    name = "azurite"

    def secrets(self):
        return ["Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"]
