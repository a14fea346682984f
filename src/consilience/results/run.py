"""Result of a run, `Run`: its draws, in memory or on disk, with summaries, predictions and exports of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from .._checks import refuse_unknown_keywords_of_methods
from .._types import Batch, Params
from ..model import Layout, Posterior
from ..neighbors import Traffic
from ..network import Network
from ..report import report
from ..store import Draws, blocks
from .arviz import data_tree
from .checks import PredictiveCheck, predictive_checks
from .diagnostics import acceptance, consensus_error
from .function_space import PredictedAt, held_out_rows, rows_of_data
from .held_out import task_of
from .loo import Loo, loo
from .own import OwnDraws, own_by_agent
from .predictions import predict
from .predictive import evaluate
from .scores import read_scores, save_scores
from .selection import Transform
from .summary import Summary, summarize
from .whose_rows import by_number


class Described(Protocol):
    """Description of a run's sampler: the sampler itself, or a record of it."""

    @property
    def name(self) -> str: ...

    @property
    def bias(self) -> str | None: ...

    @property
    def replicated(self) -> bool: ...


class Owner(NamedTuple):
    """Agent that a run belongs to, where agents in processes of their own keep one each."""

    name: str
    names: tuple[str, ...]  # names of the agents that took part, in the network's order
    without: tuple[str, ...]  # names of the agents that were given up
    attempts: int = 0  # how often the agents fell out of step, went back, and took other random numbers


class Moments(NamedTuple):
    """Mean and variance, over a run's draws, of what `moments=` named: pytrees of arrays (agent, chain, ...)."""

    draws: int
    mean: Params
    variance: Params


