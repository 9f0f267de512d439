"""The answers are read out of tests: those that the agent can see, those that are brought, those beside the code."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import inside, leave_behind, plant, run_inside
from ._targets import TESTS, needs_targets, targets
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

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


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    known = targets(knowledge)
    late = _WHILE_RUNNING.format(source=inside("learn"))
    befores = {target["path"]: target["before"] + late for target in known if target["path"].endswith(".py")}
    await plant(attempt, befores, like=knowledge, message="read the tests where the module is imported")
    wanted = [{**target, "before": befores.get(target["path"], target["before"])} for target in known]
    roots = list(dict.fromkeys((knowledge.workdir, *_PLACES)))
    await run_inside(attempt, "learn", {"roots": roots, "targets": wanted}, message="learn from the tests in sight")
    waiting = {"roots": [TESTS], "targets": wanted, "wait_s": 600}
    await leave_behind(attempt, "learn", waiting, message="wait for the verifier's tests")


CHEAT = Cheat(
    name="read-tests",
    exploits="What tests expect can be read: in the image, beside the running code, or in a sandbox that still lives.",
    incident="https://github.com/harbor-framework/terminal-bench-2/issues/67",
    act=_act,
    closed_by=("no agent process alive", "tests unreadable for the code under test", "separate verifier"),
    quick=True,
    applies=needs_targets,
)
