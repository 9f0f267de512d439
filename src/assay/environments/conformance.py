"""Conformance suite of workspace backends: the contract of `interface`, one function for each property.

For tests of backends, built-in and third-party: `check_backend` runs all, `PROPERTIES` lists them for parametrised
tests. Not a test of isolation: attacks have their own tests, because a backend that claims no isolation passes here.

Invariant: properties use file names relative to the working directory in commands and absolute ones in calls, so that
a backend whose sandbox is a plain folder can pass too. Each opens and closes its own workspaces.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.environments._conformance_pairs import (
    MemorySpill,
    OpenedWorkspace,
    expect,
    facts_tell_two_sandboxes_apart,
    two_sandboxes_are_joined_by_pipes,
)
from assay.environments.interface import Backend, Change, Mount, WorkspaceSpec
from assay.errors import EnvironmentFailure

_ASK = "exec 3<>/dev/tcp/127.0.0.1/{port} && echo asked >&3 && cat <&3"
Property = Callable[[Backend, WorkspaceSpec], Awaitable[None]]


class PropertyResult(NamedTuple):
    """Result of one property; None for `problem` if it holds."""

    name: str
    problem: str | None


async def check_backend(
    backend: Backend, *, spec: WorkspaceSpec | None = None, properties: Sequence[Property] | None = None
) -> tuple[PropertyResult, ...]:
    """Checks each property, with workspaces of `spec`. The backend stays open.

    A property that does not hold, or whose check raises, has a result with a problem; nothing is raised.
    """
    findings = []
    for check in PROPERTIES if properties is None else properties:
        try:
            async with asyncio.timeout(60):
                await check(backend, spec or WorkspaceSpec())
            problem = None
        except (AssertionError, TimeoutError, OSError, ValueError, EnvironmentFailure) as exc:
            problem = f"{type(exc).__name__}: {exc}"
        findings.append(PropertyResult(check.__name__, problem))
    return tuple(findings)


def _path_in(spec: WorkspaceSpec, name: str) -> str:
    return f"{spec.workdir}/{name}"


async def streams_and_exit_code_are_kept_apart(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec("printf out; printf err >&2; exit 7")
        expect((result.stdout, result.stderr, result.exit_code) == ("out", "err", 7), "stdout, stderr, code", result)
        expect((result.stdout_bytes, result.stderr_bytes) == (3, 3), "the bytes are counted", result)
        expect(not result.timed_out and result.killed_by is None, "nothing killed it", result)


async def words_are_not_given_to_a_shell(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec(["printf", "%s|", "$HOME *", "a b"])
        expect(result.stdout == "$HOME *|a b|", "words arrive as they are", result)


async def missing_and_unrunnable_commands_have_their_codes(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.write(_path_in(spec, "plain"), b"text\n")
        for command, code in ((["no-such-command"], 127), ("no-such-command", 127), (["./plain"], 126)):
            result = await box.exec(command)
            expect(result.exit_code == code, f"{command!r} exits with {code}", result)


async def death_by_signal_is_negative(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        expect((result := await box.exec("kill -9 $$")).exit_code == -9, "SIGKILL is -9", result)
        expect((result := await box.exec("exit 137")).exit_code == 137, "an exit code stays as it is", result)


async def environment_is_added_for_one_command(backend: Backend, spec: WorkspaceSpec) -> None:
    spec = msgspec.structs.replace(spec, env={**spec.env, "KEPT": "a b"})
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec('printf "%s|%s" "$KEPT" "$ADDED"', env={"ADDED": "$x"})
        expect(result.stdout == "a b|$x", "both variables are seen", result)
        result = await box.exec('printf "%s|%s" "$KEPT" "${ADDED-none}"')
        expect(result.stdout == "a b|none", "an added variable does not stay", result)


async def working_directory_is_the_specs_or_the_given(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.write(_path_in(spec, "deep/er/here"), b"x")
        expect((await box.exec("ls")).stdout == "deep\n", "commands start in the working directory")
        expect((await box.exec("ls", cwd=_path_in(spec, "deep/er"))).stdout == "here\n", "`cwd` is used")
        await box.exec("cd deep && export A=1")
        expect((await box.exec("ls; echo $A")).stdout == "deep\n\n", "each command is a new shell")


async def standard_input_arrives_whole(backend: Backend, spec: WorkspaceSpec) -> None:
    data = bytes(range(256)) * 4096
    async with OpenedWorkspace(backend, spec) as box:
        expect((result := await box.exec("cat > got", stdin=data)).exit_code == 0, "cat succeeds", result)
        expect(await box.read(_path_in(spec, "got")) == data, "a megabyte of input arrives")
        expect((await box.exec("wc -c")).stdout.strip() == "0", "input is empty by default")
        expect((await box.exec("true", stdin=data)).exit_code == 0, "input may be left unread")


async def timeout_kills_the_whole_tree(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        command = "trap '' TERM; (setsid sh -c 'sleep 61' >/dev/null 2>&1 &) ; echo on; sleep 62 & sleep 63"
        result = await box.exec(command, timeout_s=0.7)
        expect(result.timed_out and result.killed_by == "timeout", "the result says so", result)
        expect(result.stdout == "on\n", "what was written before is kept", result)
        expect(result.exit_code < 0 and result.duration_s < 10, "it was killed, soon", result)
        expect(await box.processes() == (), "no process is left", await box.processes())
        expect((await box.exec("echo still")).stdout == "still\n", "the sandbox stays usable")


async def background_processes_outlive_their_command(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec("sleep 64 & echo started", timeout_s=20)
        expect(result.stdout == "started\n" and not result.timed_out, "the call ends with its command", result)
        tries, alive = 50, await box.processes()
        while (tries := tries - 1) and not any("64" in p.command for p in alive):  # at first it is the shell's copy
            await asyncio.sleep(0.1)
            alive = await box.processes()
        expect(tries and all(p.pid > 1 for p in alive), "the process is listed, by its pid", alive)


async def kill_all_leaves_nothing_and_can_be_repeated(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec("(setsid sh -c 'trap \"\" TERM HUP; sleep 65; sleep 66' >/dev/null 2>&1 &); sleep 67 &")
        expect(await box.processes(), "processes are alive before")
        await box.kill_all()
        expect(await box.processes() == (), "none is alive after", await box.processes())
        await box.kill_all()
        expect((await box.exec("echo on")).stdout == "on\n", "the sandbox stays usable")


async def long_output_is_cut_in_the_middle(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec("printf HEAD; head -c 300000 /dev/zero | tr '\\0' x; printf TAIL", show_bytes=1000)
        expect(result.stdout.startswith("HEADxxx") and result.stdout.endswith("xxxTAIL"), "both ends are shown")
        expect(
            len(result.stdout) < 1300 and str(300_008 - 1000) in result.stdout, "the text states the cut", result.stdout
        )
        expect(result.stdout_bytes == 300_008 and result.stdout_digest is None, "all is counted", result)
        short = await box.exec("printf abc", show_bytes=1000)
        expect(short.stdout == "abc", "short output is whole", short)


async def long_output_is_spilled_whole(backend: Backend, spec: WorkspaceSpec) -> None:
    spill = MemorySpill()
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec("seq 1 30000; seq 1 9 >&2", show_bytes=500, spill=spill)
        whole = "".join(f"{n}\n" for n in range(1, 30_001)).encode()
        expect(
            spill.contents.get(result.stdout_digest or "") == whole,
            "the spill holds all of stdout",
            result.stdout_bytes,
        )
        expect(result.stderr_digest is None and len(spill.contents) == 1, "what was not cut is not spilled", result)


async def output_beyond_the_limit_stops_the_command(backend: Backend, spec: WorkspaceSpec) -> None:
    limits = msgspec.structs.replace(spec.limits, output_mib=1)
    async with OpenedWorkspace(backend, msgspec.structs.replace(spec, limits=limits)) as box:
        result = await box.exec("yes", timeout_s=30, show_bytes=1000)
        expect(result.output_limited and result.killed_by == "output", "it is stopped, and says why", result)
        expect(not result.timed_out and result.exit_code < 0, "it was killed before its time", result)
        expect((await box.exec("echo on")).stdout == "on\n", "the sandbox stays usable")


async def bytes_that_are_no_text_are_replaced(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        result = await box.exec("printf 'a\\377b\\303\\244'")
        expect(result.stdout == "a\ufffdbä", "UTF-8 with replacement", result)
        expect(result.stdout_bytes == 5, "bytes are counted, not characters", result)


async def commands_run_at_the_same_time(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        async with asyncio.TaskGroup() as group:
            # Each waits for the last one, so that they cannot have run one after another.
            tasks = [
                group.create_task(box.exec(f"echo {n} > at{n}; until [ -e at5 ]; do sleep 0.02; done; cat at{n}"))
                for n in range(6)
            ]
        expect([t.result().stdout for t in tasks] == [f"{n}\n" for n in range(6)], "each has its own output")


async def written_files_are_read_back(backend: Backend, spec: WorkspaceSpec) -> None:
    data = bytes(range(256)) * 1000
    async with OpenedWorkspace(backend, spec) as box:
        await box.write(_path_in(spec, "new/deep/file"), data)
        await box.write(_path_in(spec, "run"), b"#!/bin/sh\necho ran\n", mode=0o755)
        expect(await box.read(_path_in(spec, "new/deep/file")) == data, "bytes come back")
        expect((await box.exec(["./run"])).stdout == "ran\n", "modes are set")
        await box.write(_path_in(spec, "run"), b"")
        expect(await box.read(_path_in(spec, "run")) == b"", "a file is written over")
        mode = (await box.exec("stat -c %a new/deep/file run")).stdout.split()
        expect(mode == ["644", "644"], "the default mode is 644", mode)


async def _expect_raises(kind: type[Exception], act: Awaitable[object], what: str) -> None:
    try:
        got = await act
    except kind:
        return
    expect(False, f"{what} raises {kind.__name__}", got)


async def wrong_paths_raise_what_the_contract_says(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec("mkdir dir; mkfifo pipe; echo 12345 > five; ln -s loop loop")
        await _expect_raises(FileNotFoundError, box.read(_path_in(spec, "absent")), "reading what is not there")
        await _expect_raises(IsADirectoryError, box.read(_path_in(spec, "dir")), "reading a folder")
        await _expect_raises(ValueError, box.read(_path_in(spec, "pipe")), "reading a pipe")
        await _expect_raises(ValueError, box.read(_path_in(spec, "five"), limit=3), "reading beyond the limit")
        await _expect_raises(OSError, box.read(_path_in(spec, "loop")), "reading a link to itself")
        await _expect_raises(OSError, box.write(_path_in(spec, "dir"), b""), "writing over a folder")
        await _expect_raises(OSError, box.write(_path_in(spec, "five/x"), b""), "writing below a file")
        await _expect_raises(
            FileNotFoundError, box.download(_path_in(spec, "absent"), Path("never-made")), "fetching nothing"
        )


async def links_lead_where_the_sandbox_sees_them(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec(
            "echo in > real; ln -s real near; ln -s /etc/hostname far; ln -s ../../../../../../etc/passwd up"
        )
        expect(await box.read(_path_in(spec, "near")) == b"in\n", "a link inside is followed")
        for name in ("far", "up"):
            inside = await box.exec(["cat", name])
            try:
                outside = (await box.read(_path_in(spec, name))).decode()
            except (FileNotFoundError, PermissionError):
                continue
            expect(outside == inside.stdout, f"{name} leads where the sandbox sees it", outside[:50])


async def folders_are_uploaded_with_modes_and_links(backend: Backend, spec: WorkspaceSpec) -> None:
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "tree"
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "tool").write_text("#!/bin/sh\necho tool\n")
        (source / "sub" / "tool").chmod(0o755)
        (source / "link").symlink_to("sub/tool")
        async with OpenedWorkspace(backend, spec) as box:
            await box.upload(source, _path_in(spec, "up"))
            expect((await box.exec(["./up/link"])).stdout == "tool\n", "files, modes and links arrive")
            await box.upload(source / "sub" / "tool", _path_in(spec, "one/tool2"))
            expect((await box.exec(["one/tool2"])).stdout == "tool\n", "a single file arrives")
            (source / "out").symlink_to("/etc/passwd")
            await _expect_raises(
                ValueError, box.upload(source, _path_in(spec, "bad")), "uploading a link that leads outside"
            )


async def downloads_bring_no_way_out(backend: Backend, spec: WorkspaceSpec) -> None:
    make = "mkdir -p d/sub; echo x > d/sub/f; chmod 755 d/sub/f; ln -s sub/f d/in; ln -s /etc/passwd d/out; mkfifo d/p"
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec(make + "; ln -s ../../../etc d/up; ln -s d linked")
        with tempfile.TemporaryDirectory() as name:
            target = Path(name) / "got"
            await box.download(_path_in(spec, "d"), target)
            got = sorted(p.relative_to(target).as_posix() for p in target.rglob("*"))
            expect(got == ["in", "sub", "sub/f"], "files and inner links come, the rest does not", got)
            expect((target / "sub" / "f").stat().st_mode & 0o777 == 0o755, "modes are kept")
            await box.download(_path_in(spec, "d/sub/f"), Path(name) / "single")
            expect((Path(name) / "single").read_text() == "x\n", "a single file comes")


async def downloads_are_bounded(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec("mkdir d; echo x > d/a; truncate -s 100M d/b")
        with tempfile.TemporaryDirectory() as name:
            target = Path(name) / "got"
            await _expect_raises(
                ValueError, box.download(_path_in(spec, "d"), target, limit=1000), "fetching more than the limit"
            )
            got = sorted(p.name for p in target.rglob("*"))
            expect(got == ["a"], "what came before stays, and nothing of what was too much", got)


async def digest_depends_on_the_state_alone(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as one, OpenedWorkspace(backend, spec) as two:
        expect(await one.digest() == await two.digest(), "fresh sandboxes agree")
        await one.exec("echo 1 > a; mkdir d; echo 2 > d/b; ln -s a l")
        await two.exec("ln -s a l; mkdir d; echo 2 > d/b; sleep 0.01; echo x > t; rm t; echo 1 > a; touch -d @5 a")
        expect(await one.digest() == await two.digest(), "order and times do not matter")
        await two.exec("mkdir e; rmdir e; chmod 700 a; chmod 644 a; echo 9 > a; echo 1 > a")
        expect(await one.digest() == await two.digest(), "what was undone does not matter")
        for change in ("chmod 755 a", "echo 2 > a", "rm l; ln -s b l", "rm -r d", "mkdir e", "rm l; echo > l"):
            async with OpenedWorkspace(backend, spec) as other:
                await other.exec("echo 1 > a; mkdir d; echo 2 > d/b; ln -s a l; " + change)
                expect(await one.digest() != await other.digest(), f"`{change}` matters")


async def digest_after_each_step_is_the_digest_from_scratch(backend: Backend, spec: WorkspaceSpec) -> None:
    steps = ["echo 1 > a", "mkdir -p d/e; echo 2 > d/e/f", "mv a d/a", "echo 33 > d/e/f", "rm -r d/e", "ln -s d/a b"]
    async with OpenedWorkspace(backend, spec) as slow:
        for count, step in enumerate(steps, 1):
            await slow.exec(step)
            async with OpenedWorkspace(backend, spec) as fresh:
                await fresh.exec("; ".join(steps[:count]))
                expect(await slow.digest() == await fresh.digest(), f"after step {count}, `{step}`")


def _list_kinds(changes: Sequence[Change], spec: WorkspaceSpec) -> list[tuple[str, str, str]]:
    inside = [c for c in changes if c.path.startswith(spec.workdir + "/")]
    return [(c.path.removeprefix(spec.workdir + "/"), c.kind, c.type) for c in inside]


async def diff_names_what_changed_and_how(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec("mkdir d t; echo 1 > a; echo 2 > b; echo 3 > d/c; echo 4 > t/x; ln -s a l; echo s > same")
        first = await box.diff()
        expect(("a", "added", "file") in _list_kinds(first, spec), "a new file is added", first)
        expect([c.path for c in first] == sorted(c.path for c in first), "sorted by path")
        snapshot = await box.snapshot()
        await box.exec(
            "echo 9 > a; rm b; rm -r d; rm l; mkdir l; echo n > new; chmod 600 t/x; echo s > same; ln -s . k"
        )
        result = _list_kinds(await box.diff(snapshot), spec)
        expected = [("a", "changed", "file"), ("b", "removed", "file"), ("d", "removed", "directory")]
        expected += [("d/c", "removed", "file"), ("k", "added", "symlink"), ("l", "changed", "directory")]
        expected += [("new", "added", "file"), ("t/x", "changed", "file")]
        expect(result == expected, "since a snapshot, every kind is reported", result)
        await backend.release(snapshot)


async def snapshot_seals_and_the_workspace_goes_on(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec("echo 1 > a; (sleep 68 &)")
        digest = await box.digest()
        first = await box.snapshot()
        expect(first.digest == digest == await box.digest(), "its digest is that of the state", first.digest)
        expect(await box.processes() == (), "what ran is dead")
        await box.exec("echo 2 > a; echo 3 > b")
        second = await box.snapshot()
        expect(second.digest == await box.digest() != first.digest, "a later one differs")
        for snapshot, result in ((first, "1\n"), (second, "2\n3\n")):
            opened = await backend.open(spec, state=snapshot)
            expect((await opened.exec("cat *")).stdout == result, "each opens as it was")
            expect(await opened.digest() == snapshot.digest, "with its digest")
            expect(await opened.diff() == (), "and nothing changed in it", await opened.diff())
            await opened.close()
            await backend.release(snapshot)
            await backend.release(snapshot)


async def forks_do_not_see_each_other(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        await box.exec("mkdir d; echo 1 > d/a; echo 1 > d/b")
        forks = [await box.fork(), await box.fork(msgspec.structs.replace(spec, user="verifier"))]
        await forks[0].exec("rm -r d; mkdir d; echo 2 > d/c")
        await box.exec("echo 3 > d/a")
        expect((await forks[0].exec("ls d; cat d/*")).stdout == "c\n2\n", "a folder made anew is new")
        expect((await forks[1].exec("ls d; cat d/*")).stdout == "a\nb\n1\n1\n", "a fork is as it was forked")
        expect((await box.exec("cat d/*")).stdout == "3\n1\n", "the first goes on")
        grandchild = await forks[0].fork()
        expect((await grandchild.exec("ls d")).stdout == "c\n", "a fork of a fork knows what was removed")
        for fork in (*forks, grandchild):
            await fork.close()


async def mounts_are_seen_and_not_written(backend: Backend, spec: WorkspaceSpec) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "given"
        folder.mkdir()
        (folder / "f").write_text("mounted\n")
        for path in (Path(name), folder):
            path.chmod(0o755)
        mounts = (*spec.mounts, Mount(str(folder), "/mounted/here"))
        async with OpenedWorkspace(backend, msgspec.structs.replace(spec, mounts=mounts)) as box:
            expect(await box.read("/mounted/here/f") == b"mounted\n", "it is seen")
            await _expect_raises(OSError, box.write("/mounted/here/f", b"x"), "writing to it")
            expect(
                not [c for c in await box.diff() if c.path.startswith("/mounted/here/")],
                "it does not count as a change",
            )
        expect((folder / "f").read_text() == "mounted\n", "the host's file is as it was")


async def temporary_folders_start_empty_and_are_no_state(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, msgspec.structs.replace(spec, tmpfs=(_path_in(spec, "scratch"),))) as box:
        before = await box.digest()
        expect((await box.exec("ls scratch; echo x > scratch/f; cat scratch/f")).stdout == "x\n", "it can be written")
        expect(await box.read(_path_in(spec, "scratch/f")) == b"x\n", "and read")
        expect(await box.digest() == before, "it is not part of the state")
        fork = await box.fork()
        expect((await fork.exec("ls scratch")).stdout == "", "a fork's is empty")
        await fork.close()


async def a_listener_inside_is_accepted_by_its_holder(backend: Backend, spec: WorkspaceSpec) -> None:
    loop = asyncio.get_running_loop()
    async with OpenedWorkspace(backend, spec) as box:
        listener = await box.listen()
        port = listener.getsockname()[1]
        asking = asyncio.ensure_future(box.exec(["bash", "-c", _ASK.format(port=port)], timeout_s=20))
        try:
            async with asyncio.timeout(20):
                connection, _ = await loop.sock_accept(listener)
                expect(await loop.sock_recv(connection, 100) == b"asked\n", "what is written inside arrives")
                await loop.sock_sendall(connection, b"answered\n")
                connection.close()
                expect((await asking).stdout == "answered\n", "and the answer too", await asking)
        finally:
            asking.cancel()
        await _expect_raises(OSError, box.listen(port), "listening on a port that is taken")
        if box.isolation.network == "none":
            async with OpenedWorkspace(backend, spec) as other:
                (await other.listen(port)).close()
                refused = await other.exec(["bash", "-c", _ASK.format(port=port)], timeout_s=20)
                expect(refused.exit_code != 0, "another sandbox does not reach it", refused)
        listener.close()


async def closing_ends_everything_and_can_be_repeated(backend: Backend, spec: WorkspaceSpec) -> None:
    box = await backend.open(spec)
    await box.exec("sleep 69 &")
    await box.close()
    await box.close()
    await _expect_raises(EnvironmentFailure, box.exec("true"), "a command in a closed sandbox")
    await _expect_raises(EnvironmentFailure, box.read(_path_in(spec, "x")), "a file of a closed sandbox")


async def isolation_is_said(backend: Backend, spec: WorkspaceSpec) -> None:
    async with OpenedWorkspace(backend, spec) as box:
        reported = {limit.name for limit in box.isolation.limits}
        requested = {"memory": spec.limits.memory_mib, "processes": spec.limits.processes, "cpu": spec.limits.cpus}
        requested |= {
            "disk": spec.limits.disk_mib,
            "file_size": spec.limits.file_mib,
            "open_files": spec.limits.open_files,
        }
        expected = {"wall_time", "output"} | {name for name, value in requested.items() if value is not None}
        expect(expected <= reported, "each limit is named", sorted(expected - reported))
        expect(box.spec.workdir == spec.workdir, "the specification is kept")


PROPERTIES: tuple[Property, ...] = (
    facts_tell_two_sandboxes_apart,
    two_sandboxes_are_joined_by_pipes,
    streams_and_exit_code_are_kept_apart,
    words_are_not_given_to_a_shell,
    missing_and_unrunnable_commands_have_their_codes,
    death_by_signal_is_negative,
    environment_is_added_for_one_command,
    working_directory_is_the_specs_or_the_given,
    standard_input_arrives_whole,
    timeout_kills_the_whole_tree,
    background_processes_outlive_their_command,
    kill_all_leaves_nothing_and_can_be_repeated,
    long_output_is_cut_in_the_middle,
    long_output_is_spilled_whole,
    output_beyond_the_limit_stops_the_command,
    bytes_that_are_no_text_are_replaced,
    commands_run_at_the_same_time,
    written_files_are_read_back,
    wrong_paths_raise_what_the_contract_says,
    links_lead_where_the_sandbox_sees_them,
    folders_are_uploaded_with_modes_and_links,
    downloads_bring_no_way_out,
    downloads_are_bounded,
    digest_depends_on_the_state_alone,
    digest_after_each_step_is_the_digest_from_scratch,
    diff_names_what_changed_and_how,
    snapshot_seals_and_the_workspace_goes_on,
    forks_do_not_see_each_other,
    mounts_are_seen_and_not_written,
    temporary_folders_start_empty_and_are_no_state,
    a_listener_inside_is_accepted_by_its_holder,
    closing_ends_everything_and_can_be_repeated,
    isolation_is_said,
)
