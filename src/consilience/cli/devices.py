"""The options --devices, --coordinator, --hosts and --host: on which devices the agents of a run live."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import jax
import typer
from typer import Option

from .._compat import is_out_of_memory
from .._refused import Refused
from ..engine import Hosts, LostHostError, is_known_to_all
from ..runs import Devices
from .errors import FAILED, end, exit_on_error, shortly, stdout_to

CLUSTER = "cluster"

DevicesOption = Annotated[
    str | None,
    Option(
        "--devices",
        metavar="all|N|cluster",
        help="Spread the agents over devices: all of this host, N of them, or those of all hosts of a cluster, each of "
        "which runs this same line. SLURM, Open MPI and Kubernetes tell who they are; else say it, as follows.",
    ),
]
CoordinatorOption = Annotated[
    str | None, Option(metavar="HOST:PORT", help="With --devices cluster: where the first host can be reached.")
]
HostsOption = Annotated[int | None, Option(help="With --coordinator: how many hosts there are.", min=1)]
HostOption = Annotated[int | None, Option(help="With --coordinator: which one this is, from 0 on.", min=0)]


def runtime_of(devices: str | None, coordinator: str | None, hosts: int | None, host: int | None) -> Devices | None:
    """Return the runtime that the options ask for, None where they ask for none; join the cluster if they name it."""
    if devices == CLUSTER:
        return Devices.cluster(coordinator, hosts, host)
    for name, value in (("--coordinator", coordinator), ("--hosts", hosts), ("--host", host)):
        if value is not None:
            raise Refused("", f"{name} is for several hosts", f"Write --devices {CLUSTER} with it, or leave it out.")
    if devices in (None, "all"):
        return Devices() if devices else None
    if not devices.isdecimal() or int(devices) < 1:
        fix = f"Write --devices all, a number, or --devices {CLUSTER}."
        raise Refused(f"--devices {devices}", "it is neither all nor a number", fix)
    if int(devices) > (there := len(jax.devices())):
        tried = f"XLA_FLAGS=--xla_force_host_platform_device_count={devices} consilience run FILE --devices {devices}"
        fix = f"Write --devices all, or, to try several on a CPU:\n  {tried}"
        raise Refused(f"--devices {devices}", f"jax has {there} here", fix)
    return Devices(int(devices))


def devices_line(devices: str | None, coordinator: str | None, hosts: int | None, host: int | None) -> str:
    """Return the options as they are written on the command line."""
    given = {"devices": devices, "coordinator": coordinator, "hosts": hosts, "host": host}
    return "".join(f" --{name} {value}" for name, value in given.items() if value is not None)


@contextmanager
def exit_on_error_together(hosts: Hosts, hint: Callable[[], str]) -> Iterator[None]:
    """Run what several hosts do together: say errors, and end all hosts where there is one.

    Hosts that have all stopped for the same reason exit normally. A host that has a reason of its own, or has lost
    another, exits at once: on a normal exit it would wait for the others, and they for it. What the library under jax
    says of connections goes to stderr, since stdout is for the result.
    """
    if hosts.count == 1:
        with exit_on_error(hint=hint):
            yield
        return
    try:
        with stdout_to(2), exit_on_error(hint=hint), _exit_on_lost_host(hint):
            yield
    except BaseException as error:
        reason = error.__context__ if isinstance(error, typer.Exit) else error
        if reason is not None and is_known_to_all(reason):
            raise
        if not isinstance(error, typer.Exit):
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(error.exit_code if isinstance(error, typer.Exit) else FAILED)


@contextmanager
def _exit_on_lost_host(hint: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except (LostHostError, jax.errors.JaxRuntimeError) as error:
        if is_out_of_memory(error):  # no other host's fault
            raise
        end(FAILED, f"this host cannot go on, most likely because another one has gone. {shortly(error)}", hint())
