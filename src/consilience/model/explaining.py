"""Explain errors that a posterior's functions raise when they are traced: what of it a user can mend, and how."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from .._refused import Refused
from .._types import Batch, Params
from .layout import leaf_name

READ_AS_NUMBERS = (jax.errors.TracerArrayConversionError,)
READ_IN_PYTHON = (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError)
MENDABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError)
_NOT_THE_USERS = (str(Path(__file__).parents[1]), "<", *(sysconfig.get_path(name) for name in ("stdlib", "purelib")))


def traced(what: str, function: Callable[..., Any], params: Params, *batch: Batch) -> Any:
    """Return the form of what a user's function returns, by tracing it; explain its errors where it cannot be traced.

    Args:
      what: the function as messages call it.
      batch: the batch, where the function takes one.
    """
    try:
        return jax.eval_shape(function, params, *batch)
    except Refused:
        raise
    except READ_AS_NUMBERS as error:
        reason = f"it calls numpy on what jax traces{_line(error)}"
        fix = "Write jax.numpy for numpy: jnp.exp(...) for np.exp(...). Write jax.scipy for scipy."
        raise Refused(what, reason, fix) from error
    except READ_IN_PYTHON as error:
        reason = f"it looks at values in Python{_line(error)}, and they are not known when its code is traced"
        fix = "Write jnp.where(condition, a, b) for if, and no float(...) or int(...)."
        raise Refused(what, reason, fix) from error
    except MENDABLE as error:
        said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        for name, shape, table, width in _fitting(function, params, *batch):
            write = f"Write init=jnp.zeros({shape})." if name == "params" else f'Give "{name}" the shape {shape}.'
            found = dict(_shapes(params, "params"))[name]
            reason = f"{name} has shape {found}, and {table} has {width} columns ({said})"
            raise Refused("init", reason, write) from error
        forms = [f"init has {_described(params, 'params')}", *(f"the batch has {_described(b, 'data')}" for b in batch)]
        fix = "Write an init that fits the function, or the function for parameters and data of that form."
        reason = f"{what} fails with {said}{_line(error)}; {', '.join(forms)}"
        raise Refused(what if batch else "init", reason, fix) from error


def _fitting(
    function: Callable[..., Any], params: Params, *batch: Batch
) -> Iterator[tuple[str, tuple[int, ...], str, int]]:
    """Yield shapes of single parameters with which the function can be traced: one axis as long as a table is wide."""
    leaves, structure = jax.tree.flatten(params)
    names = [name for name, _ in _shapes(params, "params")]
    tables = [(table, shape[1]) for part in batch for table, shape in _shapes(part, "the data") if len(shape) == 2]
    for place, leaf in enumerate(leaves):
        for axis in range(len(leaf.shape)):
            for table, width in tables:
                shape = (*leaf.shape[:axis], width, *leaf.shape[axis + 1 :])
                other = jax.ShapeDtypeStruct(shape, leaf.dtype)
                try:
                    jax.eval_shape(
                        function, jax.tree.unflatten(structure, [*leaves[:place], other, *leaves[place + 1 :]]), *batch
                    )
                except Exception:
                    continue
                yield names[place], shape, table, width


def _shapes(tree: Any, root: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(leaf_name(path, root), leaf.shape) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _described(tree: Any, root: str) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in _shapes(tree, root))


def _line(error: BaseException) -> str:
    """Return where in the user's own code an error was raised, as an addition to a reason."""
    users = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_NOT_THE_USERS)]
    return f", in {Path(users[-1].filename).name}:{users[-1].lineno}: {users[-1].line}" if users else ""
