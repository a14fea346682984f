"""Arrays of draws on disk while they are written: each process writes its own copies of the chain."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import require
from ..engine import Hosts
from .draws import rows_at_once
from .files import durable_zarr, refusal, shown
from .reading import DRAWS

PATIENCE = 120  # seconds to wait for a host that has as much to do
POLL = 0.05


@dataclass(frozen=True)
class Part:
    """Part of a run's folder that one process writes.

    Attributes:
      copies: copies of the chain that it writes: those of its agents; 0 alone where all agents share one.
      size: number of copies in the folder.
      copies_per_file: number of copies whose draws may share a file; None: all.
      is_written: False on all hosts but the first where all share one copy.
      goes_back: True for a peer, who may have to go back to any checkpoint that it was not told to forget.
    """

    copies: range
    size: int
    copies_per_file: int | None = None
    is_written: bool = True
    goes_back: bool = False

    @property
    def is_all(self) -> bool:
        return len(self.copies) == self.size


class DrawsFolder:
    """Folder draws.zarr of a run, in which the first host makes arrays for all planned draws."""

    def __init__(self, folder: Path, part: Part, hosts: Hosts, planned: int) -> None:
        self._folder, self._part, self._hosts, self._planned = folder, part, hosts, planned
        self._arrays: dict[str, Any] = {}

    def put(self, path: str, values: np.ndarray, first: int, copy: int) -> None:
        """Write draws `first` and on, of copies `copy` and on, to the array at `path`, made if it is not there."""
        if path not in self._arrays:
            copies = values.shape[2] if self._part.is_all else self._part.size
            shape = (self._planned, values.shape[1], copies, *values.shape[3:])
            find = self._made if self._hosts.is_first else self._found
            self._arrays[path] = find(path, shape, values.dtype)
        self._arrays[path][first : first + len(values), :, copy : copy + values.shape[2]] = values

    def check_files(self) -> None:
        """Refuse a folder with files that several hosts would have to write to."""
        if self._part.is_all or not (self._folder / DRAWS).exists():
            return
        root = require("zarr", "store").open_group(self._folder / DRAWS, mode="r")
        for _, group in root.groups():
            for _, array in group.arrays():
                if array.chunks[2] > (self._part.copies_per_file or 1):
                    reason = "it was begun without runtime=cs.Devices(): its files hold all agents' draws"
                    raise refusal(self._folder, reason, "Go on with it in one process.")

    def _made(self, path: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return the array for all planned draws, made or as it is there."""
        zarr = require("zarr", "store")
        root = zarr.open_group(durable_zarr(self._folder / DRAWS), mode="a")
        group, _, name = path.rpartition("/")
        root.require_group(group)  # a killed process may have left the array without what makes its folder a group
        if path in root:
            array = root[path]
            if array.shape != shape:
                array.resize(shape)
            return array
        together = (*shape[:2], min(self._part.copies_per_file or shape[2], shape[2]), *shape[3:])
        return root.create_array(
            path,
            shape=shape,
            chunks=(rows_at_once(together, dtype), *(max(1, n) for n in together[1:])),
            dtype=dtype,
            compressors=zarr.codecs.BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle"),
            fill_value=np.nan,
            dimension_names=["draw", "chain", "agent", *(f"{name}_dim_{k}" for k in range(len(shape) - 3))],
        )

    def _found(self, path: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return the array that the first host makes."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if (self._folder / DRAWS / path / "zarr.json").exists():
                array = require("zarr", "store").open_array(durable_zarr(self._folder / DRAWS / path), mode="r+")
                if array.shape == shape:
                    return array
            time.sleep(POLL)
        raise TimeoutError(f"the first host has not made {path} in {shown(self._folder)} after {PATIENCE} s.")
