"""The runs whose draws are recorded: every sampler as lanes of one array, some on three devices, some by three peers.

Only what users call is used here, `cs.sample` and the command: whatever becomes of the inside, these run unchanged.
"""

import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import consilience as cs
from consilience.network import network_from_spec

from ..peers.crew import STEADY, Crew
from . import problem

DRAWS = 50
CHAINS = 2
SEED = 5
DEVICES = 3
PEERS = 3
TRIES = 3

RING = cs.Network.ring(4)
PATH = cs.Network.path(4)
ALONE = cs.Network.complete(1)
CORRELATED = np.array([[0.5, -0.1], [-0.1, 0.7]])


def blackjax_mala(logdensity):
    import blackjax  # which starts jax: whoever imports this file may still want to say how many devices there are

    return blackjax.mala(logdensity, 0.2)


def blackjax_dynamic_hmc(logdensity):
    import blackjax

    return blackjax.dynamic_hmc(logdensity, 0.3, np.ones(2))


@dataclass(frozen=True)
class Settings:
    """A sampler, made when it is needed, and what `cs.sample` is told besides."""

    sampler: Callable[[], Any]
    network: cs.Network = RING
    options: Mapping[str, Any] = field(default_factory=dict)


class Found(NamedTuple):
    """What is compared: draws (draw, chain, agent, number), and rounds, messages and bytes."""

    draws: np.ndarray
    traffic: dict[str, int]


# Dual averaging of the step size amplifies rounding: after 200 iterations 1e-16 has become a difference that is seen.
# So step sizes are adapted for few iterations, and the mass matrix, which forgets rounding as the chains do, for many.
# A start moved by 1e-12 moves no draw of a cell by more than 1e-8; a new cell should be tried so.
ONE_CHAIN = {"num_chains": 1}
SIMULATED = {
    "nuts-given": Settings(lambda: cs.nuts(0.4, [0.5, 0.7])),
    "nuts-adapted": Settings(lambda: cs.nuts(), options={"num_warmup": 60}),
    "hmc-given": Settings(lambda: cs.hmc(0.4, 1.0, num_integration_steps=3)),
    "hmc-dense": Settings(lambda: cs.hmc(0.4, dense_mass=True, num_integration_steps=3), options={"num_warmup": 200}),
    "mala-given": Settings(lambda: cs.mala(0.6, CORRELATED)),
    "mala-adapted": Settings(lambda: cs.mala(), options={"num_warmup": 20}),
    "mala-windows": Settings(lambda: cs.mala(0.6), options={"num_warmup": 500}),
    "surrogate-scored": Settings(lambda: cs.surrogate(100, correction="scored")),
    "surrogate-split": Settings(lambda: cs.surrogate(100, correction="split"), options={"num_warmup": 20}),
    "dmala-given": Settings(lambda: cs.dmala(0.5, 1.0)),
    "dmala-trapezoid": Settings(lambda: cs.dmala(0.5, 1.0, energy="trapezoid", rounds=1)),
    "dmala-adapted": Settings(lambda: cs.dmala(rounds=1), options={"num_warmup": 40}),
    # Past iteration 1000, where the gradient is anchored.
    "dmala-windows": Settings(lambda: cs.dmala(0.5), PATH, {"num_warmup": 500, "thin": 12}),
    "published": Settings(lambda: cs.published(0.2)),
    "published-rounds": Settings(
        lambda: cs.published(0.2, 0.5, rounds={0: 1, 20: 3}, metropolis_after=10), PATH, ONE_CHAIN
    ),
    "published-untracked": Settings(
        lambda: cs.published(0.2, gradient_tracking=False, metropolis_after=None), options=ONE_CHAIN
    ),
    "dula-published": Settings(lambda: cs.dula(0.2)),
    "dula-corrected": Settings(lambda: cs.dula(0.2, noise="corrected"), options=ONE_CHAIN),
    "desgld": Settings(lambda: cs.desgld(0.05)),
    "desgld-minibatch": Settings(lambda: cs.desgld(0.05, batch_size=2), options=ONE_CHAIN),
    "desghmc": Settings(lambda: cs.desghmc(0.1, friction=2.0)),
    "desghmc-minibatch": Settings(lambda: cs.desghmc(0.1, friction=2.0, batch_size=2), options=ONE_CHAIN),
    "diging": Settings(lambda: cs.diging(0.05)),
    "diging-minibatch": Settings(lambda: cs.diging(0.05, batch_size=2), options=ONE_CHAIN),
    "extra": Settings(lambda: cs.extra(0.05)),
    "extra-minibatch": Settings(lambda: cs.extra(0.05, batch_size=2), options=ONE_CHAIN),
    "consensus_monte_carlo-dense": Settings(lambda: cs.consensus_monte_carlo(0.4, 1.0)),
    "consensus_monte_carlo-diagonal": Settings(
        lambda: cs.consensus_monte_carlo(0.4, weights="diagonal"), options={"num_warmup": 100}
    ),
    "centralized_hmc": Settings(lambda: cs.centralized_hmc(0.6), ALONE),
    "centralized_hmc-steps": Settings(lambda: cs.centralized_hmc(0.4, CORRELATED, num_integration_steps=3), ALONE),
    "decentralize-mala": Settings(lambda: cs.decentralize(blackjax_mala)),
    "decentralize-dynamic_hmc": Settings(lambda: cs.decentralize(blackjax_dynamic_hmc)),
}
ON_DEVICES = ("nuts-given", "dmala-adapted", "published")  # as above
BY_PEERS = {  # network, settings, warm-up
    "nuts-given": (f"ring:{PEERS}", {"name": "nuts", "step_size": 0.4, "inverse_mass_matrix": 1.0}, 0),
    "dmala-adapted": (f"path:{PEERS}", {"name": "dmala", "rounds": 1}, 40),
}
CELLS = [
    *(f"simulate/{name}" for name in SIMULATED),
    *(f"devices/{name}" for name in ON_DEVICES),
    *(f"peers/{name}" for name in BY_PEERS),
]


