"""One peer from Python, by `cs.sample(..., runtime=cs.Peer(...))`: the run that `consilience peer` makes of a file."""

import sys
from pathlib import Path

import jax
import numpy as np

import consilience as cs


def main():
    file = Path(sys.argv[2])
    peer = cs.Peer(file)
    name = file.parent.name
    jax.config.update("jax_enable_x64", True)
    sys.path.insert(0, str(Path.cwd()))
    import regression

    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 5
    run = cs.sample(
        regression.posterior,
        [regression.rows(int(name.removeprefix("agent")))],
        cs.Network.ring(3),
        cs.mala(0.1, 1.0),
        num_samples=100,
        num_warmup=0,
        num_chains=2,
        seed=seed,
        progress=False,
        runtime=peer,
        columns={"x": ["age", "dose", "bmi"]},
    )
    np.save(f"{name}.npy", run.kept[:])
    print(repr(run), run.folder, len(run.shards or []), run.owner.name)


if __name__ == "__main__":
    main()
