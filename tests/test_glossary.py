"""docs/glossary.md: every file and every name that it gives is there, and no word twice."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import consilience

PACKAGE = Path(consilience.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs" / "glossary.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "means" not in line]
TREES = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
NODES = [node for tree in TREES for node in ast.walk(tree)]
NAMES = {node.name for node in NODES if isinstance(node, ast.FunctionDef | ast.ClassDef)}
NAMES |= {node.id for node in NODES if isinstance(node, ast.Name)}
NAMES |= {node.value for node in NODES if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_names_and_files_are_there(row):
    _, meaning, where = row
    assert meaning
    for name in re.findall(r"`([^`]+)`", " ".join(row)):
        is_file = "/" in name or name.endswith(".py")
        assert (PACKAGE / name).exists() if is_file else name in NAMES, name
    assert "`" in where


def test_every_word_has_one_line():
    words = Counter(word for row in ROWS for word in row[0].split(", "))
    assert len(ROWS) > 40
    assert [word for word, times in words.items() if times > 1] == []
