"""Seconds from an empty process to the first draw: `cs.nuts` over five agents beside BlackJAX's NUTS on pooled data.

A logistic regression of 300 rows and 5 parameters, 500 iterations of warm-up, 4 chains. Every time is that of a process
of its own, imports, tracing and compilation included, and nothing compiled before is found; the two take turns. Then
what importing consilience adds to jax, and the command with that model, which it has not seen, and when it has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
WARMUP = 500
REPORTED = re.compile(r"([\d,]+) of [\d,]+ iterations")
PAIRS = 5
MOST_RATIO, MOST_SECONDS_SEEN, MOST_SECONDS_IMPORT = 1.3, 4.0, 0.2

DATA = """
import numpy as np
random = np.random.default_rng(0)
x = random.standard_normal((300, 5)).astype(np.float32)
y = (random.uniform(size=300) < 1 / (1 + np.exp(-x @ np.array([1.0, -1.0, 0.5, 0.0, 2.0])))).astype(np.float32)
"""
MODEL = (
    DATA
    + """
import jax.numpy as jnp
import consilience as cs

def log_likelihood(w, batch):
    z = batch["x"] @ w
    return batch["y"] * z - jnp.logaddexp(0.0, z)

def load():
    return {"x": x, "y": y}

posterior = cs.Posterior(lambda w: -0.5 * jnp.sum(w**2), log_likelihood, init=np.zeros(5, np.float32))
"""
)
OURS = (
    MODEL
    + f"""
cs.sample(posterior, cs.shard(load(), agents=5, by="iid"), cs.Network.ring(5), cs.nuts(), num_warmup={WARMUP},
          num_samples=1, num_chains=4, progress=False)
"""
)
RUN = f"""
[model]
posterior = "model:posterior"
[data]
loader = "model:load"
[network]
kind = "ring:5"
[sampler]
name = "nuts"
[run]
num_warmup = {WARMUP}
num_samples = 1000
num_chains = 4
"""
THEIRS = (
    DATA
    + f"""
import blackjax
import jax
import jax.numpy as jnp

def logdensity(w):
    z = x @ w
    return -0.5 * jnp.sum(w**2) + jnp.sum(y * z - jnp.logaddexp(0.0, z))

warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)

def chain(key, start):
    for_warmup, for_draw = jax.random.split(key)
    (state, parameters), _ = warmup.run(for_warmup, start, {WARMUP})
    return blackjax.nuts(logdensity, **parameters).step(for_draw, state)

jax.block_until_ready(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 4), jnp.zeros((4, 5))))
"""
)
IMPORT = """
import time
import jax, jax.numpy
began = time.perf_counter()
import consilience
print(time.perf_counter() - began)
"""
COMMAND = """
from consilience.runs import bar
bar.LINE_SECONDS = 0
from consilience.cli import main
main()
"""

# As a user's, whatever this shell has set: nothing compiled before is found, and compiled as always.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS")
}


def seconds(code: str) -> float:
    """Return how long a process takes to run this."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=ENVIRONMENT)
    return time.perf_counter() - began


def seconds_of_import() -> float:
    """Return what `import consilience` takes where jax is there."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], check=True, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    return float(done.stdout)


def seconds_of_command(compiled: Path) -> float:
    """Return how long `consilience run` takes until it reports the first draws: all of its warm-up is behind it."""
    environment = {**ENVIRONMENT, "CONSILIENCE_COMPILED": str(compiled)}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.py").write_text(MODEL)
        (Path(folder) / "run.toml").write_text(RUN)
        line = [sys.executable, "-c", COMMAND, "run", f"{folder}/run.toml", "--no-report", "--out", f"{folder}/run"]
        began = time.perf_counter()
        process = subprocess.Popen(
            line, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        for said in process.stderr:
            done = REPORTED.search(said)
            if done and int(done[1].replace(",", "")) > WARMUP:
                break
        else:
            raise RuntimeError("the command ended without a report")
        spent = time.perf_counter() - began
        process.kill()
        process.communicate()
        return spent


def main() -> None:
    times = np.array([(seconds(OURS), seconds(THEIRS)) for _ in range(PAIRS)])
    ratio = np.median(times[:, 0] / times[:, 1])
    print(f"logistic regression, 300 × 5, 4 chains, {WARMUP} of warm-up and a draw: median of {PAIRS} cold processes")
    for name, column in zip(("cs.nuts, ring of 5", "BlackJAX NUTS, pooled data"), times.T, strict=True):
        print(f"{name:<40}{np.median(column):>8.2f} s")
    print(f"ratio {ratio:.2f} (at most {MOST_RATIO} is the aim)")
    imports = np.median([seconds_of_import() for _ in range(PAIRS)])
    print(f"{'import consilience, beside jax':<40}{imports:>8.2f} s (at most {MOST_SECONDS_IMPORT} is the aim)")
    with tempfile.TemporaryDirectory() as folder:
        new = seconds_of_command(Path(folder))
        seen = np.median([seconds_of_command(Path(folder)) for _ in range(PAIRS)])
    print(f"{'consilience run, a new model':<40}{new:>8.2f} s to its first draws")
    print(f"{'consilience run, a model seen before':<40}{seen:>8.2f} s (at most {MOST_SECONDS_SEEN:.0f} is the aim)")


if __name__ == "__main__":
    main()
