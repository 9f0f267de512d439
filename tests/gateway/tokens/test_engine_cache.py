"""What the built-in engine keeps between calls changes how much it reads, and nothing of what it says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ProviderError
from assay.gateway.backends._kv_cache import PrefixKVCache

PROMPT = list(range(40, 90))


def far(one: Any, other: Any) -> float:
    return float(max(abs(a - b) for a, b in zip(one, other, strict=True)))


async def test_a_conversation_that_goes_on_is_read_from_where_it_ended(engine: Any) -> None:
    first = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})
    again = [*PROMPT, *first.token_ids, 7, 8, 9]
    second = await engine.generate(again, {"seed": 2, "max_tokens": 6})
    assert (first.cached_tokens, second.cached_tokens) == (0, len(PROMPT) + 5)
    assert far(engine.score(again, second.token_ids, {}), second.logprobs) < 1e-4


async def test_requests_that_begin_alike_read_their_beginning_once(engine: Any) -> None:
    replies = await asyncio.gather(*(engine.generate(PROMPT, {"seed": i, "max_tokens": 8}) for i in range(6)))
    assert sorted(reply.cached_tokens for reply in replies) == [0, *[len(PROMPT) - 1] * 5]
    for reply in replies:
        assert far(engine.score(PROMPT, reply.token_ids, {}), reply.logprobs) < 1e-4
    other = await engine.generate([*PROMPT[:20], 3, 4], {"max_tokens": 2})
    assert other.cached_tokens == 20


@pytest.mark.long
async def test_in_double_precision_company_and_history_change_no_token_and_no_number(tiny_folder: Path) -> None:
    from assay.gateway.backends.local import open_local

    prompts = [[*PROMPT[: 5 * (i % 4)], *range(i, 20 + 3 * i), *PROMPT] for i in range(24)]

    async def sample_all(together: int, order: int) -> list[Any]:
        backend = open_local(tiny_folder, "local:tiny", device="cpu", dtype="float64")
        found: dict[int, Any] = {}
        numbers = list(range(len(prompts)))[::order]
        for begin in range(0, len(numbers), together):
            batch = numbers[begin : begin + together]
            sampling = {"max_tokens": 12, "temperature": 1.0}
            replies = await asyncio.gather(*(backend.generate(prompts[i], {**sampling, "seed": i}) for i in batch))
            found |= {i: (reply.token_ids, reply.logprobs) for i, reply in zip(batch, replies, strict=True)}
        await backend.close()
        return [found[i] for i in range(len(prompts))]

    alone = await sample_all(1, 1)
    assert await sample_all(24, 1) == alone
    assert await sample_all(7, -1) == alone


async def test_conversations_branch_without_disturbing_each_other(engine: Any) -> None:
    first = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})
    whole = [*PROMPT, *first.token_ids]
    prompts = [[*whole, 5, 6], [*whole[:-3], 9], [*whole, 5, 6, 7, 8]]
    replies = await asyncio.gather(*(engine.generate(p, {"seed": 4, "max_tokens": 9}) for p in prompts))
    for prompt, reply in zip(prompts, replies, strict=True):
        assert reply.cached_tokens >= len(whole) - 3
        assert far(engine.score(prompt, reply.token_ids, {}), reply.logprobs) < 1e-4


async def test_other_weights_come_between_answers_with_their_version(engine: Any) -> None:
    before = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})
    state = engine._model.state_dict()
    under_way = asyncio.create_task(engine.generate(PROMPT, {"seed": 1, "max_tokens": 40}))
    await asyncio.sleep(0.02)
    await engine.load({name: tensor * 0.5 for name, tensor in state.items()}, "halved")
    after = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})
    assert (await under_way).weight_version == before.weight_version
    assert (after.weight_version, after.cached_tokens) == ("halved", 0)
    assert far(engine.score(PROMPT, after.token_ids, {}), after.logprobs) < 1e-4
    with pytest.raises(ProviderError, match="weights"):
        await engine.load({"nothing": next(iter(state.values()))}, "broken")


async def test_weights_of_which_one_does_not_fit_change_none(engine: Any) -> None:
    before = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})
    other = {name: tensor + 1 for name, tensor in engine._model.state_dict().items()}
    last = max(other)
    with pytest.raises(ProviderError, match="1 tensors do not fit"):
        await engine.load({**other, last: other[last][:1]}, "broken")
    after = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})
    assert (after.weight_version, after.token_ids) == (before.weight_version, before.token_ids)
    assert far(after.logprobs, before.logprobs) < 1e-4


@pytest.mark.long
async def test_weights_replaced_in_flight_sample_the_rest_and_the_reply_says_from_where(engine: Any) -> None:
    alone = await engine.generate(PROMPT, {"seed": 1, "max_tokens": 40})
    state = {name: tensor.clone() for name, tensor in engine._model.state_dict().items()}
    sampled: list[int] = []
    begun = asyncio.Event()

    async def note(tokens: Any) -> None:
        sampled.extend(tokens)
        if len(sampled) >= 5:
            begun.set()

    under_way = asyncio.create_task(engine.generate(PROMPT, {"seed": 1, "max_tokens": 400}, on_tokens=note))
    await begun.wait()
    await engine.load({name: tensor * 0.5 for name, tensor in state.items()}, "halved", in_flight=True)
    reply = await under_way
    first, second = reply.weight_spans
    assert (reply.weight_version, first.version, second.version) == (
        alone.weight_version,
        alone.weight_version,
        "halved",
    )
    assert 5 <= first.end < second.end == len(reply.token_ids) == 400
    shared = min(first.end, 40)
    assert reply.token_ids[:shared] == alone.token_ids[:shared]
    head, tail = reply.token_ids[: first.end], reply.token_ids[first.end :]
    assert far(engine.score([*PROMPT, *head], tail, {}), reply.logprobs[first.end :]) < 1e-4
    await engine.load(state, "as before", in_flight=True)
    assert far(engine.score(PROMPT, head, {}), reply.logprobs[: first.end]) < 1e-4
    assert (await engine.generate(PROMPT, {"seed": 1, "max_tokens": 6})).weight_spans == ()


async def test_a_small_cache_drops_the_oldest_and_a_long_prompt_is_read_in_pieces(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.gateway.backends import _engine
    from assay.gateway.backends.local import open_local

    monkeypatch.setattr(_engine, "_MASK_CELLS", 2000)
    backend = open_local(tiny_folder, "local:tiny", device="cpu")
    backend._engine._pool = PrefixKVCache(200 * 512)
    prompts = [[i, *PROMPT, *PROMPT, *PROMPT] for i in range(1, 5)]
    for prompt in prompts:
        reply = await backend.generate(prompt, {"seed": 1, "max_tokens": 3})
        assert far(backend.score(prompt, reply.token_ids, {}), reply.logprobs) < 1e-4
    held = backend._engine._pool.used_slots
    assert (await backend.generate(prompts[0], {"max_tokens": 1})).cached_tokens == 0
    await backend.close()
    assert held < 2 * len(prompts[0])


def test_places_are_given_back_when_nobody_holds_them() -> None:
    pool = PrefixKVCache(1 << 20)
    one = pool.begin(PROMPT)
    pool.allocate(one, len(PROMPT))
    pool.finish(one)
    two = pool.begin([*PROMPT, 1, 2])
    assert two.slots.tolist() == one.slots.tolist()
    pool.clear()
    assert pool.used_slots == len(PROMPT)
    pool.release(two)
    assert (pool.used_slots, pool.begin(PROMPT).slots.tolist()) == (0, [])
