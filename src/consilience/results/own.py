"""Draws of variables that stay with their owner: each agent's by itself, and what its owner says of how they mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._extras import require
from ..model import Layout, layout_of_groups
from ..store import DRAWS, OWN, Draws, Table, blocks, own_group
from .diagnostics import FEWEST_DRAWS, worst_diagnostics
from .verdict import ESS_PER_CHAIN, R_HAT_LIMIT, Finding

if TYPE_CHECKING:
    from .run import Run


class OwnDraws(NamedTuple):
    """Draws of own variables of agents here, in the network's order."""

    layouts: tuple[Layout, ...]  # of all numbers of an agent's groups
    kept: tuple[Draws, ...]  # (draw, chain, 1, number)
    groups: tuple[tuple[Any, ...], ...]  # labels of each agent's groups; empty where every agent is one

    def of_agent(self, place: int) -> dict[str, np.ndarray]:
        """Return an agent's own draws by name, (chain, draw, group, ...); of those on disk, all are read."""
        found = np.swapaxes(self.kept[place][:][:, :, 0], 0, 1)
        return dict(self.layouts[place].leaves(found))


def own_draws(record: Table, kept: Callable[[int, Layout], Draws]) -> OwnDraws | None:
    """Return own variables' draws from a run's record; None where there are none.

    Args:
      kept: an agent's draws, given its place among those here and the layout of what is kept of one.
    """
    if "own" not in record:
        return None
    shapes = {name: tuple(shape) for name, shape in record["own"]["variables"].items()}
    dtype = np.dtype(record["model"]["dtype"])
    one = Layout(None, tuple(shapes.values()), (dtype,) * len(shapes), tuple(shapes))
    layouts = tuple(layout_of_groups(one, count) for count in record["own"]["groups"])
    labels = tuple(map(tuple, record.get("labels", {}).get("groups", ())))
    return OwnDraws(layouts, tuple(kept(place, layout) for place, layout in enumerate(layouts)), labels)


class OwnMixing(NamedTuple):
    """Mixing of one agent's own variables, as its owner sees it; that is all that it says of them to others."""

    agent: str
    numbers: int  # all groups' together
    r_hat: float  # the worst; NaN where too few draws tell
    ess: float  # the least, in the bulk or in the tails
    has_converged: bool

    @property
    def said(self) -> str:
        if np.isnan(self.r_hat):
            return "too few draws, or a chain that never moved"
        return f"R-hat up to {self.r_hat:.3f}, at least {self.ess:,.0f} effective draws"


def own_mixing(run: Run, diagnosed: int | None) -> tuple[OwnMixing, ...]:
    """Return how each agent's own variables have mixed.

    Args:
      diagnosed: of how many numbers, of all agents together, evenly spaced; None: of all.
    """
    own = run.own_draws
    if own is None:
        return ()
    share = None if diagnosed is None else max(1, diagnosed // len(own.kept))
    return tuple(
        _mixing(run, name, layout.dimension, draws, share)
        for name, layout, draws in zip(run.own_groups, own.layouts, own.kept, strict=True)
    )


def _mixing(run: Run, name: str, numbers: int, draws: Draws, share: int | None) -> OwnMixing:
    if run.num_draws < FEWEST_DRAWS:
        return OwnMixing(name, numbers, np.nan, np.nan, False)
    looked_at = np.unique(np.linspace(0, numbers - 1, numbers if share is None else min(share, numbers)).astype(int))
    series = np.concatenate([block[:, :, 0][..., looked_at] for block in blocks(draws)]).astype(float)
    with np.errstate(all="ignore"):
        found = worst_diagnostics(np.swapaxes(series, 0, 1)[None])
    worst = [float(found["r_hat"].max()), float(found["ess_bulk"].min()), float(found["ess_tail"].min())]
    good = worst[0] <= R_HAT_LIMIT and min(worst[1:]) >= ESS_PER_CHAIN * run.num_chains  # false of NaN, a stuck chain
    return OwnMixing(name, numbers, worst[0], min(worst[1:]), good)


def own_findings(mixing: tuple[OwnMixing, ...]) -> Iterator[Finding]:
    """Yield what owners say of their own variables, one finding for all that have not converged."""
    if bad := [own for own in mixing if not own.has_converged]:
        said = "; ".join(f"{own.agent}: {own.said}" for own in bad)
        yield Finding("own variables not converged", f"Own variables have not converged ({said}): run longer.")


def own_line(mixing: tuple[OwnMixing, ...]) -> str:
    """Say in a line how many own variables there are, and how the worst have mixed."""
    count, agents = sum(own.numbers for own in mixing), len(mixing)
    good = sum(own.has_converged for own in mixing)
    figures = np.array([(own.r_hat, own.ess) for own in mixing])
    worst = "" if np.isnan(figures).any() else f", R-hat at most {figures[:, 0].max():.3f}"
    return f"{count:,} of {agents} agents{worst}; {good} of {agents} owners say that theirs have converged"


def own_by_agent(run: Run) -> Mapping[str, dict[str, np.ndarray]]:
    """Return every agent's own draws by its name."""
    own = run.own_draws
    return {} if own is None else {name: own.of_agent(place) for place, name in enumerate(run.own_groups)}


def own_datasets(run: Run) -> dict[str, Any]:
    """Return own variables as xarray Datasets by the names of groups of a tree, own/<agent>; those on disk stay there.

    Their axis of groups has the groups' labels.
    """
    own = run.own_draws
    if own is None:
        return {}
    xarray = require("xarray", "report")
    found = {}
    for place, (name, labels) in enumerate(run.own_groups.items()):
        layout = own.layouts[place]
        dims = {leaf: _dims(leaf, shape) for leaf, shape in zip(layout.names, layout.shapes, strict=True)}
        if run.folder is None or not run.num_draws:
            draws = own.of_agent(place)
            dataset = xarray.Dataset({leaf: (("chain", "draw", *axes), draws[leaf]) for leaf, axes in dims.items()})
        else:
            stored = xarray.open_zarr(run.folder / DRAWS, group=own_group(place), consolidated=False, chunks=None)
            stored = stored[list(dims)].isel(draw=slice(run.num_draws), agent=0)
            dataset = xarray.Dataset(
                {
                    leaf: stored[leaf]
                    .rename({f"{leaf}_dim_{k}": new for k, new in enumerate(axes)})
                    .transpose("chain", "draw", ...)
                    for leaf, axes in dims.items()
                }
            )
        found[f"{OWN}/{name.replace('/', '_')}"] = dataset.assign_coords(group=np.asarray(labels))
    return found


def _dims(leaf: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the axes of a group's variable: groups, and then its own."""
    return ("group", *(f"{leaf}_dim_{k}" for k in range(len(shape) - 1)))
