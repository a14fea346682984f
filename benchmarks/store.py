"""What keeping draws on disk costs: memory that stays flat, and little of the sampling time.

10⁵ draws × 10⁴ float32 parameters, 4 GB, go to a folder while they are drawn, at one millisecond an iteration or more;
then the run is summarised and read back. Printed: the process's peak memory at each stage, the time of sampling alone
(the same run with nothing kept), and the share that the store takes on top.

    python -m benchmarks.store [--draws 100000] [--folder DIR]
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import consilience as cs

DIMENSION = 10_000
ROWS = 300  # of data, as many as make an iteration of about a millisecond
AGENTS = 2


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def target() -> tuple[cs.Posterior, list[dict[str, np.ndarray]]]:
    """A linear regression with many parameters: cheap to write down, and a matrix product an iteration."""
    x = np.random.default_rng(0).standard_normal((ROWS, DIMENSION)).astype(np.float32) / np.sqrt(DIMENSION)
    data = {"x": x, "y": x.sum(axis=1)}
    posterior = cs.Posterior(
        lambda p: -0.5 * jnp.sum(p["w"] ** 2), lambda p, batch: -0.5 * (batch["y"] - batch["x"] @ p["w"]) ** 2
    )
    return posterior, cs.shard(data, AGENTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder)) / "run"
    posterior, shards = target()
    sampler = cs.hmc(step_size=0.08, inverse_mass_matrix=1.0, num_integration_steps=3)

    def seconds(draws: int, **options: object) -> float:
        began = time.perf_counter()
        run = cs.sample(
            posterior,
            shards,
            cs.Network.complete(AGENTS),
            sampler,
            init={"w": np.zeros(DIMENSION, np.float32)},
            num_samples=draws,
            **({"num_warmup": 0, "num_chains": 1} | options),  # type: ignore[arg-type]
        )
        print(f"acceptance {run.acceptance:.2f}")
        return time.perf_counter() - began

    keep_nothing = {"keep": [], "progress": "sampling alone"}
    seconds(100, keep=[], progress=False)  # compiles
    alone = seconds(arguments.draws, **keep_nothing)
    print(f"sampling alone: {alone:.1f} s, {1e3 * alone / arguments.draws:.2f} ms an iteration", flush=True)
    print(f"peak memory {peak_gigabytes():.2f} GB", flush=True)
    seconds(100, progress=False)
    stored = seconds(arguments.draws, out=folder, progress="to disk")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e9
    raw = arguments.draws * DIMENSION * 4 / 1e9
    print(f"with the store: {stored:.1f} s, {size:.2f} GB on disk for {raw:.2f} GB of draws")
    print(f"the store takes {100 * (stored / alone - 1):.1f} % of the sampling time on top")
    print(f"peak memory {peak_gigabytes():.2f} GB", flush=True)
    run = cs.load(folder)
    began = time.perf_counter()
    print(run.summary().verdict)
    print(f"summary: {time.perf_counter() - began:.1f} s, peak memory {peak_gigabytes():.2f} GB", flush=True)
    began = time.perf_counter()
    some = run.to_arviz().posterior.w.isel(draw=slice(0, None, 1000)).mean().item()
    print(f"every thousandth draw by ArviZ: mean {some:.4f}, {time.perf_counter() - began:.1f} s")
    print(f"peak memory {peak_gigabytes():.2f} GB")
    shutil.rmtree(folder.parent)


if __name__ == "__main__":
    main()
