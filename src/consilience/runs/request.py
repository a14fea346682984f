"""The request of a caller: posterior, data, network, sampler and length of a run; checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from .._checks import whole_number
from .._refused import Refused
from .._types import Batch, Key, Params
from ..model import Keep, Posterior, is_frame
from ..network import Network
from ..samplers import Sampler

MOST_SEED = 2**32 - 1
NUM_SAMPLES, NUM_WARMUP, NUM_CHAINS = 1000, 500, 4  # unless the caller says otherwise


@dataclass(frozen=True)
class Length:
    """Length of a run (draws, warm-up, chains, thinning) and its seed."""

    num_samples: int
    num_warmup: int
    num_chains: int
    thin: int
    seed: int

    def __post_init__(self) -> None:
        spans = {"num_samples": (1,), "num_warmup": (0,), "num_chains": (1,), "thin": (1,), "seed": (0, MOST_SEED)}
        for name, span in spans.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), *span))  # as Python's own int

    @property
    def iterations(self) -> int:
        return self.num_warmup + self.num_samples * self.thin


@dataclass(frozen=True)
class Request:
    """A run as a caller asks for it: the arguments of `cs.sample`, in groups.

    Attributes:
      shards: all agents' data, by their names or in the network's order, or a function of an agent's number.
      columns: names of the columns of tables in the data, where the data do not have them.
      out: folder of the run; None: it is kept in memory.
      label: what the progress bar says; empty: no bar.
      began: when the call was made, in seconds of `time.perf_counter`.
    """

    posterior: Posterior
    shards: Sequence[Batch] | Mapping[str, Batch] | Callable[[int], Batch]
    network: Network
    sampler: Sampler
    length: Length
    init: Params | Callable[[Key], Params] | None = None
    keep: Keep | None = None
    moments: bool | Callable[[Params], Any] = False
    watch: Callable[[Any], Mapping[str, Any]] | None = None
    out: Path | None = None
    resume: bool = False
    label: str = ""
    began: float = 0.0
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def with_names(self, recorded: Sequence[str] = ()) -> Request:
        """Return the request with the agents' names, if it has some, in its network, and shards in that order.

        Args:
          recorded: the names in the record of the run that is gone on with, for a request that has none.
        """
        if not isinstance(self.shards, Mapping):
            is_named = self.network.names or len(recorded) != self.network.size
            return self if is_named else replace(self, network=self.network.named(recorded))
        names = _names_of(self.shards, self.network)
        return replace(self, shards=[self.shards[name] for name in names], network=self.network.named(names))


def _names_of(shards: Mapping[str, Batch], network: Network) -> tuple[str, ...]:
    """Return the names under which data are given, in the network's order; refuse one agent's data, and other names."""
    size = network.size
    for name, batch in shards.items():
        if not isinstance(name, str) or (jax.tree_util.all_leaves([batch]) and not is_frame(batch)):
            reason = f"a {type(shards).__name__} of arrays is one agent's data, and every agent needs its own"
            fix = (
                f"Write shards=cs.shard(data, agents={size}), [data] for one agent, a dict with the data of every "
                f'agent under its name, {{"a": {{"x": x, "y": y}}, "b": ...}}, or a function of an agent\'s number.'
            )
            raise Refused("shards", reason, fix)
    if network.names and set(network.names) != set(shards):
        lacks = [f"lack {name!r}" for name in network.names if name not in shards]
        has = [f"have {name!r}" for name in shards if name not in network.names]
        raise Refused("shards", f"they {' and '.join(lacks + has)}, unlike the network", "Name all of its agents.")
    if len(shards) != size:
        called = ", ".join(map(str, shards))
        reason = f"there are shards of {len(shards)} agents ({called}), and the network has {size}"
        raise Refused("shards", reason, "Every agent needs exactly one.")
    return network.names or tuple(shards)


def check_arguments(posterior: Any, network: Any, sampler: Any, out: Any, resume: bool) -> None:
    """Refuse arguments that are easily passed by mistake."""
    if not (out is None or isinstance(out, str | Path)):
        raise Refused(f"out = {out!r}", "a folder is needed", 'Write out="runs/first".')
    for name, value, kind, fix in (
        ("posterior", posterior, Posterior, "cs.Posterior(log_prior, log_likelihood)"),
        ("network", network, Network, "cs.Network.from_networkx(graph) or cs.Network.ring(5)"),
    ):
        if not isinstance(value, kind):
            raise Refused(name, f"it is a {type(value).__name__}", f"Write {name}={fix}.")
    if resume and out is None:
        raise Refused("resume=True", "say which run to go on with", 'Write out="runs/first".')
    if isinstance(sampler, type):
        name = getattr(sampler, "name", "nuts")
        raise Refused(
            "sampler", f"it is the class {sampler.__name__}, without settings", f"Write sampler=cs.{name}(...)."
        )
    if not isinstance(sampler, Sampler):
        name = type(sampler).__name__
        raise Refused(
            "sampler",
            f"it is a {name}",
            f"Write for example sampler=cs.nuts(), or, for one of your own, class "
            f"{name}(consilience.samplers.Sampler).",
        )
