"""The one driver of all runtimes: prepare a run, compare it with the others', draw, and keep what is drawn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np

from .._cache import processor
from .._refused import Refused
from .._types import Batch
from ..engine import Chains, Chunk, Hosts, code_of_posterior, read_moments
from ..model import KeptOwn, View, infinities_explained, numbered_if_asked
from ..neighbors import Traffic, price
from ..network import Network
from ..results import Run, moments_of, own_draws, stored_run
from ..samplers import SecondStage
from ..store import (
    POSTERIOR,
    SUBPOSTERIORS,
    Memory,
    Progress,
    RunFolder,
    Sink,
    Table,
    Writer,
    check_folder,
    describe,
    describe_network,
    describe_own,
    describe_sampler,
    differences,
    surroundings,
)
from .bar import progress_bar
from .data import data_of_all, own_data, recorded_labels
from .labels import Labels, find_labels
from .preparing import Prepared, prepare
from .request import Request
from .runtime import Home, Wish

MOST_REDONE = 1e-3  # share of all iterations that may be redone


class Stopped(Exception):  # noqa: N818
    """Raised when all agents have been asked to end; the run can be resumed."""


@dataclass
class Job:
    """A run that is ready to be drawn, or has been: prepared, compared with the others', and its folder open.

    Attributes:
      shards: data of the agents that live here.
      labels: names of agents, of columns, and along axes of what is kept.
      identity: the run's record.
      sink: destination of its draws, which knows how far the run has come.
    """

    request: Request
    home: Home
    prepared: Prepared
    shards: Sequence[Batch]
    labels: Labels
    chains: Chains
    identity: Table
    sink: Sink

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Record how the run has ended, complete or interrupted, whatever happens."""
        try:
            yield
        except BaseException:
            self.sink.finish("interrupted")
            raise
        self.sink.finish("complete")


def run_once(request: Request, home: Home) -> Run:
    """Prepare a run, compare it with what the other hosts are about to do, draw it, and keep its draws."""
    job = open_job(request, home)
    with job.ending():
        done = job.sink.progress
        if job.sink.snapshot is None:
            done = done.sent(job.chains.start_traffic)
        else:
            job.chains.restore(job.sink.snapshot)
        draw(job, done, request.began)
        home.hosts.wait()  # for the other hosts' draws
    home.hosts.wait()  # for the first host to have recorded the end
    return result(job)


def open_job(request: Request, home: Home) -> Job:
    """Check all that a run is made of, compare it with the others' and with its folder's, and compile it."""
    hosts = home.hosts
    agents = hosts.together(lambda: home.agents(request.network))
    _check_hosts(hosts, _settings(request))  # before anything is loaded
    hosts.together(lambda: _check_sharing(request, hosts))
    hosts.together(lambda: check_own_are_held(request, home.holds_own))
    hosts.together(lambda: _check_out(request.out, hosts))
    recorded = hosts.gather(hosts.together(lambda: recorded_labels(request)))[0]
    request = hosts.together(lambda: request.with_names(recorded.get("agents", ())))
    names = home.names(request.network)
    shards, columns, groups = hosts.together(lambda: own_data(request, agents, names, recorded.get("columns", {})))
    data = data_of_all(hosts, request.network, agents, shards, columns)
    stack = partial(home.stack, lengths=data["rows"])
    numbers = home.numbers(request.network)
    prepared, used = hosts.together(
        lambda: numbered_if_asked(lambda mine: prepare(request, mine, names, stack), shards, numbers)
    )
    numbered = used is not shards
    is_whole = not home.record.get("agent", {}).get("without")  # else names are not in the order of numbers
    found = hosts.together(lambda: find_labels(prepared, columns, groups, used[0], numbered, is_whole))
    labels = Labels.from_table(hosts.gather(found.to_table())[0])  # the first host's: they follow from its rows
    own = None if prepared.own is None else KeptOwn.of(prepared.own, used)
    chains = hosts.together(lambda: home.chains(prepared))
    identity = {**describe_job(prepared, labels, request, data, chains.code), **home.record}
    if own is not None:
        identity["own"] = describe_own(own, prepared.posterior.own_init)
    _check_hosts(hosts, identity)  # before anything is compiled, or they would wait for each other for ever
    chains.compile()
    with infinities_explained(names, used):
        home.check_start(chains)
    sink = _open_sink(request, home, prepared, identity, own)
    return Job(request, home, prepared, used, labels, chains, identity, sink)


