"""Which acts a message asks for: requests in the imperative, of necessity or as questions, understood by cue words.

Each sentence is read by itself. A cue does not ask for an act where it is negated ("do not turn it off"), where the
speaker is who acts ("I will turn it off", "shall I ..."), or where a question is about the act ("did you turn it off?",
"do I need to ..."). A cue inside of a longer cue of another act is a part of that one's words.

Not covered: a negation in another clause ("turn it off? No."), irony, and reported speech.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]*")
_ADVERBS: Final = r"(?: (?:already|also|ever|first|just|now|please|really|then))*"
_NEGATED: Final = re.compile(
    r"(?:\b(?:not|never|cannot|dont|without|instead of|rather than|no need to)\b|n't\b)"
    r"(?! (?:forget|hesitate|only)\b)(?:,[^,]*,)?[^,;:]*$"
)
"""Negation in the same clause, before the cue."""
_SPEAKER_ACTS: Final = re.compile(
    r"\b(?:(?:i|we)(?:'ll|'m|'ve|'d| will| am| are| have| had| can| could| would| shall| should| just| already| now)"
    r"|(?:shall|should|may|can|could|do|did) (?:i|we)|let me)\b(?!.*\byou\b)"
)
_FOR_SPEAKER: Final = re.compile(rf"\b(?:me|us) to{_ADVERBS}\s*$")
_ABOUT_ACT: Final = re.compile(
    r"\b(?:do|did|does|have|has|had|should|shall|must|may|might|if|when|whether)(?:n't)? (?:i|we|you|they)"
    rf"{_ADVERBS}(?: (?:need|have|want|like|remember|manage) to)?{_ADVERBS}\s*$"
)


class _Mention(NamedTuple):
    """A cue in a sentence."""

    start: int
    end: int
    act: int


def find_requested_acts(cues: Sequence[Sequence[str]], message: str) -> list[int]:
    """Returns the numbers of the acts that a message asks for, in the order in which it names them.

    Args:
        cues: Words of a request for each act; any of them suffices.
        message: What is said to the person.
    """
    wanted = [[cue.lower() for cue in words] for words in cues]
    found: dict[int, None] = {}
    for sentence in SENTENCE.findall(message.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")):
        mentions = sorted(_mentions(wanted, sentence))
        found |= dict.fromkeys(
            one.act for one in mentions if not _is_part(one, mentions) and _is_request(sentence[: one.start])
        )
    return list(found)


def _mentions(cues: Sequence[Sequence[str]], sentence: str) -> Iterator[_Mention]:
    for act, words in enumerate(cues):
        # Most cues occur nowhere; as patterns, those of a large script would overflow the cache of `re`.
        for cue in (cue for cue in words if cue in sentence):
            for place in re.finditer(rf"(?<!\w){re.escape(cue)}s?(?!\w)", sentence):
                yield _Mention(place.start(), place.end(), act)


def _is_part(one: _Mention, mentions: Sequence[_Mention]) -> bool:
    """Returns whether the words are inside of longer ones of another act."""
    length = one.end - one.start
    return any(
        other.act != one.act and other.start <= one.start and one.end <= other.end and other.end - other.start > length
        for other in mentions
    )


def _is_request(before: str) -> bool:
    """Returns whether a cue after these words of a sentence asks for its act."""
    refused = (_NEGATED, _SPEAKER_ACTS, _FOR_SPEAKER, _ABOUT_ACT)
    return not any(pattern.search(before) for pattern in refused)
