"""Tables in files: columns of numbers, refused by name and line where they are not."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from .ending import choose_from, no_file

MISSING = ("", "na", "nan", "n/a", "null", "none", "?")
SEPARATORS = (",", ";", "\t")


@dataclass(frozen=True, eq=False)
class Columns:
    """A file's columns by name.

    Attributes:
      path: of the file.
      columns: one value a row each.
      arrays: the file has arrays of any shape, .npz, and not the columns of a table.
    """

    path: Path
    columns: Mapping[str, np.ndarray]
    arrays: bool = False

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise ValueError(f"{self.path} has no column {name}. {choose_from(name, self.names)}")
        return self.columns[name]

    def words(self, name: str) -> np.ndarray:
        """A column as text; refused where it is empty."""
        values = np.asarray(self[name]).astype(str)
        for row in np.flatnonzero(np.char.strip(values) == "")[:1]:
            raise ValueError(f"{self.path}, {self._line(row)}: {name} is empty. Fill it in, or drop the row.")
        return values

    def numbers(self, name: str) -> np.ndarray:
        """A column as real numbers; refused where one is missing or is none."""
        values = np.array([self._number(name, row, value) for row, value in enumerate(self[name].tolist())])
        missing = np.flatnonzero(np.isnan(values))
        if len(missing):
            raise ValueError(
                f"{self.path}: {name} is missing (NaN) in {len(missing)} of {len(values)} rows, the first is "
                f"{self._line(missing[0])}. Drop or impute them, or leave {name} out."
            )
        return values

    def _number(self, name: str, row: int, value: Any) -> float:
        if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
            return math.nan
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{self.path}, {self._line(row)}: {name} is {value!r}, and a number is needed. Correct it, or leave "
                f"{name} out."
            ) from None

    def _line(self, row: int) -> str:
        return f"line {row + 2}" if self.path.suffix == ".csv" else f"row {row}"


def read_columns(path: Path) -> Columns:
    """The columns of a .csv, .parquet or .npz file."""
    if path.suffix not in READERS:
        raise ValueError(f"{path}: {path.suffix or 'no'} files are not read; {', '.join(READERS)} are. Use a loader.")
    if not path.is_file():
        raise no_file(path)
    try:
        columns = READERS[path.suffix](path)
    except (ValueError, OSError, BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not columns or not all(len(np.atleast_1d(values)) for values in columns.values()):
        raise ValueError(f"{path} has no rows.")
    return Columns(path, columns, arrays=path.suffix == ".npz")


def _csv(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        header = file.readline()
        file.seek(0)
        lines = list(csv.reader(file, delimiter=max(SEPARATORS, key=header.count)))
    while lines and not lines[-1]:
        lines.pop()
    names = [name.strip() for name in lines[0]] if lines else []
    for number, line in enumerate(lines, start=1):
        if len(line) != len(names):
            raise ValueError(f"line {number} has {len(line)} values, and the first line names {len(names)}.")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two columns are called {name!r}. Rename one.")
    return {name: np.array([line[k] for line in lines[1:]], dtype=object) for k, name in enumerate(names)}


def _parquet(path: Path) -> dict[str, np.ndarray]:
    try:
        from pyarrow.parquet import read_table  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "reading .parquet needs pyarrow, which is not installed: pip install pyarrow"
        ) from None
    table = read_table(path)
    return {name: np.array(table.column(name).to_pylist(), dtype=object) for name in table.column_names}


def _npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


READERS = {".csv": _csv, ".parquet": _parquet, ".npz": _npz}
