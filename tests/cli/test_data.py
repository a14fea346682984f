"""Columns and arrays as the agents' data."""

import re
import sys

import jax
import numpy as np
import pytest

from consilience._refused import Refused
from consilience.cli.columns import read_columns
from consilience.cli.config import DataTable, SplitTable
from consilience.cli.data import load_data

PATIENTS = "age,bmi,hospital,ill\n" + "".join(f"{50 + k},{20 + k % 5}.5,{'abc'[k % 3]},{k % 2}\n" for k in range(30))


def load(tmp_path, agents=3, split=None, **data):
    (tmp_path / "patients.csv").write_text(data.pop("text", PATIENTS))
    table = {"file": "patients.csv", "target": "ill", "features": ["age", "bmi"]} | data
    return load_data(DataTable(**table), SplitTable(**(split or {})), tmp_path, agents)


def test_columns_become_x_and_y(tmp_path):
    data = load(tmp_path, agents=1)
    (shard,) = data.shards
    assert shard["x"].dtype == np.float32
    assert shard["x"].shape == (30, 2)
    assert shard["x"][0].tolist() == [50, 20.5]
    assert shard["y"].dtype == np.int32
    assert str(data) == "30 rows on 1 agent (30)"


def test_a_target_that_is_not_whole_is_real(tmp_path):
    (shard,) = load(tmp_path, agents=1, target="bmi", features=["age"]).shards
    assert shard["y"].dtype == np.float32


def test_all_other_columns_are_features_unless_named(tmp_path):
    data = load(tmp_path, features=None, agent="hospital")
    assert data.shards[0]["x"].shape == (10, 2)


def test_a_column_says_whose_rows_are(tmp_path):
    data = load(tmp_path, agent="hospital", test_fraction=0.2)
    assert data.owners == ("a", "b", "c")
    assert sum(len(shard["y"]) for shard in data.shards) == 24
    assert len(data.test["y"]) == 6
    assert "a " in str(data)
    assert "6 held out" in str(data)
    ages = [set(((shard["x"][:, 0] - 50) % 3).tolist()) for shard in data.shards]
    assert ages == [{0}, {1}, {2}]


def test_owners_that_are_numbers_are_in_their_order(tmp_path):
    text = "x,who,y\n" + "".join(f"{k},{k % 11},{k % 2}\n" for k in range(33))
    data = load(tmp_path, agents=11, text=text, features=["x"], target="y", agent="who")
    assert data.owners == tuple(str(k) for k in range(11))


def test_features_are_standardized_by_the_rows_that_are_not_held_out(tmp_path):
    data = load(tmp_path, test_fraction=0.3, standardize=True)
    train = np.concatenate([shard["x"] for shard in data.shards])
    assert np.abs(train.mean(axis=0)).max() < 1e-5
    assert train.std(axis=0) == pytest.approx(1, abs=1e-5)
    assert np.abs(data.test["x"].mean(axis=0)).max() > 1e-5
    assert data.test["x"].dtype == np.float32


def test_held_out_rows_may_come_from_a_file(tmp_path):
    (tmp_path / "later.csv").write_text("ill,bmi,age\n1,20,50\n")
    test = load(tmp_path, test="later.csv").test
    assert test["x"].tolist() == [[50, 20]]
    assert test["y"].dtype == np.int32


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_a_byte_order_mark_are_read(tmp_path, separator):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + f"a{separator}b\r\n1{separator}2\r\n\r\n".encode())
    columns = read_columns(path)
    assert columns.names == ["a", "b"]
    assert columns.numbers("a").tolist() == [1]


def test_blank_lines_are_skipped(tmp_path):
    (tmp_path / "a.csv").write_text("\na;b\n1;2\n\n  \n3;4\n")
    assert read_columns(tmp_path / "a.csv").numbers("b").tolist() == [2, 4]


def test_another_encoding_is_refused_with_the_fix(tmp_path):
    (tmp_path / "a.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.csv is not text in UTF-8. Save it as UTF-8\."):
        read_columns(tmp_path / "a.csv")


def test_what_float32_cannot_hold_float64_may(tmp_path):
    with jax.enable_x64(True):
        (shard,) = load(tmp_path, agents=1, text=PATIENTS.replace("52,", "1e60,")).shards
    assert shard["x"][2, 0] == 1e60


def test_whole_numbers_too_large_for_labels_are_real(tmp_path):
    (shard,) = load(tmp_path, agents=1, text="a,y\n1,3000000000\n2,1\n", features=["a"], target="y").shards
    assert shard["y"].tolist() == [3e9, 1]


def test_parquet_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"a": [1.5, None], "who": ["x", "y"], "n": [1, 2]}), tmp_path / "a.parquet")
    columns = read_columns(tmp_path / "a.parquet")
    assert columns.numbers("n").tolist() == [1, 2]
    assert columns.words("who").tolist() == ["x", "y"]
    with pytest.raises(ValueError, match=r"a is missing \(NaN\) in 1 of 2 rows, the first is row 1"):
        columns.numbers("a")


