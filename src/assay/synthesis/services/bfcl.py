"""The task family `bfcl-multi-turn`: multi-turn tasks of BFCL, from its files in a folder that the user names.

A task is judged as BFCL judges it: at the end of each turn that has reference calls, a tool was called in the turn, the
state of each tool class equals that after the reference, and every result of the turn's reference calls is among the
results obtained so far. What the agent does in turns without reference calls is not judged, nor what it says. The
reference is played when a task is made; what it leads to is held by the task as digests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from assay.environments.services.apps.bfcl.extension import read_extension_file
from assay.environments.services.apps.bfcl.turns import CLASSES, Request, end_turn, report_turns, result_digest, turns
from assay.environments.services.data_files import read_data_file
from assay.environments.services.plans import PlannedCall
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Check, EnvironmentSpec, Task, digest_record

T = TypeVar("T")

SETS: Final = ("base", "long_context", "miss_func", "miss_param")
_DATA: Final = "bfcl_eval/data"
_FOLDERS: Final = ("", "data", _DATA, f"berkeley-function-call-leaderboard/{_DATA}")
_SERVICES: Final[Mapping[str, str]] = {
    "GorillaFileSystem": "bfcl-files",
    "MathAPI": "bfcl-math",
    "MessageAPI": "bfcl-messages",
    "TwitterAPI": "bfcl-posting",
    "TicketAPI": "bfcl-tickets",
    "TradingBot": "bfcl-trading",
    "TravelAPI": "bfcl-travel",
    "VehicleControlAPI": "bfcl-vehicle",
}
"""Entry points of the tool classes."""
_TURNS: Final = "bfcl-turns"
_INSTRUCTION: Final = (
    "Serve a person who says what they want in {count} turns. Do what they ask for with your tools, and call "
    "`{end_turn}` when a turn is done, or when you cannot do it or need to know more: it returns what they say next. "
    "After the last turn you are finished. A tool can become available only in a later turn.\n\nThe person says: {text}"
)
_MORE_TOOLS: Final = "More of your tools are available now. What about now?"


class Line(msgspec.Struct, frozen=True):
    """A message of a task's file."""

    role: str
    content: str


class SourceTask(msgspec.Struct, frozen=True):
    """A task as its file has it."""

    id: str
    question: tuple[tuple[Line, ...], ...]
    initial_config: dict[str, dict[str, Any]]
    involved_classes: tuple[str, ...]
    missed_function: dict[int, tuple[str, ...]] = {}
    """Tools that become available in a turn, by its number."""


class SourceAnswer(msgspec.Struct, frozen=True):
    """The reference of a task."""

    id: str
    ground_truth: tuple[tuple[str, ...], ...]
    """Calls of each turn, as Python expressions."""


