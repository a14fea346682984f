"""`nuts`, `hmc`, `mala`: BlackJAX's Hamiltonian kernels on the network's log density, exact and self-tuning."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import check, check_flag, real_number, whole_number
from .._refused import Refused
from .._types import Key, LogDensity, Number, Scalar, Vector
from ..model import LocalLogDensity
from ..neighbors import Neighbors
from .adaptation import TunedSampler, WindowAdaptation
from .base import Kernel
from .joint import JointDynamics, Step, hmc_step, joint_kernel
from .joint_tree import nuts_step
from .replicated import (
    Algorithm,
    ReplicatedState,
    info_of,
    move_replicated,
    network_logdensity,
    replicated_kernel,
)
from .settings import register_settings, static
from .starting import FirstStart, Moves, Start, started_kernel


@dataclass(frozen=True, eq=False)
class Hamiltonian(TunedSampler):
    """Base class of `NUTS`, `HMC` and `MALA`: one chain on all agents, with BlackJAX's kernels."""

    _: KW_ONLY
    dense_mass: bool = static(False)

    name = "hamiltonian"
    replicated = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(f"{self.name}: dense_mass", self.dense_mass)

    def build(self, logdensity: LogDensity, neighbors: Neighbors, like: Vector) -> Kernel:
        if isinstance(logdensity, LocalLogDensity) and logdensity.own is not None:
            self._check_own()
            step = self.own_step()
            return joint_kernel(logdensity, neighbors, step, self.evaluations, self.sums, self.tuning(like))
        everyone, tuning = network_logdensity(logdensity, neighbors), self.tuning(like, self.dense_mass)
        if self.start is None:
            return replicated_kernel(self._algorithm(everyone), neighbors, tuning)

        def moves_of(start: Start, tuning: WindowAdaptation) -> Moves:
            algorithm = self._algorithm(lambda z: everyone(start.law.place(z)))

            def init(z: Vector) -> ReplicatedState:
                return ReplicatedState(algorithm.init(z), tuning.init(), jnp.zeros((), jnp.int32))

            return Moves(init, partial(move_replicated, algorithm, neighbors, tuning))

        first_start = FirstStart(logdensity, neighbors, like, self.fit_settings)
        return started_kernel(self, first_start, tuning, lambda key: key, moves_of, info_of)

    def _algorithm(self, logdensity: LogDensity) -> Algorithm:
        from blackjax.mcmc import hmc

        step = self.step()
        return Algorithm(
            lambda position: hmc.init(position, logdensity),
            lambda key, state, found: step(key, state, logdensity, found.step_size, found.inverse_mass_matrix),
            self.evaluations,
            lambda state: state.logdensity,
            self.sums,
        )

    @property
    def sums(self) -> int | None:
        """Number of exact sums in an iteration; None where the posterior decides."""
        return None

    @abstractmethod
    def step(self) -> Callable:
        """Return BlackJAX's kernel(key, state, logdensity, step_size, inverse_mass_matrix)."""

    def own_step(self) -> Step:
        """Return an iteration on shared parameters and own variables, of a sampler that moves these."""
        raise NotImplementedError

    def _check_own(self) -> None:
        """Refuse settings that own variables cannot go with.

        Of a dense mass matrix nobody could know the elements between two owners' variables.
        """
        if self.start is not None:
            reason = (
                "it fits parameters that all agents share, and the posterior has variables that stay with their owner"
            )
            raise Refused(f"{self.name}: start={self.start!r}", reason, f"Write cs.{self.name}().")
        if self.dense_mass or (self.inverse_mass_matrix is not None and self.inverse_mass_matrix.ndim == 2):
            reason = "a dense mass matrix has elements between variables that stay with different owners"
            raise Refused(self.name, reason, f"Write cs.{self.name}(), with a diagonal.")

    def evaluations(self, info: Any) -> jax.Array:
        return jnp.asarray(info.num_integration_steps, jnp.int32)


@register_settings
@dataclass(frozen=True, eq=False)
class NUTS(Hamiltonian):
    """The No-U-Turn sampler (Hoffman and Gelman 2014; BlackJAX's multinomial, iterative variant), decentralized.

    Every agent runs it on log π = Σ_i ℓ_i, value and gradient by one exact consensus over the tree for every leapfrog
    step, with the same key: all hold one chain, which is the chain that NUTS would draw from the pooled data.

    **Known bias**: none.

    During the warm-up, dual averaging finds the step size, and windows of draws give the mass matrix (BlackJAX's window
    adaptation, which is Stan's). A setting that is given is not adapted.

    Variables that stay with their owner are moved with the shared ones, each agent's by itself, with one sum a step as
    well. A vector of masses is then of the shared numbers first, and of one group's behind them.

    With `start="surrogate"` they come from a surrogate of the posterior, N(μ, CCᵀ), fitted over the network in the
    first iteration, as `cs.surrogate` does it. Chains begin at proposals from it, drawn by weight, and move in
    z = C⁻¹(ω - μ), which is M⁻¹ = CCᵀ in ω. Thirty iterations (`mala`: 150) then find the step size, in units of the
    surrogate's sd, and the rest of the warm-up asks nobody: hundreds of sums in place of thousands. The draws are as
    exact. Where the surrogate is of no use, as with a second mode, a chain begins and warms up as it would without
    one, and the summary says so.

    Of more than 2000 parameters the surrogate's precision is diagonal plus low rank (`low_rank`), found by products of
    the Hessian with 48 vectors a sum, from one start: other modes are then not looked for.

    Args:
      step_size: ε of the leapfrog steps. With a start from a surrogate, in units of the surrogate's sd where that is
        used, of ω where it is of no use.
      inverse_mass_matrix: M⁻¹: a number, a vector or a matrix.
      target_acceptance: the acceptance rate that the step size is tuned for.
      start: "surrogate": take start, mass matrix and step size from a surrogate; a step size that is given is kept, in
        those units. None: begin where the run says.
      dense_mass: adapt a full mass matrix, not a diagonal.
      max_num_doublings: the longest trajectory has 2**max_num_doublings - 1 leapfrog steps.
    """

    _: KW_ONLY
    max_num_doublings: int = static(10)

    name = "nuts"
    has_free_lengths = True
    moves_own = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(f"{self.name}: max_num_doublings", self.max_num_doublings, 1, 20)

    def step(self) -> Callable:
        from blackjax.mcmc import nuts

        kernel = nuts.build_kernel()
        return lambda *args: kernel(*args, max_num_doublings=self.max_num_doublings)

    def own_step(self) -> Step:
        return partial(nuts_step, max_num_doublings=self.max_num_doublings)

    def evaluations(self, info: Any) -> jax.Array:
        """Count leapfrog steps by doublings: the k-th has 2^k, the last what is left. Chains double side by side."""
        doubling = jnp.arange(self.max_num_doublings)
        full = 2**doubling
        last = info.num_trajectory_expansions - 1
        left = info.num_integration_steps - (2**last - 1)
        steps = jnp.where(doubling < last, full, jnp.where(doubling == last, left, 0))
        return steps.astype(jnp.int32)


