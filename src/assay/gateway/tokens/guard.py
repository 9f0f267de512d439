"""Keeps text text: what a user, a tool or a client wrote never becomes a special token.

Templates mix their own special tokens with other people's text and encode both in one go. So before a message is
rendered, `Guard.value` puts a mark between all the letters of anything in it that the tokenizer would take for one of
its added tokens, and `GuardedTokenizer.encode` encodes what stands between marks by itself. The mark begins with a
code point that Unicode sets aside for internal use (U+FDD0); one that a text holds itself is kept.

Covered: added tokens of every kind, special or not (`<|im_end|>`, `<tool_call>`, `</think>`), whole or split over the
parts of one content. Not covered: what a model makes of text that merely looks like a tag; renderers that encode text
with something other than the tokenizer they were given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Guard", "GuardedTokenizer"]

_OWN, _KEPT, _MARK = "\ufdd0", "\ufdd0\ufdd1", "\ufdd0\ufdd2"


class Guard:
    """Marks strings in other people's text.

    Args:
        added: The texts of the tokenizer's added tokens.
    """

    def __init__(self, added: Iterable[str]) -> None:
        longest_first = sorted({text for text in added if text}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, [_OWN, *longest_first])))

    def text(self, text: str) -> str:
        """`text` with marks; the same object where it needs none."""
        return self._pattern.sub(_marked, text) if self._pattern.search(text) else text

    def value(self, value: Any) -> Any:
        """A decoded JSON value with every text in it marked, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value


def _marked(found: re.Match[str]) -> str:
    text = found.group()
    return _KEPT if text == _OWN else _MARK + _MARK.join(text) + _MARK


class GuardedTokenizer:
    """A tokenizer as the `renderers` library takes it, over one of the `tokenizers` library.

    Called with `return_offsets_mapping` it also says where in the text each token comes from, marks counted: so the
    library can tell what is a message's body and what is scaffold.
    """

    def __init__(
        self, inner: Tokenizer, name_or_path: str, eos: str | None = None, template: str | None = None
    ) -> None:
        self.name_or_path = name_or_path
        self.chat_template = template
        self.unk_token_id: int | None = None
        self.eos_token = eos
        self.eos_token_id: int | None = inner.token_to_id(eos) if eos is not None else None
        self._inner = inner
        added = inner.get_added_tokens_decoder()
        self.added_ids = frozenset(added)
        self.guard = Guard(token.content for token in added.values())
        self.all_special_tokens = [token.content for token in added.values() if token.special]

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        """Ids of `text`: added tokens stand for themselves, marked text for its letters."""
        if _OWN not in text:
            return list(self._inner.encode(text, add_special_tokens=False).ids)
        found: list[int] = []
        for piece in text.split(_MARK):
            if piece:
                found += self._inner.encode(piece.replace(_KEPT, _OWN), add_special_tokens=False).ids
        return found

    def __call__(self, text: str, *_: Any, **__: Any) -> dict[str, Any]:
        """The ids of `text` as `encode` gives them, and for each the half-open range of characters it stands for."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        begin = 0
        for piece in text.split(_MARK) if _OWN in text else [text]:
            places = _places(piece)
            encoding = self._inner.encode(piece.replace(_KEPT, _OWN), add_special_tokens=False)
            ids += encoding.ids
            offsets += [(begin + places[start], begin + places[end]) for start, end in encoding.offsets]
            begin += len(piece) + len(_MARK)
        return {"input_ids": ids, "offset_mapping": offsets}

    def decode(self, token_ids: int | Sequence[int], *_: Any, **__: Any) -> str:
        """The text of ids, added tokens included."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return str(self._inner.decode(ids, skip_special_tokens=False))

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, or of each of several; None for what is none."""
        if isinstance(tokens, str):
            return self._inner.token_to_id(tokens)
        return [self._inner.token_to_id(token) for token in tokens]


def _places(piece: str) -> Sequence[int]:
    """For each character of a piece that lost its marks, and for its end, where it stands in the piece."""
    if _KEPT not in piece:
        return range(len(piece) + 1)
    found: list[int] = []
    at = 0
    while at < len(piece):
        found.append(at)
        at += len(_KEPT) if piece.startswith(_KEPT, at) else 1
    return [*found, len(piece)]
