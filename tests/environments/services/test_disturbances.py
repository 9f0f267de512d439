"""Disturbances change the path and never what is judged; the oracle gets through each of them."""

from __future__ import annotations

import json
import random
import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.environments.hooks import SolvesItself
from assay.environments.interface import KeepsStates, ToolSpec, World
from assay.environments.services.apps.mail import mail
from assay.environments.services.disturbances import ranked
from assay.environments.services.disturbances.corrupted import Corrupted
from assay.environments.services.disturbances.world import DISTURBANCES, DisturbedWorld
from assay.environments.services.plans import PlannedCall
from assay.environments.services.served_tools import CodedTools, ServedTools
from assay.environments.services.serving import serve_http
from assay.environments.services.world import ServiceWorld
from tests.environments.services.board import IDS, PLAN, SEED, board, open_board
from tests.environments.services.test_serving import answer

pytestmark = pytest.mark.newest
HEAVY = {
    "failures": "failures:rate=0.9",
    "slow": "slow:rate=0.9:timeouts=1.0:minutes=7",
    "pages": "pages:size=2",
    "renamed": "renamed:rate=1.0",
    "drift": "drift:rate=1.0:at=2",
    "stale": "stale:rate=1.0",
    "corrupted": "corrupted:rate=1.0",
    "ranked": "ranked:rate=1.0",
    "others": "others:rate=1.0",
    "noise": "noise:rate=1.0",
    "paraphrase": "paraphrase",
    "changed": "changed:text=close",
    "attack": "attack",
}


def solve(world: DisturbedWorld) -> list[str]:
    return [world.act(call.name, call.parsed or {}).content for call in world.oracle()]


def judged(world: DisturbedWorld) -> Any:
    return world.facts()["changes"]


UNDISTURBED = open_board()
solve(UNDISTURBED)


def test_every_disturbance_is_tried_here() -> None:
    assert set(HEAVY) == set(DISTURBANCES)
    world = open_board("failures")
    assert all(isinstance(world, kind) for kind in (World, KeepsStates, SolvesItself, CodedTools))


@pytest.mark.parametrize("kind", HEAVY)
def test_it_disturbs_the_path_and_the_oracle_gets_through(kind: str) -> None:
    """Fails where a disturbance is switched off: then nothing differs from the undisturbed world."""
    world = open_board(HEAVY[kind])
    seen = [[spec.name for spec in world.specs()], world.rewrite("Please cancel the booking."), *solve(world)]
    plain = open_board()
    undisturbed = [[spec.name for spec in plain.specs()], plain.rewrite("Please cancel the booking."), *solve(plain)]
    others = kind == "others" and world.service.calls != plain.service.calls
    assert seen != undisturbed or others
    assert judged(world) == judged(UNDISTURBED)
    if kind not in ("others", "slow"):
        assert world.service.database.digest() == UNDISTURBED.service.database.digest()
    off = open_board(":".join([HEAVY[kind].partition(":")[0], "rate=0"]))
    assert kind == "changed" or solve(off) == solve(open_board())


@pytest.mark.parametrize("inner", ["failures:rate=1.0:in_row=1", "slow:rate=0.9:timeouts=1.0:made=0"])
def test_a_lag_shows_no_result_of_a_call_that_was_not_made(inner: str) -> None:
    world = open_board(f"{inner}+stale:rate=1.0:calls=9")
    for call in world.oracle():
        before = world.service.answered
        answer = world.answer(call.name, call.parsed or {})
        assert (world.service.answered > before) == (answer.code is None)
    assert judged(world) == judged(UNDISTURBED)


SPECS = st.lists(
    st.sampled_from([*HEAVY.values(), "failures:rate=0.3", "slow:rate=0.5"]),
    min_size=1,
    max_size=5,
    unique_by=lambda spec: spec.partition(":")[0],
)


