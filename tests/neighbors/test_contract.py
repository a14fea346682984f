"""One contract for all twins of `Neighbors`: lanes of one array, devices of a mesh, processes that talk over Zenoh."""

from functools import partial

import jax
import numpy as np
import pytest

from consilience.neighbors import DeviceNeighbors, LaneNeighbors, Wiring, edge_lists, wire
from consilience.peers import Authority
from consilience.runs.arrays import MeshArrays, spec

from ..forks import Forked
from ..patience import PATIENCE
from ..peers.crew import free_ports
from .contract import CASES, NETWORK, ROOT, SAME_EVERYWHERE, SIZE, of_agents
from .peer_worker import RUN


def on_lanes(folder):
    """Results of all cases: leaves (agent, ...)."""
    connect = partial(LaneNeighbors, edge_lists(NETWORK), ROOT)
    return {name: jax.tree.leaves(of_agents(case, connect)(case.values)) for name, case in CASES.items()}


def on_mesh(count, folder):
    """Five agents on so many devices: two or three on each, or one."""
    arrays = MeshArrays(tuple(jax.devices()[:count]), SIZE)
    wiring = wire(NETWORK, arrays.placement)
    lists = jax.tree.map(lambda leaf: arrays.put(leaf, 0), wiring.lists)

    def results(case):
        def of_device(lists, values):
            here = Wiring(lists, wiring.partners)
            return of_agents(case, lambda: DeviceNeighbors(arrays.placement, here, ROOT, one_copy=False))(values)

        function = jax.shard_map(of_device, mesh=arrays.mesh, in_specs=spec(0), out_specs=spec(0), check_vma=False)
        jitted = jax.jit(function, out_shardings=arrays.sharding(spec(0)))
        found = jitted(lists, jax.tree.map(lambda leaf: arrays.put_agents(np.asarray(leaf), 0), case.values))
        return [arrays.read(leaf) for leaf in jax.tree.leaves(found)]

    return {name: results(case) for name, case in CASES.items()}


def on_peers(folder):
    authority = Authority.create(RUN)
    (folder / "ca.crt").write_bytes(authority.certificate)
    for index in range(SIZE):
        key, certificate = authority.issue(f"agent{index}", ["127.0.0.1"])
        (folder / f"agent{index}.key").write_bytes(key)
        (folder / f"agent{index}.crt").write_bytes(certificate)
    ports = ",".join(map(str, free_ports(SIZE)))
    workers = [
        Forked(f"{__package__}.peer_worker", [folder, index, ports], folder, folder / f"agent{index}.out")
        for index in range(SIZE)
    ]
    try:
        for index, worker in enumerate(workers):
            assert worker.wait(PATIENCE) == 0, (folder / f"agent{index}.out").read_text()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    found = [dict(np.load(folder / f"agent{index}.npz")) for index in range(SIZE)]
    counts = {name: sum(key.startswith(f"{name}/") for key in found[0]) for name in CASES}
    return {
        name: [np.stack([one[f"{name}/{k}"] for one in found]) for k in range(count)] for name, count in counts.items()
    }


TWINS = {"lanes": on_lanes, **{f"{count} devices": partial(on_mesh, count) for count in (1, 2, 5)}, "peers": on_peers}


@pytest.fixture(scope="module", params=TWINS.values(), ids=TWINS.keys())
def results(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("contract"))


@pytest.mark.parametrize("name", CASES)
def test_a_twin_keeps_the_contract(results, name):
    case = CASES[name]
    expected = jax.tree.leaves(case.expected(case.values))
    assert len(expected) == len(results[name])
    for found, right in zip(results[name], expected, strict=True):
        if case.exact:
            np.testing.assert_array_equal(found, right)
        else:
            np.testing.assert_allclose(found, right, atol=3e-6, rtol=1e-6)


@pytest.mark.parametrize("name", SAME_EVERYWHERE)
def test_exact_results_are_the_same_bits_on_all_agents(results, name):
    for leaf in results[name]:
        bits = np.asarray(leaf)
        np.testing.assert_array_equal(bits, np.broadcast_to(bits[:1], bits.shape))
