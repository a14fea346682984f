"""Verdict on a run, in words: what its figures say, and no more than they say."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..store import shown
from .certificate import Certificate
from .diagnostics import FEWEST_DRAWS, Health
from .function_space import SMALLEST_SD, PredictionMixing
from .starting import StartReport

if TYPE_CHECKING:
    from .run import Run

R_HAT_LIMIT = 1.01
R_HAT_APART = 1.1  # above it, chains are in different places
ESS_PER_CHAIN = 100  # below it, R-hat and ESS are themselves unreliable (Vehtari et al. 2021)
FEW_PARAMETERS = 20  # up to so many are read one by one: predictions that agree excuse none of them
ENERGY_LIMIT = 0.3
CONSENSUS_LIMIT = 0.1  # posterior sd

Predictions = Callable[[], PredictionMixing | None]


class Finding(NamedTuple):
    """One thing that a run's figures say, in words."""

    short: str  # a few words, for a cell of a table
    sentence: str  # the same as a sentence, for people who read on
    is_grave: bool = True  # whether it calls the use of the draws into question


def findings(
    run: Run,
    columns: dict[str, np.ndarray],
    names: tuple[str, ...],
    health: Health,
    predictions: Predictions,
    certificate: Certificate | None = None,
    start: StartReport | None = None,
) -> Iterator[Finding]:
    """Yield all findings of a run, the gravest first.

    Args:
      columns: those of a summary of all parameters, whose `names` these are.
      predictions: how well predictions have mixed; asked only where parameters have not.
    """
    if not run.is_complete:
        yield Finding("unfinished", f"Unfinished: {run.num_draws:,} of {run.planned:,} draws are there.")
    if not health.draws_finite:
        yield Finding(
            "not finite",
            "Not all draws are finite numbers: the sampler diverged, or what was kept is not a number everywhere. None "
            "of them should be used.",
        )
    else:
        yield from _mixing(run, columns, names, health, predictions)
    if health.draws_finite and not health.stats_finite:
        yield Finding(
            "figures not finite",
            "Some of the sampler's own figures are not finite although all draws are: it diverged. Use smaller steps.",
        )
    if run.divergences:
        yield Finding(
            f"{run.divergences:,} divergent",
            f"{_count(run.divergences, 'iteration')} diverged: draws are missing where the posterior is too curved for "
            f"these steps. Raise target_acceptance, or reparametrise.",
        )
    if health.energy is not None and (health.energy < ENERGY_LIMIT).any():
        yield Finding(
            f"E-BFMI {health.energy.min():.2f}",
            f"E-BFMI is {health.energy.min():.2f} in the worst chain, below {ENERGY_LIMIT}: energies are explored "
            f"slowly, reparametrise.",
        )
    if certificate is not None and not certificate.holds:
        if certificate.has_other_modes:
            fix = "Draws may be of one mode alone: start chains of cs.nuts() in each."
        else:
            fix = (
                "Draw more, or by cs.nuts()."
                if certificate.splits
                else "Draw more, or by correction='split' or cs.nuts()."
            )
        yield Finding("certificate fails", f"The surrogate's certificate does not hold ({certificate.failed}). {fix}")
    if start is not None and not start.is_used:
        usual = "Chains began where they were told to, and have warmed up as without one."
        yield Finding("start not used", f"Started {start.text}. {usual}", is_grave=False)
    yield from _agreement(run)
    if run.sampler.bias is not None:
        yield Finding(
            "biased", "The sampler does not sample the posterior exactly, which none of these figures can show."
        )


