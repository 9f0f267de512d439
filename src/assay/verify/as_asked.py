"""Judges by a task's own settings as Harbor does, including the weaknesses of that procedure.

Admission measures with it how sound a verifier is elsewhere; its verdicts are no evidence of work. In `shared` mode
the tests are copied into the agent's own living sandbox: all that the agent left is there and still runs, nothing is
undone, no reward is removed, the environment and the user are the agent's. In `separate` mode the declared artifacts,
links included, go to the verifier's own image. The reward file alone decides, as in Harbor; a missing or half-written
one is read again for two seconds while a process lives that may be replacing it. The verdict is marked.

Where Harbor is laxer still: it runs the script as root where a task names no user, it reads digits of any script in
`reward.txt`, and a reward of several numbers has no headline there (here `reward`, else the lowest, decides). Where
it is stricter: since 0.25 it removes `reward.*` before a script in a shared sandbox (other readers of the format do
not), and another user that a task names for the verifier is held there, and here, in a sandbox of one user, is not.

Covered: the host reads nothing but two bounded files, never through a link of the sandbox to outside of it, and runs
nothing. Not covered: everything that the default verification covers.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.environments.interface import Backend, ExecResult, ProcessInfo, SpillTarget, Workspace, WorkspaceSpec
from assay.records import Check, Task
from assay.verdicts import AS_ASKED
from assay.verify._ruling import Ruling
from assay.verify._script_rules import ScriptFacts, rule_literally
from assay.verify._staging import StagedCopy
from assay.verify.cited_evidence import CitedEvidence, verifier_digest
from assay.verify.interface import CheckResult
from assay.verify.rewards import MOST_REWARD, Rewards, parse_rewards
from assay.verify.sanitise import PYTHON, REWARDS, has_tool_layer, opened
from assay.verify.script import MOST_BROUGHT, TESTS, ScriptParameters, own_network, stage_tests

MADE = ("/logs/verifier", "/logs/agent", "/logs/artifacts")
"""Folders that Harbor mounts into every sandbox, writable for the agent."""
READ_AFTER_S = 0.2
"""Seconds between the script's end and reading the reward: about the time that another runner needs to fetch it."""
MAX_READINGS, READ_INTERVAL_S = 40, 0.05
"""Limits of repeated reading while a living process may be completing a reward file."""
MOST_LINKS = 1000
_LINKS = """
import json, os, sys
found = {}
for top in json.load(sys.stdin):
    if os.path.islink(top): found[top] = os.readlink(top)
    for folder, folders, names in os.walk(top):
        for name in folders + names:
            path = os.path.join(folder, name)
            if os.path.islink(path): found[path] = os.readlink(path)
print(json.dumps(dict(list(found.items())[:int(sys.argv[1])])))
"""


class AsAskedRequest(NamedTuple):
    """A state to be judged, with its check and sandboxes."""

    task: Task
    """The task with its templates filled in."""
    check: Check
    """Check of the kind `script`."""
    folder: Path | None
    backend: Backend
    blobs: SpillTarget
    separate: WorkspaceSpec | None = None
    """The verifier's own environment in `separate` mode."""
    prefix: str = "asked."
    """Prefix of the evidence's ids."""


class _ScriptRun(NamedTuple):
    result: ExecResult
    alive: tuple[ProcessInfo, ...]
    rewards: Rewards


def living_spec(spec: WorkspaceSpec) -> WorkspaceSpec:
    """Returns the spec of the agent's sandbox with Harbor's folders for rewards, logs and (if it has none) tests."""
    own = any(Path(layer, TESTS.lstrip("/")).is_dir() for layer in spec.image.layers)
    wanted = (*spec.tmpfs, *MADE, *(() if own else (TESTS,)))
    return msgspec.structs.replace(spec, tmpfs=tuple(dict.fromkeys(wanted)))


async def judge_as_asked(workspace: Workspace, given: AsAskedRequest) -> CheckResult:
    """Judges the agent's `workspace`, opened on a `living_spec`, while the agent's processes still run.

    Raises:
        TaskError: The tests cannot be copied from the task's folder.
        EnvironmentFailure: A sandbox is gone, or the verifier's cannot be opened.
    """
    cited = CitedEvidence(given.prefix)
    parameters = msgspec.convert(given.check.parameters, ScriptParameters)
    tests = await asyncio.to_thread(stage_tests, given.folder, parameters.script)
    _tell_settings(cited, given, parameters, workspace)
    judge = _separate if parameters.mode == "separate" else _judged_in
    rewards: dict[str, float] = {}
    try:
        ran = await judge(workspace, given, parameters, tests, cited)
        rewards, ruling = ran.rewards.values, _rule(ran)
    except (OSError, ValueError) as exc:  # what is in the sandbox is in the way: the agent's doing, as a rule
        ruling = Ruling("error", None, f"tests or artifacts could not be brought to their place: {exc}")
    verifier = verifier_digest(AS_ASKED, given.check.parameters, tests.digest if tests else None)
    ruling = ruling._replace(reason=f"as asked: {ruling.reason}", marks=(AS_ASKED, *ruling.marks))
    return CheckResult(cited.make_verdict(given.check, verifier, ruling, rewards=rewards), tuple(cited.items))


def _tell_settings(
    cited: CitedEvidence, given: AsAskedRequest, parameters: ScriptParameters, workspace: Workspace
) -> None:
    user = given.check.parameters.get("user", given.task.environment.parameters.get("verifier_user"))
    ran_as = "verifier" if parameters.mode == "separate" else workspace.spec.user
    cited.add("audit", "verification", {"as_asked": True, "mode": parameters.mode, "user": user, "ran_as": ran_as})


