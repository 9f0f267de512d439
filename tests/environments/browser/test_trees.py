"""Trees without a browser: what is remembered and compared is bounded, and a broken browser ends its connection."""

from __future__ import annotations

import asyncio
import os
import time

import msgspec
import pytest

from assay.environments.browser.cdp import CdpConnection, CdpError
from assay.environments.browser.keys import parse_keys
from assay.environments.browser.tab import ActProblem
from assay.environments.browser.tree import Node, Numbering, PageTree, render_changes
from assay.errors import EnvironmentFailure


def test_trees_of_equal_lines_are_not_compared() -> None:
    before = ['  cell "yes"'] * 6000
    began = time.monotonic()
    assert render_changes(before, ["x", *before]) is None
    assert time.monotonic() - began < 1


def test_numbers_of_many_documents_are_bounded_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.environments.browser.tree._MOST_KEYS", 10)
    numbering = Numbering()
    for document in range(100):
        nodes = (Node(0, "link", "same", n=1), *(Node(0, "link", f"{document}-{at}", n=at + 2) for at in range(5)))
        numbers = numbering.assign(document, PageTree("u", "t", nodes))
        assert numbers[0] == 1
        assert len(set(numbers)) == 6
    assert len(numbering._by_key) <= 16
    assert len(numbering._by_element) == 6


async def test_an_event_of_another_form_ends_the_connection() -> None:
    read_fd, answers = os.pipe()
    commands, write_fd = os.pipe()
    connection = CdpConnection(read_fd, write_fd)
    await connection.open()
    connection.listen("", lambda _, params: params["targetInfo"].get("x"))
    waiting = connection.send("Browser.getVersion")
    os.write(answers, msgspec.json.encode({"method": "x", "params": {"targetInfo": [1]}}) + b"\0")
    with pytest.raises(EnvironmentFailure, match="outside its protocol"):
        await asyncio.wait_for(waiting, 10)
    os.close(answers)
    os.close(commands)


async def test_half_a_character_of_a_page_ends_no_browser() -> None:
    read_fd, answers = os.pipe()
    commands, write_fd = os.pipe()
    connection = CdpConnection(read_fd, write_fd)
    await connection.open()
    waiting = connection.send("Runtime.callFunctionOn")
    text = rb"cut \ud83d, \ud83d\ude00 whole, \\ud83d written, \udc00"
    os.write(answers, b'{"id": 1, "result": {"value": "' + text + b'"}}\0')
    found = await asyncio.wait_for(waiting, 10)
    assert found == {"value": "cut \ufffd, \U0001f600 whole, \\ud83d written, \ufffd"}
    assert not connection.failure
    connection.close()
    os.close(answers)
    os.close(commands)


async def test_commands_without_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.environments.browser.cdp.MOST_UNANSWERED", 5)
    read_fd, answers = os.pipe()
    commands, write_fd = os.pipe()
    connection = CdpConnection(read_fd, write_fd)
    await connection.open()
    for _ in range(20):  # those that were given up, and those of a session that ended, are none of them
        connection.send("Browser.getVersion").cancel()
        gone = connection.send("Page.enable", "session")
        connection.forget("session")
        with pytest.raises(CdpError, match="gone"):
            await gone
        await asyncio.sleep(0)
    kept = [connection.send("Browser.getVersion") for _ in range(5)]

    def send_another(*_: object) -> None:
        connection.send("Browser.getVersion")

    connection.listen("", send_another)
    os.write(answers, b'{"method": "x"}\0{"method": "x"}\0')
    for future in kept:
        with pytest.raises(EnvironmentFailure, match="does not answer"):
            await asyncio.wait_for(future, 10)
    os.close(answers)
    os.close(commands)


def test_keys_are_bounded() -> None:
    assert len(parse_keys("Control+Shift+a").events()) == 6
    with pytest.raises(ActProblem, match="at most 80"):
        parse_keys("Shift+" * 10_000 + "a")
