"""Workers that speak the protocol and hold no code, or break it: the judge ends in bounded time and passes none.

Each attack takes the worker over while the package is imported, finds the pipes in the caller's frames and answers the
judge's frames itself.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.verify import host_load
from assay.verify.separation_plan import EntryUse
from assay.verify.splice import run
from tests.sampling import draw_sample

from .conftest import IDS, TESTS, plan_of, solution

TAKEOVER = """
import json, os, struct, sys, time
frame = sys._getframe()
while "reads" not in frame.f_locals:
    frame = frame.f_back
reads, writes = frame.f_locals["reads"], frame.f_locals["writes"]
def raw(body):
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(writes, data):]
def send(frame, **message):
    raw(json.dumps({"id": frame.get("id", ""), "h": [], "c": [], **message}).encode())
def get(size):
    data = b""
    while len(data) < size:
        part = os.read(reads, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
def answer(frame):
    ANSWER
test = -1
while True:
    frame = json.loads(get(struct.unpack(">I", get(4))[0]))
    if frame["op"] == "end":
        send(frame, k="ended")
    elif frame["op"] == "begin":
        test += 1
    else:
        answer(frame)
"""


def takeover(answer: str) -> str:
    return "cat > shop/__init__.py <<'PYTHON'\n" + TAKEOVER.replace("ANSWER", answer) + "\nPYTHON\n"


def value(text: str) -> str:
    return f"send(frame, k='value', {text})"


ANSWERS = {
    "none": value("v=None"),
    "true": value("v=True"),
    "zero": value("v=0"),
    "an empty list": value("v=[0], h=[['l']]").replace("v=[0]", "v=[len(frame['h'])]"),
    "an echo of the first argument": value("v=frame['h'][0][1] if len(frame['h'][0]) > 1 else None"),
    "not a number": value("v=float('nan')"),
    "a lone surrogate": value("v='\\udc80'"),
    "an unknown object": value("v=[99999]"),
    "a negative number of an object": value("v=[-1]"),
    "a callback that was not passed": "send(frame, k='callback', n=0, a=[], w={})",
    "a pull of what is no iterator": "send(frame, k='pull', n=0)",
    "the end of what is no iterator": "send(frame, k='stop')",
    "the exception of a callback that never was": "send(frame, k='again', n=0)",
    "a type of the judge's": value("v=[len(frame['h'])], h=[['C', 'builtins', 'eval']]"),
    "a module": value("v=[len(frame['h'])], h=[['N', 'os']]"),
    "a function": value("v=[len(frame['h'])], h=[['F', 'os', 'system']]"),
    "tuples of tuples that a hash visits 2^60 times": value(
        "v=[n], h=[['s', [n + 1]], *[['t', [n + i + 2], [n + i + 2]] for i in range(60)], ['t', 1]]"
    ).replace("send", "n = len(frame['h']); send"),
}
"""One frame for each request: the judge goes on with the next test."""
LARGE = {
    "ten megabytes in hexadecimal": value("v={'i': '0x' + 'f' * 10**7}"),
    "tuples a hundred thousand deep": value(
        "v=[len(frame['h'])], h=[['t', [len(frame['h']) + i + 1]] for i in range(10**5)] + [['t']]"
    ),
}
BROKEN = {
    "an integer of ten million digits": "raw(json.dumps({'id': frame['id'], 'k': 'value', 'v': 'X'})"
    ".encode().replace(b'\"X\"', b'9' * 10**7))",
    "lists a hundred thousand deep": "raw(b'[' * 10**5 + b']' * 10**5)",
    "two answers": "send(frame, k='value', v=7); send(frame, k='value', v=7)",
    "an answer to nothing": "send({'id': 'x'}, k='value', v=7)",
    "a flood": "[raw(b'[' + b' ' * 1000000 + b']') for _ in range(500)]",
    "death": "os._exit(0)",
}
"""The judge talks no more with this worker: every test fails."""
LIES = """

@pytest.fixture(params=range({count}), ids=str, autouse=True)
def lie(request):
    return request.param
"""


def lied_to(identity: str, number: int) -> str:
    """Returns the id of a test once more for each lie."""
    name, _, parameter = identity.partition("[")
    return f"{name}[{number}-{parameter}" if parameter else f"{name}[{number}]"


async def judge_lies(shop: Any, lies: list[tuple[str, str]]) -> list[tuple[str, bool]]:
    """Judges a worker once that gives each test its own answer, `lies` being (answer, test): the status of each test,
    and whether a reply was refused in it."""
    planned = {test.id: test for test in plan_of().tests}
    tests = [msgspec.structs.replace(planned[name], id=lied_to(name, n)) for n, (_, name) in enumerate(lies)]
    made = "".join(f"def lie_{n}(frame):\n    {text}\n" for n, (text, _) in enumerate(lies))
    known = f"{made}LIES = [{', '.join(f'lie_{n}' for n in range(len(lies)))}]\n"
    command = takeover("return LIES[test](frame)").replace("test = -1\n", f"{known}test = -1\n")
    names = [test.id for test in tests]
    outcome = await shop.judge(
        command, plan_of(tests=tuple(tests)), tests=TESTS + LIES.format(count=len(lies)), expected=names
    )
    (report,) = outcome.of_kind("test_report")
    status = {test["id"]: test["status"] for test in report["tests"]}
    refused = {refusal["id"] for refusal in report["refusals"]}
    assert outcome.verdict.status == ("pass" if set(status.values()) == {"passed"} else "fail")
    return [(status[name], name in refused) for name in names]


@pytest.mark.long
async def test_a_worker_without_code_never_passes(shop: Any) -> None:
    every = [name for listed in IDS.values() for name in listed]
    (total,) = IDS["total"]
    lies = [(lie, name) for lie in ANSWERS.values() for name in every] + [(lie, total) for lie in LARGE.values()]
    *lied, right = await judge_lies(shop, [*lies, (value("v=7"), total)])
    assert {status for status, _ in lied} == {"failed"}
    assert right == ("passed", False), "a right answer of the same worker is believed"


@pytest.mark.long
@pytest.mark.parametrize("name", draw_sample(sorted(BROKEN), 4))
async def test_a_worker_that_breaks_the_protocol_never_passes(shop: Any, name: str) -> None:
    started = time.monotonic()
    outcome = await shop.judge(takeover(BROKEN[name]), timeout_s=25.0)
    assert outcome.verdict.status in ("fail", "unknown"), outcome.verdict
    assert outcome.of_kind("test_report"), "the judge itself survived"
    assert time.monotonic() - started < 90


REFUSED = [
    *(
        f"send(frame, k='raise', e=[{error}], a=['no pears'], f={{}})"
        for error in (["builtins", "SystemExit"], ["_pytest.outcomes", "Skipped"], ["_pytest.outcomes", "Exit"],
                      ["builtins", "AssertionError"], ["builtins", "KeyboardInterrupt"], ["shop.core", "Basket"])
    ),
    "send(frame, k='raise', e=[['builtins', 'ValueError']])",
    *(
        f"send(frame, k='raise', e=[['builtins', 'SyntaxError']], a=['no', [len(frame['h'])]], f={{}}, h=[{place}])"
        for place in (['t', 'a', 1, 1, 'x', 1, 10**11], ['t', 'a', 1, 'x', 'x'], ['t', 'a', 1, 1, 7])
    ),
    "send(frame, k='value', v=[0], h=[['l']] * 3, c=7)",
    "send(frame, k='value', v=0, h={})",
]  # fmt: skip
"""Exceptions that would end or decide a test, and broken replies, which are no exception that it could expect."""


@pytest.mark.long
async def test_only_the_exception_that_the_code_may_raise_is_taken(shop: Any) -> None:
    right = "send(frame, k='raise', e=[['shop.core', 'ShopError']], a=['no pears'], f={})"
    *lied, taken = await judge_lies(shop, [(answer, *IDS["missing"]) for answer in (*REFUSED, right)])
    assert set(lied) == {("failed", True)}
    assert taken == ("passed", False)


FED = """
import shop


def test_sort_by():
    feed = iter([1, 2, 3])
    found = [*map(lambda items: shop.sort_by(items, lambda _: next(feed)), [[3, -1, 2]])]
    assert all(one == [3, -1, 2] for one in found)
"""
ENDS = """
n = next(i for i, entry in enumerate(frame['h']) if entry[0] == 'k')
reply = frame
while reply['op'] != 'raise':
    send(reply, k='callback', n=n, a=[0], w={})
    reply = json.loads(get(struct.unpack(">I", get(4))[0]))
send(reply, k='again', n=reply['n'])
""".replace("\n", "\n    ")


@pytest.mark.long
async def test_the_end_of_the_tests_own_iterator_is_no_answer(shop: Any) -> None:
    right = await shop.judge(solution(), expected=IDS["sort_by"], tests=FED)
    assert (right.verdict.status, right.verdict.separation) == ("pass", "separate")
    outcome = await shop.judge(takeover(ENDS), expected=IDS["sort_by"], tests=FED)
    assert outcome.verdict.status == "fail", outcome.verdict
    assert "reply_refused" in outcome.verdict.marks


ASSERTING = """
import shop


def test_sort_by():
    seen = []

    def key(number):
        assert number in (3, -1, 2)
        seen.append(number)
        return number

    assert shop.sort_by([3, -1, 2], key) == [-1, 2, 3] and sorted(seen) == [-1, 2, 3]
"""
ASKS_UNTIL_IT_HOLDS = """
    for number in range(-9, 9):
        try:
            key(number)
        except AssertionError as error:
            assert "in (3, -1, 2)" in str(error)
    return sorted(items)
"""


@pytest.mark.long
async def test_an_assertion_in_a_function_of_the_test_is_no_question(shop: Any) -> None:
    right = await shop.judge(solution(), expected=IDS["sort_by"], tests=ASSERTING)
    assert (right.verdict.status, right.verdict.separation) == ("pass", "separate")
    asking = await shop.judge(solution(sort_by=ASKS_UNTIL_IT_HOLDS), expected=IDS["sort_by"], tests=ASSERTING)
    assert (asking.verdict.status, asking.verdict.marks) == ("fail", ("failed_tests", "reply_refused"))


FORGIVEN = """
import pytest
import shop


def test_sort_by():
    def key(number):
        assert number < 0

    with pytest.raises(AssertionError):
        shop.sort_by([3], key)
"""


@pytest.mark.long
async def test_an_assertion_that_ends_the_call_reaches_the_test(shop: Any) -> None:
    outcome = await shop.judge(solution(), expected=IDS["sort_by"], tests=FORGIVEN)
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ())


def basket(fields: str) -> str:
    return value(
        f"v=[n], h=[['o', ['shop.core', 'Basket'], {fields}], ['l', [n + 3]], ['d'], ['t', 'a', 75], ['l', 'a']]"
    )


FIELDS = {
    "{'items': [n + 1], 'notes': [n + 2]}": "passed",
    "{'items': [n + 1], 'notes': [n + 2], 'names': [n + 4]}": "failed",
    "{'items': [n + 1], 'notes': [n + 2], '__len__': 1}": "failed",
    "{'items': [n + 1], 'notes': [n + 2], '__class__': 1}": "failed",
    "{'items': [n + 1], 'other': 1}": "passed",
}


@pytest.mark.long
async def test_instances_are_their_recorded_fields_alone(shop: Any) -> None:
    lies = [("n = len(frame['h']); " + basket(fields), *IDS["discounted"]) for fields in FIELDS]
    assert [status for status, _ in await judge_lies(shop, lies)] == list(FIELDS.values())


@pytest.mark.long
async def test_arguments_change_only_where_the_reference_changes_them(shop: Any) -> None:
    spoil = solution(discounted="basket.items = []; return Basket([('a', 75)])")
    outcome = await shop.judge(spoil, expected=IDS["discounted"])
    assert (outcome.verdict.status, outcome.verdict.marks) == ("fail", ("failed_tests", "reply_refused"))


@pytest.mark.long
async def test_a_hang_fails_and_its_cause_is_marked(shop: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(host_load, "PROC", tmp_path / "proc")  # a busy host would leave it open
    monkeypatch.setattr(run, "WORKER_GRACE_S", 0.2)
    outcome = await shop.judge(takeover("time.sleep(300)"), plan_of(call_timeout_s=1.0), expected=IDS["total"])
    assert outcome.verdict.status == "fail"
    assert "worker_late" in outcome.verdict.marks


TRUE_OF_ANYTHING = """
import shop


def test_sort_by():
    found = shop.sort_by([3, -1, 2], abs)
    assert found
    for number in found:
        assert number in (-1, 2, 3)
"""
TRUE_ANSWERS = {
    "an iterator without items": "if frame['op'] == 'next': return send(frame, k='stop')\n    "
    + value("v=[len(frame['h'])], h=[['it']]"),
    "an instance": value("v=[len(frame['h'])], h=[['o', ['shop.core', 'Basket'], {'items': 'ab'}]]"),
}


@pytest.mark.long
async def test_an_answer_of_a_kind_that_the_reference_never_gives_is_refused(shop: Any) -> None:
    plan = plan_of()
    uses = (EntryUse("shop.core:sort_by", (), ("list",)),)
    tests = tuple(msgspec.structs.replace(t, uses=uses) if "sort_by" in t.id else t for t in plan.tests)
    plan = msgspec.structs.replace(plan, tests=tests)
    given = {"expected": IDS["sort_by"], "tests": TRUE_OF_ANYTHING}
    assert (await shop.judge(solution(), plan, **given)).verdict.status == "pass"
    for answer in TRUE_ANSWERS.values():
        outcome = await shop.judge(takeover(answer), plan, **given)
        assert outcome.verdict.status == "fail"
        refusals = [one for found in outcome.of_kind("test_report") for one in found.get("refusals", [])]
        assert "never returns" in str(refusals), outcome.evidence


OF_EACH_KEY = """
import shop


def test_total():
    found = shop.total([("a", 3), ("b", 4)])
    assert len(found) == 2
    for name, amount in found.items():
        assert amount == {"a": 3, "b": 4}[name]
"""


@pytest.mark.long
async def test_an_ordered_dictionary_shows_all_of_its_keys(shop: Any) -> None:
    given = {"expected": IDS["total"], "tests": OF_EACH_KEY}
    body = "import collections\n    return collections.OrderedDict(%s)"
    right = await shop.judge(solution(total=body % "items"), **given)
    assert (right.verdict.status, right.verdict.separation) == ("pass", "separate"), right.verdict
    wrong = await shop.judge(solution(total=body % "{'x': 1, 'y': 2}"), **given)
    assert wrong.verdict.status == "fail", wrong.verdict
