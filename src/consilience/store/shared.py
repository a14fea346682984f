"""Store that several hosts write to, each its own agents' part; the first host writes what all agents have alike."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .._extras import require
from ..engine import Chunk, Hosts
from ..network import Network
from .files import durable_zarr, shown
from .folder import DRAWS, RUN, AgreedStore, Store, read_checkpoint, read_run
from .parts import count, drop_older, drop_unfinished, newest, write_part
from .progress import Progress

PATIENCE = 120  # seconds to wait for a host that has as much to do
PARTS_PATIENCE = 5  # seconds to wait for the other hosts' parts; after that, progress is reported later
SIGHT_PATIENCE = 30  # seconds until a host must see what another has made
POLL = 0.05


class SharedStore(AgreedStore):
    """Store of one of several hosts that sample one run; all of them must see its folder.

    Args:
      hosts: those that share the folder. They open it together; all else each does in its own time.
      agents: those on this host; None where all agents hold the same draws, which the first host writes.
      arguments, options: as of a `Store`.
    """

    def __init__(self, hosts: Hosts, agents: range | None, *arguments: Any, **options: Any) -> None:
        self._hosts, self._agents = hosts, agents
        super().__init__(*arguments, **options)

    def _open(self, network: Network, resume: bool) -> None:
        self._size = network.size
        is_new = not (self.folder / RUN).exists()
        self._hosts.together(lambda: Store._open(self, network, resume) if self._hosts.is_first else None)
        created = self._hosts.gather(self.identity["created"])[0]
        try:
            self._hosts.together(lambda: self._find(created))
            self._agree_where_it_stands()
        except BaseException:
            self.finish("interrupted")
            if is_new and self._hosts.is_first:
                (self.folder / RUN).unlink()  # or the same call, once corrected, would be refused
            raise

    def _agree_where_it_stands(self) -> None:
        """Wait until all hosts see the same checkpoint: network file systems may show it to some a while later."""
        deadline = time.monotonic() + PATIENCE
        while len(set(self._hosts.gather(count(self.progress)))) > 1:
            if not self._hosts.of_first(time.monotonic() < deadline):
                self._hosts.together(self._refuse_to_start)
            time.sleep(1)
            self.progress, self.snapshot = read_checkpoint(self.folder)

    def _refuse_to_start(self) -> None:
        raise ValueError(
            f"the hosts see different checkpoints in {shown(self.folder)}, this one that of {count(self.progress)} "
            f"iterations and draws. Start them again when the file system has settled."
        )

    def _find(self, created: str) -> None:
        """Wait until this host sees the run that the first host has opened, and read its checkpoint."""
        deadline = time.monotonic() + SIGHT_PATIENCE
        while not (self.folder / RUN).exists() or read_run(self.folder)["created"] != created:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"{shown(self.folder)} is not the folder that the first host sees under this name. Name one that "
                    f"all hosts share."
                )
            time.sleep(POLL)
        self.progress, self.snapshot = read_checkpoint(self.folder)

    def _take_over(self) -> None:
        drop_unfinished(self.folder)
        if self._agents is not None and (self.folder / DRAWS).exists():
            self._check_files()

    def _check_files(self) -> None:
        """Refuse a folder with files that several hosts would have to write to."""
        root = require("zarr", "store").open_group(self.folder / DRAWS, mode="r")
        for _, group in root.groups():
            for _, array in group.arrays():
                if array.chunks[2] > (self._agents_per_file or 1):
                    raise ValueError(
                        f"{shown(self.folder)} was begun without runtime=cs.Devices(): its files hold all agents' "
                        f"draws. Go on with it in one process."
                    )

    @property
    def _is_writer(self) -> bool:
        return self._agents is not None or self._hosts.is_first

    def append(self, chunk: Chunk, first: int) -> None:
        if self._is_writer:
            super().append(chunk, first)

    def _write_checkpoint(self, progress: Progress, content: bytes) -> bool:
        if self._agents is not None:
            write_part(self.folder, progress, self._agents, self._size, content)
            if self._hosts.is_first:
                drop_older(self.folder)
            return self._is_whole(progress)
        return not self._hosts.is_first or super()._write_checkpoint(progress, content)

    def _is_whole(self, progress: Progress) -> bool:
        """Tell whether the others have saved their parts too, after a short wait: they are about to."""
        deadline = time.monotonic() + PARTS_PATIENCE
        while time.monotonic() < deadline:
            whole = newest(self.folder)
            if whole is not None and whole.done >= count(progress):
                return True
            time.sleep(POLL)
        return False

    def _shape(self, values: np.ndarray) -> tuple[int, ...]:
        planned, chains, copies, *rest = super()._shape(values)
        return (planned, chains, copies if self._agents is None else self._size, *rest)

    def _made(self, path: str, values: np.ndarray) -> Any:
        """Make the array on the first host; wait for it on the others."""
        if self._hosts.is_first:
            return super()._made(path, values)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if (self.folder / DRAWS / path / "zarr.json").exists():
                array = require("zarr", "store").open_array(durable_zarr(self.folder / DRAWS / path), mode="r+")
                if array.shape == self._shape(values):
                    return array
            time.sleep(POLL)
        raise TimeoutError(f"the first host has not made {path} in {shown(self.folder)} after {PATIENCE} s.")

    def finish(self, status: str) -> None:
        if self._hosts.is_first:
            super().finish(status)