def _mixing(
    run: Run, columns: dict[str, np.ndarray], names: tuple[str, ...], health: Health, predictions: Predictions
) -> Iterator[Finding]:
    if not names:
        yield Finding("nothing kept", "No parameters were kept, so nothing can be said of how the chains have mixed.")
        return
    if run.num_draws < FEWEST_DRAWS:
        have = "is" if run.num_draws == 1 else "are"
        yield Finding("too few draws", f"{_count(run.num_draws, 'draw')} a chain {have} too few to say anything.")
        return
    if health.stuck:
        rejected = ": no proposal was taken. Use smaller steps" if run.acceptance == 0 else ""
        of = health.chains
        yield Finding(f"{health.stuck} of {of} chains stuck", f"{health.stuck} of {of} chains never moved{rejected}.")
    r_hat, bulk, tail = (columns[name] for name in ("r_hat", "ess_bulk", "ess_tail"))
    looked_at, vary = int(np.isfinite(bulk).sum()), int((columns["sd"] > 0).sum())
    if run.num_chains == 1:
        yield Finding("one chain", "One chain: whether it has found all of the posterior cannot be told from it.")
    if looked_at == 0:
        return
    least = (float(np.nanmin(bulk)), float(np.nanmin(tail)))
    of_parameters = [_r_hat(run, r_hat, names, looked_at, vary)] if run.num_chains > 1 else []
    of_parameters.append(_effective_draws(run, least))
    if vary > FEW_PARAMETERS and any(finding.is_grave for finding in of_parameters):
        mixed = predictions()
        if mixed is not None:
            yield from _of_predictions(run, mixed, r_hat, min(least))
            return
    yield from of_parameters


def _effective_draws(run: Run, least: tuple[float, float]) -> Finding:
    """Say what the draws are worth, by the least ESS in the bulk and in the tails."""
    said = f"At least {least[0]:,.0f} effective draws in the bulk and {least[1]:,.0f} in the tails of each"
    enough = ESS_PER_CHAIN * run.num_chains
    if min(least) >= enough:
        return Finding("enough draws", f"{said}.", is_grave=False)
    rough = "means and intervals are rough" + (", and so is R-hat" if run.num_chains > 1 else "")
    return Finding(f"ESS {min(least):,.0f}", f"{said}; with fewer than {enough}, {rough}: run longer.")


def _of_predictions(run: Run, mixed: PredictionMixing, r_hat: np.ndarray, least: float) -> Iterator[Finding]:
    """Say whether chains agree on predictions, where they do not on parameters, and what these are good for."""
    what, at = f"predicted {mixed.what}", f"at {mixed.rows} {mixed.whose}"
    high, looked_at = int((r_hat > R_HAT_LIMIT).sum()), int(np.isfinite(r_hat).sum())
    weights = f"{high:,} of {looked_at:,} parameters {'has' if high == 1 else 'have'} R-hat above {R_HAT_LIMIT}"
    if not high:
        weights = f"of some parameters there are no more than {least:,.0f} effective draws"
    good = True
    if mixed.r_hat is None or mixed.ess is None:
        same = f"{run.num_chains} chains agree on {what}: none varies by more than {SMALLEST_SD:g} {at}."
        yield Finding("predictions agree", same, is_grave=False)
    else:
        good = yield from _of_varying_predictions(run, mixed.r_hat, mixed.ess, what, at)
    usual = "as is usual where weights can change places: use predictions, not single parameters"
    sentence = f"{weights[0].upper()}{weights[1:]}{f', {usual}' if good else ', too'}."
    yield Finding("parameters differ", sentence, is_grave=False)


def _of_varying_predictions(run: Run, r_hat: float, ess: float, what: str, at: str) -> Generator[Finding, None, bool]:
    """Say how well predictions have mixed, and return whether that is well enough."""
    agree, enough = r_hat <= R_HAT_LIMIT or run.num_chains == 1, ESS_PER_CHAIN * run.num_chains
    if not agree:
        figure = f"R-hat of {what} is up to {r_hat:.4g} {at}, above {R_HAT_LIMIT}: run longer."
        apart = f"{run.num_chains} chains do not agree: " if r_hat > R_HAT_APART else ""
        yield Finding(f"R-hat {r_hat:.4g} of predictions", f"{apart}{figure}")
    elif run.num_chains > 1:
        together = f"{run.num_chains} chains agree on {what}: R-hat at most {r_hat:.3f} {at}."
        yield Finding("predictions agree", together, is_grave=False)
    said = f"At least {ess:,.0f} effective draws of each prediction"
    if ess < enough:
        rough = f"{said}; with fewer than {enough}, predictions are rough: run longer."
        yield Finding(f"ESS {ess:,.0f} of predictions", rough)
    else:
        yield Finding("enough draws", f"{said}.", is_grave=False)
    return agree and ess >= enough


