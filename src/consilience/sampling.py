"""`cs.sample`: check everything, then run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._checks import whole_number
from ._types import Batch, Key, Params
from .network import Network
from .posterior import Layout, Posterior, Shard, check_posterior
from .posterior.layout import RESERVED
from .posterior.shards import form, own_shards, stack_on_host
from .posterior.view import Keep, View, chosen
from .results import Run
from .results.identity import (
    Table,
    causes,
    describe,
    describe_data,
    describe_network,
    describe_sampler,
    surroundings,
)
from .results.memory import Memory
from .results.progress import Progress
from .results.shared import SharedStore
from .results.sink import Sink
from .results.store import POSTERIOR, SUBPOSTERIORS, Store
from .results.stored import moments_of, stored_run
from .results.writer import Writer
from .runtimes import Chunk, Engine, Hosts, Runtime, Simulate
from .runtimes.bar import progress_bar
from .runtimes.moments import read_moments
from .runtimes.traffic import Traffic, price
from .samplers import OneShot, Sampler

MOST_SEED = 2**32 - 1
MOST_REDONE = 1e-3  # of all iterations


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
    """Sample one posterior over a network, no agent seeing another's data.

    Args:
      posterior: what is sampled.
      shards: one pytree of data per agent, as `cs.shard` gives them, or a function of an agent's number that gives its
        own: where several hosts share a run, it is called for the agents of this host only.
      network: who may talk to whom.
      sampler: how: `cs.nuts()` where nothing speaks against it.
      num_samples: kept draws per chain.
      init: where all agents start: the parameters, or a jax function of a key that gives them, another for every chain.
        May be left out where the posterior brings its own.
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
      out: a folder. Draws go there as they come, instead of staying in memory, and a killed run can be gone on with.
      resume: go on with the run in `out`: after a crash, or for more draws. The draws are those that one uninterrupted
        run would have given. Where there is no run yet, one is started.
      progress: show a bar; a string is its label.
      runtime: where agents live: `cs.Devices()`, on a mesh of devices, of this host or of several; None: as lanes of
        one array, on jax's default device. The chain is the same, but for how sums round.
    """
    _check_arguments(posterior, network, sampler, runtime)
    length = Length(num_samples, num_warmup, num_chains, thin, seed)
    if resume and out is None:
        raise ValueError('resume=True: say which run to go on with, out="runs/first".')

    began = time.perf_counter()
    runtime = Simulate() if runtime is None else runtime
    hosts = runtime.hosts
    own = hosts.together(lambda: runtime.agents(network.size))
    _check_sharing(hosts, sampler, out)
    _check_alike(hosts, _settings(network, sampler, length, out))
    here = hosts.together(lambda: own_shards(shards, network.size, own))
    data = _data_of_all(hosts, own, here)
    ready = hosts.together(
        lambda: prepare(posterior, here, network, sampler, length, init, keep, own.start, data["rows"])
    )
    posterior, layout, positions, sampler, view = ready.posterior, ready.layout, ready.starts, ready.sampler, ready.view
    averaged = _averaged(layout, posterior, moments)
    watched = _watched(averaged, watch)
    if isinstance(sampler, OneShot) and averaged is not None:
        raise ValueError(
            f"{sampler.name} has its draws when all are there: it has no running moments. Leave out moments=."
        )

    # What a one-shot sampler draws first are not the posterior's draws: they are looked at once they are combined.
    drawn = View.of(layout) if isinstance(sampler, OneShot) else view
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
    _check_alike(hosts, identity)
    sink: Memory | Store = Memory(num_samples)
    if out is not None:
        group = SUBPOSTERIORS if isinstance(sampler, OneShot) else POSTERIOR
        folder = Path(out).expanduser().absolute()
        store = Store if hosts.count == 1 else partial(SharedStore, hosts, None if sampler.replicated else own)
        per_file = runtime.agents_per_file(network.size)
        sink = store(folder, identity, network, drawn.layout, num_samples, group, resume, per_file)
    label = (progress if isinstance(progress, str) else sampler.name) if progress and hosts.is_first else ""
    with ending(sink):
        done = _draw(engine, sink, hosts, length, began, label)
        if isinstance(sampler, OneShot) and done.combined < done.drawn:
            done = _combine(sampler, sink, view, network, done)
            sink.save(done, engine.snapshot() if out else {})
        hosts.wait()  # for the draws of the others
    known: dict[str, Any] = {
        "sampler": sampler,
        "network": network,
        "posterior": posterior,
        "shards": here if len(here) == network.size else None,
        "parameters": layout,
        "dims": posterior.dims,
    }
    if isinstance(sink, Store):
        form = None if averaged is None else averaged.layout
        return replace(stored_run(sink.folder, view.layout, form), **known)
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


@dataclass(frozen=True)
class Length:
    """How long a run is, and of which seed."""

    num_samples: int
    num_warmup: int
    num_chains: int
    thin: int
    seed: int

    def __post_init__(self) -> None:
        whole_number("num_samples", self.num_samples, 1)
        whole_number("num_warmup", self.num_warmup, 0)
        whole_number("num_chains", self.num_chains, 1)
        whole_number("thin", self.thin, 1)
        whole_number("seed", self.seed, 0, MOST_SEED)

    @property
    def iterations(self) -> int:
        return self.num_warmup + self.num_samples * self.thin


@dataclass(frozen=True)
class Prepared:
    """A run that has been checked, and waits for a runtime.

    Attributes:
      starts: where the chains start, (chains, dimension).
      key: of what is random after that.
    """

    posterior: Posterior
    layout: Layout
    starts: jax.Array
    key: Key
    stacked: Shard
    sampler: Sampler
    view: View


def prepare(
    posterior: Posterior,
    shards: Sequence[Batch],
    network: Network,
    sampler: Sampler,
    length: Length,
    init: Any,
    keep: Any,
    first: int = 0,
    lengths: Sequence[int] = (),
) -> Prepared:
    """Refuse what cannot be run.

    Args:
      shards: of the agents that live here.
      first: the first of them.
      lengths: of all agents' shards, where the longest may be elsewhere.
    """
    posterior = posterior.bind(shards[0])
    for_start, for_run = jax.random.split(jax.random.key(length.seed))
    layout, positions = _starts(_init(posterior, init), for_start, length.num_chains)
    start = layout.unravel(positions[0])
    for agent, shard in enumerate(shards, first):
        posterior.check_data(agent, start, shard)
    stacked = stack_on_host(shards, lengths)
    check_posterior(posterior, start, jax.tree.map(lambda leaf: leaf[0], stacked.batch))
    sampler = sampler.resolve(network, layout.dimension, length.num_warmup)
    view = View.of(layout, chosen(posterior.constrain, keep))
    _check_dims(posterior.dims, view.layout)
    return Prepared(posterior, layout, positions, for_run, stacked, sampler, view)


def _draw(engine: Engine, sink: Sink, hosts: Hosts, length: Length, began: float, label: str) -> Progress:
    """Run to the end from where the sink's run stands."""
    done = sink.progress
    if sink.snapshot is None:
        done = done.sent(engine.start_traffic)
    else:
        engine.restore(sink.snapshot)

    def pieces() -> Iterator[Piece]:
        for chunk in engine.warm_up(length.num_warmup - done.warmed):
            yield Piece(chunk, False, all_save())
        for chunk in engine.draws(length.num_samples - done.drawn, length.thin):
            yield Piece(chunk, True, all_save())

    def all_save() -> bool:
        return isinstance(sink, SharedStore) and bool(hosts.of_first(sink.is_due))

    with progress_bar(label, length.iterations, done.iterations(length.thin)) as report:
        return take(pieces(), engine.snapshot, sink, length, done, began, report)


