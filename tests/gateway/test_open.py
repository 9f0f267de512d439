from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import PluginLoadError, UserError
from assay.gateway.backends import open_backend
from assay.gateway.interface import ModelRequest
from assay.settings import Settings

pytestmark = pytest.mark.quick
HI = ModelRequest(messages=[{"role": "user", "content": "hi"}])


def settings(**given: str) -> Settings:
    return Settings.from_environment(given)


@pytest.mark.parametrize(
    ("model", "environment", "says"),
    [
        ("gpt", {}, "expected openai:NAME"),
        ("openai:", {}, "expected openai:NAME"),
        ("openai:m", {}, "OPENAI_BASE_URL is not set"),
        ("openai:m", {"OPENAI_BASE_URL": "https://api.openai.com/v1"}, "set OPENAI_API_KEY"),
        ("openai:m", {"OPENAI_BASE_URL": "localhost:80"}, "OPENAI_BASE_URL is not a valid URL"),
        ("http://localhost/v1", {}, "which model"),
        ("http://localhost:port/v1#m", {}, "--model is not a valid URL"),
        ("https:///v1#m", {}, "--model is not a valid URL"),
        ("scripted:", {}, "expected openai:NAME"),
        ("scripted:file.txt", {}, "expected a .json, .toml or .yaml file"),
        ("scripted:none.json", {}, "check the path"),
        ("scripted:assay.errors:__name__", {}, "expected a function, got str"),
        ("http://localhost/v1#m", {"ASSAY_PRICES": "none.toml"}, "correct ASSAY_PRICES"),
    ],
)
def test_a_wrong_model_is_explained(model: str, environment: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        open_backend(model, settings(**environment))


def test_a_credential_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UserError, match="OPENAI_API_KEY") as caught:
        open_backend("https://me:hunter2@host/v1#m", settings())
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("target", ["assay.no_such:f", "assay.errors:no_such"])
def test_a_missing_function_is_explained(target: str) -> None:
    with pytest.raises(PluginLoadError, match="script"):
        open_backend(f"scripted:{target}", settings())


def test_names_in_records_hold_no_query_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('["x"]')
    environment = settings(OPENAI_BASE_URL="http://localhost:1/v1", OPENAI_API_KEY="k")
    assert open_backend("openai:m", environment).name == "openai:m"
    assert open_backend("http://h:2/v1?key=abc#m", environment).name == "http://h:2/v1#m"
    assert open_backend(f"scripted:{tmp_path / 's.json'}", environment).name == "scripted:s.json"


def test_the_credential_goes_to_its_own_server_alone() -> None:
    environment = settings(OPENAI_BASE_URL="http://localhost:1/v1", OPENAI_API_KEY="k")
    own, other = (open_backend(f"http://{host}/v1#m", environment) for host in ("localhost:1", "localhost:2"))
    assert (vars(own)["_key"], vars(other)["_key"]) == ("k", None)


def test_a_scripted_run_loads_no_http_client(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('["x"]')
    code = (
        "import sys; from assay.gateway.backends import open_backend; from assay.settings import Settings\n"
        "open_backend('scripted:s.json', Settings.from_environment({})); import assay.agents.loop\n"
        "print(*(m for m in ('httptools', 'numpy', 'scipy') if m in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


async def test_a_function_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def answer(request):\n    return 'from a file'\n")
    backend = open_backend(f"scripted:{tmp_path / 'model.py'}:answer", settings())
    assert (await backend.complete(HI)).message["content"] == "from a file"
    assert backend.name == "scripted:model.py:answer"
    await backend.close()
