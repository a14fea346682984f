"""What is run: samplers on targets over networks, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import consilience as cs

from .steps import Situation, desghmc, dula
from .targets import TARGETS

FORMAT = 1  # of a row; another number runs every cell anew

NETWORKS: dict[str, Callable[[], cs.Network]] = {
    "ring of 5": lambda: cs.Network.ring(5),
    "path of 10": lambda: cs.Network.path(10),
    "4-regular of 30": lambda: cs.Network.random_regular(30, 4),
}


KINDS = ("trajectory", "metropolis", "unadjusted", "one-shot")


class Recipe(NamedTuple):
    """A sampler as it is run here.

    Attributes:
      kind: chooses the length; the unadjusted do not tune themselves.
      make: gives its settings.
      gradients: evaluations per iteration, where the run does not count them.
    """

    kind: str
    make: Callable[[Situation], Any]
    gradients: int = 1

    @property
    def is_tuned(self) -> bool:
        return self.kind != "unadjusted"


SAMPLERS = {
    "nuts": Recipe("trajectory", lambda _: cs.nuts()),
    "hmc": Recipe("trajectory", lambda _: cs.hmc()),
    "mala": Recipe("metropolis", lambda _: cs.mala()),
    "dmala": Recipe("metropolis", lambda _: cs.dmala()),
    "dmala trapezoid": Recipe("metropolis", lambda _: cs.dmala(energy="trapezoid")),
    "published": Recipe("unadjusted", lambda s: cs.published((s.agents * s.langevin) ** 0.5), gradients=2),
    "dula published": Recipe("unadjusted", partial(dula, noise="published")),
    "dula corrected": Recipe("unadjusted", partial(dula, noise="corrected")),
    "desgld": Recipe("unadjusted", lambda s: cs.desgld(s.agents * s.langevin)),
    "desghmc": Recipe("unadjusted", desghmc),
    "diging": Recipe("unadjusted", lambda s: cs.diging(s.agents * s.langevin)),
    "extra": Recipe("unadjusted", lambda s: cs.extra(s.agents * s.langevin)),
    "consensus_monte_carlo": Recipe(
        "one-shot", lambda s: cs.consensus_monte_carlo(weights="diagonal" if s.target == "digits" else "dense")
    ),
}


@dataclass(frozen=True)
class Length:
    """Of a run, per chain."""

    warmup: int
    draws: int
    thin: int = 1

    @property
    def kept(self) -> int:
        return self.draws * self.thin


@dataclass(frozen=True)
class Size:
    """How much is run on a target."""

    lengths: dict[str, Length]  # by kind of sampler
    pilot: int  # iterations that show whether a step size is stable
    turnovers: int  # of the slowest direction, in one chain's kept iterations


@dataclass(frozen=True)
class Scale:
    """How much is run: on digits, on the three small targets, and for the truth of digits."""

    chains: int
    small: Size
    digits: Size
    reference: dict[str, int]


def lengths(*of_kinds: tuple[int, ...]) -> dict[str, Length]:
    return {kind: Length(*length) for kind, length in zip(KINDS, of_kinds, strict=True)}


FULL = Scale(
    chains=16,
    small=Size(lengths((500, 6000), (1000, 12000), (8000, 4000, 40), (500, 3000)), pilot=2000, turnovers=400),
    digits=Size(lengths((300, 400), (3000, 500, 20), (2000, 250, 40), (200, 100)), pilot=400, turnovers=30),
    reference={"jobs": 8, "chains": 4, "warmup": 500, "draws": 1000, "thin": 1},
)
QUICK = Scale(
    chains=4,
    small=Size(lengths((100, 100), (200, 300), (200, 200, 5), (100, 100)), pilot=100, turnovers=50),
    digits=Size(lengths((30, 20), (50, 20, 2), (40, 20, 2), (12, 8)), pilot=30, turnovers=4),
    reference={"jobs": 2, "chains": 4, "warmup": 60, "draws": 40, "thin": 1},
)


@dataclass(frozen=True)
class Cell:
    target: str
    network: str
    sampler: str
    seed: int
    scale: Scale

    @property
    def key(self) -> tuple[str, str, str]:
        return self.target, self.network, self.sampler

    @property
    def name(self) -> str:
        return " / ".join(self.key)

    @property
    def recipe(self) -> Recipe:
        return SAMPLERS[self.sampler]

    @property
    def size(self) -> Size:
        return self.scale.digits if self.target == "digits" else self.scale.small

    @property
    def length(self) -> Length:
        return self.size.lengths[self.recipe.kind]

    @property
    def settings(self) -> dict[str, Any]:
        """What a row must have been run with to be taken over."""
        found = {"format": FORMAT, "seed": self.seed, "chains": self.scale.chains, **asdict(self.length)}
        if not self.recipe.is_tuned:
            found |= {"turnovers": self.size.turnovers, "pilot": self.size.pilot}
        if self.target == "digits":
            found["reference"] = self.scale.reference
        return found


def all_cells(scale: Scale, seed: int) -> list[Cell]:
    keys = [(t, n, s) for t in TARGETS for n in NETWORKS for s in SAMPLERS]
    return [Cell(*key, 1000 * seed + number, scale) for number, key in enumerate(keys)]
