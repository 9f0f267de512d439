"""Recorded attempts carried over to other looks in a real Chromium."""

from __future__ import annotations

import asyncio

import pytest

from assay.environments.services.pages.theme import draw_theme
from assay.errors import UserError
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import ReplayReport, replay
from assay.settings import Settings
from assay.store import RunStore
from tests.optional import require_browser

SITE = "family:sites,site=museum,n=1,seed=1,least=4,most=8"
SHOP = "family:services,app=shop,interface=pages,level=explicit,n=1,seed=4,writes=1"
HOME = 0


def unlike(seed: int = HOME) -> int:
    """Returns a theme with other choices and other confirmation."""
    home = draw_theme(seed)
    return next(
        one
        for one in range(1, 100)
        if (other := draw_theme(one)).choices != home.choices
        and other.confirmation != home.confirmation
        and other.submit != home.submit
    )


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    require_browser()
    folder = tmp_path_factory.mktemp("carried")
    settings = Settings(folder / "cache", folder / "store")
    for name, tasks in (("site", SITE), ("shop", SHOP)):
        asyncio.run(start_run(RunConfig(tasks=(f"{tasks},theme={HOME}",), agent="oracle", run=name), settings, Tally()))
    return settings


async def carry(settings: Settings, run: str, tasks: str, **options: object) -> ReplayReport:
    config = ReplayConfig(all=True, tasks=(tasks,), check_version="today", no_experiments=True, **options)  # type: ignore[arg-type]
    return await replay(run, config, settings, Tally())


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("run", "tasks"), [("site", SITE), ("shop", SHOP)])
async def test_a_script_passes_under_looks_that_choose_and_confirm_otherwise(
    settings: Settings, run: str, tasks: str
) -> None:
    for theme in (unlike(), HOME):
        report = await carry(settings, run, f"{tasks},theme={theme}", carry="elements")
        (one,) = report.results
        assert one.carried is not None
        assert one.carried.outcome == ("pass", "pass"), one.carried
        assert one.carried.matched == one.carried.acts > 0
        assert (one.agrees, report.counts) == (True, {"agree": 1, "differ": 0, "cannot": 0})
    with RunStore.open(settings.store, report.replay) as store:
        (row,) = store.attempts()
        (evidence,) = (e for e in store.trajectory(row.chain).evidence if e.kind == "carried_script")
    assert evidence.data["same number"] == evidence.data["matched"]  # under the same looks


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_numbers_and_names_alone_do_not_carry_over(settings: Settings) -> None:
    (named,) = (await carry(settings, "shop", f"{SHOP},theme={unlike()}", carry="names")).results
    assert named.carried is not None
    assert named.carried.outcome == ("pass", "fail")
    assert named.carried.matched < named.carried.acts
    assert named.carried.problem.startswith("no element of the page corresponds")
    assert not named.agrees
    (numbered,) = (await carry(settings, "shop", f"{SHOP},theme={unlike()}")).results
    assert numbered.comparison is not None
    assert numbered.comparison.outcome == ("pass", "fail")


def test_carrying_is_no_other_kind_of_replay() -> None:
    with pytest.raises(UserError, match="leave out"):
        ReplayConfig(carry="elements", semi_online=True)
