"""Key frames with instructions that they fulfil and that they do not, for judges that see pictures alone.

Each attempt in a browser gives one example with its own instruction, and one with the instruction of each other task of
the same world (same application or site, same seed and start) that is among the exported attempts. The label is that of
the other task's own checks on the final state of the attempt: a swapped instruction that happens to be fulfilled is no
negative and is left out, and so is one that cannot be judged.

Each key frame says whether the instruction was fulfilled after it, and `departs` is the step of the first call that
changed something and is on no shortest way to what the instruction asks for. Both come from the log of calls, which is
done again on the world without its browser; where that does not lead to the recorded digests, they are null. After
ExeVRM's judge from key frames and its adversarial instructions, whose step labels a model wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.browser.picture_options import SITE
from assay.environments.services.shortest_paths import read_ways
from assay.environments.services.world import ServiceWorld
from assay.errors import AssayError, StoreError
from assay.learning.keyframes import Keyframe, StoredScreen, choose_keyframes, stored_screens
from assay.records import Task, Trajectory, VerdictStatus, digest_record
from assay.verdicts import worst_outcome
from assay.verify import WorldRequest, verify_world

from .interface import ExportSource, ExportTarget

_ENDS = {b"RIFF": ".webp", b"\x89PNG": ".png"}


class SwappedInstructions(ExportTarget):
    """A folder: `examples.jsonl` and `images/`, one file a picture, named by its digest."""

    name = "swapped-instructions"
    title = "key frames with right and swapped instructions (a folder)"

    def write(self, source: ExportSource, out: Path) -> int:
        (out / "images").mkdir(parents=True)
        worlds: dict[str, dict[str, Task]] = {}
        for trajectory in source.trajectories():
            task = source.task(trajectory)
            if task is not None:
                worlds.setdefault(_world_key(task), {}).setdefault(instruction_text(task), task)
        written = 0
        with (out / "examples.jsonl").open("wb") as stream:
            for trajectory in source.trajectories():
                for line in self._examples(source, trajectory, worlds, out / "images"):
                    stream.write(msgspec.json.encode(line) + b"\n")
                    written += 1
        return written

    def _examples(
        self, source: ExportSource, trajectory: Trajectory, worlds: Mapping[str, Mapping[str, Task]], images: Path
    ) -> Iterator[dict[str, Any]]:
        attempt, task = trajectory.attempt, source.task(trajectory)
        course = None if task is None else _Course.read(task, trajectory)
        if task is None or course is None:
            source.record_loss(attempt, "attempt", "its task or its final facts are not available")
            return
        if course.fulfils(task) != trajectory.outcome:
            source.record_loss(attempt, "attempt", "its final facts do not give its recorded outcome")
            return
        frames, files = _store_frames(source, trajectory, images)
        if not frames:
            source.record_loss(attempt, "attempt", "no picture of it is stored")
            return
        for text, other in worlds[_world_key(task)].items():
            is_own = text == instruction_text(task)
            asked = task if is_own else other
            status = course.fulfils(asked)
            if status not in ("pass", "fail") or (status == "pass" and not is_own):
                why = "fulfils it, too" if status == "pass" else "cannot be judged by it"
                source.record_loss(attempt, "swapped instruction", f"the attempt {why}: {asked.id}")
                continue
            yield {
                "run": trajectory.run,
                "attempt": attempt,
                "task": trajectory.task,
                "instruction": text,
                "instruction_of": asked.id,
                "swapped": not is_own,
                "fulfilled": status == "pass",
                "departs": course.departure(asked),
                "frames": [_frame_data(frame, files, course, asked) for frame in frames],
            }


def instruction_text(task: Task) -> str:
    """Returns the text of a task's instruction."""
    if isinstance(task.instruction, str):
        return task.instruction
    return "\n\n".join(str(message.content) for message in task.instruction)


def _world_key(task: Task) -> str:
    """Returns a digest that tasks in the same world share: the same state at the start, whatever the looks."""
    kept = {key: value for key, value in task.environment.parameters.items() if key not in ("plan", SITE)}
    return digest_record([task.environment.kind, kept, task.environment.seed])


def _store_frames(source: ExportSource, trajectory: Trajectory, images: Path) -> tuple[list[Keyframe], dict[str, str]]:
    """Returns the key frames whose pictures could be written, and the file of each picture by its digest."""
    try:
        screens: list[StoredScreen] = list(stored_screens(trajectory))
        frames = choose_keyframes(screens, lambda digest: source.blob(digest).decode("utf-8", "replace"))
        files: dict[str, str] = {}
        for frame in frames:
            data = source.blob(frame.screen.image)
            end = next((end for start, end in _ENDS.items() if data.startswith(start)), ".bin")
            name = frame.screen.image.rpartition(":")[2] + end
            (images / name).write_bytes(data)
            files[frame.screen.image] = f"{images.name}/{name}"
    except StoreError as exc:  # a picture was erased
        source.record_loss(trajectory.attempt, "frames", str(exc)[:300])
        return [], {}
    return frames, files


