from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from assay.environments.workspace._context import ignore_rules, is_ignored
from assay.environments.workspace._layers import LayerStack, extract
from assay.environments.workspace.images import BuildOptions, build_image, build_task_image, import_root
from assay.errors import EnvironmentFailure, UserError

pytestmark = pytest.mark.quick


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    context = tmp_path / "environment"
    (context / "src" / "deep").mkdir(parents=True)
    (context / "src" / "a.py").write_text("a\n")
    (context / "src" / "deep" / "b.txt").write_text("b\n")
    (context / "run.sh").write_text("#!/bin/sh\n")
    (context / "run.sh").chmod(0o755)
    return context


@pytest.fixture
def options(tmp_path: Path) -> BuildOptions:
    return BuildOptions(cache=tmp_path / "cache")


def tree(layers: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for layer in map(Path, layers):
        for path in sorted(layer.rglob("*")):
            name = path.relative_to(layer).as_posix()
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file():
                found[name] = path.read_text()
    return found


async def built(folder: Path, options: BuildOptions, text: str) -> dict[str, str]:
    (folder / "Dockerfile").write_text("FROM scratch\n" + text)
    return tree((await build_image(folder, options)).layers)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("COPY src /app", {"app/a.py": "a\n", "app/deep/b.txt": "b\n"}),
        ("COPY src/a.py /app", {"app": "a\n"}),
        ("COPY src/a.py run.sh /app/", {"app/a.py": "a\n", "app/run.sh": "#!/bin/sh\n"}),
        ("COPY src/*.py /app/", {"app/a.py": "a\n"}),
        ("WORKDIR /app\nWORKDIR sub\nCOPY src/a.py .", {"app/sub/a.py": "a\n"}),
        ('ENV D=/x\\ y\nCOPY ["src/a.py", "$D/"]', {"x y/a.py": "a\n"}),
        ("ARG D=/d\nENV E=${D}/e\nADD src/deep $E", {"d/e/b.txt": "b\n"}),
        ("COPY src /app\nCOPY src/deep/b.txt /app/a.py", {"app/a.py": "b\n", "app/deep/b.txt": "b\n"}),
        ("COPY <<EOF <<'F' /h/\n$X'\"\\$\nEOF\n$X\nF", {"h/EOF": "'\"$\n", "h/F": "$X\n"}),
    ],
)
async def test_files_arrive_where_an_engine_puts_them(
    folder: Path, options: BuildOptions, text: str, files: dict[str, str]
) -> None:
    assert await built(folder, options, text) == files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("COPY ../x /app", "environment/Dockerfile:2: COPY: ../x leads outside"),
        ("COPY absent /app", "COPY: absent is not in environment/, from which the Dockerfile copies: put it there"),
        ("COPY out /app", "out is a link that leads outside"),
        ("COPY src/a.py run.sh /app", "end it with /"),
        ("COPY --from=other x /app", "no earlier stage has that name"),
        ("COPY --parents x /app", "--parents is not supported"),
        ("COPY --chmod=u+x src /app", "three octal digits"),
        ("COPY src /tmp/x", "/tmp is created again"),
        ("WORKDIR /proc/self", "/proc is created again"),
        ("ADD https://x.org/a /app", "is not a local file"),
        ("RUN true", "Dockerfile:2: RUN: it needs a sandbox"),
        ("COPY src/a.py /app\nCOPY run.sh /app/x", "Dockerfile:3"),
        ("ENV 1=2", "'1' is not a valid variable name"),
        ('COPY "src /app', "quote"),
    ],
)
async def test_what_cannot_be_built_is_refused_with_its_line(
    folder: Path, options: BuildOptions, text: str, said: str
) -> None:
    (folder / "out").symlink_to("/etc/passwd")
    with pytest.raises(UserError) as caught:
        await built(folder, options, text)
    assert said in str(caught.value)


async def test_links_of_the_image_are_followed_inside_it(folder: Path, options: BuildOptions) -> None:
    (folder / "src" / "way").symlink_to("/elsewhere")
    files = await built(folder, options, "COPY src /app\nCOPY run.sh /app/way/\nCOPY run.sh /app/deep/../../x")
    assert files["app/way"] == "-> /elsewhere"
    assert files["elsewhere/run.sh"] == files["x"] == "#!/bin/sh\n"


async def test_digest_is_of_the_content(folder: Path, options: BuildOptions) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY src /app\n")
    first = await build_image(folder, options)
    os.utime(folder / "src" / "a.py", (5, 5))
    assert await build_image(folder, options) == first
    (folder / "src" / "a.py").write_text("changed")
    assert (await build_image(folder, options)).digest != first.digest


async def test_stages_modes_and_settings(folder: Path, options: BuildOptions) -> None:
    text = (
        "ARG V=1\nFROM scratch AS one\nWORKDIR /out\nCOPY --chmod=700 src /out\nFROM scratch\nARG V\nENV A=$V B='x y'\n"
    )
    (folder / "Dockerfile").write_text(text + 'COPY --from=one /out/deep /d\nUSER me\nWORKDIR /d\nCMD ["x"]\n')
    image = await build_image(folder, options)
    assert tree(image.layers) == {"d/b.txt": "b\n"}
    assert (Path(image.layers[0]) / "d" / "b.txt").stat().st_mode & 0o777 == 0o700
    assert (image.env, image.workdir, image.root) == ({"A": "1", "B": "x y"}, "/d", False)
    assert [note.split(": ", 1)[1].split()[0] for note in image.notes] == ["CMD", "USER"]


async def test_ignored_files_are_left_out(folder: Path, options: BuildOptions) -> None:
    (folder / ".dockerignore").write_text("**/*.txt\nDockerfile\n.dockerignore\nrun.sh\n")
    assert await built(folder, options, "COPY . /app/") == {"app/src/a.py": "a\n"}
    with pytest.raises(UserError, match=r"left out by environment/\.dockerignore"):
        await built(folder, options, "COPY run.sh /app/")


