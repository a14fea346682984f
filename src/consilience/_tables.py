"""Tables of users' TOML files: read, changed and checked, and refused with the line to write instead."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ._checks import nearest
from ._lazy import LazyModule
from ._refused import Refused

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = LazyModule("msgspec", "cli")

T = TypeVar("T")

KINDS: dict[Any, tuple[str, str]] = {  # in words, and an example
    str: ("text in quotes", '"..."'),
    int: ("a whole number", "1"),
    float: ("a number", "0.5"),
    bool: ("true or false", "true"),
    list[str]: ("a list of texts", '["...", "..."]'),
    list[int]: ("a list of whole numbers", "[1, 2]"),
    dict[str, Any]: ("a table", "{name = value}"),
}


# --- words and files that are not known ---------------------------------------------------------------------------


def choose_from(word: str, known: Sequence[str]) -> str:
    """Return the fix for an unknown word: the nearest known one, or all of them where none is near."""
    near = nearest(word, known)
    return f"Write {near}." if near else f"There are {', '.join(known)}."


def no_file(path: Path, suffix: str = "") -> Refused:
    """Return the refusal of a path where no file is, with the one that was probably meant."""
    if path.is_dir():
        inside = [str(file) for file in sorted(path.glob(f"*{suffix}")) if file.is_file()]
        fix = choose_from(inside[0] if len(inside) == 1 else "", inside[:8]) if inside else ""
        return Refused(
            "", f"{path} is a folder, and a{suffix and ' ' + suffix} file is needed", fix or "Name the file."
        )
    here = f"You are in {Path.cwd()}."
    if not path.parent.is_dir():
        return Refused("", f"there is no file {path}, nor a folder {path.parent}", here)
    near = nearest(path.name, sorted(file.name for file in path.parent.iterdir()))
    return Refused("", f"there is no file {path}", f"Did you mean {path.parent / near}?" if near else here)


# --- TOML ---------------------------------------------------------------------------------------------------------


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file; refuse what is not TOML with the line at fault."""
    if not path.is_file():
        raise no_file(path, ".toml")
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise Refused("", f"{path} is not text in UTF-8", "Save it as UTF-8.") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(path, text, str(error)) from None


