"""Pools of browsers, without a browser: who shares one, and when it is closed."""

from __future__ import annotations

from typing import cast

import pytest

from assay.environments.browser.chromium import Chromium
from assay.environments.browser.pool import MOST_ATTEMPTS, BrowserPool
from assay.environments.interface import Backend


class FakeBackend:
    async def close(self) -> None: ...


class FakeBrowser:
    def __init__(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> BrowserPool:
    async def open_backend() -> Backend:
        return cast("Backend", FakeBackend())

    async def start(backend: Backend) -> Chromium:
        return cast("Chromium", FakeBrowser())

    monkeypatch.setattr("assay.environments.browser.pool._open_backend", open_backend)
    monkeypatch.setattr("assay.environments.browser.pool.Chromium.start", start)
    return BrowserPool()


async def test_a_browser_has_a_bounded_number_of_attempts(pool: BrowserPool) -> None:
    leases = [await pool.lease() for _ in range(MOST_ATTEMPTS + 1)]
    full, other = leases[0].browser, leases[-1].browser
    assert [lease.browser is full for lease in leases] == [True] * MOST_ATTEMPTS + [False]
    for lease in leases[:-1]:
        assert full.is_open
        await lease.release()
    assert not full.is_open
    assert other.is_open
    assert (await pool.lease()).browser is other
    await pool.close()
    assert not other.is_open


async def test_a_browser_that_ended_is_not_given_out(pool: BrowserPool) -> None:
    lease = await pool.lease()
    await lease.browser.close()
    again = await pool.lease()
    assert again.browser is not lease.browser
    assert again.browser.is_open
    await pool.close()
