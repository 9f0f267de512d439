"""The task families `tau2` and `tau-bench`: tasks of those benchmarks, over databases that the user names by a folder.

Airline and retail are judged by what the reference solution leads to: the net changes of the database, which are equal
if and only if tau2's hashes are, and the facts that the agent must tell the person; so are most tasks of banking and
mock. Telecom is judged by assertions. Where tau2 compares calls (`ACTION`), the world reports whether they were made.
Assertions in words, which tau2 has a model judge, are not judged: `metadata.not_judged` lists them.

The person is the rule-driven one where a script can be made (`scenario`); otherwise the agent is given the whole
scenario as a ticket. `metadata.person` says which, and why.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from blake3 import blake3

from assay.environments.services.apps.tau2.databases import list_domain_files, read_domain_file
from assay.environments.services.conversation import conversation
from assay.environments.services.data_files import read_data_file
from assay.environments.services.declaration import Service
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.users import UserAct, UserScript
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.plugins import load
from assay.records import Check, EnvironmentSpec, Task, digest_record

from .scenario import Unscriptable, as_script, as_ticket
from .tau2_tasks import TRANSFER, RecordedRun, SourceTask, phone_acts, reference_plan

_LISTENER: Final = UserScript(patience=1_000)
"""Somebody who only listens."""
_CONVERSE: Final = (
    "Serve the person in this conversation: `read_messages` shows what they wrote, and `send_message` asks and answers "
    "them. Do what they want as far as the policy allows, and nothing else."
)
_TICKET: Final = (
    "Serve the person of this ticket, who cannot be asked. It is written to them, in the second person: what they "
    "want, what they know, and how they decide. Where the policy wants their confirmation, take it as given for what "
    "the ticket says. Do what they want as far as the policy allows, and nothing else."
)
_OWN_TOOLS: Final = "You have the tools of the person, too: use them where the person is to do something themselves."
_TELL: Final = "They hear what you say by `send_message`: tell them what they want to know."


class _Domain(NamedTuple):
    """Where a domain's parts are."""

    service: str
    """Entry point of the service."""
    solo: str
    """Entry point of the service whose agent has the person's tools; equal to `service` if they have none."""
    policies: tuple[tuple[str, str, str], ...]
    """Files of the policy, with a person and without, and the tag that encloses the text; empty for none."""
    acts: tuple[UserAct, ...] = ()
    takes_changes: bool = False
    """True if the service has the knob `changes`, for what differs from the database before a task."""
    judges_calls: bool = False
    """True if the service has the view `was_called`, for tasks that are judged by their calls."""
    logs_reads: bool = False
    """True if the service has the knob `logged_reads`, for reads that a task demands."""
    says_own_tools: bool = False
    """True if a ticket says that the agent has the person's tools, because the policy is written for two."""
    task_folder: str = ""
    """Folder with a file for each task, which replaces the file of all tasks where it exists."""
    has_splits: bool = True


_DOMAINS: Final[Mapping[str, _Domain]] = {
    "airline": _Domain("tau2-airline", "tau2-airline", (("policy.md", "policy.md", ""),)),
    "retail": _Domain("tau2-retail", "tau2-retail", (("policy.md", "policy.md", ""),)),
    "telecom": _Domain(
        "tau2-telecom",
        "tau2-telecom-solo",
        (
            ("main_policy.md", "main_policy_solo.md", "main_policy"),
            ("tech_support_manual.md", "tech_support_manual.md", "tech_support_policy"),
        ),
        phone_acts(),
    ),
    "banking_knowledge": _Domain(
        "tau2-banking",
        "tau2-banking-solo",
        (("prompts/classic_rag_bm25_no_grep.md", "prompts/classic_rag_bm25_no_grep.md", ""),),
        takes_changes=True,
        judges_calls=True,
        logs_reads=True,
        says_own_tools=True,
        task_folder="tasks",
        has_splits=False,
    ),
    "mock": _Domain(
        "tau2-mock",
        "tau2-mock-solo",
        (("policy.md", "policy_solo.md", ""),),
        takes_changes=True,
        judges_calls=True,
    ),
}
_FIRST_AIRLINE: Final = _Domain("tau-bench-airline", "tau-bench-airline", (("wiki.md", "wiki.md", ""),))
_COMPONENT: Final = re.compile(r"\{\{component:(\w+)\}\}")
"""Place of a policy where another file is inserted."""
_SPEAKERS: Final = {"user": "Person", "assistant": "You", "tool": "Result"}
_TASK_FILES: Final = ("tasks.json", "tasks_base_and_small.json")
_SPLIT_FILES: Final = ("split_tasks.json", "split_tasks_without_full.json")