@settings(max_examples=20, deadline=None)
@given(specs=SPECS, seed=st.integers(0, 99))
def test_any_composition_keeps_what_is_judged(specs: list[str], seed: int) -> None:
    world = open_board("+".join(f"{spec}:seed={seed}" for spec in specs))
    solve(world)
    assert judged(world) == judged(UNDISTURBED)
    if not any(spec.startswith(("others", "slow")) for spec in specs):
        assert world.service.database.digest() == UNDISTURBED.service.database.digest()


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(specs=SPECS, seed=st.integers(0, 99), cut=st.integers(0, 12))
def test_a_replay_a_fork_and_a_restored_state_meet_the_same(specs: list[str], seed: int, cut: int) -> None:
    spec = "+".join(f"{one}:seed={seed}" for one in specs)
    world, again, restored = open_board(spec), open_board(spec), open_board(spec)
    calls = [(call.name, call.parsed or {}) for call in world.oracle()]
    calls += [("list_notes", {}), ("nothing", {}), ("get_note", {"note_id": IDS[2]})]
    shown = [world.act(*call) for call in calls[:cut]]
    fork = world.fork()
    restored.restore(world.snapshot())
    shown += [world.act(*call) for call in calls[cut:]]
    assert [again.act(*call) for call in calls] == shown
    for other in (fork, restored):
        assert [other.act(*call) for call in calls[cut:]] == shown[cut:]
        assert other.facts() == world.facts() == again.facts()
        assert other.snapshot() == world.snapshot()


def test_other_bytes_are_no_state() -> None:
    world = open_board("stale:rate=1.0")
    for data in (b"", b"{}", open_board("failures").snapshot(), world.service.snapshot()):
        with pytest.raises(ValueError, match="state"):
            world.restore(data)


def test_a_larger_dose_disturbs_at_least_the_same_calls() -> None:
    failed: set[int] = set()
    for rate in (0.1, 0.3, 0.6, 0.9):
        world = open_board(f"failures:rate={rate}:in_row=20")
        now = {at for at in range(40) if world.act("list_notes", {"limit": 1}).error}
        assert failed <= now
        failed = now
    assert len(failed) > 20


def test_a_failed_call_is_not_made_and_a_retry_helps() -> None:
    world = open_board("failures:rate=1.0:in_row=2")
    answers = [world.act("close_note", {"note_id": IDS[3]}) for _ in range(3)]
    assert [one.error for one in answers] == [True, True, False]
    assert len(world.service.calls) == 1


def test_after_a_time_out_the_call_may_have_been_made() -> None:
    made = set()
    for seed in range(12):
        world = open_board(f"slow:rate=1.0:timeouts=1.0:seed={seed}")
        assert world.act("close_note", {"note_id": IDS[3]}).error
        assert world.last_code == "unavailable"
        made.add(bool(judged(world)))
    assert made == {True, False}


def test_time_passes_only_where_the_outcome_does_not_hang_on_it() -> None:
    world = open_board("slow:rate=1.0:timeouts=0:minutes=10")
    solve(world)
    assert world.service.now == "2026-03-02T09:50"
    stamped = open_board("slow:rate=1.0:timeouts=0:minutes=10", (PlannedCall("stamp_note", {"note_id": IDS[0]}),))
    solve(stamped)
    assert stamped.service.now == "2026-03-02T09:00"


def test_pages_together_are_the_result() -> None:
    world, items = open_board("pages:size=4"), []
    page = json.loads(world.act("list_notes", {}).content)
    items += page["items"]
    while "next_cursor" in page:
        page = json.loads(world.act("next_page", {"cursor": page["next_cursor"]}).content)
        items += page["items"]
    assert items == json.loads(ServiceWorld.of([board], SEED).act("list_notes", {}).content)
    for wrong in ({"cursor": "x"}, {}, {"cursor": 3}, {"cursor": "x", "more": 1}):
        assert world.act("next_page", wrong).error


def test_old_names_are_gone_and_the_policy_names_the_new_ones() -> None:
    world = open_board("renamed:rate=1.0")
    names = [spec.name for spec in world.specs()]
    assert not {"list_notes", "close_note", "wait"} & set(names)
    assert world.act("close_note", {"note_id": IDS[0]}).error
    outward = world.outward(PlannedCall("close_note", {"note_id": IDS[0]}))
    assert outward.action in world.policy.text
    assert "`close_note`" not in world.policy.text
    shown = world.act(outward.action, {"note_id": IDS[0]})
    assert shown.error
    missing = world.act(outward.action, {})
    (parameter,) = outward.arguments
    assert f"`{parameter}`" in missing.content
    assert not world.act(outward.action, outward.arguments).error


def test_a_refusal_names_the_new_parameter() -> None:
    world = open_board("drift:rate=1.0:at=2:part=parameters")
    assert not world.act("get_note", {"note_id": IDS[0]}).error
    refused = world.act("get_note", {"note_id": IDS[0]})
    (new,) = world.outward(PlannedCall("get_note", {"note_id": IDS[0]})).arguments
    assert (refused.error, f"`{new}`" in refused.content) == (True, True)
    assert not world.act("get_note", {new: IDS[0]}).error