def describe_job(prepared: Prepared, labels: Labels, request: Request, data: Table, code: str) -> Table:
    """Return the record of a run, given its labels, the record of its data and the fingerprint of its code."""
    return describe(
        prepared.network,
        prepared.sampler,
        data,
        np.asarray(prepared.starts),
        prepared.layout,
        prepared.view.layout,
        None if prepared.averaged is None else prepared.averaged.layout,
        labels.dims,
        labels.recorded(),
        code,
        {} if request.out is None else code_of_posterior(prepared.posterior, prepared.layout, prepared.row),
        asdict(request.length),
    )


def _settings(request: Request) -> Table:
    """Return the settings that hosts can compare before anything is loaded or compiled.

    Copies of one chain must be moved alike, and processors of different kinds may round differently: then one host
    would go on where another has ended a trajectory, and wait for ever.
    """
    needs_alike = request.sampler.replicated and jax.default_backend() == "cpu"
    return {
        "processor": processor() if needs_alike else "any",
        "run": asdict(request.length),
        "network": describe_network(request.network),
        "sampler": {"name": request.sampler.name, "settings": describe_sampler(request.sampler)},
        "versions": surroundings(),
        "out": request.out is not None,
    }


def _check_sharing(request: Request, hosts: Hosts) -> None:
    """Refuse a run that several hosts cannot do together."""
    sampler = request.sampler
    if hosts.count > 1 and sampler.second_stage is not None:
        raise Refused(sampler.name, "it puts all agents' draws together in one place", "Run it on one host.")
    if hosts.count > 1 and not sampler.replicated and request.out is None:
        raise Refused("out", "every host has the draws of its own agents", 'Say where they go, out="runs/first".')


def check_own_are_held(request: Request, holds_own: bool) -> None:
    """Refuse variables that stay with their owner on a runtime that cannot hold them."""
    if request.posterior.own_log_prior is not None and not holds_own:
        reason = "of several hosts none may keep variables that stay with their owner, if that is another's agent"
        raise Refused("runtime", reason, "Write cs.Devices() on one host, or let agents be cs.Peer(...) of their own.")


def _check_out(out: Path | None, hosts: Hosts) -> None:
    """Refuse a folder that cannot be made, before anything is computed for it; the other hosts may not see it yet."""
    if out is not None and hosts.is_first:
        check_folder(out, 'out="runs/first"')


def _check_hosts(hosts: Hosts, table: Table) -> None:
    """Refuse hosts that are about to run different things."""
    first, *others = hosts.gather(table)

    def check() -> None:
        for host, other in enumerate(others, 1):
            if lines := differences({"there": first, "here": other}, free=("created",)):
                listed = "\n".join(f"  {line}" for line in lines)
                raise Refused(
                    f"host {host} is here, host 0 there, and they differ", f"\n{listed}\n", "Start all hosts alike."
                )

    hosts.together(check)


def _open_sink(request: Request, home: Home, prepared: Prepared, identity: Table, own: KeptOwn | None) -> Sink:
    if request.out is None:
        return Memory(request.length.num_samples, own)
    return RunFolder(
        request.out,
        identity,
        prepared.network,
        prepared.drawn.layout,
        home.part(prepared),
        home.hosts,
        POSTERIOR if prepared.sampler.second_stage is None else SUBPOSTERIORS,
        request.resume,
        own,
    )


