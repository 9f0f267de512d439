"""Trees without a browser: what is remembered and compared is bounded, and a broken browser ends its connection."""

from __future__ import annotations

import asyncio
import os
import time

import msgspec
import pytest

from assay.environments.browser.cdp import CdpConnection
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
    with pytest.raises(EnvironmentFailure, match="none of its protocol"):
        await asyncio.wait_for(waiting, 10)
    os.close(answers)
    os.close(commands)