class BfclTasks:
    """Multi-turn tasks of BFCL.

    Args:
        set: `base`, `long_context`, `miss_func` or `miss_param`.
        data: Folder of the files, of the installed package, or a checkout of gorilla. For `long_context` it has the
            module `long_context.py`, too, which is parsed and never executed.
        task: Number of a single task.
    """

    def __init__(self, *, data: str, set: str = "base", task: str | int = "") -> None:
        if set not in SETS:
            raise UserError(f"set={set} of the family 'bfcl-multi-turn': expected {', '.join(SETS)}")
        self._set, self._task = set, str(task)
        self._data = str(Path(data).resolve())
        self._extension: dict[str, str] = {}
        if set == "long_context":
            try:
                self._extension = {"data": self._data, "sha256": read_extension_file(self._data).sha256}
            except ValueError as exc:
                raise UserError(f"set=long_context needs the module of the long context: {exc}") from exc

    def tasks(self, n: int, seed: int) -> Iterator[Task]:
        """Yields the first `n` tasks, in the benchmark's order; the seed changes nothing."""
        name = f"multi_turn_{self._set}"
        sources = self._read("", [f"BFCL_v4_{name}.json", f"BFCL_v4_{name}.jsonl"], SourceTask)
        answers = self._read("possible_answer", [f"possible_answer_{name}.jsonl", f"BFCL_v4_{name}.json"], SourceAnswer)
        by_id = {answer.id: answer for answer in answers}
        if self._task:
            sources = [source for source in sources if source.id == f"{name}_{self._task}"]
            if not sources:
                raise UserError(f"task={self._task} of the family 'bfcl-multi-turn': {self._set} has no such task")
        for source in sources[:n]:
            answer = by_id.get(source.id)
            if answer is None or len(answer.ground_truth) != len(source.question):
                raise UserError(f"task {source.id} has no reference with a list of calls for each turn")
            yield self._build(source, answer)

    def _read(self, folder: str, names: Sequence[str], kind: type[T]) -> list[T]:
        folders = [Path(self._data, one, part) for one in _FOLDERS for part in dict.fromkeys((folder, ""))]
        try:
            file = read_data_file(folders, names)
        except ValueError as exc:
            raise UserError(str(exc)) from exc
        try:
            return msgspec.json.Decoder(kind).decode_lines(file.data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise UserError(f"{file.path} cannot be read: {exc}") from exc

    def _build(self, source: SourceTask, answer: SourceAnswer) -> Task:
        if unknown := [name for name in source.involved_classes if name not in _SERVICES]:
            raise UserError(f"task {source.id} needs the tool class {unknown[0]!r}; there are {', '.join(_SERVICES)}")
        calls = [[parse_call(text, source) for text in turn] for turn in answer.ground_truth]
        withheld, needed = _withheld(source, calls)
        parameters = self._parameters(source, withheld)
        world = _open(source, parameters)
        plan, wanted = _play_reference(world, calls, source.id)
        parameters["plan"] = msgspec.to_builtins(plan)
        parameters["reported"] = [{"action": report_turns.__name__, "arguments": {"wanted": wanted}}]
        done = _open(source, parameters)
        done.restore(world.snapshot())
        checks = (Check("turns", "facts", {"expected": {"reported": done.report()}}),)
        instruction = _INSTRUCTION.format(
            count=len(source.question), end_turn=end_turn.__name__, text=_request(source, 0).text
        )
        environment = EnvironmentSpec("services", parameters, 0)
        return Task(
            id=f"bfcl-{source.id}",
            instruction=instruction,
            environment=environment,
            checks=checks,
            digest=digest_record([instruction, _without_folder(environment), checks]),
            tags=("bfcl", self._set),
            source=f"BFCL, {source.id}",
            metadata={
                "task": source.id,
                "turns": len(source.question),
                "judged_turns": sum(map(bool, calls)),
                "not_withheld": sorted(needed),
            },
        )

    def _parameters(self, source: SourceTask, added: AbstractSet[str]) -> dict[str, Any]:
        knobs: dict[str, Any] = {}
        for name in source.involved_classes:
            service = CLASSES[name].service
            withheld = sorted(added & set(service.actions))
            scenario = source.initial_config.get(name, {})
            knobs[service.name] = {"scenario": scenario, "withheld": withheld, **self._extension}
        requests = [_request(source, turn) for turn in range(len(source.question))]
        knobs[turns.name] = msgspec.to_builtins({"requests": requests, "classes": source.involved_classes})
        services = [*(_SERVICES[name] for name in source.involved_classes), _TURNS]
        return {"services": services, "knobs": knobs}


def _withheld(source: SourceTask, calls: Sequence[Sequence[PlannedCall]]) -> tuple[set[str], set[str]]:
    """Returns the tools that become available later, and those that should but that the reference calls before."""
    withheld, needed = set(), set()
    for turn, names in source.missed_function.items():
        before = {call.action for turn_calls in calls[:turn] for call in turn_calls}
        withheld |= set(names) - before
        needed |= set(names) & before
    return withheld, needed


def parse_call(text: str, source: SourceTask) -> PlannedCall:
    """Parses a call with literal arguments, such as `cd(folder='a')`, without executing it.

    Args:
        text: Python expression.
        source: The task whose tool classes have the tool.

    Raises:
        UserError: It is not such a call, or the tool does not exist.
    """
    where = f"task {source.id}: the reference call {text[:200]!r}"
    try:
        call = ast.parse(text.strip(), mode="eval").body
        parts = call if isinstance(call, ast.Call) else ast.Call(call, [], [])
        given = [ast.literal_eval(value) for value in parts.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in parts.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise UserError(f"{where} cannot be read: {exc}") from exc
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise UserError(f"{where} cannot be read: not a call of a tool")
    name = call.func.id
    tools = [CLASSES[one].service.actions.get(name) for one in source.involved_classes]
    action = next((tool for tool in tools if tool is not None), None)
    if action is None:
        raise UserError(f"{where}: its classes have no such tool")
    return PlannedCall(name, dict(zip(action.arguments.__struct_fields__, given, strict=False)) | named)


def _play_reference(
    world: ServiceWorld, calls: Sequence[Sequence[PlannedCall]], where: str
) -> tuple[tuple[PlannedCall, ...], list[list[str] | None]]:
    """Plays the reference in a world, and returns it as a plan with the digests of each turn's results."""
    plan: list[PlannedCall] = []
    wanted: list[list[str] | None] = []
    for turn, turn_calls in enumerate(calls):
        results = []
        for call in turn_calls:
            observation = world.act(call.action, call.arguments)
            if observation.error:
                raise UserError(f"task {where}: the reference call of {call.action} fails: {observation.content}")
            results.append(result_digest(observation.content))
        plan += turn_calls
        wanted.append(results or None)
        if turn + 1 < len(calls):
            ending = PlannedCall(end_turn.__name__, {"message": "Done."})
            world.act(ending.action, ending.arguments)
            plan.append(ending)
    return tuple(plan), wanted


def _open(source: SourceTask, parameters: Mapping[str, Any]) -> ServiceWorld:
    try:
        return ServiceWorld(parameters, 0)
    except ValueError as exc:
        raise UserError(f"task {source.id}: {exc}") from exc


def _request(source: SourceTask, turn: int) -> Request:
    said = "\n".join(line.content for line in source.question[turn])
    return Request(said or _MORE_TOOLS, source.missed_function.get(turn, ()))


def _without_folder(environment: EnvironmentSpec) -> EnvironmentSpec:
    """Returns an environment without paths, so that a task does not depend on where the material lies."""
    knobs = {
        service: {name: value for name, value in own.items() if name != "data"}
        for service, own in environment.parameters["knobs"].items()
    }
    return msgspec.structs.replace(environment, parameters=environment.parameters | {"knobs": knobs})
