"""Experiments of AgentLab: a folder with `exp_args.pkl`, `step_N.pkl.gz`, screenshots and `summary_info.json`.

Task, agent and turns are in pickles alone, which are read as data and never unpickled (`shared.pickle_data`). A study
is a folder of experiments. One whose name begins with `_` was replaced and is left out, as AgentLab leaves it out.
Screenshots stand beside the turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from assay.errors import UserError
from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import ReadOnlyFormat, skip_unreadable
from assay.formats.shared.builder import Origin, TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction, digest_file, warn_in
from assay.formats.shared.pickle_data import PlainReader, fields_of, read_pickle
from assay.formats.shared.round_trip_builder import (
    find_file,
    get_path,
    list_or_empty,
    load_optional_document,
    number,
    text_or_empty,
    text_or_none,
)

from .episodes import EpisodeStep, add_episode, add_reward, goal_text, seed_of

_ARGUMENTS: Final = "exp_args.pkl"
_SUMMARY: Final = "summary_info.json"
_MOST_STEPS: Final = 2_000
_MOST_PICTURE: Final = 16 << 20
_MOST_LOG: Final = 4 << 20
_MOST_HELD: Final = 256 << 20
"""Characters and bytes of pictures of one experiment."""
_TREES: Final = ("axtree_txt", "pruned_html", "dom_txt")


class AgentLabFormat(ReadOnlyFormat):
    name: ClassVar[str] = "agentlab"
    title: ClassVar[str] = "AgentLab experiments in BrowserGym (folders with exp_args.pkl)"
    provenance: ClassVar[Provenance] = "peer"
    why_read_only: ClassVar[str] = "AgentLab's experiments are pickles, which are read as data and never written"

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and find_file(path / _ARGUMENTS) is not None and not path.is_symlink()

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        if not self.recognises(path):
            raise UserError(f"no experiment of AgentLab: name a folder with {_ARGUMENTS}, or the study around it")
        if path.name.startswith("_"):
            warn_in(reading, path.name)("", "a later experiment replaced this one, as its name says")
            return
        yield _read_experiment(path, reading)


def _read_experiment(folder: Path, reading: ImportContext) -> ImportedTrajectory:
    bad = warn_in(reading, folder.name)
    arguments: Any = {}
    with skip_unreadable(bad, _ARGUMENTS):
        arguments = PlainReader().read(read_pickle(folder / _ARGUMENTS))
    arguments = arguments if isinstance(arguments, dict) else {}
    versions = _versions(folder)
    origin = Origin("agentlab", folder.name, digest_file(folder / _ARGUMENTS), versions.get("agentlab", ""))
    builder = TrajectoryBuilder(origin, reading)
    summary = load_optional_document(folder / _SUMMARY)
    if not isinstance(summary, dict):
        bad(_SUMMARY, "is missing or no JSON: the experiment was cut, and has neither end nor reward")
        summary = {}
    steps, goal = _read_steps(folder, bad)
    add_episode(builder, goal or _goal_of(folder, bad), steps)
    task, model_arguments = get_path(arguments, "env_args"), get_path(arguments, "agent_args")
    builder.fields = {
        "agent_args": model_arguments,
        "env_args": task,
        "exp_id": arguments.get("exp_id"),
        "summary_info": summary,
        "package_versions": {name: version for name, version in versions.items() if "browsergym" in name},
    }
    log = _read_text(folder / "experiment.log")
    if log:
        builder.add_text_evidence("log", log)
    ended = add_reward(builder, summary)
    return builder.finish(
        text_or_none(arguments.get("exp_name")) or folder.name,
        ended=ended,
        task=text_or_none(get_path(task, "task_name")) or folder.name,
        agent=text_or_none(get_path(model_arguments, "agent_name")) or "unknown",
        model=text_or_none(get_path(model_arguments, "chat_model_args", "model_name")),
        seed=seed_of(task),
        at=next((step.started for step in steps if step.started is not None), None),
    )


def _read_steps(folder: Path, bad: WarnFunction) -> tuple[list[EpisodeStep], str]:
    """Returns the steps of an experiment, and its goal; empty where no step has it."""
    steps: list[EpisodeStep] = []
    goal, left = "", _MOST_HELD
    for at in range(_MOST_STEPS):
        path = find_file(folder / f"step_{at}.pkl.gz")
        if path is None:
            break
        if left < 0:
            bad(path.name, f"and later steps were left out: the experiment is larger than {_MOST_HELD >> 20} MiB")
            break
        step, reader = EpisodeStep(at), PlainReader()
        whole = reader.characters_left
        with skip_unreadable(bad, path.name):
            found, told = _read_step(at, path, reader)
            step, goal = found, goal or told
        picture = _read_picture(folder, at)
        left -= whole - reader.characters_left + len(picture or b"")
        steps.append(step._replace(picture=picture))
    return steps, goal


def _read_step(at: int, path: Path, reader: PlainReader) -> tuple[EpisodeStep, str]:
    """Returns a step and its goal. Raises `UserError`."""
    info = fields_of(read_pickle(path))
    seen = info.get("obs")
    seen = seen if isinstance(seen, dict) else {}
    agent, profile = fields_of(info.get("agent_info")), fields_of(info.get("profiling"))
    if isinstance(info.get("agent_info"), dict):
        agent = info["agent_info"]
    titles = list_or_empty(reader.read(seen.get("open_pages_titles")))
    active = reader.read(seen.get("active_page_index"))
    page = active[0] if isinstance(active, list) and active and isinstance(active[0], int) else 0
    messages = reader.read(agent.get("chat_messages"))
    if isinstance(messages, dict):
        messages = messages.get("messages", messages)
    step = EpisodeStep(
        at,
        text_or_none(reader.read(info.get("action"))),
        text_or_none(reader.read(agent.get("think"))),
        text_or_empty(reader.read(seen.get("url"))),
        text_or_empty(titles[page]) if 0 <= page < len(titles) else "",
        next((text for name in _TREES if (text := text_or_empty(reader.read(seen.get(name))))), ""),
        text_or_empty(reader.read(seen.get("last_action_error"))),
        messages or None,
        reader.read(agent.get("stats")) or None,
        None,
        number(reader.read(profile.get("agent_start"))) or None,
        number(reader.read(profile.get("agent_stop"))) or None,
    )
    return step, goal_text(reader.read(seen.get("goal")))


def _goal_of(folder: Path, bad: WarnFunction) -> str:
    path = find_file(folder / "goal_object.pkl.gz")
    if path is not None:
        with skip_unreadable(bad, path.name):
            return goal_text(PlainReader().read(read_pickle(path)))
    return ""


def _read_picture(folder: Path, at: int) -> bytes | None:
    path = find_file(folder / f"screenshot_step_{at}.png", folder / f"screenshot_step_{at}.jpg")
    if path is None or path.stat().st_size > _MOST_PICTURE:
        return None
    return path.read_bytes()


def _read_text(path: Path) -> str:
    found = find_file(path)
    if found is None:
        return ""
    with found.open("rb") as stream:
        return stream.read(_MOST_LOG).decode("utf-8", "replace")


def _versions(folder: Path) -> dict[str, str]:
    lines = _read_text(folder / "package_versions.txt").splitlines()
    return {name: version[:50] for line in lines[:5_000] for name, mark, version in [line.partition("==")] if mark}
