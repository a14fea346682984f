"""Read data files, .csv, .parquet and .npz: columns of numbers, refused by name and line where they are not."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import numpy as np

from .._refused import Refused
from .._tables import choose_from, no_file

MISSING = ("", "na", "nan", "n/a", "null", "none", "?")
SEPARATORS = (",", ";", "\t")


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a data file, by name.

    Attributes:
      path: path of the file.
      columns: values of each column, one per row.
      lines: number of each row's line in the file, None where it has no lines.
      arrays: whether the file has arrays of any shape, .npz, and not the columns of a table.
    """

    path: Path
    columns: Mapping[str, np.ndarray]
    lines: Sequence[int] | None = None
    arrays: bool = False

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise Refused("", f"{self.path} has no column {name}", choose_from(name, self.names))
        return self.columns[name]

    def words(self, name: str) -> np.ndarray:
        """Return a column as text; refuse empty values."""
        values = np.asarray(self[name]).astype(str)
        for row in np.flatnonzero(np.char.strip(values) == "")[:1]:
            raise Refused(self._line(row), f"{name} is empty", "Fill it in, or drop the row.")
        return values

    def numbers(self, name: str, is_target: bool = False) -> np.ndarray:
        """Return a column as finite numbers; refuse values that are missing or are no numbers."""
        given = self[name].tolist()
        values = np.array([self._number(name, row, value, is_target) for row, value in enumerate(given)])
        missing = np.flatnonzero(np.isnan(values))
        if len(missing):
            fix = "Drop those rows." if is_target else f"Drop or impute them, or leave {name} out."
            where = f"{len(missing)} of {len(values)} rows, the first is {self._row(missing[0])}"
            raise Refused(str(self.path), f"{name} is missing (NaN) in {where}", fix)
        dtype = jax.dtypes.canonicalize_dtype(float)
        with np.errstate(over="ignore"):
            held = np.isfinite(values.astype(dtype))
        for row in np.flatnonzero(~held)[:1]:
            large = np.isfinite(values[row])
            why = f"which {dtype} cannot hold" if large else "and a finite number is needed"
            fix = "Correct it, or write x64 = true in [run]." if large else "Correct it, or drop the row."
            raise Refused(self._line(row), f"{name} is {given[row]}, {why}", fix)
        return values

    def _number(self, name: str, row: int, value: Any, is_target: bool) -> float:
        if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
            return math.nan
        try:
            return float(value)
        except (TypeError, ValueError):
            fix = "Correct it, or number the classes 0, 1, ..." if is_target else f"Correct it, or leave {name} out."
            raise Refused(self._line(row), f"{name} is {value!r}, and a number is needed", fix) from None

    def _row(self, row: int) -> str:
        return f"row {row}" if self.lines is None else f"line {self.lines[row]}"

    def _line(self, row: int) -> str:
        return f"{self.path}, {self._row(row)}"


def read_columns(path: Path) -> Columns:
    """Read the columns of a .csv, .parquet or .npz file."""
    if path.suffix not in READERS:
        reason = f"{path.suffix or 'no'} files are not read; {', '.join(READERS)} are"
        raise Refused(str(path), reason, "Use a loader.")
    if not path.is_file():
        raise no_file(path, path.suffix)
    try:
        found = READERS[path.suffix](path)
    except UnicodeDecodeError:
        raise Refused("", f"{path} is not text in UTF-8", "Save it as UTF-8.") from None
    except Refused as refusal:
        raise refusal.about(f"{path} cannot be read") from None
    except (ValueError, OSError, BadZipFile, csv.Error) as error:
        raise Refused(f"{path} cannot be read", str(error)) from None
    if not found.columns or not all(len(np.atleast_1d(values)) for values in found.columns.values()):
        raise Refused("", f"{path} has no rows")
    return found


def _csv(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8-sig") as file:
        header = next((line for line in file if line.strip()), "")
        file.seek(0)
        reader = csv.reader(file, delimiter=max(SEPARATORS, key=header.count))
        lines = [(reader.line_num, line) for line in reader if len(line) > 1 or "".join(line).strip()]
    names = [name.strip() for name in lines[0][1]] if lines else []
    for number, line in lines:
        if len(line) != len(names):
            raise Refused("", f"line {number} has {len(line)} values, and the first line names {len(names)}")
    for name in names:
        if names.count(name) > 1:
            raise Refused("", f"two columns are called {name!r}", "Rename one.")
    columns = {name: np.array([line[k] for _, line in lines[1:]], dtype=object) for k, name in enumerate(names)}
    return Columns(path, columns, lines=[number for number, _ in lines[1:]])


def _parquet(path: Path) -> Columns:
    try:
        from pyarrow.parquet import read_table  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise Refused("", "it needs pyarrow, which is not installed", "Install it: pip install pyarrow") from None
    table = read_table(path)
    return Columns(path, {name: np.array(table.column(name).to_pylist(), dtype=object) for name in table.column_names})


def _npz(path: Path) -> Columns:
    with np.load(path) as arrays:
        return Columns(path, dict(arrays), arrays=True)


READERS = {".csv": _csv, ".parquet": _parquet, ".npz": _npz}
