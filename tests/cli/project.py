"""A small project as users have it: a file, a module beside it, a table; and the command run on it."""

import math
from pathlib import Path

from typer.testing import CliRunner

from consilience.cli.app import app

MODULE = "model_of_the_test_project"
MODEL = """
import jax.numpy as jnp

import consilience as cs

START = {"w": jnp.zeros(2), "b": jnp.zeros(())}


def logits(params, x):
    z = x @ params["w"] + params["b"]
    return jnp.stack([0 * z, z], axis=1)


def posterior(prior_precision=1.0):
    print("users' functions may print")
    return cs.Posterior.classifier(logits, prior_precision=prior_precision, init=START)


def without_start():
    return cs.Posterior.classifier(logits)


def other_column():
    return cs.Posterior(lambda w: -0.5 * w @ w, lambda w, batch: batch["z"] @ w, init=jnp.zeros(2))


def broken():
    return 1 / 0


def numpyro_model(batch, scale=1.0):
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("w", dist.Normal(0, scale).expand([2]).to_event(1))
    with numpyro.plate("rows", len(batch["y"])):
        numpyro.sample("y", dist.Bernoulli(logits=batch["x"] @ w), obs=batch["y"])


def numpyro_of_sites(batch):
    import numpyro
    import numpyro.distributions as dist

    with numpyro.plate("hospital", 3):
        offset = numpyro.sample("offset", dist.Normal(0, 1))
    with numpyro.plate("rows", len(batch["y"])):
        numpyro.sample("y", dist.Bernoulli(logits=offset[batch["agent"]]), obs=batch["y"])
"""
FILE = f"""
[model]
posterior = "{MODULE}:posterior"

[data]
file = "patients.csv"
features = ["age", "bmi"]
target = "ill"
agent = "hospital"
test_fraction = 0.2
standardize = true

[network]
kind = "ring:3"

[sampler]
name = "mala"

[run]
num_samples = 40
num_warmup = 60
num_chains = 2
"""


def patients() -> list[str]:
    hospitals = ("north", "south", "west")
    rows = [f"{50 + 7 * k % 31},{20 + 3 * k % 11},{hospitals[k % 3]},{k % 5 % 2}" for k in range(60)]
    return ["age,bmi,hospital,ill", *rows]


def write_project(folder: Path) -> None:
    """Into an empty folder."""
    (folder / "small.toml").write_text(FILE)
    (folder / f"{MODULE}.py").write_text(MODEL)
    (folder / "patients.csv").write_text("\n".join(patients()))


def invoke(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "100"})


def assert_refused(result, *messages: str, code: int = 2) -> None:
    """Exit code, a message that fits one screen of 24 lines, nothing on stdout, no traceback."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.stderr
    assert sum(max(1, math.ceil(len(line) / 100)) for line in result.stderr.splitlines()) <= 24
    assert result.stdout == ""
    for message in messages:
        assert message in result.stderr
