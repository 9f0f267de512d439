"""Images without a container engine: a Dockerfile becomes layers, cached by content, for the overlay of a sandbox.

COPY, ADD and WORKDIR are executed on plain folders and need no sandbox. RUN is executed in a sandbox of the given
backend; its changes become a layer, cached by command and base. `FROM scratch` is the
host-tools base, a name passed to `import_root` is that root file system; any other base must be mapped.

Invariants: a layer is complete or absent, and never changes; the image's digest covers base, layers, variables and
working directory; differences from a container engine are in the image's notes or are errors with their line.

Covered: paths and archives that lead out of the task's folder or the layer, devices, set-user-id files, unbounded
input. Not covered: use of the network by a RUN command once allowed; owners and times are not preserved.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from blake3 import blake3

from assay.environments.interface import Backend, Image
from assay.environments.workspace import _layers
from assay.environments.workspace._build import StageBuilder
from assay.environments.workspace._context import Context, MissingFileError
from assay.environments.workspace._run import BuildOptions
from assay.environments.workspace.dockerfile import (
    Dockerfile,
    DockerfileError,
    Instruction,
    Stage,
    expand,
    parse,
    split_words,
)
from assay.environments.workspace.layer_exchange import LayerRecipe
from assay.errors import EnvironmentFailure, UserError, boundary

__all__ = ["BuildOptions", "build_image", "build_task_image", "find_build_problems", "import_root"]

HOST_TOOLS = ("scratch", "host-tools")


async def build_image(folder: Path, options: BuildOptions, *, backend: Backend | None = None) -> Image:
    """Builds the Dockerfile in `folder`, using cached layers.

    Args:
        folder: The build context; its `.dockerignore` is honoured.
        options: Cache, bases and permissions.
        backend: Backend that executes RUN; not needed for an image without RUN.

    Raises:
        UserError: The Dockerfile cannot be built; the message names file and line.
        EnvironmentFailure: The sandbox of a RUN broke.
    """
    path = folder / "Dockerfile"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as exc:
        raise UserError(f"{path} cannot be read: {exc}") from exc
    file = parse(text, f"{folder.name}/Dockerfile")
    with _working_folder(options.cache / "images") as work:
        built: dict[str, StageBuilder] = {}
        for index, stage in enumerate(file.stages):
            builder = await _start_stage(file, stage, built, options)
            builder.context, builder.work, builder.earlier_stages = folder, Path(work), dict(built)
            await builder.run(stage, backend)
            built[str(index)] = builder
            if stage.name:
                built[stage.name] = builder
        last = built[str(len(file.stages) - 1)]
        return last.image(file.notes)


class BuildProblem(NamedTuple):
    """Why a Dockerfile cannot be built: it cannot be read, or a source of COPY or ADD cannot be copied."""

    rule: str
    """`dockerfile` or `missing-source`."""
    line: int | None
    message: str
    fix: str


@contextlib.contextmanager
def _working_folder(images: Path) -> Iterator[str]:
    """Yields a new folder, which is removed. Raises `EnvironmentFailure` if this machine cannot make it."""
    with boundary(EnvironmentFailure, f"writing to {images}"):
        images.mkdir(parents=True, exist_ok=True)
        work = tempfile.TemporaryDirectory(dir=images, prefix=".making-")
    with work as path:
        yield path


def find_build_problems(folder: Path) -> tuple[BuildProblem, ...]:
    """Returns why the Dockerfile in `folder` cannot be built, as far as that is seen without building it.

    These are lines that cannot be read, and sources of COPY and ADD that the folder lacks. Sources with variables and
    those of other stages are not looked at.
    """
    try:
        file = parse((folder / "Dockerfile").read_text(encoding="utf-8"), f"{folder.name}/Dockerfile")
        context = Context(folder)
    except DockerfileError as exc:
        return (BuildProblem("dockerfile", exc.line, exc.problem, "correct this line, or name a ready docker_image"),)
    except (OSError, UnicodeError, UserError) as exc:
        return (BuildProblem("dockerfile", None, str(exc), "write a text file of instructions, in UTF-8"),)
    found = []
    for instruction in (one for stage in file.stages for one in stage.instructions):
        if instruction.name not in ("COPY", "ADD") or any(flag == "from" for flag, _ in instruction.flags):
            continue
        with contextlib.suppress(ValueError):  # invalid quotes: the build says so
            for pattern in _sources(instruction, file.escape):
                try:
                    context.match(pattern)
                except MissingFileError as exc:
                    found.append(_missing(instruction, exc.problem, exc.fix))
                except (ValueError, OSError) as exc:
                    found.append(_missing(instruction, str(exc), "correct the path"))
    return tuple(found)


def _missing(instruction: Instruction, problem: str, fix: str) -> BuildProblem:
    return BuildProblem("missing-source", instruction.line, f"{instruction.name}: {problem}", fix)


def _sources(instruction: Instruction, escape: str) -> list[str]:
    """Returns the sources that are written out. Raises `ValueError` for invalid quotes."""
    words = instruction.words
    if words is None:
        words = tuple(split_words(instruction.before_documents, escape))
    return [expand(word, {}, escape) for word in words[:-1] if "$" not in word]


async def build_task_image(
    parameters: Mapping[str, object], task: Path | None, options: BuildOptions, *, backend: Backend | None = None
) -> Image:
    """Returns the image for a task's environment parameters: its folder's Dockerfile, a mapped name, or the host tools.

    Args:
        parameters: `Task.environment.parameters`; `folder` and `docker_image` are used.
        task: The task's folder, where `folder` is relative to.
        options: As in `build_image`.
        backend: As in `build_image`.

    Raises:
        UserError: The folder is missing or leads outside the task, or the named image is not mapped.
    """
    folder, image_name = parameters.get("folder"), parameters.get("docker_image")
    if isinstance(folder, str) and task is not None:
        context = (task / folder).resolve()
        if task.resolve() not in (context, *context.parents):
            raise UserError(f"environment: folder {folder!r} leads outside the task")
        if (context / "Dockerfile").exists():
            return await build_image(context, options, backend=backend)
        if not isinstance(image_name, str) and context.is_dir() and any(context.iterdir()):
            raise UserError(f"{folder}: it has no Dockerfile; compose files are not supported")
    if not isinstance(image_name, str):
        return Image()
    builder = await _start_from_base(image_name, "docker_image", options)
    return builder.image(())


class RootRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An imported root file system."""

    name: str
    digest: str
    env: dict[str, str] = {}
    workdir: str = "/"

    @property
    def key(self) -> str:
        """Returns the name of its recipe and of its record: the digest of its name."""
        return _root_key(self.name)


