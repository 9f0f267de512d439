"""`assay gateway` and `assay record` as programs of their own, asked by real clients."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.records import Trajectory
from assay.rollout.recording.recorder import CALL_BEGUN
from assay.store import RunStore, audit, list_runs, restore_body

ASSAY = [sys.executable, "-c", "from assay.cli import main; main()"]
SECRET = "sk-upstream-9f8e7d6c5b4a39281706"
CLIENT = """
import json, os, sys, urllib.request
def ask(path, body, **headers):
    request = urllib.request.Request(path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    return json.loads(urllib.request.urlopen(request).read())
say = [{"role": "user", "content": "hi"}]
env = os.environ
key = env["OPENAI_API_KEY"]
chat = ask(env["OPENAI_BASE_URL"] + "/chat/completions", {"model": "m", "messages": say}, Authorization="Bearer " + key)
open("made.txt", "w").write(chat["choices"][0]["message"]["content"])
claude = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "second"}]}
ask(env["ANTHROPIC_BASE_URL"] + "/v1/messages", claude, **{"x-api-key": env["ANTHROPIC_API_KEY"]})
sys.exit(3)
"""
CALLER = """
import urllib.request as u
u.urlopen(u.Request({url!r} + "/v1/chat/completions", {body!r}, {{"Authorization": "Bearer " + {key!r}}}))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.json"
    path.write_text('{"rules": [{"match": "wait", "reply": "never"}], "default": "hello"}')
    return path


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", **more}


def only_trajectory(store: Path) -> Trajectory:
    (run,) = list_runs(store)
    with RunStore.open(store, run) as opened:
        (found,) = opened.trajectories()
    return found


def ask(address: dict[str, str], text: str, key: str | None = None) -> tuple[int, Any]:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Authorization": f"Bearer {key or address['key']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{address['url']}/v1/chat/completions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as exc:
        return exc.code, json.loads(exc.read())


@contextmanager
def gateway(store: Path, model: str, *options: str, **env: str) -> Iterator[tuple[Any, list[dict[str, str]]]]:
    command = [*ASSAY, "gateway", "--model", model, "--store", str(store), "--json", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**env), cwd=store.parent
    )
    assert process.stdout is not None
    try:
        text = ""
        while not text.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            text += line
        yield process, json.loads(text)["sessions"]
    finally:
        process.kill()
        process.communicate()


def test_record_runs_a_command_and_keeps_what_it_asked(tmp_path: Path, script: Path) -> None:
    folder, store = tmp_path / "folder", tmp_path / "folder" / ".assay"
    folder.mkdir()
    command = [*ASSAY, "record", "--model", f"scripted:{script}", "--json", "--", sys.executable, "-c", CLIENT]
    env = environment(OPENAI_API_KEY=SECRET, ANTHROPIC_AUTH_TOKEN=SECRET)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["exit_code"] == 3
    assert "isolation none" in done.stderr
    found = only_trajectory(store)
    assert found.isolation is not None
    assert (found.isolation.name, found.agent, found.finished and found.finished.ended) == (
        "none",
        "external",
        "exit code 3",
    )
    assert [c.dialect for c in found.calls] == ["openai-chat", "anthropic-messages"]
    before, after = (e.data["digest"] for e in found.evidence if e.kind == "folder")
    assert [c.state for c in found.calls] == [before, after]
    assert before != after
    assert audit(store, found.run) == ()


