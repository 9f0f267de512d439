"""Runs the service; batches that are interrupted resume at the next start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from assay.errors import StoreError
from assay.http.bearer import load_token
from assay.http.server import HttpServer, ServerLimits
from assay.http.tls import server_tls
from assay.rollout.exchange.standalone_gateway import listening
from assay.settings import Settings
from assay.store.database import WriterLock

from .app import RolloutApp
from .config import require_policies
from .ledger import Ledger
from .policies import PolicyBook
from .service_config import RolloutServiceConfig
from .worker import BatchWorker

BOUNDS = ServerLimits(header_s=20.0, body_s=60.0, connections=256)


class ServiceAddress(NamedTuple):
    """URL and token file of the service."""

    url: str
    token_file: Path


async def serve_rollouts(
    config: RolloutServiceConfig,
    settings: Settings,
    on_open: Callable[[ServiceAddress], None],
    until: Awaitable[object],
) -> None:
    """Serves until `until` is done, with files in the store's folder `service`; `on_open` gets the address.

    Raises:
        UserError: The configuration cannot work, or the port is not available; nothing was started.
        StoreError: Another service uses this store, or its files cannot be read or written.
    """
    require_policies(config)
    certificate, key = (None if name is None else Path(name) for name in (config.tls_cert, config.tls_key))
    tls = server_tls(certificate, key, f"--host {config.host}", config.host)
    ledger = Ledger(settings.store / "service")
    token_file = Path(config.token_file) if config.token_file else ledger.folder / "token"
    with _service_lock(ledger.folder), listening(config.port, config.host) as listener:
        policies = PolicyBook(ledger.folder / "policies")
        worker = BatchWorker(config, settings, ledger, policies)
        app = RolloutApp(config, ledger, policies, worker, load_token(token_file))
        async with HttpServer(app, BOUNDS) as server:
            port = listener.getsockname()[1]
            await server.listen(listener, tls)
            host = f"[{config.host}]" if ":" in config.host else config.host
            on_open(ServiceAddress(f"{'http' if tls is None else 'https'}://{host}:{port}", token_file))
            await _run_until(until, worker)


async def _run_until(until: Awaitable[object], worker: BatchWorker) -> None:
    """Runs the worker until `until` is done or the worker fails."""
    working, ending = asyncio.create_task(worker.run()), asyncio.ensure_future(until)
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, ending):
            task.cancel()
        await asyncio.wait({working, ending})
    if not working.cancelled():
        working.result()


@contextlib.contextmanager
def _service_lock(folder: Path) -> Iterator[None]:
    """Locks the store's service; the kernel releases the lock if the process dies."""
    try:
        lock = WriterLock(folder / "lock")
    except StoreError as exc:
        raise StoreError(f"another service uses {folder.parent}: stop it, or serve another store") from exc
    try:
        yield
    finally:
        lock.release()
