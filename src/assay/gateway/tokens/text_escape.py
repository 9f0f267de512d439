"""Escapes untrusted text, so that user, tool and client text never becomes a special token.

Templates mix their own special tokens with untrusted text and encode both together. Before a message is rendered,
`TextEscape.value` puts a mark between all letters of any substring that the tokenizer would take for an added token,
and `EscapingTokenizer.encode` encodes the text between marks separately. The mark begins with U+FDD0, a code point
reserved for internal use; one in the text itself is preserved.

Covered: added tokens of every kind, special or not (`<|im_end|>`, `<tool_call>`, `</think>`), whole or split over the
parts of one content.

Not covered: a model's reaction to text that looks like a tag; renderers that do not use the given tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ESCAPE, _LITERAL, _MARK = "\ufdd0", "\ufdd0\ufdd1", "\ufdd0\ufdd2"


class TextEscape:
    """Escapes added tokens in untrusted text."""

    def __init__(self, added: Iterable[str]) -> None:
        longest_first = sorted({text for text in added if text}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, [_ESCAPE, *longest_first])))

    def text(self, text: str) -> str:
        """Returns the escaped text; the same object if nothing needs escaping."""
        return self._pattern.sub(_escape_match, text) if self._pattern.search(text) else text

    def value(self, value: Any) -> Any:
        """Escapes all strings of a decoded JSON value, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value


def _escape_match(found: re.Match[str]) -> str:
    text = found.group()
    return _LITERAL if text == _ESCAPE else _MARK + _MARK.join(text) + _MARK


class EscapingTokenizer:
    """Adapts a `tokenizers` tokenizer to the interface of the `renderers` library.

    With `return_offsets_mapping` it reports each token's source range, marks included, so that the library can tell
    message bodies from scaffolding.
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
        self.guard = TextEscape(token.content for token in added.values())
        self.all_special_tokens = [token.content for token in added.values() if token.special]

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        """Encodes text: added tokens map to themselves, escaped text to ordinary tokens."""
        if _ESCAPE not in text:
            return list(self._inner.encode(text, add_special_tokens=False).ids)
        found: list[int] = []
        for piece in text.split(_MARK):
            if piece:
                found += self._inner.encode(piece.replace(_LITERAL, _ESCAPE), add_special_tokens=False).ids
        return found

    def __call__(self, text: str, *_: Any, **__: Any) -> dict[str, Any]:
        """Encodes `text` and returns each token's half-open source range."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        begin = 0
        for piece in text.split(_MARK) if _ESCAPE in text else [text]:
            places = _source_offsets(piece)
            encoding = self._inner.encode(piece.replace(_LITERAL, _ESCAPE), add_special_tokens=False)
            ids += encoding.ids
            offsets += [(begin + places[start], begin + places[end]) for start, end in encoding.offsets]
            begin += len(piece) + len(_MARK)
        return {"input_ids": ids, "offset_mapping": offsets}

    def decode(self, token_ids: int | Sequence[int], *_: Any, **__: Any) -> str:
        """Decodes ids, added tokens included."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return str(self._inner.decode(ids, skip_special_tokens=False))

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Returns the id of a token, or of each of several; None if unknown."""
        if isinstance(tokens, str):
            return self._inner.token_to_id(tokens)
        return [self._inner.token_to_id(token) for token in tokens]


def _source_offsets(piece: str) -> Sequence[int]:
    """Returns the source offset of each character of an unescaped piece, and of its end."""
    if _LITERAL not in piece:
        return range(len(piece) + 1)
    found: list[int] = []
    at = 0
    while at < len(piece):
        found.append(at)
        at += len(_LITERAL) if piece.startswith(_LITERAL, at) else 1
    return [*found, len(piece)]
