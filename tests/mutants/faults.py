"""The list of planted faults, `faults.toml`, read and checked."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("faults.toml")
PACKAGE = "src/consilience"


@dataclass(frozen=True)
class Fault:
    """A line of the package that is changed for the worse.

    Attributes:
      name: short, and no other fault's.
      area: what it belongs to: samplers, store, ...
      file: below src/consilience.
      old, new: a piece of one line that occurs once in the file, and what stands in its place.
      breaks: what a user would have to suffer from it.
      tests: whose behaviour that is: files, or pytest's node ids without parameters, below tests/.
      keyword: pytest's -k, where a few of their cases are enough.
    """

    name: str
    area: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    keyword: str = ""


def read_faults(path: Path = LIST) -> list[Fault]:
    """Read the list, in its order."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    return [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in found]


def planted(fault: Fault, root: Path = ROOT) -> str:
    """Return the text of the fault's file with the fault in it; refuse one that cannot be planted."""
    text = (root / PACKAGE / fault.file).read_text(encoding="utf-8")
    if (count := text.count(fault.old)) != 1:
        raise ValueError(f"{fault.name}: the old text occurs {count} times in {fault.file}; it must occur once.")
    if fault.old.split() == fault.new.split() or "\n" in fault.old + fault.new:
        raise ValueError(f"{fault.name}: old and new must be two different pieces of a line.")
    changed = text.replace(fault.old, fault.new)
    ast.parse(changed)
    return changed


def check_tests(fault: Fault, root: Path = ROOT) -> None:
    """Refuse a fault whose tests are not there."""
    for test in fault.tests:
        file, *names = test.split("::")
        body = _body(root / "tests" / file)
        for name in names:
            found = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
            if not found:
                raise ValueError(f"{fault.name}: there is no {name} in tests/{file}.")
            body = found[0].body


@cache
def _body(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body
