"""Compiled code: kept in memory for the next run of the same model, with room for as many draws as memory allows."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ..model import StartValues
from .fingerprint import Fingerprint
from .loop import Inputs, Model, Replayed, advance_all, start_values_all
from .place import ComputePlace
from .tracing import Traced

BUFFER_BYTES = 32 << 20  # of kept draws on the device
BUFFER_DRAWS = 1024
NOISE_BYTES = 16 << 20  # drawn ahead
NOISE_BYTES_ON_CPU = 2 << 20  # as much as its cache holds: drawing it takes many passes
NOISE_ITERATIONS = 100
COMPILED_PROGRAMS = 32
COMPILED_FOR = ("jax_default_matmul_precision", "jax_default_device")


@dataclass(frozen=True)
class Program:
    """Key to compiled code: all that the code depends on, so that equal programs share it."""

    structure: Any  # of the inputs, with the sampler's choices
    fingerprint: str  # of a start, an iteration and a look at a draw
    settings: tuple[Any, ...]  # settings of jax that change what is compiled and not what is traced
    buffer: int  # number of draws that it has room for
    block: int  # number of iterations whose noise is drawn at once
    place: Any  # where it runs, if that is in the compiled code

    @classmethod
    def of(cls, model: Model, inputs: Inputs, traced: Traced, found: Fingerprint, place: ComputePlace) -> Program:
        """Return the key to the code that `traced` becomes at `place`."""
        lanes = traced.state.position.shape
        in_state = math.prod(lanes) * model.layout.dtype.itemsize
        draw_bytes = max(in_state, model.view.bytes * math.prod(lanes[:-1]))
        noise_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(traced.noise))
        return cls(
            jax.tree.structure(inputs),
            found.unmistakable,
            tuple(str(getattr(jax.config, name)) for name in COMPILED_FOR),
            buffer=draws_at_once(draw_bytes),
            block=noise_at_once(noise_bytes, jax.default_backend()),
            place=place.key,
        )


class Compiled(NamedTuple):
    """Executables: of a start with the values that must be finite there, and of many iterations."""

    start: Any
    advance: Any


def compile_program(
    program: Program,
    model: Model,
    start: Callable[..., Any],
    move: Replayed | None,
    place: ComputePlace,
    arguments: tuple[Inputs, jax.Array, Any, Any],
) -> Compiled:
    """Compile a program, or find it among those compiled before.

    It is compiled at once and for good: traced later, the user's code might have come to mean something else.

    Args:
      start: starts all chains and agents.
      move: the traced iteration; None where what was traced is not what this place runs.
      arguments: inputs, positions, and the forms of state and moments.
    """
    if program not in _programs:
        inputs, positions, state, moments = arguments

        def start_and_values(inputs: Inputs, positions: jax.Array) -> tuple[Any, StartValues]:
            return start(inputs, positions), start_values_all(model, inputs, positions)

        advance = partial(advance_all, program.buffer, program.block, model, move)
        counts = (np.int32(1),) * 3
        _programs[program] = Compiled(
            place.jit("start", start_and_values, state, moments).lower(inputs, positions).compile(),
            place.jit("advance", advance, state, moments, donate_argnums=(1, 2))
            .lower(inputs, state, moments, *counts)
            .compile(),
        )
    _programs.move_to_end(program)
    while len(_programs) > COMPILED_PROGRAMS:
        _programs.popitem(last=False)
    return _programs[program]


_programs: OrderedDict[Program, Compiled] = OrderedDict()  # the least recently used go first


def draws_at_once(draw_bytes: int) -> int:
    """Return the number of draws for which there is room on the device, given the bytes of one."""
    return max(1, min(BUFFER_DRAWS, BUFFER_BYTES // draw_bytes))


def noise_at_once(noise_bytes: int, backend: str) -> int:
    """Return the number of iterations whose noise is drawn ahead, given the bytes of one iteration's."""
    room = NOISE_BYTES_ON_CPU if backend == "cpu" else NOISE_BYTES
    return max(1, min(NOISE_ITERATIONS, room // max(1, noise_bytes)))
