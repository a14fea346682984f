"""Warm-up: tuning of step size and mass matrix by BlackJAX's window adaptation, one iteration at a time.

Dual averaging drives the step size to a target acceptance; Welford's algorithm estimates the covariance of the
parameters in windows that double in length, and each window ends with a new mass matrix. The pieces are BlackJAX's, and
so is the schedule, which is Stan's. Here they are put together as a function of the iteration number, so that a warm-up
of any length runs the same compiled code and can be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._checks import check, check_one_of, check_positive, real_number
from .._compat import dual_averaging, mass_matrix_estimation, warmup_schedule
from .._refused import Refused
from .._types import Count, Flag, Number, Scalar, Vector
from ..network import Network
from .base import Sampler
from .fitting import FitSettings
from .mass import check_mass, check_mass_dimension
from .metropolis import select
from .settings import static

S = TypeVar("S", bound="TunedSampler")

FIRST_STEP_SIZE = 1.0
ONE_STEP_SHARES = (0.1, 0.15, 0.05)  # for samplers of one leapfrog step per iteration, which need more iterations
FEWEST_FOR_SHARES = 500
STARTS = ("surrogate",)  # where chains may begin, other than where they are told to
STARTED, STARTED_ONE_STEP = 30, 150  # iterations of warm-up from a surrogate; of samplers of one leapfrog step
MOST_WINDOWS = 32  # they double: enough for any number of iterations


class Schedule(NamedTuple):
    """Schedule of a warm-up. Iterations [slow_start, slow_end) are the windows of the mass matrix."""

    length: jax.Array | int
    slow_start: jax.Array | int = 0
    slow_end: jax.Array | int = 0
    window_ends: jax.Array | np.ndarray = np.full(MOST_WINDOWS, -1, np.int32)  # each window's last iteration

    @classmethod
    def of(cls, num_warmup: int, shares: tuple[float, float, float] | None = None) -> Schedule:
        """Make BlackJAX's schedule of `num_warmup` iterations, as numbers that can change without compiling again.

        Args:
          shares: the shares of the first buffer, the last buffer and the first window in a warm-up of 500 iterations
            or more. None: BlackJAX's lengths, which are for iterations that go far, as those of NUTS do.
        """
        if num_warmup == 0:
            return cls(0)
        lengths = (round(share * num_warmup) for share in shares) if shares and num_warmup >= FEWEST_FOR_SHARES else ()
        stage, ends = warmup_schedule(num_warmup, *lengths)
        (slow,), (last,) = np.nonzero(stage), np.nonzero(ends)
        if not len(slow):
            return cls(num_warmup)
        window_ends = np.pad(last, (0, MOST_WINDOWS - len(last)), constant_values=-1).astype(np.int32)
        return cls(num_warmup, int(slow[0]), int(slow[-1]) + 1, window_ends)


class Adaptation(NamedTuple):
    """State of a warm-up: what it has found so far. `averaging` or `covariance` is None if its setting was given."""

    step_size: Scalar
    inverse_mass_matrix: Any
    averaging: Any  # BlackJAX's DualAveragingAdaptationState
    covariance: Any  # BlackJAX's MassMatrixAdaptationState


def keep_as_found(adaptation: Adaptation) -> Adaptation:
    return adaptation


class WindowAdaptation(NamedTuple):
    """Window adaptation of one chain: finds its step size and its mass matrix.

    Args:
      schedule: which iterations adapt what.
      target_acceptance: the acceptance rate that dual averaging aims at.
      step_size: a given step size, which is not adapted; None: adapted.
      inverse_mass_matrix: a given M⁻¹, which is not adapted; None: adapted.
      dense: adapt a full matrix, not its diagonal.
      like: a vector of the model's dimension and dtype.
      gain: how much of what an acceptance rate says is heard; None: all of it.
    """

    schedule: Schedule
    target_acceptance: Number
    step_size: Number | None
    inverse_mass_matrix: Any
    dense: bool
    like: Vector
    gain: Scalar | None = None

    def init(self) -> Adaptation:
        dimension, dtype = len(self.like), self.like.dtype
        averaging = covariance = None
        step_size = jnp.asarray(FIRST_STEP_SIZE if self.step_size is None else self.step_size, dtype)
        inverse_mass = full_mass(self.inverse_mass_matrix, self.like)
        if self.step_size is None:
            averaging = _cast(dual_averaging(self.target_acceptance)[0](step_size), dtype)
        if self.inverse_mass_matrix is None:
            covariance = _cast(mass_matrix_estimation(self.dense)[0](dimension), dtype)
            inverse_mass = covariance.inverse_mass_matrix
        return Adaptation(step_size, inverse_mass, averaging, covariance)

    def beginning_at(self, step_size: Scalar) -> Adaptation:
        """Return the state of a warm-up that begins at a step size which is nearly right, and stays around it."""
        first = self.init()
        if self.step_size is not None:
            return first
        step_size = jnp.asarray(step_size, self.like.dtype)
        # Dual averaging draws steps towards ten times the one that it is given.
        averaging = _cast(dual_averaging(self.target_acceptance)[0](step_size / 10), self.like.dtype)
        return first._replace(step_size=step_size, averaging=averaging)

    @property
    def tunes(self) -> bool:
        """True if the step size or the mass matrix is to be found."""
        return self.step_size is None or self.inverse_mass_matrix is None

    def is_warming_up(self, iteration: Count) -> Flag:
        return jnp.asarray(iteration < self.schedule.length)

    def ends_window(self, iteration: Count) -> Flag:
        return jnp.any(jnp.asarray(self.schedule.window_ends) == iteration)

    def update(
        self,
        adaptation: Adaptation,
        iteration: Count,
        position: Vector,
        acceptance_rate: Scalar,
        agree: Callable[[Adaptation], Adaptation] = keep_as_found,
    ) -> Adaptation:
        """Adapt after an iteration of warm-up; `agree` is applied to what the end of a window has found."""
        if adaptation.covariance is not None:
            in_window = (iteration >= self.schedule.slow_start) & (iteration < self.schedule.slow_end)
            add = mass_matrix_estimation(self.dense)[1]
            adaptation = lax.cond(
                in_window,
                lambda a: a._replace(covariance=_cast(add(a.covariance, position), self.like.dtype)),
                lambda a: a,
                adaptation,
            )
        if adaptation.averaging is not None:
            rate = jnp.asarray(acceptance_rate, self.like.dtype)
            if self.gain is not None:
                rate = self.target_acceptance + jnp.asarray(self.gain, rate.dtype) * (rate - self.target_acceptance)
            averaging = _cast(dual_averaging(self.target_acceptance)[1](adaptation.averaging, rate), self.like.dtype)
            adaptation = adaptation._replace(averaging=averaging, step_size=jnp.exp(averaging.log_step_size))
        if adaptation.covariance is not None:
            adaptation = lax.cond(
                self.ends_window(iteration), lambda a: agree(self._close_window(a)), lambda a: a, adaptation
            )
        if adaptation.averaging is not None:
            settled = adaptation._replace(step_size=jnp.exp(adaptation.averaging.log_step_size_avg))
            is_last = iteration == self.schedule.length - 1
            adaptation = select(is_last, settled, adaptation)
        return adaptation

    def _close_window(self, adaptation: Adaptation) -> Adaptation:
        """Take the mass matrix that a window has found, and start the step size anew from its average."""
        covariance = _cast(mass_matrix_estimation(self.dense)[2](adaptation.covariance), self.like.dtype)
        adaptation = adaptation._replace(inverse_mass_matrix=covariance.inverse_mass_matrix, covariance=covariance)
        if adaptation.averaging is None:
            return adaptation
        start, _, final = dual_averaging(self.target_acceptance)
        averaging = _cast(start(final(adaptation.averaging)), self.like.dtype)
        return adaptation._replace(averaging=averaging, step_size=jnp.exp(averaging.log_step_size))


def full_mass(inverse_mass: Any, like: Vector) -> jax.Array:
    """Return M⁻¹ as a vector or a matrix: None is the identity, a number stands for all parameters."""
    if inverse_mass is None:
        return jnp.ones_like(like)
    inverse_mass = jnp.asarray(inverse_mass, like.dtype)
    return jnp.broadcast_to(inverse_mass, like.shape) if inverse_mass.ndim == 0 else inverse_mass


@dataclass(frozen=True, eq=False)
class TunedSampler(Sampler):
    """Base class of samplers that tune themselves; a step size or mass matrix that is given is not adapted.

    With start="surrogate" both, and the place where chains begin, come from a surrogate of the posterior (`starting`).
    """

    step_size: Number | None = None
    inverse_mass_matrix: Any = None
    _: KW_ONLY
    target_acceptance: Number = 0.8
    schedule: Schedule = field(default=Schedule(0), repr=False)  # filled in by `resolve`, as is the next
    fit_settings: FitSettings = field(default=FitSettings(), repr=False)
    start: str | None = static(None)

    has_one_step: ClassVar[bool] = False  # of the leapfrog in an iteration, which takes more iterations
    common_noise = True

    def __post_init__(self) -> None:
        if self.step_size is not None:
            check_positive(f"{self.name}: step_size", self.step_size)
        target = self.target_acceptance
        check(f"{self.name}: target_acceptance", target, 0 < real_number(target) < 1, "a number between 0 and 1")
        object.__setattr__(self, "inverse_mass_matrix", check_mass(self.name, self.inverse_mass_matrix))
        if self.start is not None:
            check_one_of(f"{self.name}: start", self.start, STARTS, else_do=", or leave it out")
            if self.inverse_mass_matrix is not None:
                fix = f'Write cs.{self.name}(start="surrogate"), or leave start out.'
                raise Refused(f"{self.name}: inverse_mass_matrix", "a start from a surrogate brings its own", fix)

    def resolve(self: S, network: Network, dimension: int, num_warmup: int = 0) -> S:
        check_mass_dimension(self.name, self.inverse_mass_matrix, dimension)
        if self.step_size is None and num_warmup == 0:
            fix = f"Write num_warmup=500, or give cs.{self.name}(step_size=...)."
            raise Refused(self.name, "the step size is found during warm-up, and num_warmup = 0", fix)
        nothing_to_find = self.step_size is not None and self.inverse_mass_matrix is not None
        shares = ONE_STEP_SHARES if self.has_one_step else None
        schedule = Schedule.of(0 if nothing_to_find else num_warmup, shares)
        fit_settings = self.fit_settings if self.start is None else FitSettings.of(dimension)
        return replace(self, schedule=schedule, fit_settings=fit_settings)

    def starting_at(self: S, position: Vector) -> S:
        if self.start is None:
            return self
        return replace(self, fit_settings=self.fit_settings._replace(origin=position))

    @property
    def short_warmup(self) -> int:
        """Number of iterations in which the step size is found where start and mass come from a surrogate."""
        return STARTED_ONE_STEP if self.has_one_step else STARTED

    def tuning(self, like: Vector, dense: bool = False) -> WindowAdaptation:
        """Return the warm-up with these settings; `dense` adapts a full mass matrix, not its diagonal."""
        given = (self.step_size, self.inverse_mass_matrix)
        return WindowAdaptation(self.schedule, self.target_acceptance, *given, dense, like)


def _cast(tree: Any, dtype: Any) -> Any:
    """Cast floats to the model's dtype, other numbers to int: BlackJAX makes its own arrays of the default dtype."""

    def cast(leaf: Any) -> jax.Array:
        array = jnp.asarray(leaf)
        return array.astype(dtype if jnp.issubdtype(array.dtype, jnp.floating) else int)

    return jax.tree.map(cast, tree)