def _not_toml(path: Path, text: str, error: str) -> Refused:
    """Return the refusal of a file that is not TOML: which line is at fault, and how it could be written."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", error, re.DOTALL)
    if found is None:
        return Refused("", f"{path} is not TOML: {error}", "Correct it.")
    lines = text.splitlines() or [""]
    number = int(found[2] or len(lines))
    line = lines[number - 1] if number <= len(lines) else ""
    column = int(found[3] or len(line) + 1)
    key, _, value = line.partition("#")[0].partition("=")
    bare = value.strip().strip("\"'")
    fix = "A line is key = value or [table]; text goes between quotes."
    if bare and found[1].startswith("Invalid value"):
        fix = f'Text goes between quotes. Write {key.strip()} = "{bare}".'
    pointer = f"    {line}\n    {' ' * (column - 1)}^"
    return Refused(f"{path}, line {number}", f"{found[1].lower()}.\n\n{pointer}\n", fix)


def apply_change(tables: dict[str, Any], change: str) -> None:
    """Set one key of `tables`, written as on the command line: `run.seed=3`.

    The value is TOML; text may go without quotes. `sampler={name = "dula", step_size = 1e-3}` replaces a whole table.
    """
    what = f"--set {change}"
    key, equals, text = change.partition("=")
    place = [part.strip() for part in key.split(".")]
    if not equals or not all(place):
        raise Refused(what, "a key, an equals sign and a value are needed", "Write, for example, --set run.seed=3.")
    inner = tables
    for part in place[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise Refused(what, f"{part} is not a table", f"Write --set {part}=VALUE.")
    inner[place[-1]] = _value(what, text.strip())


def _value(what: str, text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if text[:1] in ("[", "{", '"', "'", ""):
            reason = f"{text or 'nothing'} is not a value as TOML writes it"
            raise Refused(what, reason, 'Write a number, true, "text", [1, 2] or {key = 1}.') from None
        return text


# --- tables as dataclasses ----------------------------------------------------------------------------------------


def check_tables(tables: Mapping[str, Any], forms: Mapping[str, Any], free: Sequence[str]) -> None:
    """Refuse values that are no tables, and tables neither in `forms` nor in `free`, which may have any keys."""
    known = [*forms, *free, "folder"]
    for name, table in tables.items():
        if name not in known:
            homes = [home for home, form in forms.items() if name in keys_of(form)]
            fix = f"It belongs into [{homes[0]}]." if homes else choose_from(name, known)
            called = f"table [{name}]" if isinstance(table, dict) else f"key {name}"
            raise Refused("", f"there is no {called}", fix)
        if name == "folder":
            if not isinstance(table, str):
                raise Refused(f"folder = {shown(table)}", "text in quotes is needed", f'Write folder = "{table}".')
        elif not isinstance(table, dict):
            raise Refused(f"{name} = {shown(table)}", "a table is needed", f"Write [{name}] on a line of its own.")


def table_of(name: str, form: type[T], values: Mapping[str, Any]) -> T:
    """Return one table as its dataclass `form`; refuse unknown keys, missing ones, and values of the wrong kind.

    Where an annotation has a `msgspec.Meta`, its `description` is the reason to refuse a value that is of the right
    kind, but not allowed, and its `examples` have one that could be written.
    """
    for key in values:
        if key not in keys_of(form):
            raise Refused("", f"[{name}] has no key {key}", choose_from(key, keys_of(form)))
    try:
        return msgspec.convert(values, form)
    except msgspec.ValidationError as error:
        raise _not_this_form(name, form, values, str(error)) from None


def _not_this_form(name: str, form: Any, values: Mapping[str, Any], error: str) -> Refused:
    """Translate an error of msgspec's, such as "Expected `int`, got `str` - at `$.seed`"."""
    hints = get_type_hints(form, include_extras=True)
    place = re.search(r" - at `\$\.(\w+)", error)
    if place is None:
        (key,) = re.findall(r"missing required field `(\w+)`", error)
        return Refused("", f"[{name}] needs {key}", f"Write, for example, {key} = {_example(form, key, hints[key])}.")
    key, value = place[1], values[place[1]]
    kind, meta = _kind_and_meta(hints[key])
    fix = f"Write {key} = {_example(form, key, hints[key])}."
    if get_origin(kind) is Literal:
        kind, choices = str, get_args(kind)
        if isinstance(value, str):
            return not_one_of(f"[{name}] {key}", value, choices)
    if "got `" not in error:
        span = f"of at least {meta.ge}" if meta.le is None else f"from {meta.ge} to {meta.le}"
        return Refused(
            f"[{name}] {key} = {shown(value)}", meta.description or f"{KINDS[kind][0]} {span} is needed", fix
        )
    if kind is str and isinstance(value, int | float):
        fix = f'Write {key} = "{value}".'
    return Refused(f"[{name}] {key} = {shown(value)}", f"{KINDS[kind][0]} is needed", fix)


def not_one_of(what: str, value: str, choices: Sequence[str]) -> Refused:
    """Return the refusal of a word that is none of the choices."""
    return Refused(f'{what} = "{value}"', f"one of {', '.join(choices)} is needed", choose_from(value, choices))


def _kind_and_meta(hint: Any) -> tuple[Any, Any]:
    """Return the kind of value that an annotation asks for, and what its `msgspec.Meta` adds."""
    if get_origin(hint) in (Union, UnionType):  # with None
        hint = get_args(hint)[0]
    return (get_args(hint)[0], get_args(hint)[1]) if get_origin(hint) is Annotated else (hint, msgspec.Meta())


def _example(form: Any, key: str, hint: Any) -> str:
    """Return a value that a key could have: the example of its annotation, its default, or one of its kind."""
    kind, meta = _kind_and_meta(hint)
    if meta.examples:
        return shown(meta.examples[0])
    default = next(known.default for known in fields(form) if known.name == key)
    return KINDS[kind][1] if default in (None, MISSING) else shown(default)


def keys_of(form: Any) -> list[str]:
    """Return the names of a table's keys."""
    return [known.name for known in fields(form)]


def shown(value: Any) -> str:
    """Return a value as text, as the file has it."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
