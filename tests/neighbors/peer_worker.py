"""One agent of the contract's network, in a process of its own: runs all cases, and writes down what it gets."""

import sys
import time
from pathlib import Path

import jax
import numpy as np

from consilience._compat import dispatch_synchronously
from consilience.neighbors import Collectives, PeerNeighbors
from consilience.peers import Credentials, Links, Mailbox, Place

from .contract import CASES, NETWORK, of_agents

RUN = "00" * 8


def main(folder: Path, index: int, ports: list[int]) -> None:
    dispatch_synchronously()
    names = tuple(f"agent{k}" for k in range(NETWORK.size))
    near = NETWORK.neighbors(index)
    endpoints = {names[k]: f"tls/127.0.0.1:{ports[k]}" for k in near}
    place = Place(RUN, names[index], names, f"tls/127.0.0.1:{ports[index]}", endpoints)
    credentials = Credentials(*(folder / f"{names[index]}.{part}" for part in ("key", "crt")), folder / "ca.crt")
    alive = dict.fromkeys(endpoints, False)
    links = Links(
        place,
        credentials,
        lambda *_: None,
        alive.__setitem__,
        lambda: b"",
        pulled=("round",),
    )
    links.open()
    mailbox = Mailbox.over(links)
    while not all(alive.values()):
        time.sleep(0.05)
    mailbox.begin(1)
    collectives = Collectives(mailbox, NETWORK, index)
    results = {}
    for name, case in CASES.items():
        own = jax.tree.map(lambda leaf: leaf[index : index + 1], case.values)
        found = of_agents(case, lambda: PeerNeighbors(collectives, NETWORK, index))(own)
        for k, leaf in enumerate(jax.tree.leaves(found)):
            results[f"{name}/{k}"] = np.asarray(leaf)[0]
    np.savez(folder / f"{names[index]}.npz", **results)
    collectives.flood([np.zeros(1)])
    # Nobody leaves before all have had the last message that is for them.
    (folder / f"{names[index]}.done").touch()
    while not all((folder / f"{name}.done").exists() for name in names):
        time.sleep(0.02)
    links.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(port) for port in sys.argv[3].split(",")])
