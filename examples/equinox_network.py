"""An Equinox network, sampled by five agents on a ring that have two of the ten digits each.

Run it with `python examples/equinox_network.py`. An Equinox module is a pytree with parameters among other things, such
as its activation: `eqx.partition` sets the arrays, which are sampled, apart from the rest, and `eqx.combine` puts a
draw and the rest together again.
"""

from __future__ import annotations

import equinox as eqx
import jax

import consilience as cs
from consilience.experiments.images import bundled_digits


def main(hidden: int = 10, num_warmup: int = 200, num_samples: int = 200, progress: bool = True) -> cs.Run:
    """Print how well every agent tells all ten digits."""
    train, test = bundled_digits()

    def network(key: jax.Array) -> eqx.nn.MLP:
        return eqx.nn.MLP(64, 10, hidden, depth=1, activation=jax.nn.tanh, key=key)

    def init(key: jax.Array) -> eqx.nn.MLP:
        return eqx.filter(network(key), eqx.is_inexact_array)

    _, rest = eqx.partition(network(jax.random.key(0)), eqx.is_inexact_array)

    def apply(params: eqx.nn.MLP, x: jax.Array) -> jax.Array:
        return jax.vmap(eqx.combine(params, rest))(x)

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