class _Person(NamedTuple):
    """How the agent meets the person of a task."""

    service: str
    script: UserScript | None
    """None without a conversation."""
    plan: tuple[PlannedCall, ...]
    """The reference solution."""
    text: str
    """Text for the agent about them."""
    label: str
    """For the task's metadata."""
    is_ticket: bool


class _BenchmarkTasks(ABC):
    """Tasks of one domain of a benchmark."""

    benchmark: ClassVar[str]
    """Prefix of identifiers."""

    def __init__(self, name: str, domain: _Domain, data: str, *, person: str) -> None:
        if person not in ("auto", "ticket"):
            raise UserError(f"person={person} of the family {self.benchmark!r}: expected auto or ticket")
        self._domain_name, self._domain = name, domain
        self._data = str(Path(data).resolve())
        self._tickets_only = person == "ticket"
        self._paths: dict[str, Path] = {}
        """File of each task that was read, by the task's identifier."""

    def tasks(self, n: int, seed: int) -> Iterator[Task]:
        """Yields the first `n` tasks, in the benchmark's order; the seed changes nothing."""
        for source in self._sources()[:n]:
            yield self._build(source)

    @abstractmethod
    def _sources(self) -> Sequence[SourceTask]:
        """Returns all chosen tasks. Raises `UserError`."""

    def _read(self, *names: str) -> Any:
        try:
            return read_domain_file(self._data, self._domain_name, *names).parse()
        except ValueError as exc:
            raise UserError(str(exc)) from exc

    def _policy(self, *, solo: bool) -> str:
        parts = []
        for with_person, without, tag in self._domain.policies:
            text = _COMPONENT.sub(self._read_component, self._read_text(without if solo else with_person))
            parts.append(f"<{tag}>\n{text}\n</{tag}>" if tag else text)
        return "\n".join(parts)

    def _read_component(self, found: re.Match[str]) -> str:
        return self._read_text(f"prompts/components/{found[1]}.md")

    def _read_text(self, name: str) -> str:
        """Returns the text of a domain's file. Raises `UserError`."""
        try:
            file = read_domain_file(self._data, self._domain_name, name)
        except ValueError as exc:
            raise UserError(str(exc)) from exc
        try:
            return file.data.decode().strip()
        except UnicodeDecodeError as exc:
            raise UserError(f"{file.path} is not UTF-8: {exc}") from exc

    def _describe(self, source: SourceTask) -> str:
        """Returns which task of which file it is, for errors."""
        path = self._paths.get(source.id)
        return f"task {source.id} of {self._domain_name}" + (f" ({path})" if path else "")

    @cached_property
    def _hash(self) -> str:
        """Hash of the database before any task."""
        service: Service = load("services", self._domain.service)
        try:
            world = ServiceWorld.of([service], 0, {service.name: {"data": self._data}})
        except ValueError as exc:
            raise UserError(str(exc)) from exc
        return world.peek("database_hash", {}, "system").content

    def _person(self, source: SourceTask) -> _Person:
        acts, reason = self._domain.acts, "tickets were asked for"
        if not self._tickets_only:
            try:
                script = as_script(source.user_scenario, acts, follows_advice=bool(acts))
                plan = tuple(reference_plan(source, acts))
                return _Person(self._domain.service, script, plan, _CONVERSE, "script", is_ticket=False)
            except Unscriptable as exc:
                reason = str(exc)
        ticket = source.ticket or as_ticket(source.user_scenario)
        listener = _LISTENER if source.facts else None
        parts = [_TICKET, *([_TELL] if listener else []), *([_OWN_TOOLS] if self._domain.says_own_tools else [])]
        text = "\n\n".join([*parts, f"Ticket\n{ticket}", *_earlier_text(source)])
        plan = tuple(reference_plan(source, ()))
        return _Person(self._domain.solo, listener, plan, text, f"ticket: {reason}", is_ticket=True)

    def _build(self, source: SourceTask) -> Task:
        if not self._domain.takes_changes and (source.initial_changes or source.earlier_messages):
            raise UserError(f"{self._describe(source)} begins in the middle, which is not supported")
        person = self._person(source)
        service: Service = load("services", person.service)
        knobs: dict[str, Any] = {service.name: {"data": self._data, "hash": self._hash} | self._start(source)}
        services = [person.service]
        if person.script is not None:
            services.append(conversation.name)
            knobs[conversation.name] = {"script": msgspec.to_builtins(person.script)}
        try:
            reported = _reports(source, judges_calls=self._domain.judges_calls)
        except ValueError as exc:
            raise UserError(f"{self._describe(source)}: {exc}") from exc
        parameters: dict[str, Any] = {"services": services, "knobs": knobs, "plan": msgspec.to_builtins(person.plan)}
        if reported:
            parameters["reported"] = [msgspec.to_builtins(call) for call, _ in reported]
        world = self._open(source, parameters)
        tools = {spec.name for spec in world.specs()}
        if unknown := [call.action for call in person.plan if call.action not in tools]:
            raise UserError(f"{self._describe(source)}: the reference calls {unknown[0]!r}, which is not a tool there")
        done = play(world, person.plan)
        checks = _checks(source, done, [value for _, value in reported])
        instruction = f"{person.text}\n\nPolicy\n{self._policy(solo=person.is_ticket)}"
        environment = EnvironmentSpec("services", parameters, 0)
        return Task(
            id=_task_id(f"{self.benchmark}-{self._domain_name}", source.id),
            instruction=instruction,
            environment=environment,
            checks=checks,
            digest=digest_record([instruction, _without_folder(environment, service.name), checks]),
            tags=(self.benchmark, self._domain_name, "ticket" if person.is_ticket else "script"),
            source=f"{self.benchmark}, {self._domain_name}, task {source.id}",
            metadata={
                "task": source.id,
                "person": person.label,
                "reward_basis": list(source.evaluation_criteria.reward_basis),
                "not_judged": source.list_unjudged(judges_calls=self._domain.judges_calls),
                "hash_before": world.peek("database_hash", {}, "system").content,
                "hash_after": done.peek("database_hash", {}, "system").content,
            },
        )

    def _start(self, source: SourceTask) -> dict[str, Any]:
        """Returns the knobs that say what precedes a task."""
        knobs: dict[str, Any] = {}
        if source.initial_calls:
            knobs["calls"] = list(source.initial_calls)
        if source.initial_changes:
            knobs["changes"] = source.initial_changes
        if self._domain.logs_reads and (names := source.called_tools):
            knobs["logged_reads"] = names
        return knobs

    def _open(self, source: SourceTask, parameters: Mapping[str, Any]) -> ServiceWorld:
        try:
            return ServiceWorld(parameters, 0)
        except ValueError as exc:
            raise UserError(f"{self._describe(source)}: {exc}") from exc


