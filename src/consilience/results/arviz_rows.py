"""The data behind a run as ArviZ has it: observed variables, covariates, and what a model says of every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._extras import require
from .._refused import Refused
from .._types import Batch
from ..model import RESERVED, leaf_name
from .per_draw import per_draw
from .pointwise import is_by_row, log_likelihoods, observed_rows, posterior_of

if TYPE_CHECKING:
    from .run import Run

ROW, OWNER = "example", "owner"


class DataRows:
    """All agents' rows, one agent after the other, and which of them are observations of which variable.

    Rows that a mask leaves out of a variable are left out of all its arrays. Their axis is the same for all variables,
    unless these observe different rows.
    """

    def __init__(self, run: Run) -> None:
        assert run.shards is not None
        self.run = run
        self.pooled = jax.tree.map(lambda *leaves: np.concatenate(leaves), *run.shards)
        # Rows that depend on each other only within a site are not pooled with those of other sites.
        self.batches = [self.pooled] if is_by_row(run) else list(run.shards)
        self.observed = {variable_name(name): one for name, one in observed_rows(run, self.pooled).items()}
        self.owners = np.repeat(_owners(run), [len(jax.tree.leaves(shard)[0]) for shard in run.shards])
        first, *others = [one.counted for one in self.observed.values()]
        self.is_shared = all(np.array_equal(first, other) for other in others)

    def log_likelihoods(self, agent: int) -> dict[str, np.ndarray]:
        """Compute the log-likelihood of every observation under an agent's draws, by variable: (chain, draw, row)."""
        found = [log_likelihoods(self.run, batch, agent) for batch in self.batches]
        return {variable_name(name): np.concatenate([part[name] for part in found], axis=2) for name in found[0]}

    def predicted(self, agent: int | None, seed: int) -> dict[str, np.ndarray]:
        """Draw new observations for every row, by variable, for the draws of one agent or of all: None."""
        predictive = posterior_of(self.run).predictive
        if predictive is None:
            raise Refused(
                "posterior_predictive",
                "this posterior cannot draw observations",
                "Write cs.Posterior(..., predictive=...), a function of (key, params, batch), or use "
                "cs.Posterior.from_numpyro, .classifier or .regressor.",
            )

        def drawn(batch: Batch, own_seed: int) -> dict[str, np.ndarray]:
            return per_draw(self.run, lambda key, params: predictive(key, params, batch), own_seed, agent=agent)

        parts = [drawn(batch, seed + number) for number, batch in enumerate(self.batches)]
        axis = 2 if agent is not None else 3
        named = {variable_name(name): np.concatenate([part[name] for part in parts], axis) for name in parts[0]}
        return {name: np.take(values, self._rows(name), axis) for name, values in named.items()}

    def groups(self) -> dict[str, Any]:
        """Return the groups of the data themselves; a group without variables is left out."""
        values = {name: self._as_given.get(name, one.values) for name, one in self.observed.items()}
        observed = {name: np.asarray(found)[self._rows(name)] for name, found in values.items() if found is not None}
        given = {id(leaf) for leaf in self._as_given.values()}
        constant = {name: leaf for name, leaf in self._leaves.items() if id(leaf) not in given}
        groups = {"observed_data": self.dataset(observed), "constant_data": self.dataset(constant, masked=False)}
        return {name: group for name, group in groups.items() if group.data_vars}

    def likelihoods_dataset(self, variables: Mapping[str, np.ndarray], leading: Sequence[str]) -> Any:
        """Return log-likelihoods as a Dataset, with an axis of rows or, where a site is one observation, of owners."""
        if is_by_row(self.run):
            return self.dataset(variables, leading)
        of_sites = {name: ((*leading, OWNER), values) for name, values in variables.items()}
        return require("xarray", "report").Dataset(of_sites, {OWNER: _owners(self.run)})

    def dataset(self, variables: Mapping[str, np.ndarray], leading: Sequence[str] = (), masked: bool = True) -> Any:
        """Return variables as a Dataset, with an axis of rows after the `leading` ones, labelled by their owners."""
        xarray = require("xarray", "report")
        found: dict[str, Any] = {}
        coordinates: dict[str, Any] = {}
        for name, values in variables.items():
            rows = self._rows(name) if masked else np.arange(len(self.owners))
            row = f"{name}_{ROW}" if masked and name in self.observed and not self.is_shared else ROW
            coordinates[row] = rows
            if row == ROW:  # ArviZ's psense stacks variables, which must have the same labels to this end
                coordinates[OWNER] = (row, self.owners[rows])
            others = [f"{name}_dim_{k}" for k in range(values.ndim - len(leading) - 1)]
            labels = self.run.columns.get(name, ())
            if others and len(labels) == values.shape[-1]:
                others[-1] = next((dim for dim, own in self.run.coords.items() if tuple(own) == labels), others[-1])
                coordinates[others[-1]] = list(labels)
            found[name] = ((*leading, row, *others), values)
        return xarray.Dataset(found, coordinates)

    @cached_property
    def _leaves(self) -> dict[str, np.ndarray]:
        """The data's arrays by name."""
        paths = jax.tree_util.tree_leaves_with_path(self.pooled)
        return {variable_name(leaf_name(path, root="data")): leaf for path, leaf in paths}

    @cached_property
    def _as_given(self) -> dict[str, np.ndarray]:
        """The data's array that is an observed variable, where one is: of its name, or else of its values."""
        found = {}
        for name, one in self.observed.items():
            for leaf in (self._leaves.get(name), *self._leaves.values()):
                if leaf is not None and one.values is not None and _same(leaf, np.asarray(one.values)):
                    found[name] = leaf
                    break
        return found

    def _rows(self, name: str) -> np.ndarray:
        """Return which rows are observations of a variable; of one that the model does not observe, all are there."""
        if name in self.observed:
            return np.flatnonzero(self.observed[name].counted)
        return np.arange(len(self.owners))


def variable_name(name: str) -> str:
    """Return a variable's name in the tree, where slashes are for groups, and an axis is not a variable."""
    name = name.replace("/", ".")
    return f"data.{name}" if name in (*RESERVED, ROW, OWNER) else name


def _same(leaf: np.ndarray, values: np.ndarray) -> bool:
    """Tell whether an array of the data is what was observed, in the dtype that a device holds it in."""
    return leaf.shape == values.shape and np.array_equal(leaf.astype(values.dtype), values)


def _owners(run: Run) -> list[str]:
    """Return the names of the agents whose shards a run has."""
    assert run.shards is not None
    if run.owner is not None and len(run.shards) == 1:
        return [run.owner.name]
    if len(run.agent_names) == len(run.shards):
        return list(run.agent_names)
    return [f"agent {agent}" for agent in range(len(run.shards))]
