"""Built-in engine: a Transformers checkpoint on CPU or GPU that takes token prompts and returns sampled tokens.

For tests, small models and small machines; vLLM or SGLang are faster for large models. Concurrent requests are batched.
A seeded request draws the same random numbers in any batch; the rounding of batched arithmetic remains: about 1e-6 of a
log-probability in float32 (a different token once in some hundred thousand), and 1e-15 with `dtype=float64`, at twice
the arithmetic. Weights are read from safetensors files of one folder: nothing is downloaded or unpickled, and no code
of a checkpoint runs.

Options after the folder, as in `local:PATH?device=cuda&temperature=1`: `device`, `dtype`, `renderer`, `thinking`, and
sampling options that override the client's.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import ProviderError, UserError, boundary
from assay.gateway.interface import TokenReply
from assay.records import WeightSpan

from ._engine import Engine, EngineOptions, GenerationJob
from ._reply import CONTEXT_LENGTH, invalid_request
from ._sampling import SamplingParams, log_probabilities, parse_sampling

_DEFAULT_MAX_TOKENS = 4096
"""Default maximum of new tokens, where the context allows it."""
_SMALL_PARAMETERS = 50_000_000
"""Below this parameter count a second PyTorch thread makes a model slower, especially on a busy machine."""
Event = tuple[list[int], str | None, ProviderError | None]


class LocalBackend:
    """Implements `TokenBackend` on a Transformers causal language model, which is put into evaluation mode.

    Requests with stop texts need `decode`. `weight_version` names the weights in every answer.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        *,
        decode: Callable[[Sequence[int]], str] | None = None,
        weight_version: str | None = None,
        options: EngineOptions | None = None,
    ) -> None:
        self.name = name
        self._model = model.eval()
        self._decode = decode
        self._engine = Engine(model, options, weight_version)
        self._vocabulary = int(model.get_input_embeddings().num_embeddings)
        self._context = int(getattr(model.config, "max_position_embeddings", 0) or 1 << 30)

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stop_ids: Sequence[int] = (),
        on_tokens: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> TokenReply:
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()

        def notify(*event: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(events.put_nowait, event)

        job = self._job(prompt, sampling, stop_ids, notify)
        job.streamed = on_tokens is not None
        self._engine.submit(job)
        try:
            while True:
                tokens, finish, error = await _next_events(events)
                if error is not None:
                    raise error
                if tokens and on_tokens is not None:
                    await on_tokens(tokens)
                if finish is not None:
                    spans = (*job.spans, WeightSpan(job.version or "", len(job.ids))) if job.spans else ()
                    first = spans[0].version if spans else job.version
                    return TokenReply(
                        tuple(job.ids), tuple(job.logprobs), finish, first, spans, cached_tokens=job.shared
                    )
        finally:
            job.cancelled = True

    def score(self, prompt: Sequence[int], completion: Sequence[int], sampling: dict[str, Any]) -> tuple[float, ...]:
        """Computes log-probabilities of `completion` after `prompt` in one pass; blocks."""
        import torch

        params: SamplingParams = parse_sampling(sampling)
        with torch.inference_mode():
            ids = torch.tensor([[*prompt, *completion]], device=self._model.device)
            logits = self._model(input_ids=ids, logits_to_keep=len(completion) + 1).logits[0].cpu()
        return tuple(
            float(log_probabilities(row, params)[token]) for row, token in zip(logits, completion, strict=False)
        )

    async def load(self, weights: Mapping[str, Any], version: str, *, in_flight: bool = False) -> None:
        """Replaces the weights by a `state_dict`'s, copied: running requests finish first, later ones name `version`.

        With `in_flight`, running requests go on under the new weights from their next token; their replies say which
        tokens are of which version.

        Raises:
            ProviderError: They do not fit the model, which keeps its own.
        """
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[None] = loop.create_future()

        def act() -> str:
            shapes, given = _shapes(self._model.state_dict()), _shapes(weights)
            if given != shapes:  # PyTorch would copy those that fit before it raises
                misfits = sorted({name for name, _ in given.items() ^ shapes.items()})
                raise ValueError(f"{len(misfits)} tensors do not fit, such as {misfits[0]}")
            self._model.load_state_dict(weights)
            return version

        def settle(problem: ProviderError | None) -> None:
            if loaded.done():
                return
            if problem is None:
                loaded.set_result(None)
            else:
                loaded.set_exception(problem)

        self._engine.change(act, lambda problem: _call_in_loop(loop, settle, problem), in_flight=in_flight)
        await loaded

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def _job(
        self, prompt: Sequence[int], sampling: dict[str, Any], stop_ids: Sequence[int], notify: Any
    ) -> GenerationJob:
        if not prompt or min(prompt) < 0 or max(prompt) >= self._vocabulary:
            raise invalid_request(f"a prompt is one or more token ids from 0 to {self._vocabulary - 1}")
        room = self._context - len(prompt)
        if room < 1:
            raise invalid_request(
                f"{CONTEXT_LENGTH}: the prompt has {len(prompt)} tokens, and the context {self._context}"
            )
        most = min(room, _integer_option(sampling, "max_tokens", _DEFAULT_MAX_TOKENS, least=1))
        seed = _integer_option(sampling, "seed", secrets.randbits(63)) % (1 << 63)
        job = GenerationJob(prompt, parse_sampling(sampling), seed, most, self._ends(sampling, stop_ids), notify)
        job.steered = list(sampling.get("steered") or ())
        return job

    def _ends(self, sampling: dict[str, Any], stop_ids: Sequence[int]) -> Callable[[Sequence[int]], bool]:
        stops = frozenset(stop_ids)
        given = sampling.get("stop") or ()
        texts = [given] if isinstance(given, str) else [text for text in given if isinstance(text, str) and text]
        if not texts:
            return lambda ids: ids[-1] in stops
        decode = self._decode
        if decode is None:
            raise invalid_request("this model was opened without a tokenizer, so it cannot stop at a text")
        window = 4 + max(len(text.encode()) for text in texts)  # a token is a byte at least

        def ends(ids: Sequence[int]) -> bool:
            return ids[-1] in stops or any(text in decode(ids[-window:]) for text in texts)

        return ends


def open_local(
    folder: Path, name: str, *, device: str = "auto", dtype: str = "auto", version: str | None = None
) -> LocalBackend:
    """Opens a folder with `config.json`, `*.safetensors` and `tokenizer.json`. For a small model on a CPU it limits
    PyTorch to one thread in this process.

    `auto` takes a GPU where there is one, and float32 on CPU, the checkpoint's own type on a GPU. `version` names the
    weights; by default it is their digest.

    Raises:
        UserError: Something is missing or does not load; the message says what.
    """
    from assay.gateway.tokens.library import open_tokenizer

    tokenizer = open_tokenizer(folder)
    model = load_checkpoint(folder, f"--model {name}", device=device, dtype=dtype)
    if is_small_cpu_model(model):
        import torch

        torch.set_num_threads(1)
    version = version or weights_digest(model.state_dict())
    return LocalBackend(model, name, decode=tokenizer.decode, weight_version=version)


def load_checkpoint(folder: Path, name: str, *, device: str = "auto", dtype: str = "auto") -> Any:
    """Loads the Transformers model of a checkpoint folder; `name` identifies the caller in errors. See `open_local`."""
    try:
        import torch
        import transformers
    except ImportError as exc:
        raise UserError(
            f"{name}: the built-in engine needs PyTorch and Transformers ({exc}); install assay[local] (in a clone: "
            "make model)"
        ) from exc
    if not (folder / "config.json").is_file():
        raise UserError(f"{name}: {folder} is not a checkpoint: it has no config.json")
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    dtype = "float32" if dtype == "auto" and device == "cpu" else dtype
    transformers.utils.logging.disable_progress_bar()
    try:
        with boundary(ProviderError, f"{name}: cannot load {folder}"):
            return transformers.AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=dtype
            ).to(device)
    except ProviderError as exc:
        raise UserError(str(exc)) from exc