def draw(job: Job, done: Progress, began: float, observe: Callable[[Chunk, Progress], None] = lambda *_: None) -> None:
    """Draw what is left of a run, after `done`, and keep it: what is reported has been saved before.

    Args:
      began: when the work on it began, in seconds of `time.perf_counter`.
      observe: called with every chunk, and the progress after it.
    """
    chains, sink, length, diverged = job.chains, job.sink, job.request.length, ""
    before = done.seconds
    with (
        progress_bar(job.request.label, length.iterations, done.iterations(length.thin)) as report,
        Writer(sink, report) as writer,
    ):
        agreed = job.home.agree(Wish(chains.iterations_at_once(), False))
        while done.drawn < length.num_samples:
            first = done.drawn if done.warmed == length.num_warmup else None
            if first is None:
                chunk = chains.advance(1, min(agreed.iterations, length.num_warmup - done.warmed), seen=False)
                done = replace(done, warmed=done.warmed + chunk.iterations)
            else:
                most = min(length.num_samples - first, chains.program.buffer)
                chunk = chains.advance(max(1, min(most, agreed.iterations // length.thin)), length.thin)
                done = replace(done, drawn=first + len(chunk.positions))
                diverged = diverged or _divergence(chunk, first, job.prepared.network)
            redone, watched = check_in_step(chunk, (done.redone, done.watched))
            seconds = before + time.perf_counter() - began
            done = replace(done.sent(chunk.traffic), seconds=seconds, redone=redone, watched=watched)
            # Before anything of the chunk is kept: agents that are processes learn by it that they have drawn the same.
            agreed = job.home.agree(Wish(chains.iterations_at_once(), sink.is_due))
            if objection := job.prepared.sampler.objection(chunk.stats):
                raise objection
            is_last = agreed.stop or done.drawn == length.num_samples
            writer.wait()  # what is written now may be saved at once
            save = sink.is_due if agreed.save is None else agreed.save
            writer.put(chunk, first, done, chains.snapshot() if save or is_last else None)
            observe(chunk, done)
            if agreed.stop and done.drawn < length.num_samples:
                raise Stopped
    if diverged:
        warnings.warn(f"the sampler diverged: {diverged}. Use smaller steps.", stacklevel=6)
    if job.prepared.sampler.second_stage is not None and done.combined < done.drawn:
        done = combine(job.prepared.sampler.second_stage, sink, job.prepared.view, job.prepared.network, done)
        sink.save(done, chains.snapshot())


def combine(stage: SecondStage, sink: Sink, view: View, network: Network, done: Progress) -> Progress:
    """Combine the agents' own draws into the posterior's, and put what is kept of these into the sink."""
    own = sink.own_draws()
    combined = stage.combine(own)
    see = jax.jit(jax.vmap(jax.vmap(jax.vmap(view))))
    sink.put(np.asarray(see(combined)), view.layout)
    rounds, messages, carriers = price(network, "sum")
    for size in stage.combine_bytes(own):  # of one agent's part of a sum
        done = done.sent(Traffic(rounds, messages, carriers * size))
    return replace(done, combined=done.drawn)


def result(job: Job) -> Run:
    """Return the run that a job has drawn."""
    request, prepared, sink = job.request, job.prepared, job.sink
    averaged = None if prepared.averaged is None else prepared.averaged.layout
    known = partial(
        replace,
        sampler=prepared.sampler,
        network=prepared.network,
        posterior=prepared.posterior,
        shards=job.shards if len(job.shards) == prepared.network.size else None,
        own_shards=job.shards,
        parameters=prepared.layout,
        dims=job.labels.dims,
        coords=job.labels.coords,
        columns=job.labels.columns,
        names=job.labels.agents,
    )
    if isinstance(sink, RunFolder):
        return known(stored_run(sink.folder, prepared.view.layout, averaged))
    assert isinstance(sink, Memory) and sink.kept is not None
    moments = None
    if averaged is not None:
        moments = moments_of(read_moments(job.chains.snapshot()), averaged.unravel, prepared.network.size)
    return known(
        Run(
            kept=sink.kept,
            raw_stats=sink.stats,
            layout=prepared.view.layout,
            sampler=prepared.sampler,
            network=prepared.network,
            iterations=request.length.iterations,
            thin=request.length.thin,
            traffic=sink.progress.traffic,
            seconds=sink.progress.seconds,
            rows=tuple(job.identity["data"]["rows"]),
            moments=moments,
            facts={name: str(value) for name, value in {**asdict(request.length), **surroundings()}.items()},
            own_draws=own_draws(job.identity, lambda agent, _: sink.own[agent]),
        )
    )


def _divergence(chunk: Chunk, drawn: int, network: Network) -> str:
    """Say where a chain diverged, if it did; its draws may stay finite while all it computes has become NaN.

    Args:
      drawn: the number of draws before this chunk.
    """
    bad = ~np.isfinite(chunk.positions).all(axis=-1)
    for values in chunk.stats.values():
        bad |= ~np.isfinite(values)
    for draw, chain, copy in np.argwhere(bad)[:1]:
        return f"{network.called(chunk.first + copy)}, chain {chain} is not finite from draw {drawn + draw} on"
    return ""


def check_in_step(chunk: Chunk, so_far: tuple[int, int]) -> tuple[int, int]:
    """Add a chunk to the counts of redone and of all iterations; stop a run whose agents do not compute alike."""
    if "redone" not in chunk.stats:
        return so_far
    redone = round(float(chunk.stats["redone"].sum()) * chunk.iterations / len(chunk.stats["redone"]))
    lost = "out_of_step" in chunk.stats and chunk.stats["out_of_step"].any()
    redone, iterations = so_far[0] + redone, so_far[1] + chunk.iterations * chunk.positions.shape[1]
    if lost or redone > max(1, MOST_REDONE * iterations):
        raise RuntimeError(f"the agents fell out of step in {redone} of {iterations} iterations: {not_alike()}")
    return redone, iterations


def not_alike() -> str:
    """Say what to do where agents do not compute alike."""
    return (
        f"they do not compute alike. This is jax {jax.__version__} on {jax.devices()[0].device_kind}; every agent "
        f"needs the same versions, and a model whose decisions do not hang on its last digits: check it in float64."
    )