def _data_of_all(hosts: Hosts, own: range, shards: Sequence[Batch]) -> Table:
    """What is recorded of all agents' data; refused where that of two hosts is not of one form."""
    found = hosts.gather({**describe_data(shards), "first": own.start, "form": form(shards[0])})

    def check() -> None:
        for host in found:
            if host["form"] != found[0]["form"]:
                raise ValueError(f"agent {host['first']}: its data is {host['form']}, agent 0's is {found[0]['form']}.")

    hosts.together(check)
    return {name: [value for host in found for value in host[name]] for name in ("rows", "fingerprints")}


def _check_alike(hosts: Hosts, identity: Table) -> None:
    """Refuse hosts that are about to run different things."""
    first, *others = hosts.gather(identity)

    def check() -> None:
        for host, other in enumerate(others, 1):
            if lines := causes(first, other, free=("created",)):
                raise ValueError(
                    f"host {host} is here, host 0 there, and they differ:\n{lines}\nStart all hosts alike."
                )

    hosts.together(check)


def _settings(network: Network, sampler: Sampler, length: Length, out: Any) -> Table:
    """What can be compared before anything is loaded or compiled."""
    return {
        "run": asdict(length),
        "network": describe_network(network),
        "sampler": describe_sampler(sampler),
        "versions": surroundings(),
        "out": out is not None,
    }