def _shapes(weights: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}


def is_small_cpu_model(model: Any) -> bool:
    """Returns whether a model is on a CPU and too small to gain from several threads."""
    return bool(model.device.type == "cpu" and model.num_parameters() < _SMALL_PARAMETERS)


def weights_digest(weights: Mapping[str, Any]) -> str:
    """Returns a content digest of weights (a model's `state_dict`)."""
    import blake3
    import torch

    hasher = blake3.blake3(max_threads=blake3.blake3.AUTO)
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        hasher.update(tensor.flatten().view(torch.uint8).numpy().data)
    return f"blake3:{hasher.hexdigest()[:16]}"


def _integer_option(sampling: dict[str, Any], name: str, default: int, *, least: int | None = None) -> int:
    given = sampling.get(name)
    if given is None:
        return default
    usable = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
    if not usable or int(given) != given or (least is not None and given < least):
        raise invalid_request(
            f"{name} must be a whole number{'' if least is None else f' of {least} or more'}, got {given!r}"
        )
    return int(given)


def _call_in_loop(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], problem: ProviderError | None) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, problem)


async def _next_events(events: asyncio.Queue[Event]) -> Event:
    """Returns the next event, merged with those queued behind it."""
    tokens, finish, error = await events.get()
    while finish is None and error is None and not events.empty():
        more, finish, error = events.get_nowait()
        tokens = tokens + more
    return tokens, finish, error