def _r_hat(run: Run, r_hat: np.ndarray, names: tuple[str, ...], looked_at: int, vary: int) -> Finding:
    """Say whether the chains agree on the parameters that were looked at; those that never vary have no R-hat."""
    worst = int(np.nanargmax(r_hat))
    high = int((r_hat > R_HAT_LIMIT).sum())
    what = f"parameter{'' if looked_at == 1 else 's'}{'' if vary == len(names) else ' that vary'}"
    if looked_at == vary:
        scope, all_of_it = f"{looked_at} {what}", "the parameter" if looked_at == 1 else f"all {looked_at} {what}"
    else:
        scope = all_of_it = f"the {looked_at} of {vary} {what} that were looked at"
    if not high:
        sentence = f"{run.num_chains} chains agree on {all_of_it}: R-hat at most {r_hat[worst]:.3f}."
        return Finding("chains agree", sentence, is_grave=False)
    apart = f"{run.num_chains} chains do not agree: " if r_hat[worst] > R_HAT_APART else ""
    have = "has" if high == 1 else "have"
    return Finding(
        f"R-hat {r_hat[worst]:.4g}",
        f"{apart}{high} of {scope} {have} R-hat above {R_HAT_LIMIT} (worst {names[worst]}, {r_hat[worst]:.4g}): run "
        f"longer or reparametrise.{_how_to_see_predictions(run, vary)}",
    )


def _how_to_see_predictions(run: Run, vary: int) -> str:
    """Return what a run that was loaded without its model or its data needs for a verdict on predictions."""
    has_no_task = run.posterior is not None and run.posterior.task is None
    if vary <= FEW_PARAMETERS or run.folder is None or has_no_task or run.predicted_at is not None:
        return ""
    load = f'cs.load("{shown(run.folder)}", posterior=..., shards=...)'
    return f" Of a network, judge predictions, not weights: {load}.summary()."


def _agreement(run: Run) -> Iterator[Finding]:
    if run.owner is not None and run.owner.without:
        gone = ", ".join(run.owner.without)
        yield Finding(
            f"without {gone}",
            f"{gone} was lost: this is the posterior of the data of {', '.join(run.owner.names)} alone.",
        )
    if run.network.size == 1:
        return
    if run.owner is not None and run.owner.attempts:
        again = f"{_count(run.owner.attempts, 'time')}, went back to what all had saved, and took other random numbers"
        yield Finding("fell out of step", f"The agents fell out of step {again}.", is_grave=False)
    if run.agents < run.network.size:
        own = f"These are the draws of {run.owner[0]} alone" if run.owner else ""
        yield Finding(
            "agreement unknown", f"{own}: how far the others' are from them, they have to say.", is_grave=False
        )
        return
    error = run.consensus_error
    if run.sampler.replicated:
        redone = "" if not run.redone else f" {_count(run.redone, 'iteration')} had to be redone for it."
        same = f"All agents hold the same chain{'s' * (run.num_chains > 1)}.{redone}"
        yield Finding("agents agree", same, is_grave=False)
    elif run.copies == 1:
        yield Finding("agents agree", "All agents hold the same draws.", is_grave=False)
    elif np.isnan(error):
        yield Finding("agreement unknown", "How far agents are apart cannot be told from what was kept.")
    elif error > CONSENSUS_LIMIT:
        far = "That is far: what one agent says is not what another does."
        yield Finding(f"agents {error:.2g} sd apart", f"Agents differ by {error:.2g} posterior sd. {far}")
    else:
        yield Finding("agents agree", f"Agents differ by {error:.2g} posterior sd.", is_grave=False)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