def _frame_data(frame: Keyframe, files: Mapping[str, str], course: _Course, task: Task) -> dict[str, Any]:
    step, act, title, url, image, tree = frame.screen
    return {
        "step": step,
        "act": act,
        "title": title,
        "url": url,
        "image": image,
        "file": files[image],
        "tree": tree,
        "change": round(frame.change, 4),
        "fulfilled": course.fulfils_after(task, step),
    }


class _ReplayedState(NamedTuple):
    """A world after some calls of its log."""

    facts: dict[str, Any]
    digest: str | None


class _Course:
    """The world of an attempt, at its end and after each step."""

    def __init__(self, task: Task, trajectory: Trajectory, end: _ReplayedState) -> None:
        self._end = end
        self._moments = _replay(task, end)
        self._calls_at = {} if self._moments is None else _calls_at(trajectory, self._moments)
        self._judged: dict[tuple[str, int], VerdictStatus | None] = {}

    @classmethod
    def read(cls, task: Task, trajectory: Trajectory) -> _Course | None:
        """Returns the course of an attempt on pages; None if its end was not recorded."""
        found = next((one.data for one in reversed(trajectory.evidence) if one.kind == "facts"), {})
        facts = found.get("facts")
        if task.environment.kind != "sites" or not isinstance(facts, dict):
            return None
        return cls(task, trajectory, _ReplayedState(facts, found.get("digest")))

    def fulfils(self, task: Task) -> VerdictStatus | None:
        """Returns the outcome of the final state by the checks of a task."""
        return self._judge(task, -1)

    def fulfils_after(self, task: Task, step: int) -> bool | None:
        """Returns whether the state after a step fulfils a task; None where it is not known."""
        if step not in self._calls_at:
            return None
        status = self._judge(task, self._calls_at[step])
        return status == "pass" if status in ("pass", "fail") else None

    def _judge(self, task: Task, calls: int) -> VerdictStatus | None:
        key = task.digest, calls
        if key not in self._judged:
            moment = self._end if self._moments is None or calls < 0 else self._moments[calls]
            results = asyncio.run(verify_world(WorldRequest(task, moment.facts, moment.digest)))
            verdicts = (one.verdict for one in results)
            self._judged[key] = worst_outcome(one.status for one in verdicts if one.kind == "outcome")
        return self._judged[key]

    def departure(self, task: Task) -> int | None:
        """Returns the step of the first call that changed something and is on no shortest way to what a task asks for;
        None without one, and where that is not known."""
        try:
            ways = read_ways(task.environment.parameters)
        except ValueError:
            return None
        if ways is None or self._moments is None:
            return None
        place = ways.start
        for number, call in enumerate(self._end.facts["calls"], 1):
            if self._moments[number].digest == self._moments[number - 1].digest:
                continue
            left, found = ways.left(place), ways.advance(place, call["action"], call["arguments"])
            place = place if found is None else found[1]
            if left is None or ways.left(place) != left - 1:
                return next((step for step, calls in self._calls_at.items() if calls >= number), None)
        return None


def _replay(task: Task, end: _ReplayedState) -> list[_ReplayedState] | None:
    """Returns the world before the first and after each call of its log; None where another than the agent called, or
    the calls do not lead to the recorded digests."""
    calls = end.facts.get("calls")
    if not isinstance(calls, list) or any(call.get("role") != "agent" for call in calls):
        return None
    own = {name: value for name, value in task.environment.parameters.items() if name != SITE}
    try:
        world = ServiceWorld(own, task.environment.seed)
        with closing(world.database):
            moments = [_ReplayedState(world.facts(), world.database.digest())]
            for call in calls:
                world.act(call["action"], call["arguments"])
                moments.append(_ReplayedState(world.facts(), world.database.digest()))
                if moments[-1].digest != call["digest"]:
                    return None
    except (AssayError, ValueError, KeyError):
        return None
    return moments if moments[-1].digest == end.digest else None


def _calls_at(trajectory: Trajectory, moments: Sequence[_ReplayedState]) -> dict[int, int]:
    """Returns how many calls were made by the end of each step; of a read, which changes no digest, a later step may
    count it. Empty where the steps' digests are not those of the log."""
    found, made = dict[int, int](), 0
    for step in trajectory.steps:
        if step.state is None:
            continue
        while made < len(moments) and moments[made].digest != step.state:
            made += 1
        if made == len(moments):
            return {}
        found[step.index] = made
    return found