def import_root(
    name: str, source: Path, cache: Path, *, env: Mapping[str, str] | None = None, workdir: str = "/"
) -> str:
    """Imports a root file system (a folder or a tar archive) under a name for FROM; returns its content address.

    Owners are not preserved; devices, pipes and sockets are left out. An existing name is replaced.

    Args:
        name: Name for FROM, with its tag.
        source: The folder or archive.
        cache: The cache folder.
        env: Initial variables of images on it.
        workdir: Initial working directory.

    Raises:
        UserError: The source is not a root file system, or contains paths that lead outside.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9._/-]*(:[A-Za-z0-9._-]+)?", name) or ".." in name or name in HOST_TOOLS:
        raise UserError(
            f"{name!r} is not a valid name for a root file system: use a-z, 0-9, '.', '_', '-', '/' and a ':tag'"
        )
    images = cache / "images"
    (images / "roots").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=images, prefix=".making-") as work:
        root = Path(work) / "root"
        root.mkdir(mode=0o755)
        try:
            if source.is_dir():
                _copy_root(source, root)
            else:
                _layers.extract(source, root)
        except (OSError, ValueError) as exc:
            raise UserError(f"{source} cannot be imported as a root file system: {exc}") from exc
        if (
            not (root / "bin" / "sh").is_symlink()
            and not (root / "bin").is_symlink()
            and not (root / "bin/sh").exists()
        ):
            raise UserError(f"{source} is not a root file system: it has no /bin/sh")
        digest = _layers.content_digest(root)
        if not (images / digest).exists():
            root.rename(images / digest)
        record_root(images, RootRecord(name, digest, dict(env or {}), workdir or "/"))
    return digest


def record_root(images: Path, root: RootRecord) -> None:
    """Records which layer of the cache is an imported root file system."""
    roots = images / "roots"
    roots.mkdir(exist_ok=True)
    temporary = roots / f".{root.key}.{os.getpid()}.{secrets.token_hex(4)}"
    temporary.write_bytes(msgspec.json.encode(root))
    temporary.rename(roots / f"{root.key}.json")


def read_root(images: Path, key: str) -> RootRecord | None:
    """Returns an imported root file system by the digest of its name; None if it is not in the cache."""
    try:
        root = msgspec.json.decode((images / "roots" / f"{key}.json").read_bytes(), type=RootRecord)
    except (OSError, msgspec.MsgspecError):
        return None
    return root if (images / root.digest).is_dir() else None


def _copy_root(source: Path, root: Path) -> None:
    below = _layers.LayerStack(())
    for entry in _walk_regular(source):
        if entry.path:
            _layers.install(root, below, entry.host, entry.path)


def _walk_regular(source: Path) -> list[_layers.Source]:
    """Returns everything except devices, pipes and sockets, parents first."""
    entries = [_layers.Source("", source)]
    for parent, folders, files in os.walk(source):
        for name in (*folders, *files):
            host = Path(parent) / name
            if host.is_symlink() or host.is_file() or host.is_dir():
                entries.append(_layers.Source(host.relative_to(source).as_posix(), host))
    if len(entries) > _layers.MAX_FILES:
        raise ValueError(f"more than {_layers.MAX_FILES} files")
    return entries


def _root_key(name: str) -> str:
    return blake3(name.encode()).hexdigest()[:32]


async def _start_stage(
    file: Dockerfile, stage: Stage, built: Mapping[str, StageBuilder], options: BuildOptions
) -> StageBuilder:
    where = f"{file.file}:{stage.line}"
    try:
        arguments = _global_arguments(file, options)
        base = expand(stage.base, arguments, file.escape)
    except ValueError as exc:
        raise UserError(f"{where}: {exc}") from exc
    if not base:
        raise UserError(
            f"{where}: FROM {stage.base} expands to an empty name: set the variable with ARG or as a build argument"
        )
    earlier_stage = built.get(base.lower())
    builder = earlier_stage.fork() if earlier_stage is not None else await _start_from_base(base, where, options)
    builder.file, builder.escape, builder.global_arguments = file.file, file.escape, arguments
    return builder


def _global_arguments(file: Dockerfile, options: BuildOptions) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for argument in file.arguments:
        for word in split_words(argument.text, file.escape):
            name, has_default, default = word.partition("=")
            if name in options.args:
                arguments[name] = options.args[name]
            elif has_default:
                arguments[name] = expand(default, arguments, file.escape)
    return arguments


async def _start_from_base(base: str, where: str, options: BuildOptions) -> StageBuilder:
    mapped = _map_base(base, options)
    name = mapped if mapped is not None else base
    notes = (f"{where}: {base} was mapped to {name}",) if mapped is not None and mapped != base else ()
    if name in HOST_TOOLS:
        return StageBuilder(options, notes=list(notes))
    images, recipe = options.cache / "images", LayerRecipe("root", _root_key(name))
    if options.exchange is not None:
        await options.exchange.fetch(recipe)
    root = read_root(images, recipe.name)
    if root is None or not options.pin([images / root.digest]):
        raise UserError(
            f"{where}: found no base {name!r} here, and no engine to pull it: map it with `--base {base}=scratch` "
            f"(the host's tools), or import a root file system with `assay setup --root {name}=PATH`"
        )
    if options.exchange is not None:
        await options.exchange.offer(recipe)
    builder = StageBuilder(options, layers=[images / root.digest], root=True, notes=list(notes))
    builder.env, builder.workdir = dict(root.env), root.workdir
    return builder


def _map_base(base: str, options: BuildOptions) -> str | None:
    untagged = base.partition("@")[0]
    if ":" in untagged.rpartition("/")[2]:
        untagged = untagged.rpartition(":")[0]
    return next((options.bases[name] for name in (base, untagged, "*") if name in options.bases), None)