class Tau2Tasks(_BenchmarkTasks):
    """Tasks of tau2-bench.

    Args:
        domain: `airline`, `retail`, `telecom`, `banking_knowledge` or `mock`.
        data: Folder of the domains' files, or a checkout of tau2-bench.
        split: One of the benchmark's splits: `base`, `train`, `test`; for telecom `small`, too.
        task: Identifier of a single task.
        person: `auto`, or `ticket` for tickets alone.
    """

    benchmark = "tau2"

    def __init__(
        self, *, domain: str, data: str, split: str = "base", task: str | int = "", person: str = "auto"
    ) -> None:
        if domain not in _DOMAINS:
            raise UserError(f"domain={domain} of the family 'tau2': expected {', '.join(_DOMAINS)}")
        super().__init__(domain, _DOMAINS[domain], data, person=person)
        self._split, self._task = split, str(task)

    def _sources(self) -> Sequence[SourceTask]:
        known = self._read_tasks()
        if self._task:
            chosen = [task for task in known if task.id == self._task]
            if not chosen:
                raise UserError(f"task={self._task} of the family 'tau2': {self._domain_name} has no such task")
            return chosen
        if not self._domain.has_splits and self._split == "base":
            return known
        splits = self._read(*_SPLIT_FILES)
        if not isinstance(splits, dict) or not isinstance(splits.get(self._split), list):
            names = ", ".join(splits) if isinstance(splits, dict) else "none"
            raise UserError(f"split={self._split} of the family 'tau2': {self._domain_name} has {names}")
        members = set(map(str, splits[self._split]))
        return [task for task in known if task.id in members]

    def _read_tasks(self) -> Sequence[SourceTask]:
        """Returns all tasks of the domain. Raises `UserError`."""
        folder = self._domain.task_folder
        known: list[SourceTask] = []
        try:
            paths = list_domain_files(self._data, self._domain_name, folder) if folder else []
            files = [read_data_file([path.parent], [path.name]) for path in paths]
            for file in files or [read_domain_file(self._data, self._domain_name, *_TASK_FILES)]:
                parsed = [file.parse()] if files else file.parse()
                try:
                    found = msgspec.convert(parsed, tuple[SourceTask, ...])
                except msgspec.ValidationError as exc:
                    raise ValueError(f"{file.path}: {exc}") from exc
                known += found
                self._paths |= dict.fromkeys((task.id for task in found), file.path)
        except ValueError as exc:
            raise UserError(f"The tasks of {self._domain_name} cannot be read: {exc}") from exc
        return known


