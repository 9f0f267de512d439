"""Where the service listens, how a trainer's client asks it, and the weight hook of engines elsewhere."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from assay.errors import ProviderError, UserError
from assay.learning.service.engines import PolicyEngines, PostedVersion
from assay.learning.service.policies import PolicyBook, PolicyVersion
from assay.learning.service.serve import ServiceAddress, serve_rollouts
from assay.learning.service.service_config import RolloutServiceConfig
from assay.learning.trainer.recipe import ImproveRecipe
from assay.learning.trainer.service_client import ServiceClient
from assay.settings import Settings
from tests.optional import require_packages

pytestmark = pytest.mark.quick
CONFIG = RolloutServiceConfig(policies={"actor": "local:/weights/{version}"}, families=("grid",))


@asynccontextmanager
async def served(root: Path, **changes: Any) -> AsyncIterator[ServiceAddress]:
    opened: asyncio.Future[ServiceAddress] = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()
    config = msgspec.structs.replace(CONFIG, **changes)
    waiting = ended.wait()
    service = asyncio.create_task(serve_rollouts(config, Settings(root, root), opened.set_result, waiting))
    await asyncio.wait({service, opened}, return_when=asyncio.FIRST_COMPLETED)
    if service.done():
        waiting.close()
        service.result()
    try:
        yield opened.result()
    finally:
        ended.set()
        await service


def certify(folder: Path) -> tuple[str, str]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder.mkdir()
    certificate, key = folder / "cert.pem", folder / "key.pem"
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    options = (*kind, "-days", "30", "-subj", "/CN=service")
    subprocess.run([openssl, "req", *options, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return str(certificate), str(key)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
async def test_beyond_loopback_a_certificate_is_needed(tmp_path: Path, host: str) -> None:
    with pytest.raises(UserError, match=r"can be reached from other machines: give --tls-cert and --tls-key"):
        async with served(tmp_path, host=host):
            pass


async def test_a_certificate_and_its_key_belong_together(tmp_path: Path) -> None:
    certificate, key = certify(tmp_path / "a")
    _, other = certify(tmp_path / "b")
    for files, said in (((certificate, None), "belong together"), ((certificate, other), "not a certificate and its")):
        with pytest.raises(UserError, match=said):
            async with served(tmp_path, tls_cert=files[0], tls_key=files[1]):
                pass
    assert key


async def test_the_client_accepts_the_named_certificate_alone(tmp_path: Path) -> None:
    certificate, key = certify(tmp_path / "a")
    other, _ = certify(tmp_path / "b")
    async with served(tmp_path, host="0.0.0.0", tls_cert=certificate, tls_key=key) as (url, token):
        url = url.replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        assert await ServiceClient(url, token, Path(certificate), 5.0).get("batches") == {"batches": []}
        for wrong in (Path(other), None):
            with pytest.raises(ProviderError, match="CERTIFICATE_VERIFY_FAILED"):
                await ServiceClient(url, token, wrong, 0.1).get("batches")


async def test_answers_of_the_service_become_errors(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("a-token-of-some-length")
    async with served(tmp_path) as (url, token):
        client = ServiceClient(url, token, None, 5.0)
        with pytest.raises(UserError, match=r"404.*unknown batch"):
            await client.get("batches", "none", "groups", after=0)
        with pytest.raises(UserError, match=r"404.*no resource"):
            await client.get("batches", "../../etc/passwd")
        with pytest.raises(UserError, match=r"400.*no folder 'v0' here"):
            await client.post("policies", "actor", "versions", body={"version": "v0", "step": 0})
        with pytest.raises(UserError, match=r"401.*token"):
            await ServiceClient(url, wrong, None, 5.0).get("batches")
        assert (await client.get("policies", "actor"))["step"] is None


async def test_a_service_that_is_away_is_asked_again(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = tmp_path / "token"
    token.write_text("a-token-of-some-length")
    token.chmod(0o600)
    url = f"http://127.0.0.1:{port}"
    with pytest.raises(ProviderError, match="cannot be reached"):
        await ServiceClient(url, token, None, 0.3).get("batches")
    asked = asyncio.create_task(ServiceClient(url, token, None, 20.0).get("batches"))
    await asyncio.sleep(0.3)
    async with served(tmp_path, port=port, token_file=str(token)):
        assert await asked == {"batches": []}


@pytest.mark.parametrize("url", ["http://10.0.0.1:1", "http://example.org", "ftp://127.0.0.1", "127.0.0.1:8700", ""])
def test_the_token_is_not_shown(tmp_path: Path, url: str) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length")
    with pytest.raises(UserError, match=r"rollout\.service\.url"):
        ServiceClient(url, tmp_path / "token", None, 1.0)


async def test_a_pause_outlives_the_service(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, token):
        assert await ServiceClient(url, token, None, 5.0).post("pause") == {"paused": True}
    async with served(tmp_path) as (url, token):
        client = ServiceClient(url, token, None, 5.0)
        assert (await client.get("policies", "actor"))["paused"]
        assert await client.post("resume") == {"paused": False}
    assert not (tmp_path / "service" / "policies" / "paused").exists()


def engines(folder: Path, command: str) -> PolicyEngines:
    policies = {"actor": "scripted:assay.no_script:reply", "fixed": "local:/weights"}
    config = RolloutServiceConfig(policies=policies, families=("grid",), hooks={"actor": command})
    return PolicyEngines(config, Settings(folder, folder), PolicyBook(folder / "policies"))


async def test_the_weight_hook_gets_policy_and_version(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text(f"import sys; open({str(tmp_path / 'seen')!r}, 'w').write(repr(sys.argv[1:]))")
    with pytest.raises(UserError, match="no_script"):  # the engine is asked afterwards
        await engines(tmp_path, f"{sys.executable} {hook}").post("actor", PolicyVersion(0, "v1; touch x"))
    assert (tmp_path / "seen").read_text() == "['actor', 'v1; touch x']"


@pytest.mark.parametrize("command", [f"{sys.executable} -c 'raise SystemExit(3)'", "/no/such/program", "'unclosed"])
async def test_a_hook_that_fails_stores_no_version(tmp_path: Path, command: str) -> None:
    with pytest.raises(ProviderError, match="the weight hook of policy 'actor'"):
        await engines(tmp_path, command).post("actor", PolicyVersion(0, "v1"))
    assert PolicyBook(tmp_path / "policies").find("actor").newest is None


async def test_a_hook_ends_with_its_command_and_not_with_what_that_leaves_running(tmp_path: Path) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(UserError, match="no_script"):  # the engine is asked afterwards
            await engines(tmp_path, "/bin/sh -c 'sleep 20 & exit 0'").post("actor", PolicyVersion(0, "v1"))


async def test_the_last_errors_of_a_hook_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    command = "/bin/sh -c 'head -c 9000000 /dev/zero >&2; echo engine is down >&2; exit 3'"
    with pytest.raises(ProviderError, match="exited with code 3"):
        await engines(tmp_path, command).post("actor", PolicyVersion(0, "v1"))
    assert "engine is down" in caplog.text
    assert len(caplog.text) < 12_000


async def test_a_policy_of_one_version_takes_no_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="same weights in all versions"):
        await engines(tmp_path, "true").post("fixed", PolicyVersion(0, "v1"))


@asynccontextmanager
async def engine_elsewhere(version: str | None) -> AsyncIterator[str]:
    """A stand-in for vLLM that answers any prompt with one token, in the documented wire format."""

    async def generate(_: web.Request) -> web.Response:
        content = [{"token_id": 70, "logprob": -0.5, "rank": 1}]
        choice = {"index": 0, "finish_reason": "length", "token_ids": [70], "logprobs": {"content": content}}
        choice |= {} if version is None else {"weight_versions": [version]}
        return web.json_response({"request_id": "r", "choices": [choice]})

    application = web.Application()
    application.router.add_post("/inference/v1/generate", generate)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def post_elsewhere(folder: Path, version: str | None) -> PostedVersion:
    """Posts `v1` for an engine that answers with other weights, or with these."""
    from scripts.tiny_model import write_tiny_tokenizer

    tokenizer = write_tiny_tokenizer(folder / "tokenizer")
    async with engine_elsewhere(version) as url:
        policies = {"actor": f"vllm:{url}#m?tokenizer={tokenizer}"}
        config = RolloutServiceConfig(policies=policies, families=("grid",))
        book = PolicyBook(folder / "policies")
        return await PolicyEngines(config, Settings(folder, folder), book).post("actor", PolicyVersion(0, "v1"))


@pytest.mark.long
async def test_the_next_reply_must_name_the_posted_version(tmp_path: Path) -> None:
    require_packages("renderers")
    assert await post_elsewhere(tmp_path / "a", "v1") == PostedVersion(is_new=True, warning=None)
    silent = await post_elsewhere(tmp_path / "b", None)
    assert "name no version of their weights" in str(silent.warning)
    with pytest.raises(ProviderError, match="answers with weights v0, not v1"):
        await post_elsewhere(tmp_path / "c", "v0")
    assert PolicyBook(tmp_path / "c" / "policies").find("actor").newest is None


SERVICE = {"url": "http://127.0.0.1:1", "token_file": "t", "policy": "actor", "weights": "w"}
RECIPE: dict[str, Any] = {
    "name": "r",
    "model": {"path": "m"},
    "rollout": {"tasks": ["family:grid"], "service": SERVICE},
    "evaluate": {"tasks": ["family:grid,n=1,seed=1"]},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budget_calls": 5}, "budget_calls"),
        ({"checkpoint_every": 2}, "checkpoint_every = 1"),
        ({"rollout": {"tasks": ["family:grid,n=3,seed=1"], "service": SERVICE}}, "families without n and seed"),
        ({"rollout": {"tasks": ["tasks/one"], "service": SERVICE}}, "families without n and seed"),
    ],
)
def test_a_recipe_that_cannot_use_a_service_is_refused(change: dict[str, Any], said: str) -> None:
    msgspec.convert(RECIPE, ImproveRecipe)
    with pytest.raises((UserError, msgspec.ValidationError), match=said):
        msgspec.convert(RECIPE | change, ImproveRecipe)


async def test_a_trainer_that_waits_while_the_service_is_restarted_is_answered_by_the_next(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with served(tmp_path, port=port) as (url, token):
        client = ServiceClient(url, token, None, 20.0)
        body = {"id": "b", "policy": {"name": "actor"}, "tasks": ["family:grid"], "step": 1, "most_lag": 0}
        await client.post("batches", body=body)
        waiting = asyncio.create_task(client.get("batches", "b", "groups", wait=3))
        await asyncio.sleep(0.5)
    async with served(tmp_path, port=port):
        assert (await waiting)["state"] == "waiting"


async def test_an_answer_that_is_not_text_is_an_error_of_the_service(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b'{"x": "\xff"}', content_type="application/json")

    (tmp_path / "token").write_text("a-token-of-some-length")
    application = web.Application()
    application.router.add_get("/v1/batches", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = ServiceClient(f"http://127.0.0.1:{runner.addresses[0][1]}", tmp_path / "token", None, 1.0)
        with pytest.raises(ProviderError, match="invalid answer"):
            await client.get("batches")
    finally:
        await runner.cleanup()
