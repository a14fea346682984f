"""One of several processes that share a run: `python -m tests.devices.host '{"host": 0, ...}'`."""

import json
import sys

import jax
import numpy as np

import consilience as cs
from consilience.engine import chains
from consilience.runs import bar
from consilience.store import folder

from .problem import sample, shard_of

NETWORK = cs.Network.ring(5)  # three agents on the first of two hosts, two on the second


def main(host, hosts, port, name, draws, out, fault=None, seed=0, devices=1, chunk=None):
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", devices)
    bar.LINE_SECONDS = 0  # every report is printed
    chains.CHUNK_SECONDS = 0.2  # and there are many
    if chunk is not None:
        chains.Chains.iterations_at_once = lambda self: chunk
    folder.SIGHT_PATIENCE = 1
    runtime = cs.Devices.cluster(f"127.0.0.1:{port}", hosts, host)

    def shards(agent):
        print(f"loads {agent}", file=sys.stderr, flush=True)
        shard = shard_of(agent)
        if fault == "nan" and agent == 4:
            shard["x"][3] = np.nan
        if fault == "large" and agent == 4:
            shard["x"][:], shard["y"][:] = 1.0, 1e308  # of which the gradient's sum is infinite
        if fault == "columns" and agent > 2:
            shard["z"] = shard["x"]
        return shard

    run = sample(name, NETWORK, draws, runtime, shards, out=out, resume=out is not None, progress="drawn", seed=seed)
    print(json.dumps({"shape": run.kept.shape, "rows": run.rows, "status": run.facts["status"]}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
