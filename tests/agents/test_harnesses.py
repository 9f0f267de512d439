"""Recipes of command-line agents: what they tell the program, and how they are installed. The programs themselves
run in tests/harnesses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import msgspec
import pytest

from assay.agents.harnesses import HARNESSES, find_recipe, recipes
from assay.agents.harnesses._registry import LOCKS, _run, find_python
from assay.agents.harnesses.command import CommandAgent
from assay.agents.harnesses.install import Installed, _build_aside, find_installed, installed_or_none
from assay.agents.harnesses.recipe import Npm, Pip, Recipe, fill_template, plain_model
from assay.agents.interface import Agent, Endpoint, is_placed, sandbox_spec
from assay.agents.testing import FakeAttempt, FakeWorkspace, fake_task
from assay.environments.interface import ExecResult, ResourceLimits, WorkspaceSpec
from assay.errors import AgentError, UserError
from assay.plugins import load, names

pytestmark = pytest.mark.quick
ENDPOINT = Endpoint("http://127.0.0.1:4444/s/abc", "the-key", "scripted:a b.toml")
HOSTILE = "--help\n$(touch /tmp/x); `id` \"quoted\" 'single' \\ ${HOME} {instruction} @file \x07"
AGENTS = [recipe.name for recipe in recipes() if not recipe.is_library]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which everything seems to be installed."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    (tmp_path / "parts").mkdir()
    for recipe in recipes():
        folder = tmp_path / "agents" / f"{recipe.name}-{recipe.version}"
        folder.mkdir(parents=True)
        where = str(folder.relative_to(tmp_path))
        own = {"program": "bin/it"} if isinstance(recipe.install, Npm) and recipe.install.native else {}
        found = Installed(
            recipe.name,
            recipe.version,
            where,
            recipe.install.requirements,
            (),
            "d",
            1,
            1.0,
            node="parts",
            python="parts",
            **own,
        )
        (folder / "installed.json").write_bytes(msgspec.json.encode(found))
    return tmp_path


async def run(agent: Agent, instruction: str = "do it", code: int = 0) -> tuple[FakeAttempt, FakeWorkspace]:
    workspace = FakeWorkspace(lambda command, files: ExecResult(code, "", "no such thing", 0.1))
    attempt = FakeAttempt(task=fake_task(instruction), workspace=workspace, served=ENDPOINT)
    await agent.run(attempt)
    return attempt, workspace


@pytest.mark.parametrize("name", AGENTS)
async def test_instruction_reaches_the_program_as_it_is_and_no_shell(name: str, cache: Path) -> None:
    _, workspace = await run(load("agents", name)(), HOSTILE)
    (command,) = workspace.commands
    assert not isinstance(command, str)
    words = [word for word in command if HOSTILE in word]
    assert words == ([HOSTILE] if "${instruction}" in " ".join(find_recipe(name).after) else [])
    assert not any("touch" in text.decode() for text in workspace.files.values())


@pytest.mark.parametrize("name", AGENTS)
async def test_key_is_no_word_of_a_command(name: str, cache: Path) -> None:
    attempt, workspace = await run(load("agents", name)(lean=True))
    assert not any("the-key" in word for command in workspace.commands for word in command)
    assert attempt.ended is not None
    assert attempt.evidence[0].data["version"] == find_recipe(name).version


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_is_registered_and_says_what_it_needs(name: str, cache: Path) -> None:
    assert name in names("agents")
    agent = load("agents", name)()
    assert is_placed(agent)
    assert agent.mounts[0].target == f"/opt/agents/{name}"
    assert all(folder.startswith("/home/agent/.") for folder in agent.needs.tmpfs)


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_settings_are_what_they_should_be_in_every_dialect(recipe: Recipe) -> None:
    values = dict.fromkeys(("url", "openai", "key", "model", "home", "context", "output"), "1")
    for dialect in recipe.dialects:
        known = {**values, "dialect": dialect, **recipe.by_dialect.get(dialect, {})}
        for path, text in recipe.files.items():
            made = fill_template(text, known)
            if path.endswith(".json"):
                json.loads(made)
            elif path.endswith(".toml"):
                msgspec.toml.decode(made)


def test_pi_is_told_the_api_that_was_asked_for(cache: Path) -> None:
    pi = load("agents", "pi")
    values = pi(dialect="anthropic-messages")._values(ENDPOINT, "/home/agent", {})
    assert (values["api"], values["base"]) == ("anthropic-messages", ENDPOINT.url)
    assert pi()._values(ENDPOINT, "/home/agent", {})["base"] == f"{ENDPOINT.url}/v1"


def test_a_dialect_that_it_does_not_speak_is_refused(cache: Path) -> None:
    with pytest.raises(UserError, match="it speaks openai-responses"):
        load("agents", "codex")(dialect="gemini")


async def test_a_program_that_does_not_start_is_the_agents_failure(cache: Path) -> None:
    with pytest.raises(AgentError, match="no such thing"):
        await run(load("agents", "codex")(), code=127)


async def test_an_exit_code_decides_nothing(cache: Path) -> None:
    attempt, _ = await run(load("agents", "codex")(), code=3)
    assert attempt.ended == "Codex ended with exit code 3"


async def test_too_long_an_instruction_for_a_command_line_is_said(cache: Path) -> None:
    with pytest.raises(UserError, match="120000"):
        await run(load("agents", "mini-swe-agent")(), "x" * 130_000)


@pytest.mark.parametrize(
    ("given", "plain"), [("openai:gpt-x", "openai-gpt-x"), ("a/b c", "a-b-c"), ("::", "model"), ("-x", "x")]
)
def test_a_models_name_is_made_plain(given: str, plain: str) -> None:
    assert plain_model(given) == plain


def test_what_is_not_installed_is_said_with_the_way_out(tmp_path: Path) -> None:
    assert installed_or_none(tmp_path, find_recipe("pi")) is None
    with pytest.raises(UserError, match="assay agents install pi"):
        find_installed(tmp_path, find_recipe("pi"))
    with pytest.raises(UserError, match="claude-code"):
        find_recipe("claude")


def test_an_install_that_was_cut_leaves_nothing_that_is_found(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()

    def cut() -> None:
        with _build_aside(tmp_path, "pi", "0") as making:
            (making.folder / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut()
    assert list((tmp_path / "agents").iterdir()) == []


@pytest.mark.parametrize(
    ("told", "hint"),
    [("npm error code ENOTFOUND", "not in reach"), ("npm error code E404", "not have that version"), ("x", "its own")],
)
def test_a_failed_fetch_is_explained(told: str, hint: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import sys; sys.exit({told!r})"]
    with pytest.raises(UserError, match=hint):
        _run(command, tmp_path, "npm could not install it")


def test_a_python_that_is_too_old_is_refused() -> None:
    assert find_python((3, 11)) == sys.executable
    with pytest.raises(UserError, match=r"3\.99"):
        find_python((3, 99))
    with pytest.raises(UserError, match="nosuch"):
        find_python((3, 11), "nosuch")


@pytest.mark.parametrize("name", [r.name for r in recipes() if isinstance(r.install, Npm)])
def test_a_lock_pins_everything_and_names_no_registry(name: str) -> None:
    text = (LOCKS / f"{name}.json").read_text()
    lock, install = json.loads(text), find_recipe(name).install
    assert isinstance(install, Npm)
    assert lock["packages"][""]["dependencies"] == {install.package: install.version}
    assert all("integrity" in entry for place, entry in lock["packages"].items() if place)
    assert "://" not in text


@pytest.mark.parametrize("name", [r.name for r in recipes() if isinstance(r.install, Pip)])
def test_a_python_lock_pins_what_the_recipe_asks_for(name: str) -> None:
    lines = (LOCKS / f"{name}.txt").read_text().split()
    wanted = {package.lower() for package in find_recipe(name).install.requirements}
    assert all(len(line.split("==")) == 2 for line in lines)
    assert wanted <= {line.lower().replace("_", "-") for line in lines}


def test_limits_are_raised_and_never_lowered(cache: Path) -> None:
    agent = CommandAgent(command="x", memory_mib=4096, own=("/home/agent/.x",))
    spec = WorkspaceSpec(limits=ResourceLimits(memory_mib=1024, processes=None, tmp_mib=9))
    made = sandbox_spec(spec, agent)
    assert (made.limits.memory_mib, made.limits.processes, made.limits.tmp_mib) == (4096, None, 9)
    assert "/home/agent/.x" in made.tmpfs
    assert sandbox_spec(made, agent).limits == made.limits
    assert sandbox_spec(spec, load("agents", "null")()) is spec


async def test_the_commands_true_and_false_are_commands() -> None:
    _, workspace = await run(CommandAgent(command=True), "do it")
    assert workspace.commands[-1] == "true"


async def test_a_command_finds_the_model_in_its_environment_and_the_task_in_a_file() -> None:
    _, workspace = await run(CommandAgent(command='["my-agent", "{instruction}"]'), HOSTILE)
    assert workspace.commands == [("my-agent", HOSTILE)]
    assert workspace.files["/home/agent/.assay-command/instruction.md"].decode() == HOSTILE


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give --agent-option"),
        ({"command": "x", "mounts": '{"/nowhere": "/x"}'}, "/nowhere does not exist"),
        ({"command": "x", "mounts": '{"/": "x"}'}, "absolute path"),
        ({"command": "x", "harnesses": '["nosuch"]'}, "no harness is called"),
    ],
)
def test_a_command_that_cannot_work_is_refused_at_once(options: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        CommandAgent(**options)


def test_libraries_are_listed_and_run_by_a_command(cache: Path) -> None:
    assert set(HARNESSES) - set(AGENTS) == {"openai-agents", "smolagents", "playwright-mcp"}
    agent = CommandAgent(command="x", harnesses=("openai-agents",))
    assert {mount.target for mount in agent.mounts} >= {"/opt/agents/openai-agents"}


def test_a_command_has_the_name_that_it_is_given() -> None:
    assert CommandAgent(command="/opt/x").name == "x"
    assert CommandAgent(command="x", name="mine").name == "mine"
    with pytest.raises(UserError, match="name"):
        CommandAgent(command="x", name="")


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("my-agent --yes", "my-agent-"),
        ("KEY=1 exec python3 -u /opt/it/solver.py", "solver.py-"),
        (("python3", "-m", "mine", "{instruction}"), "mine-"),
        ("sh -c 'echo hello; true'", "echo-hello-true-"),
        ("echo 'open", "echo-"),
        ("   ", "command-"),
    ],
)
def test_a_command_without_a_name_is_named_after_its_program(command: str | tuple[str, ...], begins: str) -> None:
    name = CommandAgent(command=command).name
    assert re.fullmatch(re.escape(begins) + "[0-9a-f]{6}", name)
    longer = f"{command} more" if isinstance(command, str) else (*command, "more")
    assert CommandAgent(command=command).name == name != CommandAgent(command=longer).name


async def test_a_link_out_of_a_mount_is_named_as_the_reason_of_a_command_that_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    workspace = FakeWorkspace(lambda command, files: ExecResult(127, "", "no such file", 0.1))
    agent = CommandAgent(command=["/opt/venv/bin/python", "x.py"], mounts={str(tmp_path / "venv"): "/opt/venv"})
    with pytest.raises(AgentError, match=r"/opt/venv/bin/python is a link to .*, which the sandbox does not show"):
        await agent.run(FakeAttempt(task=fake_task("do it"), workspace=workspace, served=ENDPOINT))
    (tmp_path / "venv" / "bin" / "python").unlink()
    (tmp_path / "venv" / "bin" / "python").symlink_to("other")
    (tmp_path / "venv" / "bin" / "other").touch()
    with pytest.raises(AgentError, match=r"no such file$"):
        await agent.run(FakeAttempt(task=fake_task("do it"), workspace=workspace, served=ENDPOINT))
