"""Build what `cs.sample` takes from a checked configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import jax

from .. import samplers
from .._refused import Refused, refusals_about
from .._tables import choose_from
from .._types import Key, Params
from ..model import Posterior, check_alike, numbered_if_asked
from ..network import Network, network_from_spec
from ..samplers import Decentralized, Sampler
from .config import Config
from .data import Data, load_data
from .modules import call, named

_KINDS: list[Any] = [kind for name in samplers.__all__ if is_dataclass(kind := getattr(samplers, name))]
SAMPLERS = {kind.name: kind for kind in _KINDS if kind is not Decentralized}  # which takes Python functions


@dataclass(frozen=True)
class DescribedRun:
    """A run that is ready to start: what a file describes, as `cs.sample` takes it."""

    posterior: Posterior
    data: Data
    network: Network
    sampler: Sampler
    init: Params | Callable[[Key], Params] | None


def build(config: Config) -> DescribedRun:
    """Build all that the file describes, what is quickest to check first."""
    sampler = sampler_from(config.sampler)
    network = network_from_spec(config.network.kind, config.network.weights, config.network.seed)
    posterior, init = model_of(config)
    data = load_data(config.data, config.split, config.folder, network.size)
    _check_held_out(posterior, init, data)
    return DescribedRun(posterior, data, network, sampler, init)


def sampler_from(table: Mapping[str, Any]) -> Sampler:
    """Return the sampler that a table names, with the settings that the table gives it."""
    settings = dict(table)
    name = settings.pop("name", "nuts")
    if name in ("decentralize", "decentralized"):
        reason = "it makes a sampler of a function, which a file cannot hold"
        fix = f"Call cs.sample(..., cs.decentralize(...)) from Python, or name one of {', '.join(SAMPLERS)}."
        raise Refused(f'[sampler] name = "{name}"', reason, fix)
    if name not in SAMPLERS:
        raise Refused(f'[sampler] name = "{name}"', "there is no such sampler", choose_from(str(name), [*SAMPLERS]))
    kind = SAMPLERS[name]
    known = settings_of(kind)
    for key in settings:
        if key not in known:
            raise Refused("", f"[sampler] {name} has no setting {key}", choose_from(key, known))
    for setting in fields(kind):
        if setting.default is MISSING and setting.name not in settings:
            raise Refused("", f"[sampler] {name} needs {setting.name}", f"Write, for example, {setting.name} = 0.01.")
    try:
        return kind(**{key: _value(value) for key, value in settings.items()})
    except Refused as refusal:
        raise refusal.about(f"[sampler] {refusal.subject}".rstrip()) from None


def settings_of(kind: Any) -> list[str]:
    """Return the names of the settings that users write; those a sampler fills in by itself are not in its repr."""
    return [setting.name for setting in fields(kind) if setting.init and setting.repr]


def _value(value: Any) -> Any:
    """Return a setting's value, with numbers for the keys of a schedule: it is a table, and TOML's keys are text."""
    if not isinstance(value, Mapping):
        return value
    return {int(key) if key.isdigit() else key: entry for key, entry in value.items()}


def model_of(config: Config) -> tuple[Posterior, Any]:
    """Return the posterior to sample, and where to start, None if the file does not say."""
    model, folder = config.model, config.folder
    init = None if model.init is None else named("[model] init", model.init, folder)
    if model.numpyro is not None:
        function = named("[model] numpyro", model.numpyro, folder)
        return Posterior.from_numpyro(partial(function, **model.arguments) if model.arguments else function), init
    assert model.posterior is not None
    found = named("[model] posterior", model.posterior, folder)
    if not isinstance(found, Posterior) and callable(found):
        found = call("[model] arguments", model.posterior, found, model.arguments)
    if not isinstance(found, Posterior):
        reason = f"{model.posterior} gives a {type(found).__name__}, and a cs.Posterior is needed"
        fix = f'A function with numpyro.sample statements goes under numpyro = "{model.posterior}".'
        raise Refused("[model] posterior", reason, fix)
    return found, init


def _check_held_out(posterior: Posterior, init: Any, data: Data) -> None:
    """Refuse test rows that are not like the agents' own, or not for this model: before the run, and not after it."""
    if data.test is None:
        return
    name = "the test data"  # checks name agents, and agent 1 is none here
    with refusals_about(name):
        like = data.test if callable(data.shards) else data.shards[0]
        first, test = check_alike([like, data.test], ["agent 0", name])
    bound, _ = numbered_if_asked(lambda shards: posterior.bind(shards[0]), [first], [0])
    start = bound.init if init is None else init
    if bound.task is None or start is None:
        return
    params = start(jax.random.key(0)) if callable(start) and jax.tree_util.all_leaves([start]) else start
    bound.task.check("the test data", params, test)