def _check_sharing(hosts: Hosts, sampler: Sampler, out: Any) -> None:
    """Refuse what hosts cannot do together."""
    if hosts.count > 1 and isinstance(sampler, OneShot):
        raise ValueError(f"{sampler.name} puts all agents' draws together in one place: run it on one host.")
    if hosts.count > 1 and not sampler.replicated and out is None:
        raise ValueError('every host has the draws of its own agents: say where they go, out="runs/first".')


class Piece(NamedTuple):
    chunk: Chunk
    is_kept: bool
    save: bool = False  # the state after it, whatever the sink thinks of it


def take(
    pieces: Iterator[Piece],
    snapshot: Callable[[], dict[str, np.ndarray]],
    sink: Sink,
    length: Length,
    done: Progress,
    began: float,
    report: Callable[[int], None],
) -> Progress:
    """Put all pieces where they belong, after `done`; what is reported has been saved before."""
    before, diverged = done.seconds, None
    with Writer(sink, report) as writer:
        for chunk, is_kept, save in pieces:
            redone, watched = _check_in_step(chunk, (done.redone, done.watched))
            first = done.drawn if is_kept else None
            if is_kept:
                diverged = diverged or _divergence(chunk, done.drawn)
                done = replace(done, drawn=done.drawn + len(chunk.positions))
            else:
                done = replace(done, warmed=done.warmed + chunk.iterations)
            seconds = before + time.perf_counter() - began
            done = replace(done.sent(chunk.traffic), seconds=seconds, redone=redone, watched=watched)
            writer.put(chunk, first, done, snapshot, is_last=save or done.drawn == length.num_samples)
    if diverged:
        warnings.warn(f"the sampler diverged: {diverged}. Use smaller steps.", stacklevel=3)
    return done


def _combine(sampler: OneShot, sink: Sink, view: View, network: Network, done: Progress) -> Progress:
    """Put the agents' own draws together, and look at what comes out."""
    own = sink.own_draws()
    combined = sampler.combine(own)
    see = jax.jit(jax.vmap(jax.vmap(jax.vmap(view))))
    sink.put(np.asarray(see(combined)), view.layout)
    return replace(done.sent(_exact_sums(network, sampler.combine_bytes(own))), combined=done.drawn)


@contextmanager
def ending(sink: Sink) -> Iterator[None]:
    """Whatever happens, the sink is told."""
    try:
        yield
    except BaseException:
        sink.finish("interrupted")
        raise
    sink.finish("complete")


def _init(posterior: Posterior, init: Any) -> Any:
    """Where chains start: where the user says, else where the posterior does."""
    if init is None and posterior.init is None:
        raise ValueError("init is missing: write init=params, the model's parameters, for example init=jnp.zeros(3).")
    return posterior.init if init is None else init


