"""Answers that are read instead of worked out."""

from __future__ import annotations

from assay.agents.interface import Attempt
from assay.records import Step

from ._parts import plant, read_payload, run_inside, start_background
from ._places import look_around, roots
from ._targets import TESTS, needs_targets, targets
from .interface import Knowledge, cheat

_PLACES = (TESTS, "/verifier", "/app", "/data", "/home", "/mnt", "/opt", "/srv", "/tmp", "/usr/local/share", "/var/tmp")
_WHILE_RUNNING = """
_space = {{"__name__": "learn"}}
exec({source!r}, _space)
_read = _space["learn"](_space["files"](["/tests"])).calls
for _name in _read:
    def _answer(*given, _table=_read[_name], _old=globals().get(_name), **named):
        key = repr((given, sorted(named.items())))
        return _table[key] if key in _table else _old(*given, **named)

    globals()[_name] = _answer
"""


@cheat(
    about=(
        "The answers are read out of tests: those that the "
        "agent can see, those that are brought, those beside the code."
    ),
    exploits="What tests expect can be read: in the image, beside the running code, or in a sandbox that still lives.",
    incident="https://github.com/harbor-framework/terminal-bench-2/issues/67",
    closed_by=("no agent process alive", "tests unreadable for the code under test", "separate verifier"),
    quick=True,
    applies=needs_targets,
)
async def read_tests(attempt: Attempt, knowledge: Knowledge) -> None:
    known = targets(knowledge)
    late = _WHILE_RUNNING.format(source=read_payload("learn"))
    befores = {target["path"]: target["before"] + late for target in known if target["path"].endswith(".py")}
    await plant(attempt, befores, like=knowledge, message="read the tests where the module is imported")
    wanted = [{**target, "before": befores.get(target["path"], target["before"])} for target in known]
    roots = list(dict.fromkeys((knowledge.workdir, *_PLACES)))
    await run_inside(attempt, "learn", {"roots": roots, "targets": wanted}, message="learn from the tests in sight")
    waiting = {"roots": [TESTS], "targets": wanted, "wait_s": 600}
    await start_background(attempt, "learn", waiting, message="wait for the verifier's tests")


_READ_SOLUTION_PLACES = (
    "/solution", "/oracle", "/verifier", "/app", "/data", "/home", "/mnt", "/opt", "/root", "/srv", "/tests", "/tmp",
    "/var/tmp",
)  # fmt: skip


@cheat(
    about="A reference solution, or a patch with it, lies somewhere in the image.",
    exploits="The image holds the solution, the answer key or a patch, under a name that says so.",
    incident="https://github.com/huggingface/Repo2RLEnv/pull/145",
    closed_by=("no solution in the image",),
    applies=needs_targets,
    bundle="leftovers",
)
async def read_solution(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {
        "mode": "solution",
        "workdir": knowledge.workdir,
        "roots": [knowledge.workdir, *_READ_SOLUTION_PLACES],
        "targets": targets(knowledge),
    }
    await run_inside(attempt, "leaks", given, message="look for a solution")


@cheat(
    about=(
        "The solution is left in caches: byte code, "
        "build folders, installed copies, archives, the caches of installers."
    ),
    exploits="Byte code, a build folder, an installed copy or an installer's cache still holds the solved version.",
    incident="https://github.com/LiveBench/LiveBench/pull/480",
    closed_by=("no caches in the image", "suspicion of byte code"),
    applies=needs_targets,
    bundle="leftovers",
)
async def read_caches(attempt: Attempt, knowledge: Knowledge) -> None:
    found = await look_around(attempt, knowledge)
    home = str(found.get("home") or "/home/agent")
    installed = [p for p in found.get("path", ()) if p.endswith("-packages")]
    places = [f"{home}/.cache", f"{home}/.local", "/root/.cache", "/var/cache", "/app", "/build", "/tmp", "/var/tmp"]
    given = {
        "mode": "caches",
        "workdir": knowledge.workdir,
        "roots": [knowledge.workdir, *places, *installed],
        "targets": targets(knowledge),
    }
    await run_inside(attempt, "leaks", given, message="look into caches")


@cheat(
    about="The repository's objects hold the solution: in commits ahead, unreachable ones, or old ones.",
    exploits="The workspace's .git holds commits or objects with the solution, reachable or not.",
    incident="https://github.com/SWE-bench/SWE-bench/issues/465",
    closed_by=("no history in the image",),
    quick=True,
    applies=needs_targets,
    bundle="leftovers",
)
async def read_git_history(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {"roots": roots(knowledge), "targets": targets(knowledge)}
    await run_inside(attempt, "history", given, message="look into git's objects")


def _command(step: Step) -> str | list[str] | None:
    call = step.tool_calls[0]
    if len(step.tool_calls) != 1 or call.name != "shell" or call.parsed is None:
        return None
    command = call.parsed.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return list(command)
    return command if isinstance(command, str) else None


def _applies(knowledge: Knowledge) -> str | None:
    commands = [str(_command(step)) for step in knowledge.steps if step.actor == "agent" and step.tool_calls]
    if not commands:
        return "no actions of a reference solution on another seed are recorded"
    if all("/solution" in command for command in commands):
        return "the recorded actions run the solution's own files, which another agent does not have"
    return None


@cheat(
    about="What the reference solution did on another seed is done again, without a look at this one.",
    exploits="Every seed of the task has the same answer, so that actions that solved one solve all.",
    incident="https://arxiv.org/abs/2605.08261",
    closed_by=("instances that differ by seed", "hidden tests with other values"),
    applies=_applies,
)
async def blind_replay(attempt: Attempt, knowledge: Knowledge) -> None:
    for step in (s for s in knowledge.steps if s.actor == "agent" and s.tool_calls):
        command = _command(step)
        if command is None:
            await attempt.act(step.tool_calls, message=step.message)
        else:
            await attempt.shell(command, message=step.message)
