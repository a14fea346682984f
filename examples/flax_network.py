"""A Flax network, sampled by five agents on a ring that have two of the ten digits each.

Run it with `python examples/flax_network.py`. Flax keeps parameters apart from the module, so `apply` is the module's
own; the same line fits any network that is a function of parameters and inputs.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

import consilience as cs
from consilience.experiments.images import bundled_digits


class Network(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(10)(nn.tanh(nn.Dense(self.hidden)(x)))


def main(hidden: int = 10, num_warmup: int = 200, num_samples: int = 200, progress: bool = True) -> cs.Run:
    """Print how well every agent tells all ten digits."""
    train, test = bundled_digits()
    network = Network(hidden)

    def init(key: jax.Array) -> dict:
        return network.init(key, jnp.zeros((1, 64)))["params"]

    def apply(params: dict, x: jax.Array) -> jax.Array:
        return network.apply({"params": params}, x)

    run = cs.sample(
        cs.Posterior.classifier(apply, init=init),
        cs.shard(train, agents=5, by="label"),
        cs.Network.ring(5),
        cs.nuts(),
        num_warmup=num_warmup,
        num_samples=num_samples,
        num_chains=1,
        progress=progress,
    )
    print(run.evaluate(test))
    return run


if __name__ == "__main__":
    main()
