"""Recorded attempts in a form that can be judged or replayed: task, checks, acts.

Invariant: a task replaces the recorded one only if its digest is equal, or one that earlier versions gave it, and files
of code are executed only as they were recorded, unless today's version was requested. Records of earlier versions do
not say how the code of an archived task was: it is executed as it is.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from assay.agents.interface import Prior
from assay.agents.replay import own_command
from assay.analysis.judged_path import judged_path
from assay.environments.solution import SOLUTION
from assay.errors import StoreError, UserError
from assay.records import Event, Evidence, EvidenceAdded, Step, StepAdded, Trajectory
from assay.rollout.attempt.disturbed_tasks import disturb_tasks
from assay.rollout.config import RunConfig
from assay.rollout.recording.task_archive import AGENT_SANDBOX, digest_code_of, restore_task
from assay.rollout.rejudge.config import (
    MarginalsConfig,
    ReplayConfig,
    ReverifyConfig,
    SandboxOptions,
    TiersConfig,
    Version,
)
from assay.rollout.run_manifest import name_by_path
from assay.store import RunStore, decode_body, write_tree
from assay.tasks import LoadedTask, find_tasks
from assay.tasks.named_code import FLAG, find_code_of
from assay.tasks.sources import names_family_code
from assay.verdicts import IMPORTED, is_imported_record
from assay.verify.reverification import CannotRebuildError

AS_ASKED = "+as-asked"
"""Suffix of the agent's name in attempts judged as asked."""
_SANDBOX_FIELDS = ("backend", "base", "limits")
_PERMISSIONS = ("allow_unsafe", "allow_network", "accept_whole_network", "allow_task_code", "pass_env")


def recorded_config(store: RunStore, more: SandboxOptions) -> RunConfig:
    """Returns the sandbox configuration of a run from its manifest, merged with the requested options. Permissions are
    the requested ones alone: the manifest may be somebody else's.

    Raises:
        StoreError: The manifest is invalid.
        UserError: The requested options cannot work, or do not permit what the run's sandbox needs.
    """
    given = store.manifest().get("config")
    told = {name: given[name] for name in _SANDBOX_FIELDS if name in given} if isinstance(given, dict) else {}
    told |= {name: getattr(more, name) for name in _PERMISSIONS}
    if more.backend is not None:
        told["backend"] = more.backend
    try:
        past = msgspec.convert({"tasks": ("-",), **told}, RunConfig)
    except msgspec.ValidationError as exc:
        raise StoreError(f"run {store.run!r} does not say how its sandboxes were made: {exc}") from exc
    return msgspec.structs.replace(past, base={**past.base, **more.base})


class _Sources(NamedTuple):
    """Today's tasks, and the disturbances of the run."""

    tasks: tuple[LoadedTask, ...]
    disturb: str | None = None


