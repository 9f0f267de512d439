"""Repositories that an enemy made are read as data."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.interface import Backend
from assay.errors import UserError
from assay.synthesis._git import GitReader, UnreadableError, _parse_commits, _parse_objects

FILTERED = "*.py filter=evil diff=evil ident\n*.md export-ignore\n*.txt export-subst eol=crlf text\n"
HOSTILE = {
    "core.fsmonitor": "/repository/evil",
    "core.sshCommand": "/repository/evil",
    "core.pager": "/repository/evil",
    "core.attributesFile": "/repository/.gitattributes",
    "diff.external": "/repository/evil",
    "diff.evil.textconv": "/repository/evil",
    "diff.evil.command": "/repository/evil",
    "filter.evil.smudge": "/repository/evil",
    "filter.evil.clean": "/repository/evil",
    "filter.evil.required": "true",
    "gpg.program": "/repository/evil",
    "log.showSignature": "true",
    "protocol.ext.allow": "always",
    "remote.origin.url": "ext::/repository/evil",
    "remote.origin.promisor": "true",
}


def git(folder: Path, *arguments: str, given: str = "") -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@b", f"GIT_{role}_DATE": "2024-01-01T00:00:00Z"}
    command = ["git", "-c", "init.defaultBranch=main", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, env=environment, input=given, capture_output=True, text=True).stdout


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Two commits; a link out of the tree; files that attributes would change."""
    tmp_path.chmod(0o755)
    git(tmp_path, "init", "-q")
    files = {"a.py": "# $Id$\n", "b.txt": "$Format:%H$\n", "c.md": "c\n", ".gitattributes": "", "d\te.py": "x\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "out").symlink_to("/etc/passwd")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "one")
    (tmp_path / "a.py").write_text("# $Id$ 2\n")
    (tmp_path / ".gitattributes").write_text(FILTERED)
    git(tmp_path, "commit", "-q", "-a", "-m", "two")
    return tmp_path


async def test_nothing_that_a_repository_names_is_started(made: Path, backend: Backend) -> None:
    # Whatever is started kills all of the sandbox, and nothing could be read.
    (made / "evil").write_text("#!/bin/sh\nkill -9 -1\n")
    (made / "evil").chmod(0o755)
    for name, value in HOSTILE.items():
        git(made, "config", name, value)
    git(made, "config", "core.repositoryformatversion", "1")
    git(made, "config", "extensions.partialClone", "origin")
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        (made / ".git" / "hooks" / hook).write_text("#!/bin/sh\nkill -9 -1\n")
        (made / ".git" / "hooks" / hook).chmod(0o755)
    async with GitReader(made, backend) as reader:
        (commit,) = await reader.commits(10)
        assert set(commit.changed) == {("M", "a.py"), ("M", ".gitattributes")}
        tree = await reader.tree(commit.name)
        assert (await reader.read([tree["a.py"]]))[tree["a.py"]] == b"# $Id$ 2\n"
        with pytest.raises(UnreadableError):
            await reader.read(["0" * 40])


async def test_files_are_as_committed_and_links_are_left_out(made: Path, backend: Backend) -> None:
    async with GitReader(made, backend) as reader:
        (commit,) = await reader.commits(10)
        tree = await reader.tree(commit.name)
        assert set(tree) == {"a.py", "b.txt", "c.md", ".gitattributes", "d\te.py"}
        found = await reader.read(tree.values())
        assert found[tree["b.txt"]] == b"$Format:%H$\n"


async def test_tree_that_leads_outside_is_not_read(made: Path, backend: Backend) -> None:
    blob = git(made, "hash-object", "-w", "a.py").strip()
    inner = git(made, "mktree", given=f"100644 blob {blob}\tup.py\n").strip()
    outer = git(made, "mktree", given=f"040000 tree {inner}\t..\n").strip()
    async with GitReader(made, backend) as reader:
        with pytest.raises(UnreadableError, match="leads outside"):
            await reader.tree(outer)


@pytest.mark.parametrize("kind", ["empty", "worktree"])
async def test_history_that_cannot_be_read_is_said(tmp_path: Path, backend: Backend, kind: str) -> None:
    tmp_path.chmod(0o755)
    if kind == "empty":
        git(tmp_path, "init", "-q")
    else:
        (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    async with GitReader(tmp_path, backend) as reader:
        with pytest.raises(UserError, match="leave the kind commit out"):
            await reader.commits(10)


@pytest.mark.quick
@given(st.lists(st.tuples(st.sampled_from("MAD"), st.text(st.characters(exclude_characters="\0"), min_size=1))))
def test_changes_are_read_as_they_were_written(changed: list[tuple[str, str]]) -> None:
    words = ["a" * 40, *(word for pair in changed for word in pair), "b" * 40]
    told = b"".join(word.encode("utf-8", "surrogatepass") + b"\0" for word in words)
    first, second = _parse_commits(told)
    assert (first.name, len(first.changed), second.changed) == ("a" * 40, len(changed), ())


@pytest.mark.quick
@given(st.lists(st.binary(max_size=30)), st.integers(0, 40))
def test_objects_are_read_as_they_were_written(contents: list[bytes], cut: int) -> None:
    told = b"".join(b"%040d blob %d\n%s\n" % (n, len(data), data) for n, data in enumerate(contents))
    assert _parse_objects(told + b"f" * 40 + b" missing\n") == {f"{n:040d}": data for n, data in enumerate(contents)}
    _parse_objects(told[:cut])
