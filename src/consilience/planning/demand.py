"""Messages and gradients that an iteration of a sampler takes: found by tracing the sampler, as the runtimes do.

The sampler is traced on a stand-in of the model's dimension, which says what its messages carry, and moved once on a
small one, which says how often it sends them. Where that depends on the posterior, in NUTS, how many gradients a draw
takes is an argument.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._refused import Refused
from ..engine import Inputs, Model, draws_at_once, move_all, noise_at_once, noise_of, start_all, trace
from ..model import Layout, Posterior, View, stack_shards
from ..neighbors import Kind, price
from ..network import WORD_BYTES, Network
from ..runs import chain_keys, lane_inputs, lane_link
from ..samplers import Sampler

FLOAT = np.dtype(np.float32).itemsize
BACKEND = "cpu"  # what agents on their owners' machines compute on
SMALL = 2  # parameters of the stand-in that is moved
WARM_UP = 1000  # iterations, where a sampler tunes itself
LATE = 999_999_999  # an iteration after any warm-up, and not a multiple of dmala's ANCHOR_EVERY
TINY = 1e-3  # a step with which NUTS makes all the doublings that it may


class Collective(NamedTuple):
    """Collective of an iteration: its kind, how often it happens, and the bytes of a message, all chains in it.

    A sum has messages of another size on its way down, `back_bytes`; what rides on it is in the sizes.
    """

    kind: Kind
    times: float
    message_bytes: int
    back_bytes: int = 0

    def of_chains(self, chains: float) -> Collective:
        """Return this of so many times the chains: a message carries all of them."""
        return self._replace(
            message_bytes=round(chains * self.message_bytes), back_bytes=round(chains * self.back_bytes)
        )


@dataclass(frozen=True)
class Demand:
    """Demand of one iteration of all chains: what it sends, computes and draws.

    Attributes:
      collectives: what agents do together, in order.
      evaluations: how often each agent evaluates its own log density and gradient.
      draw_bytes, noise_bytes: bytes of an agent's draws, and of the random numbers that they take.
    """

    collectives: tuple[Collective, ...]
    evaluations: float
    draw_bytes: int
    noise_bytes: int

    @property
    def draws_of_a_chunk(self) -> int:
        """Number of draws that the compiled loop has room for."""
        return draws_at_once(self.draw_bytes)

    @property
    def room_of_a_chunk(self) -> int:
        """Bytes of the compiled loop's room for draws, filled anew for every chunk however few draws it has."""
        return self.draws_of_a_chunk * self.draw_bytes

    def noise_of_a_chunk(self, draws: int) -> int:
        """Return the bytes of a chunk's random numbers, drawn for whole blocks of iterations, the last one included."""
        block = noise_at_once(self.noise_bytes, BACKEND)
        return math.ceil(draws / block) * block * self.noise_bytes

    def traffic(self, network: Network) -> tuple[float, float, float]:
        """Return rounds, messages and bytes of all agents, as the `simulate` runtime counts them."""
        rounds, messages, size = 0.0, 0.0, 0.0
        for kind, times, message_bytes, back_bytes in self.collectives:
            of_one, sent, carriers = price(network, kind)
            rounds, messages = rounds + times * of_one, messages + times * sent
            size += times * carriers * ((message_bytes + back_bytes) / 2 if kind == "sum" else message_bytes)
        return rounds, messages, size

    @property
    def gathered(self) -> Demand:
        """This demand with sums that are masked and gathered, after which nobody sends a state."""
        return replace(
            self,
            collectives=tuple(
                Collective("gather", each.times, masked_bytes(each.message_bytes)) if each.kind == "sum" else each
                for each in self.collectives
                if each.kind != "pass"
            ),
        )

    def of_chains(self, chains: float) -> Demand:
        """Return the demand of so many times the chains."""
        return replace(
            self,
            collectives=tuple(each.of_chains(chains) for each in self.collectives),
            draw_bytes=round(chains * self.draw_bytes),
            noise_bytes=round(chains * self.noise_bytes),
        )

    def gossiping(self, rounds: int) -> Demand:
        """Return this demand with so many rounds of gossip in every averaging, in place of one."""
        return replace(
            self,
            collectives=tuple(
                each._replace(times=each.times * rounds) if each.kind == "gossip" else each for each in self.collectives
            ),
        )


def masked_bytes(size: int) -> int:
    """Return the bytes of so many bytes of float32 numbers, masked."""
    return size // FLOAT * WORD_BYTES


