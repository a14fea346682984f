"""One name, one thing; a function fits on a screen or two."""

import ast
from collections import defaultdict
from pathlib import Path

import consilience

PACKAGE = Path(consilience.__file__).parent
LONGEST = 80  # lines of a function


def nodes(kind):
    """Yield every node of a kind in the source, and the file that it is in."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kind):
                yield path.relative_to(PACKAGE).as_posix(), node


def test_a_class_name_is_one_class_s():
    files = defaultdict(list)
    for file, node in nodes(ast.ClassDef):
        files[node.name].append(file)
    assert {name: where for name, where in files.items() if len(where) > 1} == {}


def test_no_function_is_longer_than_a_reader_s_patience():
    lengths = {f"{file}: {node.name}": node.end_lineno - node.lineno + 1 for file, node in nodes(ast.FunctionDef)}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}
