"""Parameters flattened to one vector: samplers work on it, users never see it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._refused import Refused
from .._types import Params

RESERVED = ("agent", "chain", "draw")


@dataclass(frozen=True)
class Layout:
    """The layout of a parameter pytree in a flat vector.

    Unlike `jax.flatten_util.ravel_pytree` this compares equal for equal shapes, so that a second run of the
    same model finds the first one's compiled code.
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, params: Params, what: str = "init", root: str = "params") -> Layout:
        """Return the layout of `params`; refuse leaves that are not floating-point, naming the argument `what`.

        Args:
          root: the name of a bare array.
        """
        paths, treedef = jax.tree_util.tree_flatten_with_path(params)
        if not paths:
            raise Refused(what, "it has no parameters", "Pass the model's parameters, for example jnp.zeros(3).")
        names = [leaf_name(path, root) for path, _ in paths]
        arrays = []
        for name, (_, leaf) in zip(names, paths, strict=True):
            try:
                array = jnp.asarray(leaf)
            except TypeError:
                raise Refused(what, f"{name} is a {type(leaf).__name__}, not an array of numbers") from None
            if not jnp.issubdtype(array.dtype, jnp.floating):
                reason = f"{name} has dtype {array.dtype}, and only real numbers can be sampled"
                raise Refused(what, reason, f"Write {name} as floating point, for example {name} * 1.0.")
            arrays.append(array)
        _check_names(names, what)
        if sum(array.size for array in arrays) == 0:
            raise Refused(what, "its parameters are all of size zero: there is nothing to sample")
        return cls(treedef, tuple(a.shape for a in arrays), tuple(np.dtype(a.dtype) for a in arrays), tuple(names))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Index in the vector at which each leaf begins, and the total at the end."""
        sizes = [math.prod(shape) for shape in self.shapes]
        return tuple(int(n) for n in np.concatenate([[0], np.cumsum(sizes)]))

    @property
    def dimension(self) -> int:
        return self.offsets[-1]

    @property
    def dtype(self) -> np.dtype:
        if len(set(self.dtypes)) == 1:  # even where jax is not set to hold it
            return self.dtypes[0]
        return np.dtype(jnp.result_type(*self.dtypes)) if self.dtypes else np.dtype(np.float32)

    @property
    def vector(self) -> jax.ShapeDtypeStruct:
        """Shape and dtype of a vector in jax: in single precision where jax is not set to hold more."""
        return jax.ShapeDtypeStruct((self.dimension,), jax.dtypes.canonicalize_dtype(self.dtype))

    def leaves(self, vectors: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield names and values of the leaves in an array of vectors, other axes kept: views wherever that can be."""
        yield from zip(self.names, self._cut(vectors), strict=True)

    def ravel(self, params: Params) -> jax.Array:
        """Return `params` as one vector."""
        leaves = self.treedef.flatten_up_to(params)
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        return jnp.concatenate([jnp.asarray(leaf, dtype).ravel() for leaf in leaves])

    def ravel_on_host(self, params: Params) -> np.ndarray:
        """Return `params` as one vector of numpy's: jax would compile for it."""
        leaves = self.treedef.flatten_up_to(params)
        return np.concatenate([np.asarray(jnp.asarray(leaf, self.dtype)).ravel() for leaf in leaves])

    def unravel(self, vector: Any) -> Params:
        """Return the pytree of a vector, or of an array of vectors: the last axis is split up, others are kept."""
        dtypes: Sequence[Any] = self.dtypes
        if isinstance(vector, jax.Array):  # of draws in double precision it may hold less
            dtypes = [jax.dtypes.canonicalize_dtype(dtype) for dtype in dtypes]
        leaves = [leaf.astype(t, copy=False) for leaf, t in zip(self._cut(vector), dtypes, strict=True)]
        return jax.tree_util.tree_unflatten(self.treedef, leaves)

    def _cut(self, vectors: Any) -> Iterator[Any]:
        """Yield the leaves in an array of vectors, all in the vectors' dtype: views wherever that can be."""
        for start, end, shape in zip(self.offsets[:-1], self.offsets[1:], self.shapes, strict=True):
            yield vectors[..., start:end].reshape((*vectors.shape[:-1], *shape))


def _check_names(names: list[str], what: str) -> None:
    """Refuse names that occur twice, or are an axis of all draws: draws could not be told apart later."""
    for name in names:
        if names.count(name) > 1:
            raise Refused(what, f"two parameters are called {name!r}", "Rename one.")
        if name in RESERVED:
            raise Refused(what, f"{name!r} is the name of a dimension of all draws", "Rename the parameter.")


def leaf_name(path: Any, root: str = "params") -> str:
    """Return a leaf's name as users write it: `layer.w` for params["layer"]["w"], `params` for a bare array."""
    return jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".") or root
