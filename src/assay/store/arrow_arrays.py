"""Converts between Python values, numpy and Arrow arrays without `pa.array`, `pa.scalar`, `to_numpy` and `to_pylist`.

The first three import pandas where it is installed, which costs a process more CPU than reading 10,000 rows. The last
makes a scalar object of each value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def text_array(texts: Collection[str]) -> Any:
    """Returns an Arrow array of texts."""
    import numpy as np
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum([len(text) for text in encoded], out=ends[1:])
    return pa.Array.from_buffers(pa.string(), len(encoded), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def equals_text(column: Any, text: str) -> Any:
    """Returns a mask of the values of a column that equal a text."""
    import pyarrow.compute as pc

    return pc.equal(column, text_array([text])[0])


def index_array(positions: npt.NDArray[np.integer[Any]]) -> Any:
    """Returns positions as an Arrow array, as `take` needs them."""
    import numpy as np
    import pyarrow as pa

    plain = np.ascontiguousarray(positions, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(plain), [None, pa.py_buffer(plain)])


def integer_values(array: Any) -> npt.NDArray[np.integer[Any]]:
    """Returns the values of an array of integers. Raises `ValueError` if one is null."""
    import numpy as np

    if array.null_count:
        raise ValueError(f"{array.null_count} values are null")
    if not len(array):
        return np.zeros(0, dtype=np.int64)
    kind = np.dtype(str(array.type))
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def true_positions(mask: Any) -> npt.NDArray[np.integer[Any]]:
    """Returns the positions at which a mask is true; null counts as false."""
    import pyarrow.compute as pc

    return integer_values(pc.indices_nonzero(mask))


def byte_values(array: Any, positions: npt.NDArray[np.integer[Any]] | None = None) -> list[bytes]:
    """Returns the values of an array of bytes or texts, or those at some positions, as bytes. Raises `ValueError` if
    one is null."""
    import numpy as np

    if array.null_count and positions is not None:
        array, positions = array.take(index_array(positions)), None
    if array.null_count:
        raise ValueError(f"{array.null_count} values are null")
    if not len(array):
        return []
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    starts, ends = offsets[:-1], offsets[1:]
    if positions is not None:
        starts, ends = starts[positions], ends[positions]
    data = array.buffers()[2]
    plain = b"" if data is None else data.to_pybytes()
    return [plain[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def text_values(array: Any, positions: npt.NDArray[np.integer[Any]] | None = None) -> list[str]:
    """Returns the values as `byte_values`, as texts. Raises `ValueError` if one is null or not UTF-8."""
    return [value.decode() for value in byte_values(array, positions)]


def utf8_values(array: Any, positions: npt.NDArray[np.integer[Any]] | None = None) -> list[bytes]:
    """Returns the values of `text_values` in UTF-8. Raises `ValueError` as it does."""
    values = byte_values(array, positions)
    if not b"".join(values).isascii():
        for value in values:
            value.decode()
    return values
