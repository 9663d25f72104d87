"""A fault server without faults, and clients for it."""

from __future__ import annotations

import boto3
import pytest
from botocore.config import Config
from obstore.store import S3Store

from siltstone.testing.s3server import FaultServer


@pytest.fixture
def s3():
    with FaultServer(in_thread=True) as running:
        yield running


@pytest.fixture
def s3_store(s3):
    """Asks once: what a test sees is what the server answered."""
    return S3Store.from_url("s3://bkt", **s3.obstore_options, retry_config={"max_retries": 0})


@pytest.fixture
def s3_boto(s3):
    return boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        aws_access_key_id="a",
        aws_secret_access_key="s",
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )
