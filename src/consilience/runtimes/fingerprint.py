"""A fingerprint of traced code: equal for functions that compute the same, whoever wrote them and when.

Compiled code is looked up by it, not by the identity of the user's functions. A prior that reads a global, or a method
of an object that has changed since, is traced again and found to differ; a model defined anew in a notebook is found to
be the same and compiles nothing.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Fingerprint(NamedTuple):
    code: str
    calls_python: bool  # then the code says only what is called, and not what that does

    @property
    def unmistakable(self) -> str:
        """Equal for equal code only: code that calls Python is like no other."""
        return self.code + (uuid.uuid4().hex if self.calls_python else "")


def fingerprint(*traced: Any) -> Fingerprint:
    """Of closed jaxprs: their texts, and the values of all constants in them."""
    text = "\n".join(part.pretty_print(use_color=False) for part in traced)  # jax colours texts in a terminal
    text = re.sub(r"0x[0-9a-fA-FX]+", "", text)  # addresses are chance
    digest = hashlib.sha256(text.encode())
    for value in (value for part in traced for value in _constants(part)):
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    calls_python = any("callback" in equation.primitive.name for part in traced for equation in _equations(part))
    return Fingerprint(digest.hexdigest(), calls_python)


def _constants(part: Any) -> Iterator[Any]:
    """Captured arrays, of a jaxpr and of all jaxprs in it: texts show their shapes only."""
    yield from getattr(part, "consts", ())
    for equation in getattr(part, "jaxpr", part).eqns:
        yield from (atom.val for atom in equation.invars if hasattr(atom, "val"))
        for inner in _inner(equation):
            yield from _constants(inner)


def _equations(part: Any) -> Iterator[Any]:
    """Of a jaxpr and of all jaxprs in it."""
    for equation in getattr(part, "jaxpr", part).eqns:
        yield equation
        for inner in _inner(equation):
            yield from _equations(inner)


def _inner(equation: Any) -> Iterator[Any]:
    """The jaxprs that an equation applies."""
    yield from filter(_is_jaxpr, jax.tree.leaves(equation.params, is_leaf=_is_jaxpr))


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")