@pytest.mark.parametrize(
    ("rules", "name", "ignored"),
    [
        ("a", "a/b/c", True),
        ("a\n!a/b", "a/b/c", False),
        ("*.py", "x/y.py", False),
        ("**/*.py", "x/y.py", True),
        ("**/*.py", "y.py", True),
        ("# a\n/b/", "b", True),
        ("x/**", "x/y/z", True),
        ("x?[ab]", "x1b", True),
        ("*", "x", True),
    ],
)
def test_ignore_rules(rules: str, name: str, ignored: bool) -> None:
    assert is_ignored(name, ignore_rules(rules)) == ignored


async def test_other_bases_need_a_map_and_are_noted(folder: Path, options: BuildOptions) -> None:
    (folder / "Dockerfile").write_text("FROM python:3.12-slim\n")
    with pytest.raises(UserError, match=r"--base python:3\.12-slim=scratch"):
        await build_image(folder, options)
    mapped = BuildOptions(cache=options.cache, bases={"python": "scratch"})
    image = await build_image(folder, mapped)
    assert image.digest == "host-tools"
    assert "python:3.12-slim was mapped to scratch" in image.notes[0]
    assert await build_task_image({"docker_image": "python:3.12-slim"}, None, mapped)
    with pytest.raises(UserError, match="leads outside the task"):
        await build_task_image({"folder": "../.."}, folder, options)


async def test_imported_root_is_a_base(folder: Path, options: BuildOptions, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "sh").write_text("")
    (root / "bin").symlink_to("usr/bin")
    os.mkfifo(root / "pipe")
    import_root("tiny:1", root, options.cache)
    (folder / "Dockerfile").write_text("FROM tiny:1\nCOPY run.sh /bin/\n")
    image = await build_image(folder, options)
    assert image.root
    assert tree(image.layers) == {"bin": "-> usr/bin", "usr/bin/sh": "", "usr/bin/run.sh": "#!/bin/sh\n"}
    with pytest.raises(UserError, match="not a root file system"):
        import_root("no", folder, options.cache)


def archive(path: Path, *members: tuple[str, bytes, bytes | str]) -> Path:
    with tarfile.open(path, "w") as file:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o4755
            if isinstance(content, bytes):
                info.size = len(content)
            else:
                info.linkname = content
            file.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


@pytest.mark.parametrize(
    "members",
    [
        [("../x", tarfile.REGTYPE, b"x")],
        [("a/../../x", tarfile.REGTYPE, b"x")],
        [("h", tarfile.LNKTYPE, "/etc/passwd")],
        [("h", tarfile.LNKTYPE, "../../etc/passwd")],
        [("f", tarfile.REGTYPE, b""), ("f/x", tarfile.REGTYPE, b"")],
        [("l", tarfile.SYMTYPE, "l"), ("l/x", tarfile.REGTYPE, b"")],
    ],
)
def test_archive_that_leads_outside_is_refused(tmp_path: Path, members: list) -> None:
    (tmp_path / "to").mkdir()
    with pytest.raises(ValueError, match=r"archive|links"):
        extract(archive(tmp_path / "a.tar", *members), tmp_path / "to")
    assert not (tmp_path / "x").exists()


def test_links_of_an_archive_are_followed_inside_it_only(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    target = tmp_path / "to"
    target.mkdir()
    links = [("abs", tarfile.SYMTYPE, str(victim)), ("rel", tarfile.SYMTYPE, "../victim"), ("/d", tarfile.CHRTYPE, b"")]
    files = [("abs/x", tarfile.REGTYPE, b"1"), ("rel/y", tarfile.REGTYPE, b"2"), ("/etc/z", tarfile.REGTYPE, b"3")]
    left_out = extract(archive(tmp_path / "a.tar", *links, *files), target)
    assert not list(victim.iterdir())
    assert (target / "victim" / "y").read_bytes() == b"2"
    assert (target / "etc" / "z").stat().st_mode & 0o7777 == 0o755
    assert len(left_out) == 1


async def test_archives_are_unpacked_by_add_and_not_by_copy(folder: Path, options: BuildOptions) -> None:
    archive(folder / "a.tar", ("in/f", tarfile.REGTYPE, b"text\n"))
    assert await built(folder, options, "ADD a.tar /x") == {"x/in/f": "text\n"}
    assert list(await built(folder, options, "ADD src/a.py /x/\nCOPY src/a.py /y")) == ["x/a.py", "y"]


def test_removed_and_replaced_paths_are_not_found(tmp_path: Path) -> None:
    low, high = tmp_path / "low", tmp_path / "high"
    for name in ("a/x", "b/x", "c"):
        (low / name).parent.mkdir(parents=True, exist_ok=True)
        (low / name).write_text("")
    (high / "b").mkdir(parents=True)
    try:
        os.mknod(high / "a", 0o020000, 0)
        os.setxattr(high / "b", "user.overlay.opaque", b"y")
    except OSError as exc:
        pytest.skip(f"no marks of removed files here: {exc}")
    layers = LayerStack((low, high))
    assert [layers.find(name) is None for name in ("a", "a/x", "b", "b/x", "c")] == [True, True, False, True, False]
    assert layers.children("") == ["b", "c"]


async def test_a_machine_that_cannot_write_the_image_is_not_the_tasks_failure(
    folder: Path, options: BuildOptions
) -> None:
    options.cache.mkdir()
    (options.cache / "images").write_text("in the way")
    with pytest.raises(EnvironmentFailure, match=f"writing to {options.cache}/images: "):
        await built(folder, options, "COPY src /app")
