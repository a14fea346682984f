"""One message of a round: a header of 40 bytes, and the numbers of all chains.

    magic 4 | run 8 | epoch 4 | number 8 | form 4 | flags 4 | length 8 | the arrays' bytes, one after the other

- *run*: which run. A message of another one is dropped.
- *epoch*: how often the agents have met; whatever was sent before the last meeting counts no more.
- *number*: of the round since then. All agents go through the same rounds, so it says which round a message is of:
  a replayed one has been used, and one of another round is not taken for this one.
- *form*: a digest of what kind of round it is and of the arrays' dtypes and shapes. Agents that have taken different
  turns are found out by it at their next round.
- *flags*: whether some number is not finite. Off the support of a posterior that happens to honest agents, and they say
  so; a message that has such numbers and does not say so is malformed.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

HEADER = struct.Struct("<4s8sIQIIQ")
MAGIC = b"CSL1"
NOT_FINITE = 1
LARGEST = 1 << 31  # bytes of one message


class Malformed(ValueError):  # noqa: N818
    """Bytes that are no message of this run."""


class Message(NamedTuple):
    epoch: int
    number: int
    form: int
    flags: int
    payload: memoryview

    @property
    def round(self) -> tuple[int, int]:
        return self.epoch, self.number


class Form(NamedTuple):
    """What a round's messages look like: the same on all agents."""

    digest: int
    dtypes: tuple[np.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    bytes: int

    @classmethod
    def of(cls, kind: str, arrays: Sequence[np.ndarray]) -> Form:
        return _form(kind, tuple([array.dtype for array in arrays]), tuple([array.shape for array in arrays]))


@lru_cache(1024)
def _form(kind: str, dtypes: tuple[np.dtype, ...], shapes: tuple[tuple[int, ...], ...]) -> Form:
    text = kind + "".join(f"|{dtype.str}{shape}" for dtype, shape in zip(dtypes, shapes, strict=True))
    sizes = tuple(math.prod(shape) for shape in shapes)
    size = sum(dtype.itemsize * count for dtype, count in zip(dtypes, sizes, strict=True))
    return Form(zlib.crc32(text.encode()), dtypes, shapes, sizes, size)


def pack(run: bytes, epoch: int, number: int, form: Form, arrays: Sequence[np.ndarray]) -> bytes:
    """A message."""
    flags = 0 if _all_finite(arrays) else NOT_FINITE
    header = HEADER.pack(MAGIC, run, epoch, number, form.digest, flags, form.bytes)
    return b"".join([header, *(np.ascontiguousarray(array).data for array in arrays)])


def unpack(run: bytes, raw: bytes) -> Message:
    """What a message says of itself; its arrays are read by `arrays_of`, once their form is known."""
    if len(raw) < HEADER.size:
        raise Malformed(f"{len(raw)} bytes are no message")
    magic, its_run, epoch, number, form, flags, length = HEADER.unpack_from(raw)
    if magic != MAGIC:
        raise Malformed("it does not begin as a message does")
    if its_run != run:
        raise Malformed(f"it is of another run, {its_run.hex()}")
    if length != len(raw) - HEADER.size or length > LARGEST:
        raise Malformed(f"it says {length} bytes and has {len(raw) - HEADER.size}")
    if flags & ~NOT_FINITE:
        raise Malformed(f"it has unknown flags, {flags:#x}")
    return Message(epoch, number, form, flags, memoryview(raw)[HEADER.size :])


def arrays_of(message: Message, form: Form) -> list[np.ndarray]:
    """The message's arrays, refused where they are not of `form`, or are not finite and do not say so."""
    if message.form != form.digest or len(message.payload) != form.bytes:
        raise Malformed("it is not of the shapes and dtypes of this round")
    arrays, place = [], 0
    for dtype, shape, count in zip(form.dtypes, form.shapes, form.sizes, strict=True):
        array = np.frombuffer(message.payload, dtype, count, place).reshape(shape)
        if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
            raise Malformed("it has truth values that are neither true nor false")
        arrays.append(array)
        place += count * dtype.itemsize
    if not message.flags & NOT_FINITE and not _all_finite(arrays):
        raise Malformed("it has numbers that are not finite, and does not say so")
    return arrays


def _all_finite(arrays: Sequence[np.ndarray]) -> bool:
    # A sum is finite where all of it is, but for overflow: the slow look is for the rare case.
    with np.errstate(all="ignore"):  # which is not worth a warning either
        for array in arrays:
            if array.dtype.kind == "f" and not math.isfinite(array.sum()) and not np.isfinite(array).all():
                return False
    return True
