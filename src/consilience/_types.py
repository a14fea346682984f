"""Type aliases for arrays and their shapes.

Everything a sampler touches is one agent's: a `Vector` has the model's dimension and nothing else. The
test suite checks these annotations at run time (jaxtyping + beartype), so a sampler that meets an
agents axis fails there. Outside the tests jaxtyping is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

Params = Any  # any pytree of floating-point arrays
Batch = Any  # any pytree of arrays with one leading axis, the examples
Number = Any  # a real number, or its tracer while a function is traced
Key = jax.Array
AnyArray = jax.Array | np.ndarray  # on a device, or still on the host

if TYPE_CHECKING:
    Vector: TypeAlias = jax.Array
    Scalar: TypeAlias = jax.Array
    Flag: TypeAlias = jax.Array
    Count: TypeAlias = jax.Array
else:
    try:
        from jaxtyping import Array, Bool, Float, Int
    except ModuleNotFoundError:
        Vector = Scalar = Flag = Count = jax.Array
    else:
        Vector = Float[Array, "dimension"]
        Scalar = Float[Array, ""]
        Flag = Bool[Array, ""]
        Count = Int[Array, ""]

LogDensity = Callable[[jax.Array], jax.Array]
