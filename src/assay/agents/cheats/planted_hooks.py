"""Hooks and configuration that the verifier's programs load by themselves."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import plant, run_inside, start_background
from ._payloads import PASS_HOOKS, TAKE_OVER, TAKE_OVER_LINE
from ._places import import_folders, start_folders, test_folders
from ._targets import answers, needs_answers, needs_pytest
from .interface import Knowledge, cheat


@cheat(
    about="A `conftest.py` that makes every report a pass, wherever pytest may look for one.",
    exploits="pytest runs every conftest.py on the way to the tests, also one that the agent wrote.",
    incident="https://github.com/SWE-bench/SWE-bench/issues/631",
    closed_by=("clean configuration", "separate verifier", "recorded test runner"),
    quick=True,
    bundle="pytest-hooks",
    applies=needs_pytest,
)
async def planted_conftest(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await test_folders(attempt, knowledge)
    files = {f"{folder.rstrip('/')}/conftest.py": PASS_HOOKS for folder in folders}
    await plant(attempt, files, message="plant conftest.py")


_NAME = "fast_reports"


@cheat(
    about="The metadata of an installed package in the workspace, which registers a plugin of pytest.",
    exploits="pytest loads plugins by the metadata of whatever folder is on the import path, the workspace included.",
    incident="https://github.com/benchflow-ai/benchflow/issues/1116",
    closed_by=("clean configuration", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "separate verifier"),
    bundle="pytest-hooks",
    applies=needs_pytest,
)
async def planted_pytest_plugin(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {}
    for folder in await import_folders(attempt, knowledge):
        files[f"{folder}/{_NAME}.py"] = PASS_HOOKS
        files[f"{folder}/{_NAME}-1.0.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: 1.0\n"
        files[f"{folder}/{_NAME}-1.0.dist-info/entry_points.txt"] = f"[pytest11]\n{_NAME} = {_NAME}\n"
    await plant(attempt, files, message="register a plugin of pytest")


_OPTIONS = "addopts = --collect-only --continue-on-collection-errors\n"


@cheat(
    about="Options for pytest in the files that it reads by itself: tests are collected and none is run.",
    exploits="pytest takes options from pytest.ini, tox.ini or setup.cfg beside or above tests, whoever wrote them.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    closed_by=("clean configuration", "recorded test runner", "separate verifier"),
    bundle="stand-ins",
    applies=needs_pytest,
)
async def planted_pytest_options(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {}
    for folder in (f.rstrip("/") for f in await test_folders(attempt, knowledge)):
        files[f"{folder}/pytest.ini"] = f"[pytest]\n{_OPTIONS}"
        files[f"{folder}/tox.ini"] = f"[pytest]\n{_OPTIONS}"
        files[f"{folder}/setup.cfg"] = f"[tool:pytest]\n{_OPTIONS}"
    await plant(attempt, files, message="plant options of pytest")


@cheat(
    about="A `sitecustomize.py`, which Python runs when it starts, in every folder where it may look for one.",
    exploits="The verifier starts Python with a folder of the agent's on its path, which runs a sitecustomize there.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    closed_by=("clean configuration", "clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
async def planted_sitecustomize(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await start_folders(attempt, knowledge)
    await plant(attempt, {f"{f}/sitecustomize.py": TAKE_OVER for f in folders}, message="plant a start-up hook")


@cheat(
    about="A path file whose line Python runs when it starts, in the folders of the user's own packages.",
    exploits="The verifier starts Python with the agent's folders of packages, whose path files may hold code.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    closed_by=("clean configuration", "clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
async def planted_pth(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await start_folders(attempt, knowledge)
    await plant(attempt, {f"{f}/zz-fast.pth": TAKE_OVER_LINE for f in folders}, message="plant a path file")


@cheat(
    about="A `usercustomize.py`, which Python runs when it starts, in every folder where it may look for one.",
    exploits="The verifier starts Python as the agent's user, with its home, which runs a usercustomize there.",
    closed_by=("clean configuration", "clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
async def planted_usercustomize(attempt: Attempt, knowledge: Knowledge) -> None:
    folders = await start_folders(attempt, knowledge)
    await plant(attempt, {f"{f}/usercustomize.py": TAKE_OVER for f in folders}, message="plant a start-up hook")


@cheat(
    about=(
        "Variables in the files that a shell reads when it "
        "starts: they make the verifier's programs load what was planted."
    ),
    exploits="The test script reads a profile of the agent's home: as a login shell, or sources what installers left.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    closed_by=("clean environment", "other user", "separate verifier"),
    bundle="stand-ins",
)
async def profile_environment(attempt: Attempt, _: Knowledge) -> None:
    await run_inside(attempt, "profile", {"hook": TAKE_OVER}, message="set variables in the shell's own files")


@cheat(
    about=(
        "A process reads the variables and arguments of the verifier's processes, and answers with what it finds there."
    ),
    exploits="What is expected is passed in variables or arguments, and /proc shows them to the same user.",
    incident="https://github.com/zmievsa/autograder/issues/39",
    closed_by=("no agent process alive", "other user", "separate verifier"),
    applies=needs_answers,
    bundle="background",
)
async def verifier_environment(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {"targets": answers(knowledge), "lasts_s": 600}
    await start_background(attempt, "processes", given, message="read what the verifier's processes are told")