@register_settings
@dataclass(frozen=True, eq=False)
class HMC(Hamiltonian):
    """Hamiltonian Monte Carlo with L = `num_integration_steps` leapfrog steps (BlackJAX's), decentralized.

    As `cs.nuts` otherwise: exact, one chain on all agents, one consensus for every leapfrog step, warm-up by window
    adaptation. **Known bias**: none.

    Every iteration's step is ε(1 + jU), U uniform on [-1, 1], j = `step_size_jitter`: trajectories of one length only
    come back to where they started wherever that length is a period of the motion (Neal 2011), and do not mix there.

    Args:
      step_size: ε. With a start from a surrogate, in units of the surrogate's sd where that is used, of ω where it is
        of no use.
      step_size_jitter: j, from 0 up to but not including 1.
      inverse_mass_matrix: M⁻¹: a number, a vector or a matrix.
      num_integration_steps: L.
      target_acceptance: the acceptance rate that the step size is tuned for.
      start: "surrogate": take start, mass matrix and step size from a surrogate; a step size that is given is kept, in
        those units. None: begin where the run says.
      dense_mass: adapt a full mass matrix, not a diagonal.
    """

    _: KW_ONLY
    step_size_jitter: Number = 0.2
    num_integration_steps: int = static(10)

    name = "hmc"
    moves_own = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(f"{self.name}: num_integration_steps", self.num_integration_steps, 1)
        jitter = self.step_size_jitter
        check(f"{self.name}: step_size_jitter", jitter, 0 <= real_number(jitter) < 1, "a number from 0 up to 1")

    @property
    def sums(self) -> int:
        return self.num_integration_steps

    def step(self) -> Callable:
        from blackjax.mcmc import hmc

        kernel = hmc.build_kernel()

        def step(key: Key, state: Any, logdensity: LogDensity, step_size: Scalar, inverse_mass: Any) -> Any:
            for_step, jittered = self._jittered(key, step_size)
            return kernel(for_step, state, logdensity, jittered, inverse_mass, self.num_integration_steps)

        return step

    def own_step(self) -> Step:
        def step(dynamics: JointDynamics, key: Key, state: Any, step_size: Scalar, inverse_mass: Any) -> Any:
            for_step, jittered = self._jittered(key, step_size)
            return hmc_step(dynamics, for_step, state, jittered, inverse_mass, self.num_integration_steps)

        return step

    def _jittered(self, key: Key, step_size: Scalar) -> tuple[Key, Scalar]:
        """Return the key of an iteration without its jitter, and the iteration's step size."""
        for_jitter, for_step = jax.random.split(key)
        uniform = jax.random.uniform(for_jitter, dtype=step_size.dtype, minval=-1.0)
        return for_step, step_size * (1 + jnp.asarray(self.step_size_jitter, step_size.dtype) * uniform)


@register_settings
@dataclass(frozen=True, eq=False)
class MALA(Hamiltonian):
    """The Metropolis-adjusted Langevin algorithm, decentralized: Hamiltonian Monte Carlo with one leapfrog step.

        p ~ N(0, M) ;   ω* = ω + εM⁻¹(p + ½ε∇log π(ω)) ;   accepted by the exact energy

    One consensus an iteration. As `cs.nuts` otherwise. **Known bias**: none. In Langevin's notation its step is ½ε²
    (BlackJAX's `mala` takes that, and has no mass matrix).

    Args:
      step_size: ε. With a start from a surrogate, in units of the surrogate's sd where that is used, of ω where it is
        of no use.
      inverse_mass_matrix: M⁻¹: a number, a vector or a matrix.
      target_acceptance: the acceptance rate that the step size is tuned for; 0.57 is best for many parameters.
      start: "surrogate": take start, mass matrix and step size from a surrogate; a step size that is given is kept, in
        those units. None: begin where the run says.
      dense_mass: adapt a full mass matrix, not a diagonal.
    """

    _: KW_ONLY
    target_acceptance: Number = 0.57

    name = "mala"
    has_one_step = True
    sums = 1

    def step(self) -> Callable:
        from blackjax.mcmc import hmc

        kernel = hmc.build_kernel()
        return lambda *args: kernel(*args, num_integration_steps=1)
