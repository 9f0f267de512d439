"""A model with vision on real pages: it gets the stored pictures, and clicks by coordinates that it reads off them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.gateway.backends.scripted import ScriptedBackend
from assay.learning.conversation import stored_pictures
from assay.records import Trajectory, digest_bytes
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.recording.screens import SCREEN
from assay.settings import Settings
from assay.store import RunStore, restore_messages

from .seeing_model import decode_png

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(600)]
MODEL = "scripted:tests.environments.browser.seeing_model:answer"
FAMILIES = {
    "sites": "family:sites,site=museum",
    "services": "family:services,app=shop,interface=pages,level=explicit",
    "walks": "family:walks,site=bakery,walks=60",
    "miniwob": "family:miniwob,page=click-test",
    "computer": "family:services,app=mail,interface=pages,level=explicit,computer=true",
}


async def see(tmp_path: Path, tasks: str) -> tuple[Trajectory, RunStore]:
    """Returns the attempt of the model with vision at one task, and its store."""
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    source = f"{tasks},n=1,marks=true,picture_type=png"
    config = RunConfig(tasks=(source,), agent="loop", model=MODEL, agent_options={"pictures": 1}, run="seen")
    await start_run(config, settings, Tally())
    store = RunStore.open(settings.store, "seen")
    return store.trajectory(store.attempts()[0].chain), store


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_click_by_a_picture_hits_the_element_that_it_shows(tmp_path: Path, family: str) -> None:
    trajectory, store = await see(tmp_path, FAMILIES[family])
    with store:
        screens = [found.data for found in trajectory.evidence if found.kind == SCREEN]
        assert [screen["act"] for screen in screens] == ["screenshot", "mouse_click"]
        clicked = next(step for step in trajectory.steps if step.message is not None)
        assert clicked.tool_calls[0].name == ("computer" if family == "computer" else "mouse_click")
        assert screens[1]["hit"]["bid"] == (clicked.message or "").removeprefix("number ")
        calls = {call.id: call for call in trajectory.calls}
        sent = [stored_pictures(restore_messages(calls, call)) for call in trajectory.calls]
        first, second = (screen["image"] for screen in screens)
        if family == "miniwob":  # the click ended the episode
            assert sent == [(), (first,), (first,)]
            assert trajectory.outcome == "pass"
        else:
            assert sent == [(), (first,), (first,), (second,)]
        picture = store.blobs.get(first)
        assert digest_bytes(picture) == first
        assert decode_png(picture).width == (332 if family == "miniwob" else 1280)
        texts = [str(call.request) for call in trajectory.calls]
        assert not any("base64" in text for text in texts)


async def test_a_model_that_is_sent_text_alone_is_not_shown_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedBackend, "reads_pictures", False, raising=False)
    trajectory, store = await see(tmp_path, FAMILIES["miniwob"])
    store.close()
    assert trajectory.finished is not None
    assert "is sent text alone" in str(trajectory.finished.error)
    assert len(trajectory.calls) == 1  # the one before the first picture
