"""Read TOML: a file's tables, and single values from the command line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from .ending import no_file


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file; refuse what is not TOML with the line at fault."""
    if not path.is_file():
        raise no_file(path, ".toml")
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8: save it as such.") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(_at_fault(path, text, str(error))) from None


def apply_change(tables: dict[str, Any], change: str) -> None:
    """Set one key of `tables`, written as on the command line: `run.seed=3`.

    The value is TOML; text may go without quotes. `sampler={name = "dula", step_size = 1e-3}` replaces a whole table.
    """
    key, equals, text = change.partition("=")
    place = [part.strip() for part in key.split(".")]
    if not equals or not all(place):
        raise ValueError(f"--set {change}: a key, an equals sign and a value are needed, as in --set run.seed=3.")
    value = _value(change, text.strip())
    inner = tables
    for part in place[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ValueError(f"--set {change}: {part} is not a table.")
    inner[place[-1]] = value


def _value(change: str, text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if text[:1] in ("[", "{", '"', "'", ""):
            raise ValueError(f"--set {change}: {text or 'nothing'} is not a value as TOML writes it.") from None
        return text


def _at_fault(path: Path, text: str, error: str) -> str:
    """Say which line is not TOML, and how it could be written."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", error, re.DOTALL)
    if found is None:
        return f"{path} is not TOML: {error}."
    lines = text.splitlines() or [""]
    number = int(found[2] or len(lines))
    line = lines[number - 1] if number <= len(lines) else ""
    column = int(found[3] or len(line) + 1)
    shown = f"{path}, line {number}: {found[1].lower()}.\n\n    {line}\n    {' ' * (column - 1)}^"
    key, _, value = line.partition("#")[0].partition("=")
    text = value.strip().strip("\"'")
    if text and found[1].startswith("Invalid value"):
        return f'{shown}\nText goes between quotes. Write {key.strip()} = "{text}".'
    return f"{shown}\nA line is key = value or [table]; text goes between quotes."
