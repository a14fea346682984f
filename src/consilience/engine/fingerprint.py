"""Fingerprints of traced code: equal for functions that compute the same, whoever wrote them and when.

Compiled code is looked up by it, not by the identity of the user's functions. A prior that reads a global, or a method
of an object that has changed since, is traced again and found to differ; a model defined anew in a notebook is found to
be the same and compiles nothing.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import jaxpr_calls_python, jaxpr_constants, jaxpr_text


class Fingerprint(NamedTuple):
    code: str
    calls_python: bool  # then the code says only what is called, and not what that does

    @property
    def unmistakable(self) -> str:
        """Fingerprint that is equal for equal code only: code that calls Python is like no other."""
        return self.code + (uuid.uuid4().hex if self.calls_python else "")


def fingerprint(*traced: Any) -> Fingerprint:
    """Compute the fingerprint of closed jaxprs, from their texts and the values of all constants in them."""
    digest = hashlib.sha256("\n".join(map(jaxpr_text, traced)).encode())
    for value in (value for part in traced for value in jaxpr_constants(part)):
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return Fingerprint(digest.hexdigest(), any(map(jaxpr_calls_python, traced)))