def demand_of(
    sampler: Sampler, network: Network, dimension: int, chains: int = 1, evaluations: float | None = None
) -> Demand:
    """Find the demand of `sampler` on `network`, for a model of `dimension` float32 parameters.

    Args:
      evaluations: number of gradients per draw, for NUTS: as many as the longest of the chains takes.
    """
    if not sampler.communicates:
        raise Refused(sampler.name, "it has no rounds to plan", "Use nuts, hmc, mala or dmala.")
    if not sampler.has_steady_cost:
        reason = "it asks the network at the start and then once in many draws: a draw has no cost of its own to plan"
        raise Refused(sampler.name, reason, "consilience plan says what a whole run takes; or plan a draw of nuts.")
    if not sampler.has_free_lengths:
        times, evaluations = _counted(sampler, network)
    elif evaluations is None:
        reason = "it takes as many gradients a draw as its posterior makes it"
        raise Refused("nuts", reason, "Say how many: evaluations=15.")
    else:
        settings: Any = sampler  # a dataclass
        # With tiny steps no trajectory turns back: one of k doublings has 2^k - 1 steps.
        (short, few), (longer, more) = (
            _counted(replace(settings, step_size=TINY, max_num_doublings=k), network) for k in (1, 2)
        )
        times = short + (longer - short) / (more - few) * (evaluations - few)
    traced = trace(*_stand_in(sampler, network, dimension)[:3])
    noise = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(traced.noise))
    collectives = _with_riders(
        (exchange.kind, float(count), chains * exchange.message_bytes)
        for exchange, count in zip(traced.exchanges, times, strict=True)
        if count > 0
    )
    lanes = 1 if sampler.common_noise else network.size
    return Demand(collectives, float(evaluations), chains * dimension * FLOAT, chains * noise // lanes)


def questions_in(sampler: Sampler, network: Network, dimension: int) -> list[tuple[Collective, ...]]:
    """Find what each question of an iteration sends, once and of one chain: points from the root, and a sum."""
    found: list[list[tuple[Kind, float, int]]] = []
    for each in trace(*_stand_in(sampler, network, dimension)[:3]).exchanges:
        if each.kind == "pass":
            found.append([])
        found[-1].append((each.kind, 1.0, each.message_bytes))
    return [_with_riders(question) for question in found]


def _with_riders(counted: Iterable[tuple[Kind, float, int]]) -> tuple[Collective, ...]:
    """Put what rides on a sum into the sizes of its messages: of all of them, or of one of several."""
    found: list[Collective] = []
    for kind, times, size in counted:
        if kind not in ("mark", "rider"):
            found.append(Collective(kind, times, size, size if kind == "sum" else 0))
            continue
        last = max(k for k, each in enumerate(found) if each.kind == "sum")
        base = found[last]
        if base.times > times:
            found[last : last + 1] = [base._replace(times=base.times - times), base._replace(times=times)]
            last += 1
        side = "message_bytes" if kind == "mark" else "back_bytes"
        found[last] = found[last]._replace(**{side: getattr(found[last], side) + size})
    return tuple(found)


def _counted(sampler: Sampler, network: Network) -> tuple[np.ndarray, float]:
    """Run one late iteration on a small stand-in; count each collective, and the evaluations of an agent's density."""
    model, inputs, positions, calls = _stand_in(sampler, network, SMALL)
    state = jax.jit(partial(start_all, model))(inputs, positions)._replace(iteration=jnp.int32(LATE))
    noise = jax.tree.map(lambda leaf: leaf[0], noise_of(model, inputs, jnp.int32(0), 1))
    calls.clear()
    move = jax.jit(partial(move_all, model)).lower(inputs, noise, state)
    evaluations = float(len(calls))
    _, info, counts = move.compile()(inputs, noise, state)
    if "num_integration_steps" in info._fields:  # inside of loops, calls are traced and not counted
        evaluations = float(np.asarray(info.num_integration_steps).max())
    return np.asarray(counts[0], dtype=float), evaluations


def _stand_in(sampler: Sampler, network: Network, dimension: int) -> tuple[Model, Inputs, jax.Array, list[None]]:
    """Make a stand-in model, a standard normal whose examples say nothing, and a list with an entry per trace of it."""
    calls: list[None] = []

    def log_likelihood(w: jax.Array, batch: jax.Array) -> jax.Array:
        calls.append(None)
        return 0.0 * batch * w[0]

    posterior = Posterior(lambda w: -0.5 * w @ w, log_likelihood)
    layout = Layout.of(jnp.zeros(dimension, np.float32))
    shards = stack_shards([np.zeros(1, np.float32)] * network.size, network.size)
    with warnings.catch_warnings(action="ignore"):  # of few rounds: they are the user's to choose, and to pay for
        resolved = sampler.resolve(network, dimension, WARM_UP)
    inputs = lane_inputs(network, resolved, shards, chain_keys(jax.random.key(0), 1))
    one_copy = resolved.replicated
    model = Model(posterior, layout, lane_link(one_copy), one_copy, View.of(layout), None, None)
    return model, inputs, jnp.zeros((1, dimension), np.float32), calls