def draw(cell: str) -> Found:
    """Run one cell."""
    place, _, name = cell.partition("/")
    if place == "peers":
        return by_peers(*BY_PEERS[name])
    return sampled(SIMULATED[name], cs.Devices(DEVICES) if place == "devices" else None)


def sampled(settings: Settings, runtime: cs.Devices | None, agents: int = len(problem.ROWS)) -> Found:
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "dmala: rounds = 1 ")  # so that agents stay apart, and each has its own draws
        shards = [problem.rows(index) for index in range(agents)]
        run = cs.sample(
            problem.posterior,
            cs.pool(shards) if settings.network.size == 1 else shards,
            settings.network,
            settings.sampler(),
            num_samples=DRAWS,
            seed=SEED,
            runtime=runtime,
            progress=False,
            **{"num_warmup": 0, "num_chains": CHAINS, **settings.options},
        )
    return Found(draws_of(run), traffic_of(run))


def by_peers(network: str, sampler: Mapping[str, Any], num_warmup: int) -> Found:
    """Draw a cell by peers; anew where a link was lost, as on a starved machine: then what was sent has no bearing."""
    for _ in range(TRIES):
        found, said = tried_by_peers(network, sampler, num_warmup)
        if found is not None:
            return found
    raise AssertionError(f"a link was lost, {TRIES} times: {said}")


def tried_by_peers(network: str, sampler: Mapping[str, Any], num_warmup: int) -> tuple[Found | None, str]:
    """Start an agent in a process of its own for each of three shards, over Zenoh, and put their draws together.

    Returns nothing if a link was lost, and what the agents said.
    """
    table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in sampler.items())
    with ExitStack() as stack:
        crew = Crew(
            stack.enter_context(tempfile.TemporaryDirectory()),
            network,
            num_samples=DRAWS,
            num_warmup=num_warmup,
            settings=["--set", f"sampler={{{table}}}"],
            model=Path(problem.__file__).read_text(encoding="utf-8"),
            program=STEADY,
        )
        stack.callback(crew.end)
        codes = crew.start().finish()
        assert set(codes.values()) == {0}, crew.said()
        runs = [crew.run(name) for name in crew.names]
        if any("epoch 2" in crew.logged(name) for name in crew.names):
            return None, crew.said()
        traffics = [traffic_of(run) for run in runs]
        assert all(traffic == traffics[0] for traffic in traffics), traffics
        # What an agent has kept, its own or the chain that all hold: the first copy.
        return Found(np.concatenate([draws_of(run)[:, :, :1] for run in runs], axis=2), traffics[0]), ""


def as_simulated(cell: str) -> Found:
    """Draw what peers draw as lanes of one array."""
    network, sampler, num_warmup = BY_PEERS[cell.partition("/")[2]]
    given = {key: value for key, value in sampler.items() if key != "name"}
    settings = Settings(
        lambda: getattr(cs, sampler["name"])(**given), network_from_spec(network), {"num_warmup": num_warmup}
    )
    return sampled(settings, None, PEERS)


def draws_of(run: cs.Run) -> np.ndarray:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(run.draws)]  # (agent, chain, draw, ...)
    assert all(leaf.dtype == np.float64 for leaf in leaves)
    numbers = np.concatenate([leaf.reshape(*leaf.shape[:3], -1) for leaf in leaves], axis=-1)
    return numbers.transpose(2, 1, 0, 3)


def traffic_of(run: cs.Run) -> dict[str, int]:
    return {name: getattr(run.traffic, name) for name in ("rounds", "messages", "bytes")}
