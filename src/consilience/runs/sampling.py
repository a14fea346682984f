"""The function `cs.sample`: check everything, then run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._types import Batch, Key, Params
from ..engine import read_moments
from ..model import Keep, Posterior, View, own_shards
from ..network import Network
from ..results import Run, moments_of, stored_run
from ..samplers import Sampler
from ..store import POSTERIOR, SUBPOSTERIORS, Memory, SharedStore, Store, Table, describe, surroundings
from .agreeing import check_alike, check_sharing, data_of_all, settings_of
from .drawing import combine, draw, ending
from .preparing import Length, prepare, running_views
from .runtime import Runtime
from .simulate import Simulate


def sample(
    posterior: Posterior,
    shards: Sequence[Batch] | Callable[[int], Batch],
    network: Network,
    sampler: Sampler,
    *,
    num_samples: int,
    init: Params | Callable[[Key], Params] | None = None,
    num_warmup: int = 0,
    num_chains: int = 1,
    thin: int = 1,
    seed: int = 0,
    keep: Keep | None = None,
    moments: bool | Callable[[Params], Any] = False,
    watch: Callable[[Any], Mapping[str, Any]] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool | str = True,
    runtime: Runtime | None = None,
) -> Run:
    """Sample one posterior over a network of agents, none of which sees another's data.

    Args:
      posterior: the posterior to sample.
      shards: one pytree of data per agent, as `cs.shard` gives them, or a function of an agent's number that gives its
        own: where several hosts share a run, it is called for the agents of this host only.
      network: which agents may talk to each other.
      sampler: the sampler to use: `cs.nuts()` where nothing speaks against it.
      num_samples: kept draws per chain.
      init: where all agents start: the parameters, or a jax function that gives them from a random key, a new one for
        every chain. May be left out where the posterior brings its own.
      num_warmup: iterations before the first kept one. Samplers that tune themselves do it here.
      num_chains: independent chains, run side by side.
      thin: iterations per kept draw.
      seed: the same seed gives the same draws.
      keep: names of the parameters to keep, or a jax function of the parameters whose values are kept in their place;
        None: all. An empty list keeps none, for runs of which only `moments` are wanted.
      moments: True: the running mean and variance of every parameter; a jax function of the parameters: of its values.
        They take no memory that grows with the draws; `run.moments` has them.
      watch: a jax function of the running mean of what `moments` names, that gives a dict of numbers. They are recorded
        with every draw, as `run.stats`: how an estimate settles, for example the accuracy of the predictive so far.
      out: a folder. Draws go there as they come, instead of staying in memory, and a killed run can be resumed.
      resume: go on with the run in `out`: after a crash, or for more draws. The draws are those that one uninterrupted
        run would have given. Where there is no run yet, one is started.
      progress: show a bar; a string is its label.
      runtime: where agents live: `cs.Devices()`, on a mesh of devices, of this host or of several; None: as lanes of
        one array, on jax's default device. The chain is the same, but for how sums round.
    """
    if not isinstance(runtime, Runtime | None):
        raise TypeError(f"runtime = {runtime!r}: write runtime=cs.Devices(), or leave it out.")
    began = time.perf_counter()
    runtime = Simulate() if runtime is None else runtime
    hosts = runtime.hosts
    hosts.together(lambda: _check_arguments(posterior, network, sampler, out, resume))
    length = hosts.together(lambda: Length(num_samples, num_warmup, num_chains, thin, seed))
    own = hosts.together(lambda: runtime.agents(network.size))
    check_alike(hosts, settings_of(network, sampler, length, out))
    check_sharing(hosts, sampler, out)
    here = hosts.together(lambda: own_shards(shards, network.size, own))
    data = data_of_all(hosts, own, here)
    ready = hosts.together(
        lambda: prepare(posterior, here, network, sampler, length, init, keep, own.start, data["rows"], runtime.stack)
    )
    posterior, layout, positions, sampler, view = ready.posterior, ready.layout, ready.starts, ready.sampler, ready.view
    averaged, watched = hosts.together(lambda: running_views(layout, posterior, sampler, moments, watch))
    # What is combined later are not the posterior's draws: `view` is for the combined ones.
    drawn = view if sampler.second_stage is None else View.of(layout)
    engine = runtime.engine(
        posterior,
        layout,
        ready.stacked,
        network,
        sampler,
        positions,
        ready.key,
        view=drawn,
        averaged=averaged,
        watched=watched,
    )
    layouts = (layout, view.layout, None if averaged is None else averaged.layout)
    starts = np.asarray(positions)
    identity = describe(network, sampler, data, starts, *layouts, posterior.dims, engine.code, asdict(length))
    check_alike(hosts, identity)
    sink = Memory(num_samples) if out is None else _store(out, resume, runtime, own, identity, network, sampler, drawn)
    label = (progress if isinstance(progress, str) else sampler.name) if progress and hosts.is_first else ""
    with ending(sink):
        done = draw(engine, sink, hosts, length, began, label)
        if sampler.second_stage is not None and done.combined < done.drawn:
            done = combine(sampler.second_stage, sink, view, network, done)
            sink.save(done, engine.snapshot() if out else {})
        hosts.wait()  # for the other hosts' draws
    hosts.wait()  # for the first host to have recorded the end
    known: dict[str, Any] = {
        "sampler": sampler,
        "network": network,
        "posterior": posterior,
        "shards": here if len(here) == network.size else None,
        "parameters": layout,
        "dims": posterior.dims,
    }
    if isinstance(sink, Store):
        return replace(stored_run(sink.folder, view.layout, layouts[-1]), **known)
    assert sink.kept is not None
    return Run(
        kept=sink.kept,
        raw_stats=sink.stats,
        layout=view.layout,
        iterations=length.iterations,
        thin=thin,
        traffic=done.traffic,
        seconds=done.seconds,
        rows=tuple(data["rows"]),
        moments=None
        if averaged is None
        else moments_of(read_moments(engine.snapshot()), averaged.layout.unravel, network.size),
        facts={name: str(value) for name, value in {**asdict(length), **surroundings()}.items()},
        **known,
    )


def _store(
    out: str | Path,
    resume: bool,
    runtime: Runtime,
    own: range,
    identity: Table,
    network: Network,
    sampler: Sampler,
    drawn: View,
) -> Store:
    """Open the run's folder; `own`: the agents on this host."""
    hosts = runtime.hosts
    store = Store if hosts.count == 1 else partial(SharedStore, hosts, None if sampler.replicated else own)
    return store(
        Path(out).expanduser().absolute(),
        identity,
        network,
        drawn.layout,
        identity["run"]["num_samples"],
        POSTERIOR if sampler.second_stage is None else SUBPOSTERIORS,
        resume,
        runtime.agents_per_file(network.size),
    )


def _check_arguments(posterior: Any, network: Any, sampler: Any, out: Any, resume: bool) -> None:
    """Refuse arguments that are easily passed by mistake."""
    for name, value, kind, fix in (
        ("posterior", posterior, Posterior, "cs.Posterior(log_prior, log_likelihood)"),
        ("network", network, Network, "cs.Network.from_networkx(graph) or cs.Network.ring(5)"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}; write {name}={fix}.")
    if resume and out is None:
        raise ValueError('resume=True: say which run to go on with, out="runs/first".')
    if isinstance(sampler, type):
        name = getattr(sampler, "name", "nuts")
        raise TypeError(f"sampler is the class {sampler.__name__}, without settings; write sampler=cs.{name}(...).")
    if not isinstance(sampler, Sampler):
        name = type(sampler).__name__
        raise TypeError(
            f"sampler is a {name}; write for example sampler=cs.nuts(), or, for one of your own, "
            f"class {name}(consilience.samplers.Sampler)."
        )
