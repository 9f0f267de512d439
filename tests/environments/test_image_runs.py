"""RUN, in each sandbox that can keep what it made."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace.images import BuildOptions, build_image, import_root
from assay.environments.workspace.toolchain import PYTHON, ToolLayer
from assay.errors import EnvironmentFailure, UserError

TEXT = """FROM scratch
ARG WORD=hello
ENV GREETING="$WORD there"
WORKDIR /app
COPY x.py /app/
RUN python3 x.py > out && rm x.py && mkdir -p d/e && ln -s out l && chmod 700 d
SHELL ["/bin/sh", "-ec"]
RUN <<EOF
echo "$GREETING" > d/e/f
false || cat out > d/n
EOF
RUN ["/bin/sh", "-c", "echo $0 > words", "a b"]
"""


@pytest_asyncio.fixture(params=["namespaces", "bubblewrap"], loop_scope="session")
async def backend(request: pytest.FixtureRequest, backends: dict[str, Backend]) -> Backend:
    try:
        await (await backends[request.param].open(WorkspaceSpec())).close()
    except EnvironmentFailure as exc:
        pytest.skip(f"{request.param} does not work here: {exc}")
    return backends[request.param]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "x.py").write_text("print(6 * 7)\n")
    return tmp_path / "task"


@pytest.mark.long
async def test_commands_make_layers_that_are_found_again(
    backend: Backend, folder: Path, tmp_path: Path, toolchain: ToolLayer
) -> None:
    (folder / "Dockerfile").write_text(TEXT)
    options = BuildOptions(cache=tmp_path / "cache", toolchain=toolchain)
    image = await build_image(folder, options, backend=backend)
    assert await build_image(folder, options) == image
    workspace = await backend.open(WorkspaceSpec(image=image, workdir=image.workdir))
    shown = await workspace.exec("cat l d/e/f d/n words; ls; stat -c %a d; echo more >> out && rm d/n && cat out")
    assert shown.stdout.split() == [
        "42",
        "hello",
        "there",
        "42",
        "a",
        "b",
        "d",
        "l",
        "out",
        "words",
        "700",
        "42",
        "more",
    ]
    assert await workspace.diff() != ()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("RUN echo why >&2; exit 3", "Dockerfile:2: RUN: the command ended with 3:\nwhy"),
        ("RUN --mount=type=secret,id=x true", "--mount=type=secret,id=x is not supported"),
        ("RUN no-such-program", "ended with 127"),
    ],
)
async def test_a_command_that_fails_is_an_error_with_its_line(
    backend: Backend, folder: Path, tmp_path: Path, command: str, said: str
) -> None:
    (folder / "Dockerfile").write_text(f"FROM scratch\n{command}\n")
    with pytest.raises(UserError) as caught:
        await build_image(folder, BuildOptions(cache=tmp_path / "cache"), backend=backend)
    assert said in str(caught.value)


async def test_a_build_makes_a_git_repository(backend: Backend, folder: Path, tmp_path: Path) -> None:
    commit = "git config user.email a@example.org && git config user.name a && git add -A && git commit -qm first"
    (folder / "Dockerfile").write_text(f"FROM scratch\nWORKDIR /app\nCOPY x.py .\nRUN git init -q && {commit}\n")
    image = await build_image(folder, BuildOptions(cache=tmp_path / "cache"), backend=backend)
    workspace = await backend.open(WorkspaceSpec(image=image, workdir=image.workdir))
    shown = await workspace.exec("git log --format=%s; git status --porcelain")
    await workspace.close()
    assert (shown.exit_code, shown.stdout.strip()) == (0, "first"), shown.stderr


async def test_a_build_has_no_network_unless_allowed(backend: Backend, folder: Path, tmp_path: Path) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\nRUN cat /proc/net/route | wc -l > /workspace/routes\n")
    image = await build_image(folder, BuildOptions(cache=tmp_path / "cache"), backend=backend)
    assert (Path(image.layers[-1]) / "workspace" / "routes").read_text().strip() in ("0", "1")


async def test_the_tool_layer_needs_nothing_of_the_image(
    backend: Backend, folder: Path, tmp_path: Path, toolchain: ToolLayer
) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").write_text("no shell at all")
    options = BuildOptions(cache=tmp_path / "cache", toolchain=toolchain)
    import_root("bare", root, options.cache)
    (folder / "Dockerfile").write_text("FROM bare\nWORKDIR /app\nCOPY x.py /app/\n")
    image = await build_image(folder, options)
    spec = WorkspaceSpec(image=image, workdir="/app", mounts=(toolchain.mount(),))
    workspace = await backend.open(spec)
    result = await workspace.exec(
        [PYTHON, "-I", "-c", "import ssl, sqlite3, ctypes, pytest; exec(open('x.py').read())"]
    )
    assert (result.stdout, result.stderr) == ("42\n", "")
    await workspace.write("/app/new", b"1")
    assert [change.path for change in await workspace.diff()] == ["/app/new"]