@pytest.mark.long
def test_record_without_a_model_keeps_the_folder_and_the_exit_code(tmp_path: Path) -> None:
    done = subprocess.run([*ASSAY, "record", "--", "touch", "x"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = only_trajectory(tmp_path / ".assay")
    assert found.model is None
    assert len({e.data["digest"] for e in found.evidence if e.kind == "folder"}) == 2
    resumed = subprocess.run([*ASSAY, "resume", found.run], cwd=tmp_path, capture_output=True, text=True)
    assert resumed.returncode == 2
    assert "not made by `assay run`" in resumed.stderr


@pytest.mark.long
def test_record_ends_a_command_that_goes_beyond_a_limit(tmp_path: Path, script: Path) -> None:
    command = [*ASSAY, "record", "--max-wall-s", "0.5", "--", "sleep", "60"]
    began = time.monotonic()
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert time.monotonic() - began < 30
    found = only_trajectory(tmp_path / ".assay")
    assert (found.finished and found.finished.stopped) == "wall_s"


def test_record_refuses_what_is_no_program(tmp_path: Path) -> None:
    done = subprocess.run([*ASSAY, "record", "--", "no-such-program"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no-such-program" in done.stderr
    assert not (tmp_path / ".assay").exists()


@pytest.mark.long
def test_gateway_records_each_session_and_ctrl_c_loses_nothing(tmp_path: Path, script: Path) -> None:
    store = tmp_path / "store"
    with gateway(store, f"scripted:{script}", "--sessions", "2", "--max-calls", "2") as (process, addresses):
        first, second = addresses
        assert ask(first, "one")[1]["choices"][0]["message"]["content"] == "hello"
        assert ask(second, "two")[0] == 200
        assert ask(second, "stranger", key=first["key"])[0] == 401
        assert ask(first, "more")[0] == 200
        status, body = ask(first, "too much")
        assert (status, body["error"]["code"]) == (429, "insufficient_quota")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    (run,) = list_runs(store)
    with RunStore.open(store, run) as opened:
        one, two = opened.trajectories()
    assert (len(one.calls), len(two.calls)) == (2, 1)
    assert (one.finished and one.finished.stopped, two.finished and two.finished.ended) == (
        "calls",
        "the gateway was stopped",
    )
    assert audit(store, run) == ()


@pytest.mark.long
def test_a_killed_gateway_loses_the_call_in_flight_alone_and_says_which(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import asyncio\nasync def answer(r):\n    if 'wait' in r.messages[-1]['content']: await asyncio.sleep(60)\n"
        "    return 'hello'\n"
    )
    store = tmp_path / "store"
    with gateway(store, f"scripted:{tmp_path}/slow.py:answer") as (process, (address,)):
        assert ask(address, "one")[0] == 200
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "wait"}]})
        client = CALLER.format(url=address["url"], key=address["key"], body=body.encode())
        asking = subprocess.Popen([sys.executable, "-c", client], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not any(n.data["call"] == "c2" for n in only_trajectory(store).notes if n.name == CALL_BEGUN):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.wait()
        asking.wait()
    found = only_trajectory(store)
    begun = [n.data["call"] for n in found.notes if n.name == CALL_BEGUN]
    assert set(begun) - {c.id for c in found.calls} == {"c2"}
    assert audit(store, found.run) == ()
    shown = subprocess.run([*ASSAY, "show", "gateway@0", "--store", str(store)], capture_output=True, text=True).stdout
    assert "c2 was in progress" in shown


class Echo:
    """An upstream that says the credential that it was sent, whole and split over words."""

    def __init__(self) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from threading import Thread

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                message = {"role": "assistant", "content": f"your key is {self.headers['Authorization']}"}
                whole = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
                data = json.dumps(whole | {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.mark.long
def test_the_upstreams_credential_is_found_nowhere(tmp_path: Path) -> None:
    upstream, store = Echo(), tmp_path / "store"
    env = {"OPENAI_BASE_URL": upstream.url, "OPENAI_API_KEY": SECRET}
    with gateway(store, "openai:m", **env) as (process, (address,)):
        status, body = ask(address, f"is it {SECRET}?")
        assert status == 200
        assert SECRET not in json.dumps(body)
        upstream.server.shutdown()
        upstream.server.server_close()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert SECRET not in out + err
    files = [f for f in store.rglob("*") if f.is_file()]
    assert files
    for secret in (SECRET, address["key"]):
        assert [f for f in files if secret.encode() in f.read_bytes()] == []
    found = only_trajectory(store)
    raw = restore_body({c.id: c for c in found.calls}, found.calls[0], "request", RunStore.open(store, found.run).blobs)
    assert raw is not None
    assert re.search(rb"is it \[redacted:OPENAI_API_KEY\]\?", raw)
    assert found.calls[0].redactions == ("OPENAI_API_KEY",)
