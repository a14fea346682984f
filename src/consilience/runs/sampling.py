"""The function `cs.sample`: check everything, then run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._checks import refuse_unknown_keywords
from .._refused import Refused
from .._types import Batch, Key, Params
from ..model import Keep, Posterior
from ..network import Network
from ..results import Run
from ..samplers import Sampler
from .request import NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP, Length, Request, check_arguments
from .runtime import Runtime
from .simulate import Simulate


@refuse_unknown_keywords("cs.sample")
def sample(
    posterior: Posterior,
    shards: Sequence[Batch] | Mapping[str, Batch] | Callable[[int], Batch],
    network: Network,
    sampler: Sampler,
    *,
    num_samples: int = NUM_SAMPLES,
    init: Params | Callable[[Key], Params] | None = None,
    num_warmup: int = NUM_WARMUP,
    num_chains: int = NUM_CHAINS,
    thin: int = 1,
    seed: int = 0,
    keep: Keep | None = None,
    moments: bool | Callable[[Params], Any] = False,
    watch: Callable[[Any], Mapping[str, Any]] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool | str = True,
    runtime: Runtime | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Run:
    """Sample one posterior over a network of agents, none of which sees another's data.

    Args:
      posterior: the posterior to sample.
      shards: one pytree of data per agent, as `cs.shard` gives them, or these by the agents' names, {"north": ...}; or
        a function of an agent's number that gives its own: where several hosts share a run, it is called for the
        agents of this host only. A data frame is a dict of its columns, and a table within a dict, {"x": frame}.
      network: which agents may talk to each other.
      sampler: the sampler to use: `cs.nuts()` where nothing speaks against it.
      num_samples: kept draws per chain, 1000 unless given.
      init: where all agents start: the parameters, or a jax function that gives them from a random key, a new one for
        every chain. May be left out where the posterior brings its own.
      num_warmup: iterations before the first kept one, 500 unless given. Samplers that tune themselves do it here; 0
        where the start is a draw of the posterior already, or the cost of an iteration is what is asked.
      num_chains: independent chains, run side by side, 4 unless given.
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
        one array, on jax's default device. The chain is the same, but for how sums round. `cs.Peer("b/agent.toml")`:
        this process is one agent, the others are on their owners' machines, and `shards` has its own data alone.
      columns: names of the columns of tables in the data, {"x": ["age", "dose"]}, where these are no data frames.
    """
    runtime = Simulate() if runtime is None else runtime
    if isinstance(runtime, type) or not isinstance(runtime, Runtime):
        raise Refused(f"runtime = {runtime!r}", "it is none", "Write runtime=cs.Devices(), or leave it out.")
    label = (progress if isinstance(progress, str) else getattr(sampler, "name", "")) if progress else ""

    def request() -> Request:
        check_arguments(posterior, network, sampler, out, resume)
        return Request(
            posterior,
            shards,
            network,
            sampler,
            Length(num_samples, num_warmup, num_chains, thin, seed),
            init,
            keep,
            moments,
            watch,
            None if out is None else Path(out).expanduser().absolute(),
            resume,
            label if hosts.is_first else "",
            began,
            columns or {},
        )

    began, hosts = time.perf_counter(), runtime.hosts
    return runtime.run(hosts.together(request))