def test_a_view_lags_behind_a_write_and_catches_up() -> None:
    world = open_board("stale:rate=1.0:calls=2")
    look = ("get_note", {"note_id": IDS[4]})
    before = world.act(*look).content
    world.act("close_note", {"note_id": IDS[4]})
    assert [world.act(*look).content == before for _ in range(3)] == [True, True, False]
    assert [call.action for call in world.service.calls] == ["get_note", "close_note", *["get_note"] * 3]


@pytest.mark.parametrize("how", ["falsified", "broken"])
def test_a_corrupted_result_is_right_when_it_is_asked_for_again(how: str) -> None:
    world, plain = open_board(f"corrupted:rate=1.0:how={how}"), open_board()
    look = PLAN[1]
    right = plain.act(look.action, look.arguments).content
    wrong = world.act(look.action, look.arguments).content
    assert wrong != right
    assert world.act(look.action, look.arguments).content == right
    assert world.facts()["disturbances"] == [
        {"kind": "corrupted", "falsified": how == "falsified", "broken": how == "broken"}
    ]
    assert world.facts()["trace"][0]["content"] == right
    if how == "broken":
        assert wrong.endswith("[the connection broke]")
    else:
        one, two = json.loads(right), json.loads(wrong)
        assert one.keys() == two.keys()
        assert {name for name in one if "id" in name and one[name] != two[name]} == set()


def listed(spec: str) -> list[str]:
    world = open_board(spec)
    return [note["id"] for note in json.loads(world.act("list_notes", {"limit": 8}).content)]


def test_a_ranker_shows_first_what_it_prefers_and_hides_nothing() -> None:
    used = IDS[:2]
    world = open_board("ranked:rate=1.0")
    whole = [note["id"] for note in json.loads(world.act("list_notes", {"limit": 50}).content)]
    assert sorted(whole) == sorted(IDS)
    assert whole[-2:] == used
    assert world.facts()["disturbances"] == [{"kind": "ranked", "ranked": 1}]
    matched = open_board("ranked:rate=1.0:match=KETTLE 5").act("list_notes", {"limit": 1})
    assert [note["title"] for note in json.loads(matched.content)] == ["Blue kettle 5"]
    shares = [sum(note in used for note in listed(f"ranked:rate={rate}")[:2]) for rate in (0.0, 1.0)]
    assert shares == [2, 0]


