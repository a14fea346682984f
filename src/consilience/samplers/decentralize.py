"""`decentralize`: any kernel written for one machine, run by a network."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import refuse_unknown_keywords
from .._refused import Refused
from .._types import LogDensity, Vector
from ..neighbors import Neighbors
from .base import Kernel, Sampler
from .replicated import Algorithm, network_logdensity, replicated_kernel
from .settings import register_settings, static

KernelBuilder = Callable[[LogDensity], Any]


@register_settings
@dataclass(frozen=True, eq=False)
class Decentralized(Sampler):
    """Sampler in which all agents run a one-machine kernel on their summed log density; made by `cs.decentralize`."""

    kernel_builder: KernelBuilder = static(None)
    evaluations: Callable[[Any], Any] | None = static(None)
    name: str = static("decentralized")
    bias: str | None = static(None)

    replicated = True
    common_noise = True

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        kernel = self.kernel_builder(network_logdensity(logdensity, neighbors))
        for method in ("init", "step"):
            if not callable(getattr(kernel, method, None)):
                raise Refused(
                    "cs.decentralize",
                    f"the builder returned a {type(kernel).__name__} without {method}()",
                    "It must return BlackJAX's pair, for example lambda logdensity: blackjax.mala(logdensity, 0.1).",
                )
        algorithm = Algorithm(
            lambda position: _first_state(kernel, position),
            lambda key, state, _: kernel.step(key, state),
            self.evaluations or _integration_steps,
        )
        return replicated_kernel(algorithm, neighbors, adaptation=None)


@refuse_unknown_keywords("cs.decentralize")
def decentralize(
    kernel_builder: KernelBuilder,
    *,
    name: str = "decentralized",
    evaluations: Callable[[Any], Any] | None = None,
    bias: str | None = None,
) -> Decentralized:
    """Turn any Metropolis-adjusted kernel written for one machine into a sampler over a network.

    Every agent runs the kernel on log π = Σ_i ℓ_i, value and gradient by one exact consensus, with the same key: all
    hold the same chain, the kernel's own, which leaves invariant what the kernel does. No agent sees another's data.

        cs.decentralize(lambda logdensity: blackjax.dynamic_hmc(logdensity, 0.1, np.ones(3)))

    **Known bias**: the kernel's own; none for BlackJAX's Metropolis-adjusted ones. Where there is one, `bias=` says it.

    Args:
      kernel_builder: `kernel_builder(logdensity)` returns a pair `init(position)`, `step(key, state)`, as BlackJAX's
        algorithms are, with a `position` in its state. Parameters come as one vector.
      name: the sampler's name in tables.
      evaluations: `evaluations(info)` returns how often a step evaluated the log density or its gradient, which is
        what the step costs. If left out, the info's `num_integration_steps`, or one where there is none.
      bias: what the kernel samples instead of the posterior, in a sentence, for the summary.
    """
    if not callable(kernel_builder):
        reason = f"it takes a function of the log density, this is a {type(kernel_builder).__name__}"
        fix = "Write cs.decentralize(lambda logdensity: blackjax.mala(logdensity, 0.1))."
        raise Refused("cs.decentralize", reason, fix)
    return Decentralized(kernel_builder, evaluations, name, bias)


def _first_state(kernel: Any, position: Vector) -> Any:
    """Return `kernel.init(position)`; some of BlackJAX's kernels want a key as well, and any will do."""
    wants_key = len(inspect.signature(kernel.init).parameters) > 1
    state = kernel.init(position, jax.random.key(0)) if wants_key else kernel.init(position)
    if not hasattr(state, "position"):
        reason = f"the kernel's state is a {type(state).__name__} without a `position`, which is what a run keeps"
        raise Refused("cs.decentralize", reason, "Name the field so.")
    return state


def _integration_steps(info: Any) -> Any:
    return jnp.asarray(getattr(info, "num_integration_steps", 1), jnp.int32)