class TauBenchTasks(_BenchmarkTasks):
    """Airline tasks of tau-bench, version 1, from the results of a run, which hold the tasks.

    Args:
        data: Folder of the airline's files, or a checkout of tau-bench.
        results: File of results: an array of `{task_id, info: {task}}`.
    """

    benchmark = "tau-bench"

    def __init__(self, *, data: str, results: str) -> None:
        super().__init__("airline", _FIRST_AIRLINE, data, person="ticket")
        self._results = results

    def _sources(self) -> Sequence[SourceTask]:
        path = Path(self._results)
        try:
            runs = msgspec.convert(read_data_file([path.parent], [path.name]).parse(), tuple[RecordedRun, ...])
        except msgspec.ValidationError as exc:
            raise UserError(f"{path} holds no results of tau-bench: {exc}") from exc
        except ValueError as exc:
            raise UserError(str(exc)) from exc
        sources = list({run.task_id: run.source for run in runs}.values())
        self._paths = dict.fromkeys((source.id for source in sources), path)
        return sources


def _earlier_text(source: SourceTask) -> list[str]:
    """Returns the messages that precede a task as one text; none without any."""
    lines = [f"{_SPEAKERS[message.role]}: {message.content}" for message in source.earlier_messages if message.content]
    return ["\n".join(["The conversation so far", *lines])] if lines else []


def _reports(source: SourceTask, *, judges_calls: bool) -> list[tuple[PlannedCall, bool]]:
    """Returns the views that judge a task, each once, with the results that they must have; none if its database alone
    does. Raises `ValueError` if assertions contradict each other."""
    criteria = source.evaluation_criteria
    found: list[tuple[PlannedCall, bool]] = []
    for assertion in (criteria.env_assertions or ()) if "ENV_ASSERTION" in criteria.reward_basis else ():
        call, wanted = PlannedCall(assertion.func_name, assertion.arguments), assertion.assert_value
        if (call, not wanted) in found:
            raise ValueError(f"two assertions of {assertion.func_name!r} contradict each other")
        if (call, wanted) not in found:
            found.append((call, wanted))
    if "ACTION" in criteria.reward_basis:
        for action in criteria.actions or ():
            call = PlannedCall("was_transferred")
            if judges_calls:
                call = PlannedCall("was_called", {"action": action.name, "arguments": action.compared_arguments})
            if (judges_calls or action.name == TRANSFER) and (call, True) not in found:
                found.append((call, True))
    return found


def _checks(source: SourceTask, done: ServiceWorld, wanted: Sequence[bool]) -> tuple[Check, ...]:
    """Returns the checks of a task.

    Args:
        source: The task.
        done: World in which the reference solution was played.
        wanted: Results that the reported views must have.
    """
    checks = []
    if wanted:
        expected = dict(zip(done.report(), wanted, strict=True))
        checks.append(Check("assertions", "facts", {"expected": {"reported": expected}}))
    if "DB" in source.evaluation_criteria.reward_basis or not wanted:
        changes = done.database.changes(judged_only=True)
        outcome = {"changes": as_json(expected_changes(done.composition.tables, changes))}
        checks.append(Check("state", "state", {"outcomes": [outcome]}))
    if source.facts:
        told = [{"value": fact, "kind": _kind_of(fact)} for fact in source.facts]
        checks.append(Check("communicated", "communicated", {"facts": told}))
    return tuple(checks)


def _kind_of(fact: str) -> str:
    try:
        return "number" if Decimal(fact).is_finite() else "text"
    except InvalidOperation:
        return "text"


def _task_id(prefix: str, name: str) -> str:
    """Returns an identifier without the characters that identifiers cannot have; a digest tells long ones apart."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-")
    if plain != name:
        plain = f"{plain[:160]}-{blake3(name.encode()).hexdigest()[:6]}"
    return f"{prefix}-{plain}"


def _without_folder(environment: EnvironmentSpec, service: str) -> EnvironmentSpec:
    """Returns an environment whose database is named by its hash alone, so that a task does not depend on a path."""
    knobs = environment.parameters["knobs"]
    own = {name: value for name, value in knobs[service].items() if name != "data"}
    return msgspec.structs.replace(environment, parameters=environment.parameters | {"knobs": knobs | {service: own}})