def _check_dims(dims: Mapping[str, Sequence[str]], kept: Layout) -> None:
    """Refuse names of axes that are not as many as the axes, or are taken."""
    for name, shape in zip(kept.names, kept.shapes, strict=True):
        axes = tuple(dims.get(name, ()))
        if name in dims and (len(axes) != len(shape) or len(set(axes)) < len(axes) or set(axes) & set(RESERVED)):
            raise ValueError(
                f"dims: {name} has shape {shape} and axes {axes}: every axis needs a name of its own, other than "
                f"{', '.join(RESERVED)}."
            )


def _averaged(layout: Layout, posterior: Posterior, moments: Any) -> View | None:
    """What running moments are taken of."""
    if not callable(moments) and not isinstance(moments, bool):
        raise TypeError(f"moments = {moments!r}: True, False, or a function of the parameters.")
    if moments is False:
        return None
    return View.of(layout, chosen(posterior.constrain, moments if callable(moments) else None), "moments")


def _watched(averaged: View | None, watch: Any) -> View | None:
    """What is recorded of the running mean."""
    if watch is None:
        return None
    if averaged is None:
        raise ValueError("watch is of a running mean, and there is none: say of what, moments=...")
    fix = 'Write for example watch=lambda mean: {"error": jnp.abs(mean - truth).max()}.'

    def by_name(mean: Any) -> Mapping[str, Any]:
        found = watch(mean)
        if not isinstance(found, Mapping) or not found:
            raise ValueError(f"watch must give a dict of single numbers; it gave {found!r}. {fix}")
        return found

    view = View.of(averaged.layout, by_name, "watch")
    for name, shape in zip(view.layout.names, view.layout.shapes, strict=True):
        if shape:
            raise ValueError(f"watch must give single numbers; {name} has shape {shape}. {fix}")
    return view


def _check_arguments(posterior: Any, network: Any, sampler: Any, runtime: Any) -> None:
    """Refuse what is easily passed by mistake."""
    for name, value, kind, fix in (
        ("posterior", posterior, Posterior, "cs.Posterior(log_prior, log_likelihood)"),
        ("network", network, Network, "cs.Network.from_networkx(graph) or cs.Network.ring(5)"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}; write {name}={fix}.")
    if not isinstance(runtime, Runtime | None):
        raise TypeError(f"runtime = {runtime!r}: write runtime=cs.Devices(), or leave it out.")
    if isinstance(sampler, type):
        name = getattr(sampler, "name", "nuts")
        raise TypeError(f"sampler is the class {sampler.__name__}, without settings; write sampler=cs.{name}(...).")
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler is a {type(sampler).__name__}; write for example sampler=cs.nuts().")


def _divergence(chunk: Chunk, drawn: int) -> str | None:
    """Where a chain left the numbers, if it did; its draws may stay finite while all it computes has become NaN.

    Args:
      drawn: the draws before this chunk.
    """
    bad = ~np.isfinite(chunk.positions).all(axis=-1)
    for values in chunk.stats.values():
        bad |= ~np.isfinite(values)
    for draw, chain, copy in np.argwhere(bad)[:1]:
        return f"agent {chunk.first + copy}, chain {chain} is not finite from draw {drawn + draw} on"
    return None


def _exact_sums(network: Network, parts: Sequence[int]) -> Traffic:
    """Of a sum over the tree, up and down again, for each of `parts`: the bytes of one agent's part."""
    rounds, messages = price(network, "tree pass")
    return sum((Traffic(2 * rounds, 2 * messages, 2 * messages * part) for part in parts), Traffic())


def _check_in_step(chunk: Chunk, so_far: tuple[int, int]) -> tuple[int, int]:
    """Redone and all iterations, this chunk's added; stops a run whose agents do not compute alike."""
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


def _starts(init: Params | Callable[[Key], Params], key: Key, chains: int) -> tuple[Layout, jax.Array]:
    """The parameters' layout, and where the chains start: (chains, dimension)."""
    if not (callable(init) and jax.tree_util.all_leaves([init])):  # a pytree may be callable too, as a network is
        layout = Layout.of(init)
        return layout, jnp.tile(layout.ravel(init), (chains, 1))
    layout = Layout.of(init(key))
    keys = jax.random.split(key, chains)
    return layout, jax.vmap(lambda k: layout.ravel(init(k)))(keys)
