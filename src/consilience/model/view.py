"""Views of a draw, such as what is kept of it: the parameters, or a function of them, as one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import nearest
from .._refused import Refused
from .._types import Params
from .layout import Layout, leaf_name

Keep = Sequence[str] | Callable[[Params], Any]


@dataclass(frozen=True, eq=False)
class View:
    """A function of the parameters' vector, with the layout of its values in a vector of their own.

    Attributes:
      parameters: the layout of what is sampled.
      layout: the layout of the function's values.
      function: a function of the parameters; None: the values are the parameters themselves.
    """

    parameters: Layout
    layout: Layout
    function: Callable[[Params], Any] | None

    @classmethod
    def of(cls, parameters: Layout, function: Callable[[Params], Any] | None = None, what: str = "keep") -> View:
        """Return the view of what `function` gives; refuse what is not arrays of numbers. `what` names the argument."""
        if function is None:
            return cls(parameters, parameters, None)

        def numbers(params: Params) -> Any:
            return jax.tree.map(_as_real, function(params))

        shapes = jax.eval_shape(numbers, parameters.unravel(jnp.zeros(parameters.dimension, parameters.dtype)))
        if not jax.tree.leaves(shapes):
            return cls(parameters, Layout(jax.tree.structure(shapes), (), (), ()), numbers)
        return cls(parameters, Layout.of(jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shapes), what), numbers)

    @property
    def bytes(self) -> int:
        """Number of bytes of one draw."""
        return self.layout.dimension * self.layout.dtype.itemsize

    def __call__(self, w: jax.Array) -> jax.Array:
        if self.function is None:
            return w
        if not self.layout.names:
            return w[:0]
        return self.layout.ravel(self.function(self.parameters.unravel(w)))


def kept_function(shown: Callable[[Params], Any] | None, keep: Keep | None) -> Callable[[Params], Any] | None:
    """Return what is kept of each draw, as a function of the parameters; None: all of them, as they are.

    Args:
      shown: what the model shows in place of its parameters, a function of them; None: the parameters.
      keep: names of some of what is shown, or a function of it. None: all.
    """
    if keep is None:
        return shown
    if callable(keep):
        return keep if shown is None else lambda params: keep(shown(params))
    names = list(keep) if isinstance(keep, Iterable) else [keep]
    if isinstance(keep, str) or not all(isinstance(name, str) for name in names):
        raise Refused(f"keep = {keep!r}", "not a list of names, nor a function of the parameters", "Write keep=[...].")

    def some(params: Params) -> dict[str, Any]:
        paths = jax.tree_util.tree_leaves_with_path(params if shown is None else shown(params))
        leaves = {leaf_name(path): leaf for path, leaf in paths}
        for name in names:
            if name not in leaves:
                near = nearest(name, leaves)
                fix = f"Write keep=[{near!r}]." if near else ""
                raise Refused("keep", f"there is no parameter {name!r}; there are {', '.join(leaves)}", fix)
        return {name: leaves[name] for name in names}

    return some


def _as_real(leaf: Any) -> jax.Array:
    """Return a leaf as an array of real numbers, counts and flags too; refuse complex numbers."""
    array = jnp.asarray(leaf)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise Refused("keep", "complex numbers cannot be kept", "Keep their real and imaginary parts.")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
