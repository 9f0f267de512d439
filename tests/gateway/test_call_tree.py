"""Where calls stand among each other."""

from __future__ import annotations

import tracemalloc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.gateway.call_tree import CallTree, Placement
from assay.gateway.interface import ModelRequest

SYSTEM = {"role": "system", "content": "be good"}
TASK = {"role": "user", "content": "do it"}
TOOL = {"type": "function", "function": {"name": "shell"}}


def calling(identity: str, arguments: str = '{"a": 1}') -> dict[str, Any]:
    function = {"name": "shell", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": identity, "type": "function", "function": function}],
    }


def told(identity: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": text}


def ask(
    forest: CallTree, name: str, messages: list[Any], answer: Any = None, tools: Any = (TOOL,), **said: str
) -> Placement:
    request = ModelRequest(messages, list(tools))
    placement = forest.locate(request, said)
    forest.add(name, placement, request, answer)
    return placement


def grown(forest: CallTree) -> list[dict[str, Any]]:
    """A conversation of two calls."""
    ask(forest, "c1", [SYSTEM, TASK], calling("t1"))
    messages = [SYSTEM, TASK, calling("t1"), told("t1")]
    ask(forest, "c2", messages, calling("t2"))
    return messages


def test_first_call_is_a_root() -> None:
    placement = ask(CallTree(), "c1", [SYSTEM, TASK], calling("t1"))
    assert (placement.parent, placement.cause, placement.shared_messages) == (None, "root", 0)


def test_rewritten_arguments_still_go_on_with_the_answer() -> None:
    forest = CallTree()
    ask(forest, "c1", [SYSTEM, TASK], calling("t1"))
    placement = ask(forest, "c2", [SYSTEM, TASK, calling("t1", '{"a":1}'), told("t1")], calling("t2"))
    assert placement.parent is not None
    assert (placement.parent.id, placement.branch, placement.cause, placement.shared_messages) == ("c1", "c1", None, 2)


def test_an_answer_that_was_changed_in_place_is_not_gone_on_with() -> None:
    forest, answer = CallTree(), {"role": "assistant", "content": "as it was"}
    ask(forest, "c1", [SYSTEM, TASK], answer)
    answer["content"] = "changed"
    placement = ask(forest, "c2", [SYSTEM, TASK, answer, TASK], calling("t2"))
    assert placement.parent is None


def test_a_later_answer_of_another_call_is_the_parent() -> None:
    forest, answer = CallTree(), {"role": "assistant", "content": "yes"}
    whole = [SYSTEM, TASK, answer, TASK]
    ask(forest, "c1", whole, answer)
    ask(forest, "c2", [SYSTEM, TASK], answer)
    placement = ask(forest, "c3", [*whole, answer, TASK], calling("t3"))
    assert placement.parent is not None
    assert placement.parent.id == "c1"


def test_what_is_said_again_is_held_once() -> None:
    forest = CallTree()
    grown(forest)
    first, second = forest.node("c1"), forest.node("c2")
    assert second.request.messages[2] is first.answer
    assert [id(m) for m in second.request.messages[:2]] == [id(m) for m in first.request.messages]
    ask(forest, "c3", [*second.request.messages, calling("t2", '{"a":1}'), told("t2")], calling("t3"))
    assert forest.node("c3").request.messages[4] is not second.answer  # rewritten: what the client said is kept


def test_exact_echo_is_shared_too() -> None:
    forest = CallTree()
    grown(forest)
    assert (
        forest.locate(
            ModelRequest([SYSTEM, TASK, calling("t1"), told("t1"), calling("t2"), told("t2")], [TOOL])
        ).shared_messages
        == 5
    )


def test_same_question_is_a_resample_beside_the_first() -> None:
    forest = CallTree()
    messages = grown(forest)
    placement = ask(forest, "c3", messages, calling("t3"))
    assert placement.parent is not None
    assert (placement.parent.id, placement.cause, placement.branch) == ("c1", "resample", None)


def test_the_resample_that_is_extended_goes_on() -> None:
    forest = CallTree()
    messages = grown(forest)
    ask(forest, "c3", messages, calling("t3"))
    placement = ask(forest, "c4", [*messages, calling("t3"), told("t3")], calling("t4"))
    assert placement.parent is not None
    assert (placement.parent.id, placement.branch, placement.cause) == ("c3", "c3", None)


def test_changed_tools_begin_a_branch_on_the_same_parent() -> None:
    forest = CallTree()
    messages = grown(forest)
    placement = ask(forest, "c3", [*messages, calling("t2"), told("t2")], calling("t3"), tools=(TOOL, TOOL))
    assert placement.parent is not None
    assert (placement.parent.id, placement.cause) == ("c2", "tools")


def test_another_system_prompt_is_a_sub_agent() -> None:
    forest = CallTree()
    grown(forest)
    placement = ask(forest, "s1", [{"role": "system", "content": "explore"}, TASK], calling("t9"))
    assert (placement.parent, placement.cause) == (None, "sub_agent")


def test_a_client_that_names_its_agents_tells_them_apart() -> None:
    forest = CallTree()
    grown(forest)
    assert (
        ask(forest, "s1", [SYSTEM, {"role": "user", "content": "look"}], calling("t9"), agent="a1").cause == "sub_agent"
    )


def test_a_summary_in_place_of_the_history_is_compaction() -> None:
    forest = CallTree()
    grown(forest)
    placement = ask(forest, "c3", [SYSTEM, {"role": "user", "content": "so far: ..."}], calling("t3"))
    assert (placement.parent, placement.cause, placement.differs_at) == (None, "compaction", 1)


def test_an_edited_tool_result_is_a_rewrite_with_its_position() -> None:
    forest = CallTree()
    messages = grown(forest)
    ask(forest, "c3", [*messages, calling("t2"), told("t2")], calling("t3"))
    edited = [SYSTEM, TASK, calling("t1"), told("t1", "[cut]"), calling("t2"), told("t2"), calling("t3"), told("t3")]
    placement = forest.locate(ModelRequest(edited, [TOOL]))
    assert placement.cause == "rewritten"
    assert placement.differs_at == 3


def test_a_failed_call_is_asked_again_as_a_sibling() -> None:
    forest = CallTree()
    ask(forest, "c1", [SYSTEM, TASK])
    placement = ask(forest, "c2", [SYSTEM, TASK], calling("t1"))
    assert (placement.parent, placement.cause) == (None, "resample")


def test_messages_in_a_tuple_are_those_of_a_list() -> None:
    tree = CallTree()
    first = ModelRequest([{"role": "user", "content": "hi"}])
    tree.add("c1", tree.locate(first), first, {"role": "assistant", "content": "ho"})
    again = ModelRequest(tuple(first.messages))  # type: ignore[arg-type]
    assert tree.locate(again).cause == "resample"


MESSAGES = st.sampled_from([TASK, told("t1"), calling("t1"), calling("t2"), {"role": "assistant", "content": "so"}])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.lists(MESSAGES, max_size=3), st.booleans()), max_size=8))
def test_a_request_that_goes_on_is_placed_as_a_whole_one_is(turns: list[tuple[Any, list[Any], bool]]) -> None:
    tree, messages, parent = CallTree(), [SYSTEM, TASK], "c0"
    ask(tree, parent, messages, calling("t1"))
    answer: dict[str, Any] = calling("t1")
    for number, (said, more, repeat) in enumerate(turns, 1):
        new = [answer, *more]
        placement = tree.locate_next(parent, len(messages), new)
        whole = ModelRequest([*messages, *new], [TOOL])
        located = tree.locate(whole)
        assert placement is None or facts(placement) == facts(located)
        tree.add(f"c{number}", placement or located, whole, said)
        assert tree.node(f"c{number}").messages == whole.messages
        if not repeat:
            messages, answer, parent = whole.messages, said, f"c{number}"


def facts(placement: Placement) -> tuple[Any, ...]:
    parent = placement.parent.id if placement.parent else None
    more = (placement.differs_at, placement.shared_messages, placement.tools, placement.extension.last_key)
    return (parent, placement.branch, placement.cause, *more)


def test_memory_of_a_session_is_linear() -> None:
    held = []
    for turns in (200, 800):
        tree, messages = CallTree(), [SYSTEM, TASK]
        tracemalloc.start()
        for turn in range(turns):
            ask(tree, f"c{turn}", messages, calling(f"t{turn}"))
            messages = [*messages, calling(f"t{turn}"), told(f"t{turn}")]
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert held[1] < 5 * held[0]