class RecordedTasks:
    """The tasks of a run, as recorded or as they are today. Use as a context manager, which removes restored files.

    `recorded` is the archived copy, or a folder with the same digest; `today` reads `folders`, by default those of the
    run. Of an imported record nothing is restored: a record cannot bring the task that it is judged by. A task that
    names Python code, or a family that is code, is taken from a record only with `allow_task_code`.
    """

    def __init__(
        self, store: RunStore, version: Version, folders: Sequence[str] = (), *, allow_task_code: bool = False
    ) -> None:
        self._store = store
        self._version = version
        self._allow_task_code = allow_task_code
        self._is_import = store.manifest().get("kind") == "import"
        self._sources = _Sources(find_tasks(folders)) if folders else None
        self._today: dict[str, LoadedTask] | None = None
        self._digests_by_path: dict[str, str] | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="assay-past-")
        self._kept: dict[tuple[object, object], LoadedTask] = {}
        self._problem = ""

    @classmethod
    def chosen(cls, store: RunStore, config: ReverifyConfig | ReplayConfig | MarginalsConfig | TiersConfig) -> Self:
        """Returns the tasks that a configuration selects. Raises `UserError` where `tasks` names what does not exist,
        also if the store holds a copy of every task."""
        return cls(store, config.check_version, config.tasks, allow_task_code=config.allow_task_code)

    def of(self, trajectory: Trajectory) -> LoadedTask:
        """Returns the task of an attempt. Raises `CannotRebuildError` if it is unavailable, or its code changed."""
        is_import = self._is_import or is_imported_record(trajectory.started)
        kept = None if is_import else next((e for e in trajectory.evidence if e.kind == "task"), None)
        code = ""
        if self._version == "recorded" and kept is not None and "left_out" not in kept.data:
            restored = self._restore(kept)
            code = "" if self._allow_task_code else ", ".join(find_code_of(restored))
            if not code:
                _require_same_code(kept, restored)
                return restored
        found = self._find_today(trajectory.task)
        if found is None and code:
            raise CannotRebuildError(
                f"the recorded task names Python code, {code}, which would run in this process and not in a sandbox: "
                f"{FLAG} permits it, and so does naming today's tasks with --tasks"
            )
        if found is None:
            hint = self._problem or "name its folder with --tasks"
            raise CannotRebuildError(
                f"the task {trajectory.task!r} is missing: the store holds no copy, and no folder has it ({hint})"
            )
        if self._version == "recorded" and not trajectory.task_digest:
            raise CannotRebuildError(
                "the record does not say which version of the task it was: --check-version today takes today's"
            )
        if self._version == "recorded" and trajectory.task_digest not in self._digests_of(found):
            why = f" ({kept.data['left_out']})" if kept is not None else ""
            raise CannotRebuildError(
                f"the digest of the task changed: it is {found.task.digest}, and was {trajectory.task_digest}; the "
                f"store holds no copy of it as it was{why}; --check-version today uses the current one"
            )
        return found

    def to_read(self, trajectory: Trajectory) -> LoadedTask:
        """Returns the task of an attempt for its texts: the archived copy also where it names Python code, of which
        nothing is executed. Raises as `of`."""
        is_import = self._is_import or is_imported_record(trajectory.started)
        kept = None if is_import else next((e for e in trajectory.evidence if e.kind == "task"), None)
        has_copy = self._version == "recorded" and kept is not None and "left_out" not in kept.data
        return self._restore(kept) if has_copy and kept is not None else self.of(trajectory)

    def mark_import(self, trajectory: Trajectory) -> Trajectory:
        """Returns an attempt marked as imported if its run is, even where its format did not say so."""
        if not self._is_import or is_imported_record(trajectory.started):
            return trajectory
        config: dict[str, Any] = {**trajectory.started.config, IMPORTED: {}}
        return msgspec.structs.replace(trajectory, started=msgspec.structs.replace(trajectory.started, config=config))

    def of_chain(self, chain: str) -> LoadedTask:
        """Returns the task of an attempt as `of`. Where the store holds a copy of the task, nothing else is read."""
        kept = self._find_archived(chain) if self._version == "recorded" and not self._is_import else None
        if kept is not None and (self._allow_task_code or not find_code_of(self._restore(kept))):
            _require_same_code(kept, self._restore(kept))
            return self._restore(kept)
        return self.of(self._store.trajectory(chain))

    def _find_archived(self, chain: str) -> Evidence | None:
        """Returns the evidence of the attempt's archived task, or None without one that is whole."""
        for link in self._store.links(chain, b'"kind":"task"'):
            body = decode_body(link)
            if isinstance(body, EvidenceAdded) and body.evidence.kind == "task":
                return None if "left_out" in body.evidence.data else body.evidence
        return None

    def _restore(self, kept: Evidence) -> LoadedTask:
        key = (kept.data.get("record"), kept.data.get("listing"))
        if not all(one is None or isinstance(one, str) for one in key):
            raise CannotRebuildError("the recorded version of the task is named by no digest")
        if key not in self._kept:
            folder = Path(self._scratch.name) / str(len(self._kept)) / "task"
            folder.parent.mkdir()
            try:
                self._kept[key] = restore_task(kept, self._store.blobs, folder)
            except StoreError as exc:
                raise CannotRebuildError(f"the recorded version of the task is not available: {exc}") from exc
        return self._kept[key]

    def _find_today(self, task: str) -> LoadedTask | None:
        if self._today is None:
            self._sources = self._sources or self._find_sources()
            self._today = {one.task.id: one for one in self._disturb(self._sources)}
        short = task.rpartition("/")[2]
        near = [one for name, one in self._today.items() if name.rpartition("/")[2] == short]
        return self._today.get(task) or (near[0] if len(near) == 1 else None)

    def _digests_of(self, found: LoadedTask) -> Iterator[str]:
        """Yields the digest of one of today's tasks, and the one by which earlier versions recorded it."""
        yield found.task.digest
        if self._digests_by_path is None and self._sources is not None:
            older = self._sources._replace(tasks=tuple(map(name_by_path, self._sources.tasks)))
            self._digests_by_path = {one.task.id: one.task.digest for one in self._disturb(older)}
        yield (self._digests_by_path or {}).get(found.task.id, found.task.digest)

    def _disturb(self, sources: _Sources) -> tuple[LoadedTask, ...]:
        try:
            return disturb_tasks(sources.tasks, sources.disturb)
        except UserError as exc:
            self._problem = str(exc)
            return ()

    def _find_sources(self) -> _Sources:
        """Returns the tasks in the folders and families of the run."""
        config: Any = self._store.manifest().get("config")
        named = config.get("tasks") if isinstance(config, dict) else None
        if not isinstance(named, list | tuple):
            return _Sources(())
        code = [one for one in map(str, named) if names_family_code(one)]
        if code and not self._allow_task_code:
            self._problem = f"the run's manifest names Python code, {', '.join(code)}: --tasks or {FLAG} permits it"
            return _Sources(())
        try:
            return _Sources(find_tasks([str(one) for one in named]), config.get("disturb"))
        except UserError as exc:
            self._problem = str(exc)
            return _Sources(())

    def __enter__(self) -> RecordedTasks:
        """Opens the context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Removes restored files."""
        with contextlib.suppress(OSError):
            self._scratch.cleanup()


