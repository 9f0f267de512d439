"""Buckets of tests: a server whose answers are chosen, and SeaweedFS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from assay.store.objects import UrlObjectStore, open_place
from tests.store.objects.s3_server import S3Server, serve_s3
from tests.store.objects.seaweedfs import serve_seaweedfs


@pytest.fixture
def server() -> S3Server:
    return S3Server()


@pytest.fixture
async def place(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UrlObjectStore]:
    """A place of `server`; credentials are the test's."""
    async with serve_s3(server) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield open_place("s3://bucket/runs")


@pytest.fixture(scope="module")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of SeaweedFS with the bucket `bucket`."""
    with serve_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as endpoint:
        yield endpoint
