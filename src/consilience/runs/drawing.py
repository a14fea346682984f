"""The loop from a run's first iteration to its last draw, which checks chunks of draws and stores them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from ..engine import Chunk, Engine, Hosts
from ..model import View
from ..neighbors import Traffic, price
from ..network import Network
from ..samplers import SecondStage
from ..store import Progress, Sink, Writer
from .bar import progress_bar
from .preparing import Length

Snapshot = Callable[[], dict[str, np.ndarray]]

MOST_REDONE = 1e-3  # share of all iterations that may be redone


def draw(engine: Engine, sink: Sink, hosts: Hosts, length: Length, began: float, label: str) -> Progress:
    """Run the engine to the last draw, from where the sink's run stands."""
    done = sink.progress
    if sink.snapshot is None:
        done = done.sent(engine.start_traffic)
    else:
        engine.restore(sink.snapshot)

    def pieces() -> Iterator[Piece]:
        for chunk in engine.warm_up(length.num_warmup - done.warmed):
            yield Piece(chunk, False, all_save)
        for chunk in engine.draws(length.num_samples - done.drawn, length.thin):
            yield Piece(chunk, True, all_save)

    def all_save() -> bool:
        return bool(hosts.of_first(sink.is_due))

    with progress_bar(label, length.iterations, done.iterations(length.thin)) as report:
        return take(pieces(), engine.snapshot, sink, length, done, began, report)


class Piece(NamedTuple):
    chunk: Chunk
    is_kept: bool
    saves: Callable[[], bool]  # tells whether all processes save the state after it


def take(
    pieces: Iterator[Piece],
    snapshot: Snapshot,
    sink: Sink,
    length: Length,
    done: Progress,
    began: float,
    report: Callable[[int], None],
) -> Progress:
    """Write all pieces to the sink, after `done`, and return the progress; what is reported has been saved before."""
    before, diverged = done.seconds, None
    with Writer(sink, report) as writer:
        for chunk, is_kept, saves in pieces:
            redone, watched = check_in_step(chunk, (done.redone, done.watched))
            first = done.drawn if is_kept else None
            if is_kept:
                diverged = diverged or _divergence(chunk, done.drawn)
                done = replace(done, drawn=done.drawn + len(chunk.positions))
            else:
                done = replace(done, warmed=done.warmed + chunk.iterations)
            seconds = before + time.perf_counter() - began
            done = replace(done.sent(chunk.traffic), seconds=seconds, redone=redone, watched=watched)
            writer.wait()  # or it could not be told whether it is time to save again
            is_saved = done.drawn == length.num_samples or saves()
            writer.put(chunk, first, done, snapshot() if is_saved else None)
    if diverged:
        warnings.warn(f"the sampler diverged: {diverged}. Use smaller steps.", stacklevel=3)
    return done


@contextmanager
def ending(sink: Sink) -> Iterator[None]:
    """Tell the sink how the run has ended, complete or interrupted, whatever happens."""
    try:
        yield
    except BaseException:
        sink.finish("interrupted")
        raise
    sink.finish("complete")


def combine(stage: SecondStage, sink: Sink, view: View, network: Network, done: Progress) -> Progress:
    """Combine the agents' own draws into the posterior's, and put what is kept of these into the sink."""
    own = sink.own_draws()
    combined = stage.combine(own)
    see = jax.jit(jax.vmap(jax.vmap(jax.vmap(view))))
    sink.put(np.asarray(see(combined)), view.layout)
    return replace(done.sent(_exact_sums(network, stage.combine_bytes(own))), combined=done.drawn)


def _exact_sums(network: Network, parts: Sequence[int]) -> Traffic:
    """Return the traffic of sums over the tree, up and down again; `parts`: bytes of one agent's part of each sum."""
    rounds, messages = price(network, "tree pass")
    return sum((Traffic(2 * rounds, 2 * messages, 2 * messages * part) for part in parts), Traffic())


def _divergence(chunk: Chunk, drawn: int) -> str | None:
    """Say where a chain diverged, if it did; its draws may stay finite while all it computes has become NaN.

    Args:
      drawn: the number of draws before this chunk.
    """
    bad = ~np.isfinite(chunk.positions).all(axis=-1)
    for values in chunk.stats.values():
        bad |= ~np.isfinite(values)
    for draw, chain, copy in np.argwhere(bad)[:1]:
        return f"agent {chunk.first + copy}, chain {chain} is not finite from draw {drawn + draw} on"
    return None


def check_in_step(chunk: Chunk, so_far: tuple[int, int]) -> tuple[int, int]:
    """Add a chunk to the counts of redone and of all iterations; stop a run whose agents do not compute alike."""
    if "redone" not in chunk.stats:
        return so_far
    redone = round(float(chunk.stats["redone"].sum()) * chunk.iterations / len(chunk.stats["redone"]))
    lost = "out_of_step" in chunk.stats and chunk.stats["out_of_step"].any()
    redone, iterations = so_far[0] + redone, so_far[1] + chunk.iterations * chunk.positions.shape[1]
    if lost or redone > max(1, MOST_REDONE * iterations):
        raise RuntimeError(
            f"the agents fell out of step in {redone} of {iterations} iterations: they do not compute alike. This is "
            f"jax {jax.__version__} on {jax.devices()[0].device_kind}; every agent needs the same versions, and a "
            f"model whose decisions do not hang on its last digits: check it in float64."
        )
    return redone, iterations
