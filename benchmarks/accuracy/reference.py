"""The truth of digits: NUTS on the pooled data, in several processes, kept in a file for later calls."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import consilience as cs

from .cells import FORMAT, Scale
from .measures import mixing
from .targets import Truth, problem


def run_part(scale: Scale, seed: int, number: int) -> np.ndarray:
    """Draws (draw, chain, parameter)."""
    here, settings = problem("digits", 1), scale.reference
    layout = here.layout
    run = cs.sample(
        here.posterior,
        here.shards,
        cs.Network.complete(1),
        cs.nuts(),
        init=lambda key: layout.unravel(0.3 * jax.random.normal(key, (layout.dimension,), layout.dtype)),
        num_warmup=settings["warmup"],
        num_samples=settings["draws"],
        num_chains=settings["chains"],
        seed=1000 * seed + 900 + number,
        progress=False,
    )
    return np.array(run.positions[:, :, 0])


def joined(parts: Sequence[np.ndarray]) -> tuple[Truth, dict[str, Any]]:
    """The moments of all chains together, their errors from the spread between chains, and how good they are."""
    draws = np.concatenate(parts, axis=1).astype(float)
    count, chains, dimension = draws.shape
    found = mixing(draws[:, :, None])
    of_chain = draws.mean(axis=0)
    mean, mean_error = of_chain.mean(axis=0), of_chain.std(axis=0, ddof=1) / np.sqrt(chains)
    draws -= mean
    squares = (draws**2).mean(axis=0)  # (chain, parameter)
    variance = squares.mean(axis=0) + mean_error**2
    ratio_error = float((squares / variance).mean(axis=1).std(ddof=1) / np.sqrt(chains))
    flat = draws.reshape(-1, dimension)
    largest = float(np.linalg.eigvalsh(flat.T @ flat / len(flat))[-1])
    return Truth(mean, variance, largest, mean_error, ratio_error), {
        "chains": chains,
        "draws": count,
        "ratio_error": ratio_error,
        "largest_mean_error": float((mean_error / np.sqrt(variance)).max()),
        "r_hat": found["r_hat"],
        "ess_min": found["ess_min"],
    }


def file_of(scale: Scale, seed: int) -> Path:
    told = json.dumps([FORMAT, seed, scale.reference])
    return Path(tempfile.gettempdir()) / f"consilience-accuracy-{hashlib.sha256(told.encode()).hexdigest()[:12]}.npz"


def save(file: Path, truth: Truth, told: dict[str, Any]) -> None:
    np.savez(file, *truth, told=json.dumps(told))  # type: ignore[arg-type]


def load(file: Path) -> tuple[Truth, dict[str, Any]]:
    with np.load(file) as stored:
        arrays = [stored[f"arr_{number}"] for number in range(len(Truth._fields))]
        return Truth(*(array if array.ndim else float(array) for array in arrays)), json.loads(str(stored["told"]))
