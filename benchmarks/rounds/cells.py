"""What is run: samplers on models, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import consilience as cs

from .models import MODELS, RoundsModel

FORMAT = 1  # of a row; another number runs every cell anew
REFERENCE = "reference"
DIGITS = "digits"
WARM_ITERATIONS = 60  # of a surrogate, in which split trajectories find their step; scored proposals leave them out

DENSE = "nuts, dense mass"
METHODS: dict[str, Callable[[], Any]] = {
    "nuts": cs.nuts,
    DENSE: lambda: cs.nuts(dense_mass=True),
    "nuts from the surrogate": lambda: cs.nuts(start="surrogate"),
    "surrogate": cs.surrogate,
}


@dataclass(frozen=True)
class RoundsLength:
    """How long a run is, per chain."""

    chains: int
    warmup: int
    draws: int


@dataclass(frozen=True)
class RoundsScale:
    """How much is run.

    Attributes:
      nuts, digits: lengths of nuts; on digits they are shorter.
      scored, split: draws of a chain by the surrogate, as many proposals, and as many trajectories.
      reference, digits_reference: lengths of the long runs on the pooled data.
    """

    nuts: RoundsLength
    digits: RoundsLength
    scored: int
    split: int
    reference: RoundsLength
    digits_reference: RoundsLength


FULL = RoundsScale(
    nuts=RoundsLength(4, 1000, 2000),
    digits=RoundsLength(4, 500, 500),
    scored=10_000,
    split=400,
    reference=RoundsLength(16, 1000, 3000),
    digits_reference=RoundsLength(4, 300, 2000),
)
QUICK = RoundsScale(
    nuts=RoundsLength(4, 100, 100),
    digits=RoundsLength(4, 20, 20),
    scored=1000,
    split=30,
    reference=RoundsLength(4, 200, 300),
    digits_reference=RoundsLength(4, 20, 20),
)


@dataclass(frozen=True)
class RoundsCell:
    """A model and a method; the method may be the reference."""

    model: str
    method: str
    seed: int
    scale: RoundsScale

    @property
    def key(self) -> tuple[str, str]:
        return self.model, self.method

    @property
    def name(self) -> str:
        return " / ".join(self.key)

    @property
    def is_reference(self) -> bool:
        return self.method == REFERENCE

    def length(self, model: RoundsModel) -> RoundsLength:
        """Return how long the run is."""
        is_large = DIGITS in self.model
        if self.is_reference:
            found = self.scale.digits_reference if is_large else self.scale.reference
            return replace(found, draws=2 * found.draws) if model.funnel else found
        usual = self.scale.digits if is_large else self.scale.nuts
        if self.method == "surrogate":
            draws = self.scale.split if model.split else self.scale.scored
            return RoundsLength(model.chains, WARM_ITERATIONS, max(1000, draws // 5) if model.funnel else draws)
        return usual

    def settings(self) -> dict[str, Any]:
        """Return what a row must have been run with to be taken over."""
        return {"format": FORMAT, "seed": self.seed, "scale": asdict(self.scale)}


def all_cells(scale: RoundsScale) -> list[RoundsCell]:
    return [
        RoundsCell(model, method, 100 * number + place, scale)
        for number, model in enumerate(MODELS)
        for place, method in enumerate([REFERENCE, *METHODS])
        if not (method == DENSE and DIGITS in model)  # a mass of 650 × 650, from a few hundred draws
    ]
