"""A sample of the campaign in a real Chromium: one task of 200, drawn by a seed, with a walk of 8 acts."""

from __future__ import annotations

import os

import pytest

from assay.environments.browser.pool import close_browsers
from assay.synthesis.sites.domains import DOMAINS
from tests.optional import require_browser
from tests.sampling import draw_sample
from tests.synthesis.sites.campaign import APPS, FORK_EVERY, find_users, play_trial, trials

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("group", draw_sample([*APPS, *(domain.name for domain in DOMAINS)], 1))
async def test_a_task_of_the_campaign_keeps_its_promises(group: str) -> None:
    require_browser()
    (trial,) = trials(seed=FORK_EVERY, group=group, most=1)
    assert trial.has_fork
    try:
        found = await play_trial(trial, seed=FORK_EVERY, walked=8)
        users = find_users()
    finally:
        await close_browsers()
    assert found["failures"] == []
    assert users["uid"] == os.getuid()
    assert users["browser_uids"]
    assert 0 not in users["browser_uids"]
    assert (found["oracle"], found["null"], found["forks"]) == (True, False, 2)
