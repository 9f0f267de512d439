"""Every backend passes the conformance suite, as the user that runs the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assay.environments.conformance import PROPERTIES, Property, check_backend
from assay.environments.interface import Backend, Change, WorkspaceSpec
from assay.environments.workspace.process import ProcessBackend
from assay.errors import EnvironmentFailure
from assay.records import digest_bytes
from tests.sampling import draw_sample


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def missing(backends: dict[str, Backend]) -> dict[str, str]:
    """Returns why backends do not work here."""
    reasons = {}
    for name in ("namespaces", "bubblewrap", "podman"):
        try:
            await (await backends[name].open(WorkspaceSpec())).close()
        except EnvironmentFailure as exc:
            reasons[name] = str(exc)
    return reasons


PLAIN = ("namespaces", "process")
OWN = (
    "facts_tell",
    "two_sandboxes",
    "timeout_kills",
    "mounts_are",
    "temporary_folders",
    "closing_ends",
    "isolation_is",
)
"""Properties that rest on the engine itself; the others rest on what all backends over folders share with `process`."""
OF_ENGINE = [trial for trial in PROPERTIES if trial.__name__.startswith(OWN)]
SHARED = draw_sample([trial for trial in PROPERTIES if trial not in OF_ENGINE], 3)
ENGINES = {"bubblewrap": (), "podman": (pytest.mark.docker)}
CASES = [
    *(pytest.param(name, trial, id=f"{name}-{trial.__name__}") for name in PLAIN for trial in PROPERTIES),
    *(
        pytest.param(name, trial, marks=marks, id=f"{name}-{trial.__name__}")
        for name, marks in ENGINES.items()
        for trial in (*OF_ENGINE, *SHARED)
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "trial"), CASES)
async def test_property(name: str, trial: Property, backends: dict[str, Backend], missing: dict[str, str]) -> None:
    if name in missing:
        pytest.skip(f"{name} does not work here: {missing[name]}")
    assert [f.problem for f in await check_backend(backends[name], properties=[trial])] == [None]


async def test_a_backend_that_breaks_a_property_is_told() -> None:
    async def never_holds(backend: Backend, spec: WorkspaceSpec) -> None:
        workspace = await backend.open(spec)
        try:
            assert (await workspace.exec("echo 1")).stdout == "2\n", "one is two"
        finally:
            await workspace.close()

    backend = ProcessBackend()
    (finding,) = await check_backend(backend, properties=[never_holds])
    await backend.close()
    assert finding.name == "never_holds"
    assert "one is two" in (finding.problem or "")


@pytest.mark.parametrize("name", ["namespaces", "bubblewrap", "process"])
async def test_a_state_is_kept_as_data_and_rebuilt(
    name: str, backends: dict[str, Any], missing: dict[str, str]
) -> None:
    if name in missing:
        pytest.skip(f"{name} does not work here: {missing[name]}")
    backend = backends[name]
    box = await backend.open(WorkspaceSpec())
    await box.exec("mkdir -p d/e; echo 1 > d/a; ln -s a d/l; chmod 700 d/a; chmod 500 d/e; printf '\\377' > bytes")
    snapshot = await box.snapshot()
    packed = await backend.pack(snapshot)
    kept = {change.digest: handle.read() for change, handle in packed.files()}
    rebuilt = await backend.unpack(packed.manifest, kept.__getitem__)
    again = await backend.open(WorkspaceSpec(), state=rebuilt)
    assert (await again.exec("cat d/l; stat -c %a d/a d/e")).stdout.split() == ["1", "700", "500"]
    assert await again.digest() == snapshot.digest == rebuilt.digest
    for workspace in (again, box):
        await workspace.close()


MAPPING = """import mmap, os, time
f = open('m', 'r+b'); m = mmap.mmap(f.fileno(), 4); m[0:1] = b'b'; open('1', 'w')
while not os.path.exists('2'): time.sleep(.01)
m[1:2] = b'c'; open('3', 'w'); time.sleep(60)"""


@pytest.mark.parametrize("name", ["namespaces", "bubblewrap", "process"])
async def test_a_snapshot_has_what_a_mapping_changed_after_a_digest(
    name: str, backends: dict[str, Any], missing: dict[str, str]
) -> None:
    if name in missing:
        pytest.skip(f"{name} does not work here: {missing[name]}")
    box = await backends[name].open(WorkspaceSpec())
    script = 'printf aaaa > m; python3 -c "$0" & while [ ! -e 1 ]; do sleep 0.01; done; sleep 0.1'
    await box.exec(["sh", "-c", script, MAPPING])
    await box.digest()
    await box.exec("touch 2; while [ ! -e 3 ]; do sleep 0.01; done")
    files = {change.path.rpartition("/")[2]: change.digest for change in (await box.snapshot()).changes}
    assert files["m"] == digest_bytes(b"bcaa")
    await box.close()


@pytest.mark.parametrize("name", ["namespaces", "bubblewrap", "process"])
async def test_files_in_the_place_of_a_moved_mount_point_are_in_the_state(
    name: str, backends: dict[str, Any], missing: dict[str, str]
) -> None:
    """A judge's sandbox has other mounts than the agent's, and sees them."""
    if name in missing:
        pytest.skip(f"{name} does not work here: {missing[name]}")
    backend = backends[name]
    box = await backend.open(WorkspaceSpec(tmpfs=("/workspace/a/scratch",)))
    await box.exec("echo 1 > a/scratch/f")
    assert await box.diff() == ()
    done = await box.exec("mv a b && mkdir -p a/scratch && echo planted > a/scratch/f")
    assert done.exit_code == 0, done.stderr
    snapshot = await box.snapshot()
    assert "/workspace/a/scratch/f" in {change.path for change in snapshot.changes}
    packed = await backend.pack(snapshot)
    kept = {change.digest: handle.read() for change, handle in packed.files()}
    rebuilt = await backend.unpack(packed.manifest, kept.__getitem__)
    judge = await backend.open(WorkspaceSpec(), state=rebuilt)
    assert await judge.read("/workspace/a/scratch/f") == b"planted\n"
    for workspace in (judge, box):
        await workspace.close()


@pytest.mark.parametrize("name", ["namespaces", "bubblewrap", "process"])
async def test_files_in_a_working_folder_that_no_image_has_are_rebuilt(
    name: str, backends: dict[str, Any], missing: dict[str, str]
) -> None:
    if name in missing:
        pytest.skip(f"{name} does not work here: {missing[name]}")
    backend, spec = backends[name], WorkspaceSpec(workdir="/app/deep")
    box = await backend.open(spec)
    await box.exec("mkdir d; echo 1 > d/a")
    snapshot = await box.snapshot()
    packed = await backend.pack(snapshot)
    kept = {change.digest: handle.read() for change, handle in packed.files()}
    rebuilt = await backend.unpack(packed.manifest, kept.__getitem__)
    assert rebuilt.digest == snapshot.digest
    again = await backend.open(spec, state=rebuilt)
    assert (await again.exec("cat d/a; echo 2 > d/a; echo 3 > b; cat d/a b")).stdout == "1\n2\n3\n"
    for workspace in (again, box):
        await workspace.close()


@pytest.mark.parametrize("path", ["/../x", "/workspace/../../x", "x", "/workspace//x", "/workspace/link/x"])
async def test_a_manifest_cannot_leave_its_folder(path: str) -> None:
    backend = ProcessBackend()
    data = b"x"
    manifest = [Change(path, "added", "file", 0o644, 1, digest_bytes(data))]
    target = b"/tmp"
    link = Change("/workspace/link", "added", "symlink", None, 4, digest_bytes(target))
    with pytest.raises(ValueError, match="manifest"):
        await backend.unpack([link, *manifest], {digest_bytes(data): data, digest_bytes(target): target}.__getitem__)
    with pytest.raises(ValueError, match="stored bytes"):
        await backend.unpack([Change("/workspace/x", "added", "file", 0o644, 1, "blake3:0")], lambda _: data)
    await backend.close()


async def test_folders_of_killed_processes_are_removed_and_those_of_living_ones_kept(tmp_path: Path) -> None:
    (tmp_path / "assay-process-4194300-1-abc" / "w0").mkdir(parents=True)
    first, second = ProcessBackend(scratch=tmp_path), ProcessBackend(scratch=tmp_path)
    for backend in (first, second):
        await backend.open(WorkspaceSpec())
    assert len(list(tmp_path.iterdir())) == 2
    await first.close()
    await second.close()
    assert not list(tmp_path.iterdir())
