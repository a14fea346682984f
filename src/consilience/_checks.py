"""Checks of plain arguments, shared so that they are worded alike."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, isfunction, signature
from typing import Any, TypeVar

import numpy as np

from ._refused import Refused

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

SYNONYMS = {  # what other libraries call it
    "target_acceptance": ("target_accept", "target_accept_prob", "target_acceptance_rate", "adapt_delta", "delta"),
    "max_num_doublings": ("max_tree_depth", "max_treedepth", "tree_depth"),
    "num_samples": ("draws", "num_draws", "samples", "n_samples", "iter_sampling"),
    "num_warmup": ("tune", "warmup", "num_tune", "burn_in", "burnin", "n_warmup", "iter_warmup"),
    "num_chains": ("chains", "n_chains"),
    "thin": ("thinning",),
    "seed": ("random_seed", "rng_key", "key", "random_state", "rng_seed"),
    "out": ("path", "folder", "output"),
    "progress": ("progressbar", "progress_bar", "show_progress"),
    "init": ("init_params", "initvals", "inits", "start", "initial_params", "initial_position"),
    "step_size": ("epsilon", "eps", "stepsize", "learning_rate", "lr"),
    "inverse_mass_matrix": ("inv_mass_matrix", "inv_metric", "metric", "mass_matrix"),
    "dense_mass": ("dense", "dense_metric"),
    "predictive": ("posterior_predictive",),
    "prob": ("hdi_prob", "ci_prob", "level", "credible_interval"),
    "intervals": ("prob", "ci_prob", "hdi_prob", "level"),
    "size": ("agents", "n", "m", "nodes", "num_agents", "n_agents"),
    "agents": ("num_agents", "n_agents", "m"),
}


def check(name: str, value: Any, is_right: bool, needed: str) -> None:
    """Refuse the value of an argument that is not right, and say what is needed."""
    if not is_right:
        raise Refused(f"{name} = {value!r}", f"{needed} is needed")


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int; refuse what is not a whole number in the range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        near = most if whole and most is not None and value > most else least
        argument = re.split(r"\W ", name.partition(" (")[0])[-1]  # without what stands before and behind it
        fix = f"Write {argument}={near}." if argument.isidentifier() else f"Write {near}."
        raise Refused(f"{name} = {value!r}", f"a whole number {span} is needed", fix)
    return int(value)


def real_number(value: Any) -> float:
    """Return `value` as a float if it is one real number, of whatever library; else NaN, which is in no range."""
    is_real = not isinstance(value, bool | str) and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
    return float(value) if is_real else math.nan


def check_positive(name: str, value: Any) -> None:
    """Refuse what is not one positive, finite number."""
    check(name, value, 0 < real_number(value) < math.inf, "a positive number")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    check(name, value, isinstance(value, bool), "True or False")


def check_one_of(name: str, value: Any, choices: Sequence[str], others: str = "", else_do: str = "") -> None:
    """Refuse what is not one of the names to choose from, and name the nearest.

    `others` may be chosen as well; `else_do` is what can be done in place of choosing.
    """
    if not isinstance(value, str) or value not in choices:
        near = nearest(str(value), choices) or choices[0]
        reason = f"not one of {', '.join(map(repr, choices))}{others}"
        raise Refused(f"{name} = {value!r}", reason, f"Write {name.split()[-1]}={near!r}{else_do}.")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the name in `known` that means `word`, or is most like it, in whatever letters; None if there is none."""
    alike = {str(name).lower().replace("-", "_"): name for name in known}
    plain = word.lower().replace("-", "_")
    means = [name for name, others in SYNONYMS.items() if plain in others and name in alike]
    return next((alike[name] for name in [*means, *get_close_matches(plain, alike, n=1)]), None)


def takes(function: Callable[..., Any], arguments: int) -> bool:
    """Tell whether a function can be called with so many arguments, as far as its signature tells."""
    try:
        signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def refuse_unknown_keywords(called: str) -> Callable[[F], F]:
    """Make a function refuse keywords that it does not have, with the one that was meant; its signature stays.

    Args:
      called: the function as users write it.
    """

    def decorate(function: F) -> F:
        parameters = signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)]

        @wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            for word in keywords:
                if word not in known:
                    near = nearest(word, known)
                    names = ", ".join(name for name in known if name not in ("self", "cls"))
                    fix = f"Write {near}=... in its place." if near else f"There are {names}."
                    raise Refused(f"{called}({word}=...)", f"it has no argument {word}", fix)
            return function(*arguments, **keywords)

        return checked  # type: ignore[return-value]

    return decorate


def refuse_unknown_settings(called: str) -> Callable[[C], C]:
    """Make a class refuse keywords that it does not have, as `refuse_unknown_keywords` does a function."""

    def decorate(cls: C) -> C:
        cls.__init__ = refuse_unknown_keywords(called)(cls.__init__)  # type: ignore[misc]
        return cls

    return decorate


def refuse_unknown_keywords_of_methods(called: str) -> Callable[[C], C]:
    """Make the public methods of a class refuse keywords that they do not have, as `refuse_unknown_keywords` does.

    Args:
      called: the class, or an instance of it, as users write it.
    """

    def decorate(cls: C) -> C:
        for name, member in list(vars(cls).items()):
            checked = refuse_unknown_keywords(f"{called}.{name}")
            if isinstance(member, classmethod) and not name.startswith("_"):
                setattr(cls, name, classmethod(checked(member.__func__)))
            elif isfunction(member) and not name.startswith("_"):
                setattr(cls, name, checked(member))
        return cls

    return decorate