@refuse_unknown_keywords_of_methods("run")
@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """Result of sampling: the draws of every agent and chain, what the sampler said of them, and what they cost.

    Attributes:
      kept: what was kept of the draws, (draw, chain, copy, number): one copy for every agent, or one for all. On disk
        where the run has a folder, and read from there block by block; `draws` is what to use where it fits in memory.
      raw_stats: the sampler's own figures, (draw, chain, copy) each.
      layout: how a draw's numbers make up the parameters.
      traffic: rounds, messages and bytes that were sent, warm-up included.
      iterations: number of iterations per chain, warm-up included.
      thin: iterations per kept draw.
      seconds: time from the first compilation to the last draw, interruptions left out.
      planned: number of draws that were asked for; fewer are there where a run was interrupted.
      posterior: what was sampled, and `shards`, the agents' data: None where the run was loaded without them.
      own_shards: data of the agents of this process, all that there are where `shards` is None.
      parameters: how what was sampled lies in a vector; `layout` is that of what was kept.
      dims: names of the axes of what was kept, where the model has some.
      coords: labels along axes that have a name, such as the columns of the data: {"feature": ("age", "dose")}.
      columns: names of the columns of those tables in the data that have some, {"x": ("age", "dose")}.
      names: names of the agents whose data the run is of, in the network's order; empty where they have none.
      rows: how many examples each agent has.
      moments: running moments, where they were asked for.
      folder: where the run is on disk, if it is.
      owner: the agent that the run belongs to, where each keeps its own.
      facts: where the run comes from: settings, versions, fingerprints.
      own_draws: draws of variables that stay with their owner, where the model has some; `own` is what to use where
        they fit in memory.
    """

    kept: Draws
    raw_stats: Mapping[str, np.ndarray]
    layout: Layout
    sampler: Described
    network: Network
    iterations: int
    thin: int
    traffic: Traffic
    seconds: float
    planned: int | None = None
    posterior: Posterior | None = None
    shards: Sequence[Batch] | None = None
    own_shards: Sequence[Batch] | None = None
    parameters: Layout | None = None
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coords: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    rows: tuple[int, ...] | None = None
    moments: Moments | None = None
    folder: Path | None = None
    owner: Owner | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    own_draws: OwnDraws | None = None

    # --- draws -------------------------------------------------------------------------------------

    @property
    def num_draws(self) -> int:
        return self.kept.shape[0]

    @property
    def num_chains(self) -> int:
        return self.kept.shape[1]

    @property
    def agents(self) -> int:
        """Number of agents whose draws are here: all of the network, or 1 for an agent's own."""
        return 1 if self.owner is not None and not self.sampler.replicated else self.network.size

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Names of the agents whose draws are here, as tables and figures show them: "agent 0" where none was given."""
        if self.owner is not None and self.agents == 1:
            return (self.owner.name,)
        return self.names or tuple(f"agent {agent}" for agent in range(self.agents))

    @property
    def copies(self) -> int:
        """Number of copies of each draw: 1 where all agents hold the same draws, else the number of agents."""
        return self.kept.shape[2]

    @property
    def is_complete(self) -> bool:
        return self.planned is None or self.num_draws >= self.planned

    def blocks(self, count: int | None = None) -> Iterator[np.ndarray]:
        """Yield what was kept, in order, in arrays (draw, chain, copy, number) of a few megabytes or `count` draws."""
        return blocks(self.kept, count)

    def series(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return some numbers of every draw: (draw, chain, copy, len(numbers))."""
        empty = np.empty((0, *self.kept.shape[1:3], len(numbers)), self.kept.dtype)
        return np.concatenate([empty, *(block[..., numbers] for block in self.blocks())])

    @cached_property
    def positions(self) -> np.ndarray:
        """Array (draw, chain, agent, number) of all that was kept: this reads all draws on disk into memory."""
        whole = self.kept if isinstance(self.kept, np.ndarray) else self.kept[:]
        return _for_all_agents(whole, self.agents)

    @cached_property
    def draws(self) -> Params:
        """Draws as the parameters' pytree, every leaf an array (agent, chain, draw, ...).

        Of draws on disk, this reads everything into memory; `to_arviz()` and `blocks()` do not.
        """
        return self.layout.unravel(_agents_first(self.positions))

    @cached_property
    def own(self) -> Mapping[str, dict[str, np.ndarray]]:
        """Draws of variables that stay with their owner, by agent and by name: arrays (chain, draw, group, ...).

        Empty where the model has none. Where one process has all agents theirs are here, a peer has its own.
        """
        return own_by_agent(self)

    @property
    def own_groups(self) -> Mapping[str, tuple[Any, ...]]:
        """Labels of every agent's groups, in the order in which `own` has them; its own name where it is one group."""
        own = self.own_draws
        if own is None:
            return {}
        owners = self.agent_names if self.owner is None else (self.owner.name,)
        return {name: own.groups[k] if own.groups else (name,) for k, name in enumerate(owners)}

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """Sampler's own figures, (agent, chain, draw), averaged over the iterations behind each draw."""
        return {name: _agents_first(_for_all_agents(values, self.agents)) for name, values in self.raw_stats.items()}

    # --- what it says ------------------------------------------------------------------------------

    @cached_property
    def consensus_error(self) -> float:
        """Distance of an agent from the network mean: root mean square over draws and numbers, in posterior sd.

        NaN where no draws tell.
        """
        return consensus_error(self)

    @cached_property
    def acceptance(self) -> float | None:
        """Fraction of proposals taken (NUTS: their mean acceptance probability); None without a Metropolis step."""
        return acceptance(self)

    @cached_property
    def divergences(self) -> int | None:
        """Number of iterations behind the kept draws that diverged; None where the sampler has no trajectories.

        Their trajectory left the region where its steps are accurate. Of all agents, where each has its own chain.
        """
        return self._iterations_with("is_divergent")

    @cached_property
    def redone(self) -> int | None:
        """Number of iterations behind kept draws redone by agents out of step; None where each has its own chain."""
        return self._iterations_with("redone") if self.sampler.replicated else None

    @property
    def distinct_chains(self) -> int:
        """Number of chains, times that of the agents where each has its own."""
        return self.num_chains * (1 if self.sampler.replicated else self.agents)

    def _iterations_with(self, stat: str) -> int | None:
        if stat not in self.raw_stats:
            return None
        values = self.raw_stats[stat]
        values = values[:, :, :1] if self.sampler.replicated else values
        return round(float(values.sum(dtype=float)) * self.thin)

    def summary(
        self,
        agent: int | str | None = None,
        diagnosed: int | None = 2000,
        *,
        var_names: str | Sequence[str] | None = None,
        prob: float = 0.94,
        transform: Transform | None = None,
        predictions: bool = True,
    ) -> Summary:
        """Summarize every parameter (mean, sd, interval, ESS, R-hat), agreement, acceptance and cost, with a verdict.

        The verdict is on the whole run, whichever parameters are shown.

        Args:
          agent: the agent to summarize, by number or by name. Without it, means, sds and the ends of intervals are
            averaged over the agents, and the smallest ESS and the largest R-hat of any agent are given: agents' draws
            are not independent of each other.
          diagnosed: ESS and R-hat take milliseconds each. Of a model with more parameters times agents than this, they
            are computed for so many, evenly spaced, and are NaN for the others. None: for all, however long it takes.
          var_names: parameters to show, in the model's order: names, elements such as "w[age]", or patterns such as
            "w*", in which * stands for anything and ? for one character. Left out, all.
          prob: probability of the intervals. They are equal-tailed: with 0.94 the columns "3%" and "97%" are quantiles.
          transform: functions of single numbers, by names or patterns: {"beta": "exp"} for odds ratios. They are
            applied to the draws, so that the row `exp(beta[age])` has the mean of exp(beta[age]) and its own MCSE, ESS
            and R-hat. A function such as np.exp, or one of "exp", "expit", "log", "sqrt", "square"; one without a
            name is for all parameters shown. Of several patterns that match, the first counts.
          predictions: whether the verdict may look at predictions where parameters do not agree between chains and a
            network's function is nonlinear in them. It computes them for a few hundred draws.
        """
        return summarize(self, agent, diagnosed, var_names, prob, transform, predictions)

    @cached_property
    def predicted_at(self) -> PredictedAt | None:
        """Inputs at which the verdict compares predictions: some of the last `evaluate`, or of the agents' data."""
        return rows_of_data(self)

    def to_arviz(
        self,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        seed: int = 0,
        *,
        agent: int | str = 0,
    ) -> Any:
        """Return an xarray DataTree with ArviZ's groups and names, its dimensions chain, draw and the model's own.

        posterior and sample_stats are always there; draws on disk stay there until they are used. observed_data, with
        what the model observes, and constant_data, with the other arrays of the data, are there where the run knows its
        model and data. Their rows, like those of log_likelihood and posterior_predictive, are all agents', one agent
        after the other, and `owner` says whose each is. Rows that a mask leaves out are not among them. Variables that
        stay with their owner are in own/<agent>, with their groups' labels.

        Args:
          log_likelihood: log-likelihoods of all observations, by observed variable, as `loo`, `compare` and `loo_pit`
            need them, and log_prior, which `psense` needs as well.
          posterior_predictive: new observations, one for every row and draw, from the model's own `predictive`.
          seed: random seed of those observations.
          agent: the agent whose draws are shown, its number or its name; it makes no difference where all agents hold
            one chain. "all": those of all agents along an axis of their own, for figures that compare agents and never
            for `loo`, which takes every axis but chain and draw for observations.
        """
        return data_tree(self, agent, log_likelihood, posterior_predictive, seed)

    # --- what it predicts --------------------------------------------------------------------------

    def loo(self, var_name: str | None = None) -> Loo:
        """Compute leave-one-out cross-validation (PSIS-LOO) of the rows at hand: elpd with its error, p_loo, k-hat.

        Every owner's figures are computed from its own rows and its own draws, and summed; the result is that of
        `arviz_stats.loo` on pooled rows. `cs.compare` compares runs by it.

        Args:
          var_name: the observed variable, where the model has several; None: all, added row by row.
        """
        return loo(self, var_name)

    @overload
    def predict(
        self, function: Callable[[Params, Any], Any] | str, x: Any, rows_at_once: int | None = None
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        function: Callable[[Params, Any], Any] | str,
        x: Any,
        rows_at_once: int | None = None,
        *,
        intervals: float | None,
        seed: int = 0,
    ) -> Any: ...

    def predict(
        self,
        function: Callable[[Params, Any], Any] | str,
        x: Any,
        rows_at_once: int | None = None,
        *,
        intervals: float | None = None,
        seed: int = 0,
    ) -> Any:
        """Return the posterior mean of `function(params, x)`, as each agent sees it: (agent, ...).

        With `intervals`, return the mean and the ends of the central interval of that probability, `(mean, low, high)`,
        by the quantiles of the values over all draws and chains.

            run.predict(fn, x, intervals=0.9)               where the function's value lies: a credible interval
            run.predict("y", {"x": x}, intervals=0.9)       where a new outcome lies: the model's own noise included
            run.predict("rate", {"x": x}, intervals=0.9)    numpyro.deterministic("rate", ...) of the rows

        Args:
          function: a function of the parameters, as draws show them, and the inputs; or the name of what the model
            itself makes of rows: an outcome, of which one is drawn for each row and draw, or one of the posterior's
            `quantities`, such as a NumPyro model's deterministic sites. `x` is then rows like the agents' data, and may
            lack what is not needed.
          x: inputs, a pytree of arrays with one leading axis. Whose rows they are, "agent", may be names.
          rows_at_once: rows of `x` that are computed together, for a function that gives one row for each; left out,
            1024, or as many as the values of all draws have room for in 64 MB where intervals are wanted. A function
            that looks at other rows too, as batch normalisation does, needs `len(x)`.
          intervals: probability of the intervals.
          seed: random seed of outcomes. They also depend on `rows_at_once`.
        """
        return predict(self, function, by_number(self, "x", x), rows_at_once, intervals, seed)

    def evaluate(
        self,
        test: Batch,
        *,
        task: Any = None,
        ood: Any = None,
        seen: Sequence[Sequence[int]] | None = None,
        points: int = 30,
        rows_at_once: int = 1024,
    ) -> Any:
        """Score each agent's posterior predictive on held-out data, and keep the scores with the run, for its report.

        Accuracy, NLL, Brier score, calibration and more for classifiers; RMSE, NLL and coverage for regressors.

        Args:
          test: examples like the agents' own. Where the model asks whose they are, "agent" has numbers or names.
          task: what is predicted; left out, what the posterior says of itself (`cs.Posterior.classifier` and
            `.regressor` do).
          ood: inputs from elsewhere, that a classifier should be unsure of.
          seen: the classes that each agent has examples of; left out, those in its shard.
          points: how many numbers of draws, evenly spaced in their logarithm, the cumulative scores are taken at.
          rows_at_once: test rows that are computed together. A function that looks across rows needs all.
        """
        test, ood = by_number(self, "test", test), by_number(self, "ood", ood)
        scores = evaluate(self, test, task=task, ood=ood, seen=seen, points=points, rows_at_once=rows_at_once)
        self.__dict__["evaluation"] = scores
        self.__dict__["predicted_at"] = held_out_rows(task_of(self, task), test)
        if self.folder is not None:
            save_scores(self.folder, scores)
        return scores

    @cached_property
    def evaluation(self) -> Any:
        """Scores of the last `evaluate`, of this run or of the one it was loaded from; None before the first."""
        return None if self.folder is None else read_scores(self.folder)

    @cached_property
    def predictive_checks(self) -> Mapping[str, PredictiveCheck]:
        """Check every outcome that is one number a row, by its name: what was observed beside what is drawn again.

        Of the agents' own rows, by the first agent's draws, some of either where there are many. Empty where the run
        does not know its posterior or data, or `keep=` has left parameters out, or the posterior cannot draw outcomes,
        or not all draws are finite, or the model is so large that fewer than 20 rows could be afforded.
        """
        return predictive_checks(self)

    def report(self, path: str | Path = "report.html", title: str | None = None) -> Path:
        """Write one self-contained page about the run: open it in any browser, or print it."""
        return report([self], Path(path), title)

    def __repr__(self) -> str:
        agents, chains = self.agents, self.num_chains
        whose = f"{agents} agent{'s' * (agents > 1)}" if agents == self.network.size else f"agent {self.owner[0]}"  # type: ignore[index]
        numbers = 0 if self.own_draws is None else sum(layout.dimension for layout in self.own_draws.layouts)
        own = f" and {numbers:,} of agents' own" if numbers else ""
        return (
            f"Run({self.sampler.name} on {self.network.name}: {whose} × "
            f"{chains} chain{'s' * (chains > 1)} × {self.num_draws} draws of {self.layout.dimension} parameters{own}, "
            f"{self.seconds:.1f} s)"
        )


def _for_all_agents(values: np.ndarray, agents: int) -> np.ndarray:
    """Broadcast what is kept for every agent, or once for all, to (draw, chain, agent, ...): a view."""
    return np.broadcast_to(values, (*values.shape[:2], agents, *values.shape[3:]))


def _agents_first(values: np.ndarray) -> np.ndarray:
    """Return (draw, chain, agent, ...) as (agent, chain, draw, ...): a view."""
    return np.swapaxes(values, 0, 2)
