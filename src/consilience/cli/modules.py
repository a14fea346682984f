"""Import the user's functions, which a configuration file names as "module:name"."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from .._checks import nearest
from .._refused import Refused
from .._tables import choose_from


def named(key: str, reference: str, folder: Path) -> Any:
    """Import what `reference`, "module:name", stands for, from a module in `folder` or from an installed one.

    Args:
      key: key of the file that has the reference, such as "[model] posterior", for messages.
    """
    module_name, colon, name = reference.partition(":")
    module_name = module_name.removesuffix(".py")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        fix = f'Write "my_model:{key.split()[-1]}".'
        raise Refused(f'{key} = "{reference}"', "a module and a name in it are needed", fix)
    module = _module(key, module_name, folder)
    if not hasattr(module, name):
        public = [other for other in vars(module) if not other.startswith("_")]
        raise Refused(f'{key} = "{reference}"', f"{module.__file__} has no {name}", choose_from(name, public))
    return getattr(module, name)


def call(key: str, reference: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return `function(**arguments)`; refuse arguments that do not fit."""
    signature = inspect.signature(function)
    try:
        signature.bind(**arguments)
    except TypeError as misfit:
        unknown = [name for name in arguments if name not in signature.parameters]
        fix = choose_from(unknown[0], list(signature.parameters)) if unknown and signature.parameters else ""
        raise Refused(f"{key} do not fit {reference}{signature}", str(misfit), fix) from None
    return function(**arguments)


@contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Look in `folder` first, and forget the modules found there after the block: another may have the same names."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).resolve().is_relative_to(folder.resolve()):
                del sys.modules[name]


def _module(key: str, name: str, folder: Path) -> ModuleType:
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            reason = f"{name} needs {missing.name}, which is not installed: pip install {missing.name}"
            raise Refused(key, reason) from None
        near = nearest(name, sorted(file.stem for file in folder.glob("*.py")))
        fix = f'Write "{near}:...".' if near else f"Put {name}.py into {folder}."
        raise Refused(key, f"there is no module {name}, neither in {folder} nor installed", fix) from None
    except SyntaxError as error:
        line = (error.text or "").strip()
        subject = f"{error.filename}, line {error.lineno} is not Python"
        raise Refused(subject, f"{error.msg}.\n\n    {line}") from None
    beside = folder / f"{name.replace('.', '/')}.py"
    if beside.exists() and module.__file__ is not None and not beside.samefile(module.__file__):
        raise Refused(key, f"{beside} is hidden by another module {name}, {module.__file__}", "Rename yours.")
    return module
