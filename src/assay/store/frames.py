"""Results as Arrow tables and data frames."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.errors import MissingLibraryError, OptionError

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARIES = ("pandas", "polars")
"""Data-frame libraries, in order of preference."""


def make_table(columns: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Returns rows as an Arrow table.

    Args:
        columns: Names of the columns, which are distinct.
        types: DuckDB's type of each column; one without a plain Arrow type is inferred from the values.
        rows: Values in the order of `columns`.
    """
    import pyarrow as pa

    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [_column(list(values), kind) for values, kind in zip(cells, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _column(values: list[Any], kind: str) -> Any:
    import pyarrow as pa

    known = _arrow_type(kind)
    if kind.startswith("DECIMAL(") and not kind.endswith("]"):
        known, values = pa.float64(), [None if value is None else float(value) for value in values]
    if known is not None:
        return pa.array(values, type=known)
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):  # values of several types, such as those of a UNION
        return pa.array([None if value is None else str(value) for value in values], type=pa.string())


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    plain = {
        "VARCHAR": pa.string(),
        "BIGINT": pa.int64(),
        "INTEGER": pa.int32(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "BLOB": pa.binary(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
        "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
        "INTERVAL": pa.duration("us"),
        "DATE": pa.date32(),
    }
    if kind.endswith("[]") and kind[:-2] in plain:
        return pa.list_(plain[kind[:-2]])
    return plain.get(kind)


def make_frame(table: pa.Table, library: str | None = None) -> Any:
    """Returns a table as a data frame of pandas, or of polars where pandas is not installed.

    Raises:
        MissingLibraryError: The library, or each of them, is not installed.
        OptionError: `library` is neither `pandas` nor `polars`.
    """
    if library is not None and library not in LIBRARIES:
        raise OptionError(f"no data-frame library is called {library!r}: expected one of {', '.join(LIBRARIES)}")
    for name in (library,) if library else LIBRARIES:
        if importlib.util.find_spec(name) is None:
            continue
        if name == "pandas":
            return table.to_pandas()
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_arrow(table)
    missing = library or " or ".join(LIBRARIES)
    raise MissingLibraryError(f"a data frame needs {missing}: install one of them, or use .arrow()")
