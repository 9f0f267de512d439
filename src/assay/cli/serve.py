"""`assay serve`: rollouts for trainers, over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from assay.learning.service.service_config import RolloutServiceConfig

from .options import takes_config
from .output import console, emit_json
from .shared import JsonOption, StoreOption, settings_with

if TYPE_CHECKING:
    from assay.learning.service import ServiceAddress


@takes_config(RolloutServiceConfig, arguments=())
def serve(config: RolloutServiceConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Serves rollouts to trainers: takes batches of tasks, runs a policy on them, returns verified training rows.

    Clients authenticate with the token in a private file beside the store, and can use only what the options list.
    Ctrl-C stops the service; a restart resumes its work, also after a crash.

    Examples:

      assay serve --policy actor=local:/weights/{version} --family grid

      assay serve --policy actor=vllm:http://127.0.0.1:8000#m?tokenizer=/models/m --family grid --port 8700

      assay serve --policy actor=local:weights --task-folder tasks --agent loop --token-file token
    """
    settings = settings_with(store)

    async def serve_until_signalled() -> None:
        import signal

        from assay.learning.service import serve_rollouts

        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        waiting = ended.wait()
        try:
            await serve_rollouts(config, settings, lambda served: _show(served, as_json=as_json), waiting)
        finally:
            waiting.close()  # Python warns of a coroutine that was never awaited, as after a failed start

    asyncio.run(serve_until_signalled())


def _show(served: ServiceAddress, *, as_json: bool) -> None:
    import sys

    if as_json:
        emit_json({"url": served.url, "token_file": str(served.token_file)})
    else:
        console().print(f"url   {served.url}\ntoken in {served.token_file}; Ctrl-C ends it", soft_wrap=True)
    sys.stdout.flush()
