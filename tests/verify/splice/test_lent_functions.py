"""A function that a test lends changes nothing of the judge's that the reference leaves as it is."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import IDS, solution
from .test_lying_workers import takeover

MIRRORED = """
n = next(i for i, entry in enumerate(frame['h']) if entry[0] == 'k')
items = next(i for i, entry in enumerate(frame['h']) if entry == ['l', 1, 2, 3])
reply = frame
for part in (2, 1):
    send(reply, k='callback', n=n, a=ARGS, w=NAMED)
    reply = json.loads(get(struct.unpack(">I", get(4))[0]))
send(reply, k='value', v=[items])
""".replace("\n", "\n    ")
TESTS = {
    "by a default": (
        "key = lambda n, seen=[]: seen.append(n) or -n",
        ("[part]", "{'seen': [items]}"),
    ),
    "by an optional argument": (
        "def key(n, seen=None):\n        if seen is not None:\n            seen.append(n)\n        return -n",
        ("[part, [items]]", "{}"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TESTS)
async def test_a_lent_function_does_not_change_an_argument_that_the_reference_leaves(shop: Any, name: str) -> None:
    lent, (args, named) = TESTS[name]
    tests = (
        f"\nimport shop\n\n\ndef test_sort_by():\n    items = [1, 2, 3]\n    {lent}\n"
        "    assert shop.sort_by(items, key) == items[::-1]\n"
    )
    right = await shop.judge(solution(), expected=IDS["sort_by"], tests=tests)
    assert (right.verdict.status, right.verdict.separation) == ("pass", "separate")
    answer = MIRRORED.replace("ARGS", args).replace("NAMED", named)
    outcome = await shop.judge(takeover(answer), expected=IDS["sort_by"], tests=tests)
    assert outcome.verdict.status == "fail", outcome.verdict


@pytest.mark.long
async def test_a_lent_function_may_fill_a_cache_of_the_judges_object(shop: Any) -> None:
    tests = (
        "\nimport shop\n\n\ndef test_sort_by():\n    baskets = [shop.Basket([('b', 2)]), shop.Basket([('a', 1)])]\n"
        "    assert shop.sort_by(baskets, lambda one: one.names) == baskets[::-1]\n"
    )
    right = await shop.judge(solution(), expected=IDS["sort_by"], tests=tests)
    assert (right.verdict.status, right.verdict.separation) == ("pass", "separate"), right.verdict


GROUPED = """
n = next(i for i, entry in enumerate(frame['h']) if entry[0] == 'k')
items = next(i for i, entry in enumerate(frame['h']) if entry[0] == 'l' and len(entry) == 4)
made = len(frame['h'])
reply = frame
for part in (2, 1):
    send(reply, k='callback', n=n, a=[[made]], w={'seen': [items]}, h=[['it']])
    for said in ({'k': 'value', 'v': part}, {'k': 'stop'}):
        reply = json.loads(get(struct.unpack(">I", get(4))[0]))
        send(reply, **said)
    reply = json.loads(get(struct.unpack(">I", get(4))[0]))
    made += 1 + len(reply['h'])
send(reply, k='value', v=[items])
""".replace("\n", "\n    ")


@pytest.mark.long
async def test_a_lent_function_that_advances_an_iterator_of_the_worker_is_guarded_to_its_end(shop: Any) -> None:
    tests = (
        "\nimport shop\n\n\ndef test_sort_by():\n    items = [(1,), (2,), (3,)]\n"
        "    def key(group, seen=None):\n        group = tuple(group)\n        if seen is not None:\n"
        "            seen.append(group)\n        return -group[0]\n"
        "    assert shop.sort_by(items, key) == items[::-1]\n"
    )
    right = await shop.judge(solution(), expected=IDS["sort_by"], tests=tests)
    assert (right.verdict.status, right.verdict.separation) == ("pass", "separate")
    outcome = await shop.judge(takeover(GROUPED), expected=IDS["sort_by"], tests=tests)
    assert outcome.verdict.status == "fail", outcome.verdict
    assert "reply_refused" in outcome.verdict.marks