def test_pages_of_ranked_rows_hold_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a page begins among the rows that are ranked, and ends behind them."""
    monkeypatch.setattr(ranked, "_MOST_ROWS", 15)
    world = DisturbedWorld(ServiceWorld.of([mail], 1), [{"kind": "ranked", "rate": 1.0, "match": "Maple"}])
    plain = ServiceWorld.of([mail], 1)
    given = {"text": "", "limit": 10}
    pages = [json.loads(world.act("search_contacts", {**given, "offset": at}).content) for at in (0, 10)]
    whole = [json.loads(plain.act("search_contacts", {**given, "offset": at}).content) for at in (0, 10)]
    seen, expected = [one["id"] for page in pages for one in page], [one["id"] for page in whole for one in page]
    assert len(expected) == 20
    assert seen != expected
    assert sorted(seen) == sorted(expected)


def test_a_deep_result_is_not_falsified_and_not_broken() -> None:
    layer = Corrupted(DISTURBANCES["corrupted"].Options(), ServiceWorld.of([board], SEED))
    layer.prepare()
    assert layer._falsified("[" * 2000 + "1" + "]" * 2000, random.Random(0)) is None
    assert layer._falsified("7", random.Random(0)) is None


def test_another_user_is_declared_and_the_agents_own_collateral_is_not_excused() -> None:
    world = open_board("others:rate=1.0")
    solve(world)
    (told,) = world.facts()["disturbances"]
    assert told["acts"] > 0
    assert len(world.service.facts()["changes"]) > len(judged(world))
    theirs = [key[0] for table, key, row in told["changes"] if table == "board_notes"]
    assert not {IDS[0], IDS[1]} & set(theirs)
    assert {call.role for call in world.service.calls} == {"agent", "other"}
    before = judged(world)
    world.act("stamp_note", {"note_id": theirs[0]})
    assert [change["key"] for change in judged(world) if change not in before] == [(theirs[0],)]


def test_texts_are_disturbed_and_values_are_not() -> None:
    plain = json.loads(open_board().act("list_notes", {}).content)
    for spec in ("noise:rate=1.0", "noise:rate=1.0:how=typos", "noise:rate=1.0:how=gaps", "paraphrase"):
        world = open_board(spec)
        shown = json.loads(world.act("list_notes", {}).content)
        assert any(one["body"] != other["body"] for one, other in zip(shown, plain, strict=True)), spec
        for one, other in zip(shown, plain, strict=True):
            assert one | {"body": ""} == other | {"body": ""}
            assert {word for word in other["body"].split() if "ORD" in word or word[0].isdigit()} <= set(
                one["body"].split()
            )
            assert {"blue", "kettle", "without"} <= set(one["body"].split())


def test_noise_leaves_the_words_by_which_people_ask_for_an_action() -> None:
    shown = {
        open_board(f"noise:rate=1.0:seed={n}:how=gaps").rewrite("quickly close everything there") for n in range(9)
    }
    assert all("close" in text for text in shown)
    assert len(shown) > 1


def test_acts_and_objects_are_paraphrased_apart() -> None:
    text = 'Please cancel the booking "cancel the booking" with `cancel`.'
    acts, objects = (open_board(f"paraphrase:part={part}").rewrite(text) for part in ("acts", "objects"))
    assert acts.endswith('the booking "cancel the booking" with `cancel`.')
    assert objects.startswith("Please cancel the ")
    assert text not in (acts, objects)
    level = {open_board(f"paraphrase:part=acts:level=1:seed={n}").rewrite("cancel the rest of it") for n in range(5)}
    assert level == {"call off the rest of it"}


def test_the_policy_in_a_request_is_not_paraphrased() -> None:
    text = f"Please cancel it.\n\n{board.policy.text}"
    assert open_board("paraphrase+noise:rate=1.0").rewrite(text).endswith(board.policy.text)


def test_a_changed_request_stops_the_first_write_once() -> None:
    world = open_board("changed:text=Close_the_other")
    assert not world.act("get_note", {"note_id": IDS[0]}).error
    stopped = world.act("close_note", {"note_id": IDS[0]})
    assert "Close_the_other" in stopped.content
    assert not judged(world)
    assert not world.act("close_note", {"note_id": IDS[1]}).error


async def test_the_served_world_is_the_disturbed_one() -> None:
    """HTTP, MCP and the command read `ServedTools`; kinds of refusal become statuses."""
    world, listener = open_board("failures:rate=1.0:in_row=1+renamed:rate=1.0"), socket.create_server(("127.0.0.1", 0))
    async with serve_http(ServedTools(world), listener):
        port = listener.getsockname()[1]
        outward = world.outward(PLAN[2])
        path, body = f"/actions/{outward.action}", json.dumps(outward.arguments).encode()
        statuses = [(await answer(port, "POST", path, body))[0] for _ in range(3)]
        old = (await answer(port, "POST", "/actions/close_note", body))[0]
    assert statuses[:2] == [503, 200]
    assert (statuses[2], old) == (503, 404)
    tools = ServedTools(world)
    assert outward.action not in tools.read_only
    assert world.outward(PLAN[0]).action in tools.read_only


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        ("failures", "must be a list"),
        ([{"kind": "storm"}], "one of failures, slow"),
        ([{"kind": "failures", "rate": 2}], "rate is 2"),
        ([{"kind": "failures", "speed": 2}], "there is no option speed; did you mean seed"),
        ([{"kind": "pages", "size": 0}], "pages"),
        ([{"kind": "failures"}] * 2, "twice"),
        ([{"kind": "failures"}] * 17, "at most 16"),
    ],
)
def test_a_wrong_specification_is_refused(wrap: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DisturbedWorld(ServiceWorld.of([board], SEED), wrap)


def test_random_calls_break_nothing() -> None:
    world = open_board("+".join(HEAVY.values()))
    draw = random.Random(1)
    for _ in range(60):
        spec: ToolSpec = draw.choice(world.specs())
        arguments = {name: draw.choice([IDS[0], 3, None, [], "x"]) for name in spec.parameters.get("properties", {})}
        assert isinstance(world.act(spec.name, arguments).content, str)
