from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.environments.interface import Snapshot, Workspace, WorkspaceSpec
from assay.environments.workspace.backend_probe import probe_backend
from assay.environments.workspace.choose import BackendReport, choose_backend, choose_preferred, probe_all_backends
from assay.environments.workspace.process import ProcessBackend
from assay.errors import EnvironmentFailure, UserError
from assay.records import LimitHold


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cp").symlink_to(shutil.which("cp") or "/bin/cp")
    (tmp_path / "sleep").symlink_to(shutil.which("sleep") or "/bin/sleep")
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize("name", ["process", "none"])
async def test_no_isolation_needs_its_flag(name: str, cache: Path) -> None:
    with pytest.raises(UserError, match="--allow-unsafe"):
        await choose_backend(name, cache=cache)
    backend, report = await choose_backend(name, allow_unsafe=True, cache=cache)
    await backend.close()
    assert backend.name == "process"
    assert "no isolation" in str(report)


async def test_best_that_works_is_chosen_without_a_name(cache: Path) -> None:
    try:
        backend, report = await choose_backend(cache=cache)
    except UserError as exc:
        pytest.skip(f"no sandbox works here: {exc}")
    await backend.close()
    assert report.name in ("namespaces", "bubblewrap")
    assert report.works
    assert len(report.properties) >= 12
    assert all(report.properties.values())


async def test_named_backend_that_is_missing_says_so(nothing_installed: None, cache: Path) -> None:
    with pytest.raises(UserError, match=r"'bubblewrap' does not work here[\s\S]*install the package"):
        await choose_backend("bubblewrap", cache=cache)
    with pytest.raises(UserError, match="podman is not installed"):
        await choose_backend("podman", cache=cache)


async def test_unknown_backend_is_refused(cache: Path) -> None:
    with pytest.raises(UserError):
        await choose_backend("no-such-sandbox", cache=cache)


@pytest.mark.long
async def test_survey_tells_of_each(nothing_installed: None, cache: Path) -> None:
    reports = {report.name: report for report in await probe_all_backends(cache)}
    assert list(reports) == ["namespaces", "bubblewrap", "podman", "docker", "process"]
    assert not reports["docker"].works
    assert "docker is not installed" in str(reports["docker"])


def test_report_reads_as_sentences() -> None:
    limits = (LimitHold("memory", "soft", 1.0), LimitHold("processes", "hard", 2.0))
    report = BackendReport("bubblewrap", True, None, {"a": True}, limits, "same", ("Do this.",))
    assert str(report).splitlines() == [
        "bubblewrap: works. 1 property was tried in a live sandbox, and all held.",
        "  Limits enforced by the kernel: processes.",
        "  Limits enforced by a watchdog, which ends a process within a second after it exceeds one: memory.",
        "  The verifier is the same user as the agent: it judges a copy without live processes of the agent, but "
        "permissions do not separate them.",
        "  Do this.",
    ]
    broken = BackendReport("bubblewrap", False, None, {"a": True, "b": False})
    assert str(broken) == "bubblewrap: must not be used. In a live sandbox this did not hold: b."
    refused = BackendReport("docker", False, "is the daemon running?", {})
    assert str(refused) == "docker: cannot be used. Opening one said: is the daemon running?"


@pytest.mark.long
async def test_every_backend_that_cannot_be_used_says_what_to_do(nothing_installed: None, cache: Path) -> None:
    reports = await probe_all_backends(cache)
    for report in reports:
        assert report.works or report.advice or "install" in (report.reason or ""), report.name
    assert choose_preferred(reports) in (None, "namespaces")


async def test_a_backend_without_isolation_fails_the_trial_of_isolation() -> None:
    backend = ProcessBackend()
    probe = await probe_backend(backend)
    await backend.close()
    assert probe.problem is None
    assert probe.passed["commands run"]
    assert not probe.passed["the host's files are hidden"]
    assert not probe.passed["the host's processes are hidden"]
    assert not probe.passed["the host's network is hidden"]
    assert not probe.passed["the number of processes is limited"]


class Breaking(ProcessBackend):
    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> Workspace:
        message = "the kernel\n  said no"
        raise EnvironmentFailure(message)


async def test_a_backend_that_cannot_open_is_a_problem_and_no_exception() -> None:
    probe = await probe_backend(Breaking())
    assert probe.problem == "the kernel said no"