def test_npz_is_read_as_it_is(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((6, 2, 2), np.float32), y=np.arange(6), who=np.arange(6) % 2)
    data = load_data(DataTable(file="a.npz", agent="who"), SplitTable(), tmp_path, 2)
    assert data.owners == ("0", "1")
    assert data.shards[1]["x"].shape == (3, 2, 2)
    assert data.shards[1]["y"].tolist() == [1, 3, 5]


LOADERS = """
import numpy as np

def arrays(n=6):
    return {"x": np.ones((n, 2), np.float32), "y": np.arange(n) % 2}

def parts():
    return {"train": arrays(), "test": arrays(2), "ood": np.zeros((1, 2), np.float32)}

def shards():
    return [arrays(2), arrays(3)]

def counts(missing=False):
    x = np.arange(12).reshape(6, 2)
    return {"train": {"x": np.where(x == 4, np.nan, x) if missing else x, "who": [0, 1] * 3}, "ood": x}
"""


@pytest.fixture
def loaders(tmp_path, monkeypatch):
    (tmp_path / "loaders_of_test_data.py").write_text(LOADERS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "loaders_of_test_data", raising=False)

    def load(name, agents=2, **data):
        table = DataTable(loader=f"loaders_of_test_data:{name}", **data)
        return load_data(table, SplitTable(), tmp_path, agents)

    return load


def test_a_loader_gives_arrays_or_parts_or_shards(loaders):
    assert len(loaders("arrays", arguments={"n": 8}, test_fraction=0.25).test["y"]) == 2
    parts = loaders("parts")
    assert (len(parts.test["y"]), parts.ood.shape) == (2, (1, 2))
    assert [len(shard["y"]) for shard in loaders("shards").shards] == [2, 3]


def test_a_loader_s_counts_are_standardized_with_all_its_parts(loaders):
    data = loaders("counts", agent="who", standardize=True)
    assert data.shards[0].keys() == {"x"}
    assert data.shards[0]["x"].dtype == np.float32
    assert data.ood.mean() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("array", {}, "has no array. Write arrays."),
        ("arrays", {"arguments": {"rows": 3}}, "do not fit loaders_of_test_data:arrays(n=6)"),
        ("parts", {"test_fraction": 0.5}, "gives a test set itself"),
        ("shards", {"standardize": True}, "one shard per agent. Leave standardize out."),
        ("arrays", {"agent": "who"}, "has no 'who'"),
        ("arrays", {"standardize": True}, "feature 0 of x is the same in all rows"),
        ("counts", {"standardize": True, "arguments": {"missing": True}}, "feature 0 of x is nan in row 2"),
    ],
    ids=lambda value: str(value),
)
def test_a_loader_that_does_not_fit_is_refused(loaders, name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        loaders(name, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["agee"]}, "patients.csv has no column agee. Write age."),
        ({"target": "zzz"}, "There are age, bmi, hospital, ill."),
        ({"features": ["hospital"]}, "patients.csv, line 2: hospital is 'a', and a number is needed."),
        ({"text": PATIENTS.replace("52,", ",")}, "age is missing (NaN) in 1 of 30 rows, the first is line 4"),
        ({"text": PATIENTS.replace("52,", "nan,")}, "age is missing (NaN) in 1 of 30 rows"),
        (
            {"text": PATIENTS.replace("52,", "52,1,")},
            "patients.csv cannot be read: line 4 has 5 values, and the first line names 4",
        ),
        (
            {"target": "hospital"},
            "line 2: hospital is 'a', and a number is needed. Correct it, or number the classes 0, 1",
        ),
        ({"text": PATIENTS.replace("52,", "inf,")}, "line 4: age is inf, and a finite number is needed."),
        ({"text": PATIENTS.replace("52,", "1e60,")}, "line 4: age is 1e60, which float32 cannot hold."),
        ({"text": PATIENTS.replace("c,0\n", "c,-inf\n")}, "line 4: ill is -inf, and a finite number is needed."),
        ({"text": PATIENTS.replace("c,0\n", "c,\n")}, "the first is line 4. Drop those rows."),
        ({"text": PATIENTS.replace("52,", "\n\n52,x")}, "line 6: bmi is 'x22.5', and a number is needed."),
        ({"text": "ill\n0\n1\n", "features": None}, "has no columns for features"),
        ({"text": "age,age,ill\n1,2,3\n"}, "two columns are called 'age'"),
        ({"text": "age,bmi,ill\n"}, "has no rows"),
        ({"text": PATIENTS.replace(",b,", ",,"), "agent": "hospital"}, "line 3: hospital is empty"),
        ({"agent": "hospital", "agents": 5}, "names 3 agents (a, b, c), and the network has 5."),
        ({"test_fraction": 0.01}, "of 30 rows, 0 would be held out"),
        ({"file": "patients.xlsx"}, ".xlsx files are not read; .csv, .parquet, .npz are"),
        ({"split": {"by": "labels"}}, "by = 'labels': not one of"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_data_are_refused_by_name_and_line(tmp_path, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(tmp_path, **options)


def test_a_damaged_file_is_refused(tmp_path):
    for name in ("a.npz", "a.parquet"):
        (tmp_path / name).write_bytes(b"no such format")
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            read_columns(tmp_path / name)


def test_a_missing_file_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(Refused, match=r"Did you mean .*patients\.csv"):
        load(tmp_path, file="patient.csv")
