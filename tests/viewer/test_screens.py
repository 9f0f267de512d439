"""Pages of a browser beside the steps: what is shown of them, and what a hostile record of them cannot do."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Observation,
    Step,
    StepAdded,
    ToolCall,
)
from assay.store import RunStore
from assay.viewer import attempt_names
from assay.viewer.views import make_view
from scripts.screenshots import OVERFLOW
from tests.viewer import made

if TYPE_CHECKING:
    from tests.viewer.conftest import Look, Opened

PNG = base64.b64decode(made.picture().partition(",")[2])
TREE = 'Page: "Orders"\n[3] link "Orders"\n  [41] textbox "Order ID" value=""\n'


def screen(name: str, data: dict[str, Any], *blobs: str) -> Body:
    base = {"act": "click", "url": "http://shop.test/", "title": "Shop", "tree": None, "image": None, "point": None}
    return EvidenceAdded(Evidence(name, "state", "screen", base | data, blobs))


def act(index: int, bid: str) -> Body:
    call = ToolCall(f"a{index}", "click", f'{{"bid":"{bid}"}}', {"bid": bid})
    return StepAdded(Step(index, "agent", None, None, (call,), (Observation("Page", f"a{index}"),)))


def record(root: Path, run: str, make: Callable[[str, str], list[Body]]) -> Path:
    """Records an attempt; `make` gets the digests of a picture and of a tree."""
    with RunStore.create(root, run, {}) as store:
        image, tree = store.blobs.put(PNG), store.blobs.put(TREE.encode())
        start = AttemptStarted(run, "s@0", "made/shop", "d", "loop", None, 0, 0, at=1.0)
        store.append("s@0.0", [start, *make(image, tree), AttemptEnded("agent said so", at=9.0)])
    return root


def browsing(image: str, tree: str) -> list[Body]:
    first = screen("e1", {"image": image, "tree": tree}, tree, image)
    second = screen("e2", {"image": image, "tree": tree, "point": [0.5, 0.5], "title": "Orders"}, tree, image)
    return [first, act(0, "1"), second, act(1, "41"), act(2, "9")]


def pointing(image: str, tree: str) -> list[Body]:
    """A click at coordinates, and what it hit; then a record of such a click that is malformed."""
    data = {"image": image, "tree": tree, "point": [0.5, 0.5]}
    call = ToolCall("a1", "mouse_click", '{"x":0.5,"y":0.5}', {"x": 0.5, "y": 0.5})
    click = StepAdded(Step(1, "agent", None, None, (call,), (Observation("Page", "a1"),)))
    hits: list[Any] = [{"bid": "3", "role": "link", "name": "Orders"}, {"bid": [3]}]
    steps = [screen(f"e{at + 2}", data | {"hit": hit}, tree, image) for at, hit in enumerate(hits)]
    return [screen("e1", {"image": image, "tree": tree}, tree, image), act(0, "1"), steps[0], click, steps[1], click]


def shown(root: Path, run: str) -> list[Any]:
    lines = make_view(root, f"run/{run}/attempt/s%400.0/lines/0")
    assert lines is not None
    return [line.get("screens") for line in msgspec.json.decode(lines)["lines"] if line["kind"] == "step"]


def test_a_step_has_the_page_after_it_and_the_point_on_the_page_before(tmp_path: Path) -> None:
    first, second, third = shown(record(tmp_path, "r", browsing), "r")
    assert [(one["image"] is not None, one["before"], one["target"]) for one in first] == [(True, None, None)]
    hit = shown(record(tmp_path, "hit", pointing), "hit")[1][0]
    assert (hit["point"], hit["target"]) == ([0.5, 0.5], 'link "Orders"')
    assert second[0]["before"] == first[0]["image"]
    assert (second[0]["point"], second[0]["target"], second[0]["title"]) == (
        [0.5, 0.5],
        'textbox "Order ID" value=""',
        "Orders",
    )
    assert third is None


def test_an_element_in_a_line_with_others_is_named_and_a_text_of_the_page_is_not(tmp_path: Path) -> None:
    tree = 'main\n  row "[3] link \\"Fake\\"" | [3] link "ORD-1 | x" | [4] button "Go"\n'

    def clicking(image: str, _: str) -> list[Body]:
        with RunStore.open(tmp_path, "r") as store:
            stored = store.blobs.put(tree.encode())
        data = {"image": image, "tree": stored, "point": [0.5, 0.5]}
        first, second = (screen(name, data, stored, image) for name in ("e1", "e2"))
        return [first, act(0, "1"), second, act(1, "3")]

    assert shown(record(tmp_path, "r", clicking), "r")[1][0]["target"] == 'link "ORD-1 | x"'


@pytest.mark.parametrize("tree", ['"' + '\\"' * 20_000, "\n" * 200_000, " " * 200_000, '[4] "' * 20_000])
def test_a_tree_of_another_program_is_searched_in_the_time_of_its_size(tree: str, tmp_path: Path) -> None:
    def clicking(image: str, _: str) -> list[Body]:
        with RunStore.open(tmp_path, "r") as store:
            stored = store.blobs.put(tree.encode())
        first, second = (screen(name, {"tree": stored}, stored) for name in ("e1", "e2"))
        return [first, act(0, "1"), second, act(1, "3")]

    root = record(tmp_path, "r", clicking)
    began = time.process_time()
    assert shown(root, "r")[1][0]["target"] is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "data",
    [
        {"image": "blake3:" + "0" * 64, "point": "here", "title": 7},
        {"image": "../../etc/passwd", "point": [1, "2"], "url": ["x"]},
        {"image": {"a": 1}, "tree": "../x", "point": [1e300, 2]},
        {"image": None, "point": [1, 2, 3], "act": None},
    ],
)
def test_a_screen_that_lists_no_such_blob_shows_none(data: dict[str, Any], tmp_path: Path) -> None:
    (one,), *_ = shown(record(tmp_path, "r", lambda *_: [screen("e1", data), act(0, "3")]), "r")
    assert (one["image"], one["before"], one["point"], one["target"]) == (None, None, None, None)


def test_a_picture_that_a_model_was_shown_is_found_by_its_digest(tmp_path: Path) -> None:
    def asking(image: str, _: str) -> list[Body]:
        shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}
        return [ModelCalled(ModelCall("c1", "openai-chat", "m", {"messages": [shown]}, None))]

    root = record(tmp_path, "r", asking)
    call = msgspec.json.decode(make_view(root, "run/r/attempt/s%400.0/call/1") or b"")
    assert call["messages"][0]["parts"] == [{"picture": "/call/request/messages/0/content/0/image_url/url"}]
    (name,) = attempt_names.pictures(root, "r")
    found = msgspec.json.decode(make_view(root, name) or b"")
    assert (found["type"], found["data"]) == ("image/png", base64.b64encode(PNG).decode())


def test_a_picture_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    root = record(tmp_path, "r", browsing)
    (first,), *_ = shown(root, "r")
    with RunStore.open(root, "r") as store:
        path = store.blobs.path(first["image"])
    path.chmod(0o644)
    path.write_bytes(PNG + b"more")
    found = make_view(root, f"run/r/shown/{first['image'].replace(':', '%3A')}")
    assert found is not None
    assert "changed after it was stored" in msgspec.json.decode(found)["problem"]


def test_pages_stand_beside_the_steps_and_can_be_enlarged(look: Look, store: Path) -> None:
    record(store, "browsing", browsing)
    page = look.go("#/run/browsing/attempt/s%400.0")
    pages = page.get_by_role("group", name="Pages in the browser").nth(1)
    assert pages.get_by_role("img", name="aimed at 1, 1").bounding_box() is not None
    pages.get_by_role("button", name="Enlarge: Before click").click()
    large = page.get_by_role("dialog", name="Before click")
    assert large.get_by_role("img", name="Before click").is_visible()
    large.get_by_role("button", name="Close").click()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 900})


def test_hostile_pages_are_inert(look: Look, store: Path) -> None:
    evil = {"act": made.HOSTILE, "title": made.HOSTILE, "url": "javascript:window.pwned = 1", "point": [-5, 1e5]}
    record(store, "evil-pages", lambda image, tree: [screen("e1", evil | {"image": image}, image), act(0, "3")])
    page = look.go("#/run/evil-pages/attempt/s%400.0")
    page.get_by_role("group", name="Pages in the browser").get_by_role("img").first.wait_for()
    assert page.evaluate("window.pwned") is None
    assert page.locator(".shot-point").count() == 0


def test_a_long_name_without_spaces_fits_a_phone(looking: Callable[..., Opened], store: Path) -> None:
    name = "+".join(["system_message", "use_tools", "submit_tool"] * 8)
    with RunStore.create(store, "long-names", {}) as run:
        started = AttemptStarted("long-names", "s@0", f"made/{name}", "d", name, name, 0, 0, at=1.0)
        run.append("s@0.0", [started, act(0, "1"), AttemptEnded(name, at=2.0)])
    with looking(viewport={"width": 390, "height": 800}) as narrow:
        for route in ("#/run/long-names/attempt/s%400.0", "#/run/long-names"):
            assert not narrow.go(route).evaluate(OVERFLOW), route
