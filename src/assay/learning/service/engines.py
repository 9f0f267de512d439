"""Engines of the policies whose versions the trainer posts, and the weight hook that loads a version into them.

`local:FOLDER/{version}` is opened once and shared by all batches; its weights are replaced in flight. The weights of
other engines are loaded by the operator's command, or by the trainer before it posts the version; a reply is asked for
afterwards and must name the version.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import tempfile
from pathlib import Path
from typing import NamedTuple

from assay.errors import AssayError, ProviderError, UserError, boundary
from assay.gateway.backends import open_backend, open_versioned_local
from assay.gateway.tokens import RenderedBackend
from assay.settings import Settings

from .config import VERSION
from .policies import PolicyBook, PolicyVersion
from .service_config import RolloutServiceConfig

_log = logging.getLogger(__name__)
HOOK_PATIENCE_S = 600.0
"""Maximum seconds of a weight hook."""
MAX_HOOK_ERRORS = 2000
"""Bytes of a failed hook's errors that are logged, the last."""
_LOCAL = "local:"


class PostedVersion(NamedTuple):
    """The result of posting a version."""

    is_new: bool
    warning: str | None = None


class PolicyEngines:
    """The engines of a service's policies. Ends with `close`.

    A version is loaded and stored, and an engine is opened, one at a time: an engine always has the newest version.
    """

    def __init__(self, config: RolloutServiceConfig, settings: Settings, policies: PolicyBook) -> None:
        self._config, self._settings, self._policies = config, settings, policies
        self._open: dict[str, RenderedBackend] = {}
        self._locks = {name: asyncio.Lock() for name in config.policies}

    def is_shared(self, name: str) -> bool:
        """Returns whether the service holds one engine for a policy, whose weights it replaces."""
        model = self._config.policies[name]
        return model.startswith(_LOCAL) and VERSION in model.partition("?")[0]

    async def open(self, name: str) -> RenderedBackend | None:
        """Returns the shared engine of a policy, opened by the first call; None for a policy whose engine runs
        elsewhere or that has no version yet. Raises `UserError` if it cannot be opened."""
        if not self.is_shared(name):
            return None
        async with self._locks[name]:
            newest = self._policies.find(name).newest
            if name not in self._open and newest is not None:
                model = self._config.policies[name].replace(VERSION, newest.version)
                local = await asyncio.to_thread(open_versioned_local, model, f"{_LOCAL}{name}", newest.version)
                self._open[name] = local
            return self._open.get(name)

    async def post(self, name: str, new: PolicyVersion) -> PostedVersion:
        """Loads a version into a policy's engine, and stores it.

        Raises:
            VersionConflictError: It contradicts the known versions.
            UserError: The policy cannot have versions, or its weights are not here.
            ProviderError: The weights cannot be loaded, or a reply afterwards is of other weights.
            StoreError: It cannot be stored.
        """
        async with self._locks[name]:
            if not self._policies.check(name, new):
                return PostedVersion(is_new=False)
            warning = await self._load(name, new.version)
            self._policies.add(name, new)
            return PostedVersion(is_new=True, warning=warning)

    async def _load(self, name: str, version: str) -> str | None:
        command = self._config.hooks.get(name)
        if command is not None:
            await _run_hook(command, name, version)
        if self.is_shared(name):
            await self._replace(name, version)
            return None
        if self._config.policies[name].startswith(_LOCAL):
            raise UserError(
                f"policy {name!r} has the same weights in all versions: serve it as local:FOLDER/{VERSION}, "
                "with a folder for each version"
            )
        return await self._check_reply(name, version)

    async def _replace(self, name: str, version: str) -> None:
        from assay.gateway.backends.local import LocalBackend, load_checkpoint

        folder = self.folder(name, version)
        if not (folder / "config.json").is_file():
            raise UserError(f"policy {name!r} has no folder {version!r} here: write the weights before you post them")
        engine = self._open.get(name)
        if engine is None:
            return  # it is opened with these weights
        assert isinstance(engine.tokens, LocalBackend)
        model = await asyncio.to_thread(load_checkpoint, folder, f"policy {name!r}", device="cpu")
        await engine.tokens.load(model.state_dict(), version, in_flight=True)

    def folder(self, name: str, version: str) -> Path:
        """Returns the folder of a version of a shared policy."""
        address = self._config.policies[name].removeprefix(_LOCAL).partition("?")[0]
        return Path(address.replace(VERSION, version))

    async def _check_reply(self, name: str, version: str) -> str | None:
        """Asks the engine for one token. Raises `ProviderError` if that is of another version."""
        backend = open_backend(self._config.policies[name].replace(VERSION, version), self._settings)
        try:
            if not isinstance(backend, RenderedBackend):
                return f"policy {name!r} gives no tokens: which weights answer is not known"
            prompt = backend.renderer.stop_ids[:1]
            reply = await backend.tokens.generate(list(prompt) or [0], {"max_tokens": 1, "temperature": 1.0})
        finally:
            await backend.close()
        named = reply.weight_spans[-1].version if reply.weight_spans else reply.weight_version
        if named is None:
            return f"the replies of policy {name!r} name no version of their weights: whether they moved is not known"
        if named != version:
            raise ProviderError(
                f"policy {name!r} answers with weights {named}, not {version}: load them, and name them so, before you "
                "post the version",
                retryable=False,
            )
        return None

    async def close(self) -> None:
        """Closes the engines. Idempotent."""
        engines, self._open = self._open, {}
        for engine in engines.values():
            await engine.close()


async def _run_hook(command: str, name: str, version: str) -> None:
    """Runs the operator's command. Raises `ProviderError` if it fails or takes too long.

    Its errors go to a file, not a pipe: a program that it leaves running, such as an engine, may hold them open.
    """
    try:
        with boundary(ProviderError, f"the weight hook of policy {name!r}"), tempfile.TemporaryFile() as errors:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(command),
                name,
                version,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )
            try:
                async with asyncio.timeout(HOOK_PATIENCE_S):
                    await process.wait()
            except BaseException:
                process.kill()
                await process.wait()
                raise
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - MAX_HOOK_ERRORS))
            said = errors.read(MAX_HOOK_ERRORS)
    except AssayError:
        _log.warning("the weight hook of policy %s failed", name)
        raise
    if process.returncode != 0:
        _log.warning("the weight hook of policy %s exited with %s: %s", name, process.returncode, said)
        raise ProviderError(f"the weight hook of policy {name!r} exited with code {process.returncode}")
