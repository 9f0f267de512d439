"""The tool loop of a model with vision: which pictures its requests hold, and what of them is dropped."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from assay.agents._pictures import DROPPED, SHOWN
from assay.agents.loop import LoopAgent
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.environments.browser.screen import Screen
from assay.errors import ProviderError, TaskError
from assay.gateway.backends._anthropic_body import anthropic_body
from assay.gateway.backends._chat_body import chat_body
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.gateway.interface import ModelRequest
from assay.records import Observation, digest_bytes

pytestmark = pytest.mark.quick
DONE = Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))
LOOK, READ = Reply(tool_calls=(ScriptedCall("look"),)), Reply(tool_calls=(ScriptedCall("read"),))


class Pages(FakeTools):
    """A world whose tool `look` leads to a new page each time, and whose tool `read` shows none."""

    def __init__(self, marks: tuple[int, ...] | None = None, head: bytes = b"RIFF....WEBP") -> None:
        super().__init__({"look": self._look, "read": lambda _: "a tree"})
        self.last_screen: Screen | None = None
        self.images: list[bytes] = []
        self._marks, self._head = marks, head

    def _look(self, _: dict[str, Any]) -> Observation:
        self.images.append(self._head + b"%d" % len(self.images))
        self.last_screen = Screen("look", "", "", "a tree", self.images[-1], None, None, self._marks)
        return Observation("a tree")


def pictures(request: ModelRequest) -> list[bytes]:
    """Returns the pictures that a request holds."""
    contents = [message["content"] for message in request.messages if isinstance(message["content"], list)]
    urls = [part["image_url"]["url"] for content in contents for part in content if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(",")[2]) for url in urls]


async def run(tools: Pages, replies: list[Reply], **options: Any) -> tuple[list[ModelRequest], FakeAttempt]:
    """Returns the requests that a scripted model was sent, as they were then."""
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Reply:
        seen.append(ModelRequest([*request.messages], request.tools))
        return replies[len(seen) - 1]

    attempt = FakeAttempt(backend=ScriptedBackend(answer), tools=tools, task=fake_task("Look around."))
    await LoopAgent(**options).run(attempt)
    return seen, attempt


async def test_the_model_gets_the_picture_of_its_act_after_the_result() -> None:
    tools = Pages()
    seen, _ = await run(tools, [LOOK, READ, DONE], pictures=2)
    assert [pictures(request) for request in seen] == [[], tools.images, tools.images]
    assert [message["role"] for message in seen[1].messages[-2:]] == ["tool", "user"]
    assert seen[1].messages[-1]["content"][1]["image_url"]["url"].startswith("data:image/webp;base64,")
    assert seen[2].messages[-1]["role"] == "tool"  # reading took no picture, and the last one is not shown again


async def test_without_the_option_no_picture_is_shown() -> None:
    seen, _ = await run(Pages(), [LOOK, DONE])
    assert pictures(seen[-1]) == []


async def test_marks_are_listed_and_a_png_is_named_so() -> None:
    seen, _ = await run(Pages((3, 14), b"\x89PNG"), [LOOK, DONE], pictures=1)
    text, image = seen[1].messages[-1]["content"]
    assert text["text"] == f"{SHOWN} Elements are framed, with their number (bid) beside them: 3, 14."
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


async def test_older_pictures_are_dropped_by_halves_and_the_record_names_them() -> None:
    tools = Pages()
    seen, attempt = await run(tools, [LOOK] * 6 + [DONE], pictures=2)
    one, two, three, four, five, six = tools.images
    shown = [pictures(request) for request in seen]
    assert shown == [[], [one], [one, two], [one, two, three], [three, four], [three, four, five], [five, six]]
    assert [message["content"] for message in seen[-1].messages].count(DROPPED) == 4
    dropped = [item.data for item in attempt.evidence if item.kind == "pictures_dropped"]
    assert [(item["turn"], item["images"], item["kept"]) for item in dropped] == [
        (3, [digest_bytes(one), digest_bytes(two)], 2),
        (5, [digest_bytes(three), digest_bytes(four)], 2),
    ]


async def test_a_conversation_that_the_model_refuses_loses_pictures_before_outputs() -> None:
    tools, seen = Pages(), list[list[bytes]]()

    def answer(request: ModelRequest) -> Reply:
        seen.append(pictures(request))
        if len(seen[-1]) > 1:
            raise ProviderError("context_length_exceeded", status=400, retryable=False)
        return LOOK if len(tools.images) < 2 else DONE

    attempt = FakeAttempt(backend=ScriptedBackend(answer), tools=tools, task=fake_task("Look around."))
    await LoopAgent(pictures=3).run(attempt)
    one, two = tools.images
    assert seen == [[], [one], [one, two], [two]]
    assert [item.kind for item in attempt.evidence] == ["pictures_dropped"]


async def test_a_world_without_pages_is_refused() -> None:
    attempt = FakeAttempt(backend=ScriptedBackend([DONE]), tools=FakeTools({}), task=fake_task("Look."))
    with pytest.raises(TaskError, match="shows pages of a browser"):
        await LoopAgent(pictures=1).run(attempt)


async def test_servers_of_both_kinds_are_sent_the_very_bytes() -> None:
    tools = Pages()
    seen, _ = await run(tools, [LOOK, DONE], pictures=1)
    data = base64.b64encode(tools.images[0]).decode()
    chat = chat_body(seen[1], "m")["messages"][-1]["content"][1]
    assert chat == {"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{data}"}}
    turn = anthropic_body(seen[1], "m")["messages"][-1]
    assert turn["role"] == "user"
    assert [block["type"] for block in turn["content"]] == ["tool_result", "text", "image"]
    assert turn["content"][2]["source"] == {"type": "base64", "media_type": "image/webp", "data": data}
