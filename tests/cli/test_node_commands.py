"""`assay node` and `assay status` as programs: what they say of nodes, and how a node that must leave exits."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.rollout.cluster.http_transport import open_listener
from assay.rollout.cluster.node import announced_url
from assay.rollout.cluster.node_config import NodeConfig
from assay.rollout.cluster.place_records import (
    AgentAnnouncement,
    PublishedRun,
    announce_agent,
    new_run_id,
    publish_end,
    publish_run,
)
from assay.store.objects import open_place
from tests.cli.conftest import Say
from tests.optional import require_packages
from tests.processes import Start, assay_processes, wait_for

require_packages("obstore")
TOKEN = "a-token-of-some-length"


@pytest.fixture
def shared(tmp_path: Path) -> tuple[str, ...]:
    """The options of a place with the run `r`, which one node has announced, and of a token."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    place = open_place(f"file://{tmp_path}/objects", create=True)
    config = {"tasks": ["family:grid,n=1"], "agent": "expert"}
    manifest = {"config": config, "tasks": {"t": "blake3:0"}, "agent": "expert"}

    async def publish() -> None:
        await publish_run(place, PublishedRun(1, "r", new_run_id(), str(tmp_path), manifest))
        await announce_agent(place, AgentAnnouncement(1, "r", "far", "http://127.0.0.1:1", 2))

    asyncio.run(publish())
    return "--place", str(place), "--token-file", str(tmp_path / "token")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program in another process, which is killed at the end of the test."""
    with assay_processes(tmp_path) as begin:
        yield begin


@pytest.mark.quick
def test_a_status_that_asked_no_node_does_not_say_that_nothing_runs(say: Say, shared: tuple[str, ...]) -> None:
    code, out, _ = say("status", "r", *shared[:2])
    assert (code, "now: unknown, because no node was asked" in out) == (0, True), out
    assert "0 running" not in out
    assert json.loads(say("status", "r", *shared[:2], "--json")[1])["nodes"][0]["state"] == "not asked"
    asyncio.run(publish_end(open_place(shared[1]), "r"))
    assert "now: 0 running, 0 leases" in say("status", "r", *shared[:2])[1]


@pytest.mark.quick
def test_work_of_other_commands_is_found_in_the_place_of_the_store(say: Say, tmp_path: Path) -> None:
    place = open_place(f"file://{tmp_path}/store/objects", create=True)
    record = PublishedRun(1, "synth-ab", new_run_id(), str(tmp_path), {"workload": "synthesis"})
    asyncio.run(publish_run(place, record))
    code, out, err = say("status", "synth-ab")
    assert (code, "run synth-ab in file://" in out, "0 decided" in out) == (0, True, True), out
    assert "give the command that began it again" in err
    assert "assay resume" not in err
    code, _, err = say("status", "synth-cd")
    assert (code, "name its place with --place" in err) == (2, True)


@pytest.mark.quick
def test_a_status_says_why_a_node_is_silent(say: Say, shared: tuple[str, ...]) -> None:
    out = say("status", "r", *shared)[1]
    assert "node far at http://127.0.0.1:1: silent, 2 slots; cannot be reached: " in out


@pytest.mark.quick
def test_a_machine_that_calls_itself_localhost_announces_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    config = NodeConfig(runs=("r",), place="memory://", listen="0.0.0.0:7070")
    monkeypatch.setattr(socket, "gethostname", lambda: "n7")
    listener = open_listener("127.0.0.1:0", None, None)._replace(host="0.0.0.0")
    with listener.socket:
        for said, announced in {"localhost": "n7", "localhost.localdomain": "n7", "n7.a.org": "n7.a.org"}.items():
            monkeypatch.setattr(socket, "getfqdn", lambda said=said: said)
            assert announced_url(config, listener) == f"http://{announced}:{listener.port}"


@pytest.mark.quick
def test_a_node_does_not_wait_for_a_name_that_no_run_can_have(say: Say, shared: tuple[str, ...]) -> None:
    code, _, err = say("node", "my run", *shared, "--wait-s", "1")
    assert (code, "'my run' is not a valid run name" in err) == (2, True), err


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_that_must_leave_before_its_run_is_complete_exits_with_the_signal(
    start: Start, shared: tuple[str, ...], tmp_path: Path, number: signal.Signals
) -> None:
    """A scheduler that counts exit code 0 as done, as a Job of Kubernetes does, would not start it again."""
    node = start("node", ("node", "later", *shared))
    wait_for(lambda: "looking for later in" in (tmp_path / "node.log").read_text())
    os.kill(node.pid, number)
    assert node.wait(30) == 128 + number


@pytest.mark.long
def test_a_signal_that_comes_twice_at_once_does_not_cut_the_uploads_short(
    start: Start, shared: tuple[str, ...], tmp_path: Path
) -> None:
    """As `timeout` sends it, to the process and to its group."""
    node = start("node", ("node", "later", *shared))
    wait_for(lambda: "looking for later in" in (tmp_path / "node.log").read_text())
    os.kill(node.pid, signal.SIGSTOP)  # both are delivered when it goes on
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        os.kill(node.pid, number)
    assert node.wait(30) > 128
    assert (tmp_path / "node.log").read_text().count("leaving: ") == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_node_announces_its_certificate_without_the_key_and_the_authorities_beside_it(
    start: Start, tmp_path: Path
) -> None:
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=node")
    command = ("openssl", "req", *kind, "-days", "30", "-keyout", tmp_path / "key", "-out", tmp_path / "certificate")
    subprocess.run(command, check=True, capture_output=True)
    both, certificate = tmp_path / "both.pem", (tmp_path / "certificate").read_text()
    both.write_text((tmp_path / "key").read_text() + 2 * certificate)
    (tmp_path / "objects").mkdir()
    place = ("--place", f"file://{tmp_path}/objects")
    variables = {"ASSAY_NODE_TOKEN": TOKEN}
    words = ("run", "family:grid,n=1,size=3", "--agent", "expert", "--run", "r", "--nodes", "external", *place)
    running = start("command", words, ASSAY_STORE=str(tmp_path / "store"), **variables)
    tls = ("--tls-cert", str(both), "--tls-key", str(both))
    serving = start("node", ("node", "r", *place, *tls), ASSAY_STORE=str(tmp_path / "other"), **variables)
    assert (running.wait(60), serving.wait(60)) == (0, 0)
    (announced,) = (tmp_path / "objects" / "runs" / "r" / "agents").iterdir()
    assert json.loads(announced.read_text())["certificate"] == certificate
