"""Data frames as data: a dict of columns, or a table in a dict; splits keep their columns' names."""

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience._refused import Refused
from consilience.model import as_batch, check_shards

FRAME = pd.DataFrame({"age": np.linspace(20, 80, 12), "smokes": np.arange(12) % 2 == 0, "ill": np.arange(12) % 3})


def test_a_frame_is_a_dict_of_its_columns_each_of_its_own_type():
    batch = as_batch("data", FRAME)
    assert {name: column.dtype.kind for name, column in batch.items()} == {"age": "f", "smokes": "b", "ill": "i"}
    np.testing.assert_array_equal(batch["age"], FRAME["age"])


def test_a_frame_in_a_dict_is_a_table():
    (shard,) = check_shards([{"x": FRAME[["age", "smokes"]], "y": FRAME["ill"]}], 1)
    assert shard["x"].shape == (12, 2)
    assert shard["x"].dtype == np.float64
    np.testing.assert_array_equal(shard["y"], FRAME["ill"])


@pytest.mark.parametrize("options", [{}, {"by": "label", "label": "ill"}, {"by": [range(5), range(5, 12)]}], ids=str)
def test_a_split_of_a_frame_keeps_its_names_and_rows(options):
    parts = cs.shard(FRAME, 2, **options)
    assert all(list(part.columns) == ["age", "smokes", "ill"] for part in parts)
    pd.testing.assert_frame_equal(pd.concat(parts).sort_index(), FRAME)
    tables = cs.shard({"x": FRAME[["age"]], "y": FRAME["ill"]}, 2)
    assert [list(part["x"].columns) for part in tables] == [["age"], ["age"]]


def test_columns_of_text_or_of_one_name_are_refused():
    with pytest.raises(Refused, match=r"agent 0: name has dtype"):
        check_shards([FRAME.assign(name="a")], 1)
    twice = FRAME.rename(columns={"ill": "age"})
    with pytest.raises(Refused, match=r"data: two columns of the frame are called 'age'\. Rename one"):
        cs.shard(twice, 2)


class PolarsLike:
    """What a polars frame has and a pandas frame has not: rows by index, no `iloc`."""

    def __init__(self, columns):
        self._columns = columns

    columns = property(lambda self: list(self._columns))
    shape = property(lambda self: (len(self), len(self._columns)))
    ndim = 2

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def to_numpy(self):
        return np.stack([*self._columns.values()], axis=1)

    def __getitem__(self, key):
        if isinstance(key, str):
            return pd.Series(self._columns[key])
        return PolarsLike({name: values[key] for name, values in self._columns.items()})


def test_frames_of_other_libraries_are_frames():
    parts = cs.shard({"x": PolarsLike({"a": np.arange(6.0), "b": np.ones(6)})}, 2)
    assert all(part["x"].columns == ["a", "b"] for part in parts)
    assert check_shards(parts, 2)[0]["x"].shape == (3, 2)