def _require_same_code(kept: Evidence, restored: LoadedTask) -> None:
    """Raises `CannotRebuildError` if a file of code that an archived task names is not as it was recorded."""
    recorded, now = kept.data.get("code"), digest_code_of(restored)
    for name, digest in recorded.items() if isinstance(recorded, dict) else ():
        if now.get(name) != digest:
            what = "changed" if name in now else "is missing"
            raise CannotRebuildError(
                f"the file of the task's code {what}: {name} was {digest}; --check-version today uses the current one"
            )


def variation_of(trajectory: Trajectory) -> str | None:
    """Returns the name of the variation that an attempt was made under; None if there was none."""
    found = (e.data.get("variation") for e in trajectory.evidence if e.kind == "place")
    return next((str(name) for name in found if name), None)


def sandbox_steps(trajectory: Trajectory) -> set[int]:
    """Returns the indexes of the steps in which an agent ran a command in the sandbox of a served world."""
    if all(found.kind != AGENT_SANDBOX for found in trajectory.evidence):
        return set()
    # An action of the world may be called `shell` too: served calls have other ids (`LiveAttempt.serve`).
    acted = [step for step in trajectory.steps if step.tool_calls and step.tool_calls[0].id.startswith("t")]
    return {step.index for step in acted if own_command(step) is not None}


def priors_of(store: RunStore, chain: str) -> tuple[Prior, ...]:
    """Returns the recorded acts of an attempt, one `Prior` per part of its task, split where the state was sealed."""
    judged = _judged_steps(store, chain)
    parts: list[list[Step | Evidence]] = [[]]
    marked = False
    for event in store.events(chain):
        act = _act(event)
        marked = marked or (isinstance(event.body, EvidenceAdded) and event.body.evidence.kind == "place")
        if act is None or (judged is not None and isinstance(act, Step) and act.index not in judged):
            continue
        if not marked and isinstance(act, Evidence) and act.data.get("target") == SOLUTION:
            # An older record, which does not say what was done beside steps: this was, and its bytes were not kept.
            act = msgspec.structs.replace(act, data={**act.data, "beside": True})
        if isinstance(act, Evidence) and act.kind == "snapshot" and "image" in act.data:
            parts.append([])
        else:
            parts[-1].append(act)
    if len(parts) > 1 and not any(isinstance(act, Step) or act.data.get("beside") for act in parts[-1]):
        parts.pop()  # what the last state was judged by

    def tree(listing: str, target: Path) -> None:
        write_tree(store.blobs, listing, target)

    return tuple(Prior(tuple(part), store.blobs.get, tree) for part in parts)


def _judged_steps(store: RunStore, chain: str) -> frozenset[int] | None:
    """Returns the indexes of the steps that were judged; None for all, in an attempt without branches."""
    if next(iter(store.links(chain, b'"kind":"branch')), None) is None:
        return None
    return frozenset(step.index for step in judged_path(store.trajectory(chain)).steps)


def _act(event: Event) -> Step | Evidence | None:
    """Returns the act of an event that a replay needs: a step, an act outside steps, an execution or a sealing."""
    if isinstance(event.body, StepAdded):
        return event.body.step
    if not isinstance(event.body, EvidenceAdded):
        return None
    found = event.body.evidence
    executed = found.kind in ("execution", "execution_cut")
    sealed = found.kind == "snapshot" and "image" in found.data
    brought = found.kind == "upload" and found.data.get("target") == SOLUTION
    return found if executed or sealed or brought or found.data.get("beside") else None
