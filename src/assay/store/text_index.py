"""An index of 4-byte hashes: the row groups of a sealed run's steps that may hold a text.

`search.parquet` lies beside the tables, one row a row group of `steps.parquet`: a bit for every hash of four
consecutive bytes in its texts, ASCII letters in lower case. A group that lacks a bit of the search text cannot hold it;
one that has all of them may, and is read.

Invariants: the index never hides a hit (its bits are computed anew by `audit`); a run without it is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .chain import StoreProblem
from .database import store_errors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .sealed import SealedRun

FILE = "search.parquet"
TEXTS = ("arguments", "errors", "message", "outputs", "reasoning")
"""The columns of `steps` that are searched."""
LOG_BITS = 18
BITS = 1 << LOG_BITS
"""A group: 2 MiB of program output have some 60,000 different runs of four bytes. Of three bytes there are too few:
every block has all those of hexadecimal digits, so that a digest could be anywhere."""
_FACTORS = (2654435761, 40503, 2246822519, 668265263)
_AT_ONCE = 64
_WINDOW = 1 << 20
_BECOME_ASCII = "ki"
"""Letters that one outside of ASCII becomes in lower case (the Kelvin sign, a capital I with a dot)."""


def write_index(sealed: SealedRun, path: Path) -> None:
    """Writes the index of a sealed run's steps. Raises `StoreError` where it cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("group", pa.int64()), ("bits", pa.binary())])
    with store_errors(path), pq.ParquetWriter(path, schema, compression="zstd", write_statistics=False) as writer:
        computed, group = _compute_bits(sealed), 0
        while some := list(islice(computed, _AT_ONCE)):
            writer.write_table(pa.table({"group": range(group, group + len(some)), "bits": some}, schema=schema))
            group += len(some)


def candidate_groups(sealed: SealedRun, text: str, *, ignore_case: bool) -> Sequence[int]:
    """Returns the row groups of `steps` that may hold a text, in order. Raises `StoreError` if the run is damaged."""
    import numpy as np

    count = sealed.group_count("steps")
    required = _required_bits(text, ignore_case=ignore_case)
    path = sealed.folder / FILE
    if not len(required) or not path.is_file():
        return range(count)
    stored = sealed.plain_column(FILE, "bits")
    if len(stored) != count or any(len(bits) != BITS // 8 for bits in stored):
        return range(count)  # it is of another file: `audit` says so
    bits = np.frombuffer(b"".join(stored), np.uint8).reshape(count, BITS // 8)
    has = (bits[:, required >> 3] >> (7 - (required & 7)).astype(np.uint8)) & 1
    return [int(group) for group in np.flatnonzero(has.all(axis=1))]


def check_index(sealed: SealedRun, run: str) -> Iterator[StoreProblem]:
    """Compares the index with the bits that the steps give."""
    if FILE not in sealed.seal.files:
        return
    stored = sealed.plain_column(FILE, "bits")
    if any(one != other for one, other in zip_longest(stored, _compute_bits(sealed))):
        yield StoreProblem(run, None, None, f"sealed/{FILE} differs from the steps, so searches may miss")


def _compute_bits(sealed: SealedRun) -> Iterator[bytes]:
    import numpy as np

    for group in range(sealed.group_count("steps")):
        seen = np.zeros(BITS, np.bool_)
        for data in sealed.texts("steps", group, TEXTS):
            for at in range(0, len(data), _WINDOW):  # the numbers of a text take twenty times its size
                seen[_hash_ngrams(data[at : at + _WINDOW + len(_FACTORS) - 1])] = True
        yield np.packbits(seen).tobytes()


def _hash_ngrams(data: Any) -> npt.NDArray[np.uint32]:
    """Hashes every four consecutive bytes, ASCII letters in lower case."""
    import numpy as np

    lower = np.arange(256, dtype=np.uint32)
    lower[ord("A") : ord("Z") + 1] += 32
    letters = lower[np.frombuffer(data, np.uint8)]
    count = max(0, len(letters) - len(_FACTORS) + 1)
    found = np.zeros(count, np.uint32)
    for at, factor in enumerate(_FACTORS):
        found += letters[at : at + count] * np.uint32(factor)
    return found >> np.uint32(32 - LOG_BITS)


def _required_bits(text: str, *, ignore_case: bool) -> npt.NDArray[np.int64]:
    """Returns the bits that a group must have. Where case is ignored, only those of unambiguous letters."""
    import numpy as np

    data = text.encode()
    if not ignore_case:
        return np.unique(_hash_ngrams(data)).astype(np.int64)
    found = [_hash_ngrams(part.encode()) for part in sure_parts(text)]
    return np.unique(np.concatenate(found)).astype(np.int64)


def sure_parts(text: str) -> list[str]:
    """Returns the parts of a text, in lower case, that only ASCII letters become in lower case; at least one, and it
    may be empty."""
    lower = text.lower()
    sure = [c.isascii() and c not in _BECOME_ASCII for c in lower]
    parts, at = [], 0
    for end, is_sure in enumerate([*sure, False]):
        if not is_sure:
            parts.append(lower[at:end])
            at = end + 1
    return parts


def lower_text(text: str) -> str:
    """Returns a text in lower case, letter by letter as a search of a sealed run does it."""
    if text.isascii():
        return text.lower()
    import pyarrow as pa
    import pyarrow.compute as pc

    return str(pc.utf8_lower(pa.scalar(text)).as_py())
