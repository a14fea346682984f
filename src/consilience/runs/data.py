"""The agents' data of a run: those that live here, checked, and what is recorded of all on all hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax

from .._refused import Refused
from .._types import Batch
from ..engine import Hosts
from ..model import (
    Columns,
    Groups,
    check_alike,
    check_columns,
    check_columns_alike,
    column_names,
    form,
    leaf_name,
    numbered_groups,
    own_shards,
)
from ..network import Network
from ..store import RUN, Table, describe_data, read_run
from .request import Request


def recorded_labels(request: Request) -> Table:
    """Return the labels in the record of the run that a request goes on with; none where it begins one."""
    if not request.resume or request.out is None or not (request.out / RUN).exists():
        return {}
    return read_run(request.out).get("labels", {})


def own_data(
    request: Request, agents: range, names: Sequence[str], recorded: Mapping[str, Sequence[str]]
) -> tuple[list[Batch], Columns, Groups]:
    """Return the checked data of the agents that live here, the names of columns of tables, and those of their groups.

    Where the posterior has groups, their column has their numbers from here on.

    Args:
      recorded: those in the record of the run that is gone on with, for tables whose columns have none here.
    """
    given = own_shards(request.shards, request.network.size, agents)  # type: ignore[arg-type]
    column = request.posterior.group
    numbered, groups = (given, ()) if column is None else numbered_groups(column, given, names)
    shards = check_alike(numbered, names)
    columns = {**column_names(names, given), **check_columns(request.columns, shards[0])}
    widths = {leaf_name(path, root="data"): leaf.shape[1:] for path, leaf in jax.tree.leaves_with_path(shards[0])}
    kept = {table: tuple(own) for table, own in recorded.items() if widths.get(table) == (len(own),)}
    return shards, {**kept, **columns}, groups


def data_of_all(hosts: Hosts, network: Network, own: range, shards: Sequence[Batch], columns: Columns) -> Table:
    """Return what is recorded of all agents' data; refuse data of two hosts that is not of one form."""
    own_form = {"form": form(shards[0]), "columns": {table: list(names) for table, names in columns.items()}}
    found = hosts.gather({**describe_data(shards), "first": own.start, **own_form})

    def check() -> None:
        for host in found:
            agent, first = network.called(host["first"]), network.called(0)
            if host["form"] != found[0]["form"]:
                raise Refused(agent, f"its data is {host['form']}, {first}'s is {found[0]['form']}")
            for table, names in host["columns"].items():
                check_columns_alike(agent, table, names, first, found[0]["columns"].get(table, names))

    hosts.together(check)
    return {name: [value for host in found for value in host[name]] for name in ("rows", "fingerprints")}