def _rule(ran: _ScriptRun) -> Ruling:
    if ran.result.timed_out:
        return Ruling("error", None, "the test script met its time limit", ("time_limit",))
    ruling = rule_literally(ScriptFacts(ran.result.exit_code, False, None, ran.rewards, (), (), 0, 0, (), "reward"))
    if ran.rewards.values:
        return ruling
    return ruling._replace(reason=f"{ruling.reason}; the test script ended with exit code {ran.result.exit_code}")


async def _judged_in(
    workspace: Workspace,
    given: AsAskedRequest,
    parameters: ScriptParameters,
    tests: StagedCopy | None,
    cited: CitedEvidence,
) -> _ScriptRun:
    """Copies the tests into the sandbox, runs the script, and reads the reward while processes still run."""
    if tests is not None:
        await workspace.upload(tests.path, TESTS)
    argv = [*parameters.interpreter, f"{TESTS}/{Path(parameters.script or 'test.sh').name}"]
    result = await workspace.exec(argv, env=parameters.env, timeout_s=parameters.timeout_s, spill=given.blobs)
    cited.execution(argv, workspace.spec.workdir, result)
    await asyncio.sleep(READ_AFTER_S)
    alive = tuple(p for p in await workspace.processes() if p.state != "Z")
    if alive:
        cited.processes("test script ended", alive)
    rewards, readings = await _read_rewards(workspace, MAX_READINGS if alive else 1)
    told = {"values": rewards.values, "source": rewards.source, "problem": rewards.problem, "readings": readings}
    cited.add("state", "reward", told)
    return _ScriptRun(result, alive, rewards)


async def _read_rewards(workspace: Workspace, readings: int) -> tuple[Rewards, int]:
    """Returns the first usable rewards, or those of the last reading, with the number of readings.

    A process that replaces a reward file shows none, or half of one, for a moment: which one a reader sees is chance,
    and a verifier that the process can beat is unsound either way. With no process alive, the first reading is final.
    """
    number = 0
    while True:
        rewards = parse_rewards(await _reward(workspace, "reward.json"), await _reward(workspace, "reward.txt"))
        number += 1
        if rewards.values or number >= readings:
            return rewards, number
        await asyncio.sleep(READ_INTERVAL_S)


async def _reward(workspace: Workspace, name: str) -> bytes | None:
    """Returns a reward file; None if it is missing, empty if it cannot be read."""
    try:
        return await workspace.read(f"{REWARDS}/{name}", limit=MOST_REWARD)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return b""


async def _separate(
    workspace: Workspace,
    given: AsAskedRequest,
    parameters: ScriptParameters,
    tests: StagedCopy | None,
    cited: CitedEvidence,
) -> _ScriptRun:
    """Copies artifacts from the agent's sandbox to the same paths in the verifier's; links stay links."""
    base = given.separate or msgspec.structs.replace(workspace.spec, tmpfs=())
    spec = msgspec.structs.replace(living_spec(base), user="verifier")
    declared = given.task.environment.parameters.get("artifacts") or []
    sources = [str(entry["source"]) for entry in declared if isinstance(entry, dict) and "source" in entry]
    with tempfile.TemporaryDirectory(prefix="assay-artifacts-") as folder:
        copies = await _bring_out(workspace, sources, Path(folder))
        links = await _links(workspace, sources)
        async with opened(given.backend, own_network(spec, parameters)) as place:
            for source, copy in copies.items():
                await place.upload(copy, source)
            await _put_links(place, links)
            cited.add("state", "artifacts", {"brought": sorted(copies), "links": links, "image": spec.image.digest})
            return await _judged_in(place, given, parameters, tests, cited)


async def _bring_out(workspace: Workspace, sources: list[str], folder: Path) -> dict[str, Path]:
    """Copies the declared artifacts and the artifact folder to the host; missing ones are omitted."""
    copies = {}
    for index, source in enumerate(dict.fromkeys([*sources, "/logs/artifacts"])):
        copy = folder / str(index)
        try:
            await workspace.download(source, copy, limit=MOST_BROUGHT)
        except (OSError, ValueError):
            continue
        if copy.exists() and not copy.is_symlink():
            copies[source] = copy
    return copies


async def _links(workspace: Workspace, sources: list[str]) -> dict[str, str]:
    """Returns the links in the declared artifacts with their targets; empty without the tool layer."""
    if not sources or not has_tool_layer(workspace.spec):
        return {}
    argv = [PYTHON, "-I", "-S", "-B", "-c", _LINKS, str(MOST_LINKS)]
    told = await workspace.exec(argv, stdin=json.dumps(sources).encode(), cwd="/", timeout_s=30, show_bytes=1 << 20)
    try:
        found = msgspec.json.decode(told.stdout.encode(), type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
    inside = tuple(f"{source.rstrip('/')}/" for source in sources)
    return {path: target for path, target in found.items() if f"{path}/".startswith(inside) and ".." not in path}


async def _put_links(workspace: Workspace, links: dict[str, str]) -> None:
    if not links:
        return
    lines = (
        f"mkdir -p {shlex.quote(str(Path(path).parent))}; ln -sfn -- {shlex.quote(target)} {shlex.quote(path)}"
        for path, target in links.items()
    )
    await workspace.exec(["/bin/sh"], stdin="\n".join(lines).encode(), cwd="/", timeout_s=30)
