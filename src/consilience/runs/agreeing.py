"""Checks, before a run starts, that the hosts that share it do the same thing; one host alone agrees with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import jax

from .._cache import processor
from .._refused import Refused
from .._types import Batch
from ..engine import Hosts
from ..model import form
from ..network import Network
from ..samplers import Sampler
from ..store import Table, describe_data, describe_network, describe_sampler, differences, surroundings
from .preparing import Length


def check_sharing(hosts: Hosts, sampler: Sampler, out: Any) -> None:
    """Refuse a run that several hosts cannot do together."""
    if hosts.count > 1 and sampler.second_stage is not None:
        raise ValueError(f"{sampler.name} puts all agents' draws together in one place: run it on one host.")
    if hosts.count > 1 and not sampler.replicated and out is None:
        raise ValueError('every host has the draws of its own agents: say where they go, out="runs/first".')


def settings_of(network: Network, sampler: Sampler, length: Length, out: Any) -> Table:
    """Return the settings that hosts can compare before anything is loaded or compiled.

    Copies of one chain must be moved alike, and processors of different kinds may round differently: then one host
    would go on where another has ended a trajectory, and wait for ever.
    """
    needs_alike = sampler.replicated and jax.default_backend() == "cpu"
    return {
        "processor": processor() if needs_alike else "any",
        "run": asdict(length),
        "network": describe_network(network),
        "sampler": {"name": sampler.name, "settings": describe_sampler(sampler)},
        "versions": surroundings(),
        "out": out is not None,
    }


def check_alike(hosts: Hosts, identity: Table) -> None:
    """Refuse hosts that are about to run different things."""
    first, *others = hosts.gather(identity)

    def check() -> None:
        for host, other in enumerate(others, 1):
            if lines := differences({"there": first, "here": other}, free=("created",)):
                raise Refused(
                    f"host {host} is here, host 0 there",
                    "".join(["they differ:\n", *(f"  {line}\n" for line in lines)]),
                    "Start all hosts alike.",
                )

    hosts.together(check)


def data_of_all(hosts: Hosts, own: range, shards: Sequence[Batch]) -> Table:
    """Return what is recorded of all agents' data; refuse data of two hosts that is not of one form."""
    found = hosts.gather({**describe_data(shards), "first": own.start, "form": form(shards[0])})

    def check() -> None:
        for host in found:
            if host["form"] != found[0]["form"]:
                raise ValueError(f"agent {host['first']}: its data is {host['form']}, agent 0's is {found[0]['form']}.")

    hosts.together(check)
    return {name: [value for host in found for value in host[name]] for name in ("rows", "fingerprints")}
