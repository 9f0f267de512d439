"""Builds one stage of a Dockerfile into layers; `images` chooses its base and uses the result.

File instructions write to one pending layer, which is stored before a RUN or at the end. The invariant is that of
`images`: a layer is renamed into the cache when it is complete, under the digest of its content.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
import shutil
import tempfile
from pathlib import Path

import msgspec
from blake3 import blake3

from assay.environments.interface import Backend, Image
from assay.environments.workspace import _layers
from assay.environments.workspace._context import Context
from assay.environments.workspace._run import BuildCommand, BuildOptions, execute, store_pinned
from assay.environments.workspace.dockerfile import Heredoc, Instruction, Stage, expand, split_words
from assay.environments.workspace.spec import environment
from assay.errors import UserError

_HIDDEN = ("dev", "proc", "sys", "tmp", "opt/assay")
_LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class StageBuilder:
    def __init__(
        self,
        options: BuildOptions,
        *,
        layers: list[Path] | None = None,
        root: bool = False,
        notes: list[str] | None = None,
    ) -> None:
        self.options = options
        self.layers = layers or []
        self.root = root
        self.notes = notes or []
        self.env: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.global_arguments: dict[str, str] = {}
        self.workdir = "/" if root else "/workspace"
        self.shell: tuple[str, ...] = ("/bin/sh", "-c")
        self.file, self.escape = "Dockerfile", "\\"
        self.context: Path = Path()
        self.work: Path = Path()
        self.earlier_stages: dict[str, StageBuilder] = {}
        self._pending: Path | None = None

    def fork(self) -> StageBuilder:
        """Returns another stage that starts on the result of this one."""
        other = StageBuilder(self.options, layers=list(self.layers), root=self.root, notes=list(self.notes))
        other.env, other.workdir, other.shell = dict(self.env), self.workdir, self.shell
        return other

    def image(self, notes: tuple[str, ...]) -> Image:
        layers = tuple(str(layer.absolute()) for layer in self.layers)
        named = [[Path(layer).name for layer in layers], sorted(self.env.items()), self.workdir, self.root]
        plain = not layers and not self.env and self.workdir == "/workspace"
        digest = "host-tools" if plain else blake3(msgspec.json.encode(named)).hexdigest()[:32]
        return Image(layers, digest, dict(self.env), self.workdir, self.root, (*notes, *self.notes))

    async def run(self, stage: Stage, backend: Backend | None) -> None:
        """Executes every instruction. Raises `UserError` with file and line."""
        settings = {
            "ENV": self._set_env,
            "ARG": self._set_argument,
            "USER": self._note_user,
            "SHELL": self._set_shell,
            "WORKDIR": self._set_workdir,
        }
        for instruction in stage.instructions:
            try:
                if instruction.name == "RUN":
                    await asyncio.to_thread(self._seal)
                    await self._run_command(instruction, backend)
                elif instruction.name in ("COPY", "ADD"):
                    await asyncio.to_thread(self._copy_files, instruction)
                else:
                    settings[instruction.name](instruction)
            except (ValueError, OSError) as exc:
                raise UserError(f"{self.file}:{instruction.line}: {instruction.name}: {exc}") from exc
        await asyncio.to_thread(self._seal)

    def _all_variables(self) -> dict[str, str]:
        return {**self.arguments, **self.env}

    def _expand_words(self, instruction: Instruction) -> list[str]:
        if instruction.words is not None:
            return [expand(word, self._all_variables(), "\0") for word in instruction.words]
        words = split_words(instruction.before_documents, self.escape)
        return [expand(word, self._all_variables(), self.escape) for word in words]

    def _set_env(self, instruction: Instruction) -> None:
        words = split_words(instruction.text, self.escape)
        if words and "=" not in words[0]:
            name, _, value = instruction.text.partition(" ")
            pairs = [(name, value.strip())]
        else:
            pairs = [(name, value) for name, _, value in (word.partition("=") for word in words)]
        variables, added = self._all_variables(), {}
        for name, value in pairs:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
                raise ValueError(f"{name!r} is not a valid variable name; write NAME=value")
            added[name] = expand(value, variables, self.escape)
        self.env.update(added)

    def _set_argument(self, instruction: Instruction) -> None:
        for word in split_words(instruction.text, self.escape):
            name, has_default, default = word.partition("=")
            value = (
                expand(default, self._all_variables(), self.escape) if has_default else self.global_arguments.get(name)
            )
            value = self.options.args.get(name, value)
            if value is not None:
                self.arguments[name] = value

    def _note_user(self, instruction: Instruction) -> None:
        user = "".join(self._expand_words(instruction))
        self.notes.append(f"{self.file}:{instruction.line}: USER {user}: commands run as the sandbox's own user")

    def _set_shell(self, instruction: Instruction) -> None:
        if not instruction.words:
            raise ValueError('write it as a list, for example ["/bin/bash", "-c"]')
        self.shell = instruction.words

    def _set_workdir(self, instruction: Instruction) -> None:
        path = expand(instruction.text, self._all_variables(), self.escape)
        self.workdir = posixpath.normpath(posixpath.join(self.workdir, path))
        if self.workdir not in ("/", "/workspace"):
            self._make_folder(self._resolve_target(self.workdir))

    def _layer_stack(self) -> _layers.LayerStack:
        folders = [*self.layers, self._pending] if self._pending is not None else self.layers
        return _layers.LayerStack(tuple(folders), None if self.root else _read_base_links())

    def _resolve_target(self, path: str) -> str:
        """Returns where an absolute path leads, relative to the root; refuses paths that a sandbox covers."""
        destination = self._layer_stack().resolve(path).path
        covered = [hidden for hidden in _HIDDEN if destination == hidden or destination.startswith(hidden + "/")]
        if covered:
            raise ValueError(f"{path}: /{covered[0]} is created again in every sandbox; choose another path")
        return destination

    def _pending_layer(self) -> Path:
        if self._pending is None:
            self._pending = Path(tempfile.mkdtemp(dir=self.work))
            self._pending.chmod(0o755)
        return self._pending

    def _make_folder(self, destination: str) -> None:
        if destination and not self._is_folder(destination):
            with tempfile.TemporaryDirectory(dir=self.work) as empty:
                Path(empty).chmod(0o755)
                _layers.install(self._pending_layer(), self._layer_stack(), Path(empty), destination)

    def _is_folder(self, destination: str) -> bool:
        host = self._layer_stack().find(destination) if self.layers or self._pending else None
        return host is not None and host.is_dir() and not host.is_symlink()

    def _copy_files(self, instruction: Instruction) -> None:
        flags = dict(instruction.flags)
        mode = self._check_flags(instruction, flags)
        words = self._expand_words(instruction)
        if not words or (len(words) < 2 and not instruction.heredocs):
            raise ValueError("it takes at least a source and a destination")
        *patterns, target = words
        sources = self._find_sources(flags.get("from"), patterns, instruction)
        into = target.endswith("/") or posixpath.basename(target) in (".", "..")
        if len(sources) > 1 and not into:
            raise ValueError(f"several files are copied to {target}: end it with / to make it a folder")
        for source in sources:
            absolute = posixpath.join(self.workdir, target)
            self._install(source, absolute, mode, into=into, unpack=instruction.name == "ADD")

    def _check_flags(self, instruction: Instruction, flags: dict[str, str]) -> int | None:
        unknown = set(flags) - {"from", "chown", "chmod", "link"}
        if unknown or (instruction.name == "ADD" and "from" in flags):
            raise ValueError(f"--{sorted(unknown or {'from'})[0]} is not supported")
        if "chown" in flags:
            self.notes.append(f"{self.file}:{instruction.line}: --chown is ignored: files are the sandbox user's")
        if "chmod" not in flags:
            return None
        if not re.fullmatch(r"0?[0-7]{3}", flags["chmod"]):
            raise ValueError(f"--chmod={flags['chmod']} is not supported: give three octal digits")
        return int(flags["chmod"], 8)

    def _find_sources(self, stage: str | None, patterns: list[str], instruction: Instruction) -> list[Path]:
        if stage is not None:
            earlier_stages = self.earlier_stages.get(stage.lower())
            if earlier_stages is None:
                raise ValueError(f"--from={stage}: no earlier stage has that name, and other images cannot be read")
            return [earlier_stages.copy_out(pattern, self.work) for pattern in patterns]
        context = Context(self.context)
        sources = [path for pattern in patterns for path in context.find(pattern, self.work)]
        for document in instruction.heredocs:
            destination = Path(tempfile.mkdtemp(dir=self.work)) / document.word
            destination.write_text(self._expand_document(document), encoding="utf-8")
            sources.append(destination)
        return sources

    def _expand_document(self, document: Heredoc) -> str:
        return document.text if document.quoted else expand(document.text, self._all_variables(), quotes=False)

    def copy_out(self, path: str, work: Path) -> Path:
        """Copies a file or folder of this finished stage out of its layers, for a later stage."""
        destination = self._layer_stack().resolve(posixpath.join("/", path))
        if destination.host is None:
            raise ValueError(f"{path} is not in the layers of that stage")
        copy = Path(tempfile.mkdtemp(dir=work)) / (posixpath.basename(destination.path) or "root")
        self._copy_out(destination.path, destination.host, copy)
        return copy

    def _copy_out(self, path: str, host: Path, copy: Path) -> None:
        if host.is_dir() and not host.is_symlink():
            copy.mkdir()
            copy.chmod(host.stat().st_mode & 0o777)
            for name in self._layer_stack().children(path):
                inner = f"{path}/{name}" if path else name
                sources = self._layer_stack().find(inner)
                if sources is not None:
                    self._copy_out(inner, sources, copy / name)
        else:
            shutil.copy2(host, copy, follow_symlinks=False)

    def _install(self, source: Path, target: str, mode: int | None, *, into: bool, unpack: bool) -> None:
        """Installs one source of a COPY or ADD: a folder's content goes into the target, a file to it or into it."""
        destination = self._resolve_target(target)
        if unpack and source.is_file() and source.name.endswith(_ARCHIVES):
            folder = Path(tempfile.mkdtemp(dir=self.work))
            self.notes += _layers.extract(source, folder)
            folder.chmod(0o755)
            source = folder
        is_folder = source.is_dir() and not source.is_symlink()
        if is_folder:
            self._make_folder(destination)
        elif into or self._is_folder(destination):
            self._make_folder(destination)
            destination = f"{destination}/{source.name}".lstrip("/")
        for entry in _layers.walk(source):
            if not (is_folder and not entry.path):
                inner = self._resolve_target(f"/{destination}/{entry.path}") if is_folder else destination
                file_mode = None if entry.host.is_symlink() else mode
                _layers.install(self._pending_layer(), self._layer_stack(), entry.host, inner, file_mode)

    def _seal(self) -> None:
        """Moves the pending layer into the cache, under its content address."""
        if self._pending is None:
            return
        self.layers.append(store_pinned(self._pending, self.options))
        self._pending = None

    async def _run_command(self, instruction: Instruction, backend: Backend | None) -> None:
        tools = self.options.toolchain
        image = self.image(())
        command = BuildCommand(
            instruction=instruction,
            image=image,
            workdir=self.workdir,
            env=environment(image, {**self.arguments, **self.env}, tools=tools is not None),
            shell=self.shell,
            options=self.options,
        )
        self.layers += await execute(command, backend, self.work)


def _read_base_links() -> dict[str, str]:
    """Returns the links at the top of the host-tools base: `/bin` may be `usr/bin`, as on the host."""
    return {name: str(Path("/", name).readlink()) for name in _LINKED if Path("/", name).is_symlink()}
