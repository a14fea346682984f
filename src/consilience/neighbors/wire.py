"""Binary format of a round's messages: a header of 40 bytes, and the numbers of all chains.

    magic 4 | run 8 | epoch 4 | number 8 | form 4 | flags 4 | length 8 | the arrays' bytes, one after the other

- *run*: the run's identifier. A message of another run is dropped.
- *epoch*: how often the agents have met; whatever was sent before the last meeting counts no more.
- *number*: the round's number since then. All agents go through the same rounds, so it says which round a message is
  of: a replayed one has been used, and one of another round is not taken for this one.
- *form*: a digest of the kind of round and of the arrays' dtypes and shapes. It shows, at their next round, that agents
  have taken different turns.
- *flags*: whether some number is not finite. Off the support of a posterior that happens to honest agents, and they set
  the flag; a message that has such numbers without the flag is malformed.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._refused import Refused

HEADER = struct.Struct("<4s8sIQIIQ")
MAGIC = b"CSL1"
NOT_FINITE = 1
LARGEST = 1 << 31  # bytes of one message
FEW = 4096  # numbers up to which single bytes are checked first
LAST = sys.byteorder == "little"  # whether the byte with the exponent is a number's last


class Malformed(ValueError):  # noqa: N818
    """Raised for bytes that are no message of this run."""


class Message(NamedTuple):
    """A received message: the fields of its header, and all of its bytes."""

    epoch: int
    number: int
    form: int
    flags: int
    raw: bytes

    @property
    def round(self) -> tuple[int, int]:
        return self.epoch, self.number

    def fault(self, form: Form) -> str | None:
        """Say what is wrong with it as a message of a form; None: nothing."""
        if self.form != form.digest or len(self.raw) != HEADER.size + form.bytes:
            return "it is not of the shapes and dtypes of this round"
        return fault_of(self.raw, form, bool(self.flags & NOT_FINITE))


class MessagePart(NamedTuple):
    """One array of a message: dtype, shape, number of elements, and the byte at which it begins."""

    dtype: np.dtype
    shape: tuple[int, ...]
    size: int
    place: int


class Form(NamedTuple):
    """Layout of a round's messages, the same on all agents: which arrays they hold, and where."""

    digest: int
    parts: tuple[MessagePart, ...]
    judged: tuple[tuple[str, MessagePart], ...]  # with their dtype's kind: floats and booleans, which may have faults
    bytes: int

    @classmethod
    def of(cls, kind: str, arrays: Sequence[np.ndarray]) -> Form:
        return _form(kind, tuple([array.dtype for array in arrays]), tuple([array.shape for array in arrays]))


@lru_cache(1024)
def _form(kind: str, dtypes: tuple[np.dtype, ...], shapes: tuple[tuple[int, ...], ...]) -> Form:
    text = kind + "".join(f"|{dtype.str}{shape}" for dtype, shape in zip(dtypes, shapes, strict=True))
    parts, place = [], HEADER.size
    for dtype, shape in zip(dtypes, shapes, strict=True):
        parts.append(MessagePart(dtype, shape, math.prod(shape), place))
        place += dtype.itemsize * parts[-1].size
    if place > LARGEST:
        raise Refused(f"a message of {place:,} bytes", f"{LARGEST:,} are the most", "Take fewer chains.")
    judged = tuple((part.dtype.kind, part) for part in parts if part.dtype.kind in "fb")
    return Form(zlib.crc32(text.encode()), tuple(parts), judged, place - HEADER.size)


def header_of(run: bytes, epoch: int, number: int, form: Form) -> bytes:
    """Return the header that every agent's message of a round has, where all its numbers are finite."""
    return HEADER.pack(MAGIC, run, epoch, number, form.digest, 0, form.bytes)


def pack(header: bytes, form: Form, arrays: Sequence[np.ndarray]) -> bytes:
    """Make a message of a header and arrays, and set its flag if some of its numbers are not finite."""
    raw = b"".join([header, *[np.ascontiguousarray(array).data for array in arrays]])
    if all(kind != "f" or _is_finite(raw, part) for kind, part in form.judged):
        return raw
    *known, _, length = HEADER.unpack_from(raw)
    return HEADER.pack(*known, NOT_FINITE, length) + raw[HEADER.size :]


def unpack(run: bytes, raw: bytes) -> Message:
    """Read and check the header of a message; its arrays are read once their form is known."""
    if len(raw) < HEADER.size:
        raise Malformed(f"{len(raw)} bytes are no message")
    magic, its_run, epoch, number, form, flags, length = HEADER.unpack_from(raw)
    if magic != MAGIC:
        raise Malformed("it does not begin as a message does")
    if its_run != run:
        raise Malformed(f"it is of another run, {its_run.hex()}")
    if length != len(raw) - HEADER.size:
        raise Malformed(f"it says {length} bytes and has {len(raw) - HEADER.size}")
    if flags & ~NOT_FINITE:
        raise Malformed(f"it has unknown flags, {flags:#x}")
    return Message(epoch, number, form, flags, raw)


def fault_of(raw: bytes, form: Form, says_not_finite: bool = False) -> str | None:
    """Say what is wrong with the numbers of a message of a form; None: nothing."""
    for kind, part in form.judged:
        if kind == "b" and raw[part.place : part.place + part.size].strip(b"\0\1"):
            return "it has truth values that are neither true nor false"
        if kind == "f" and not says_not_finite and not _is_finite(raw, part):
            return "it has numbers that are not finite, and does not say so"
    return None


def arrays_of(raw: bytes, form: Form) -> list[np.ndarray]:
    """Return the arrays of a message of a form; they share its memory."""
    return [np.ndarray(part.shape, part.dtype, raw, part.place) for part in form.parts]


def _is_finite(raw: bytes, part: MessagePart) -> bool:
    """Tell whether all numbers of one array of a message are finite."""
    dtype, _, size, place = part
    if size <= FEW and dtype.itemsize in (4, 8):
        # The byte of sign and upper exponent is one of these two for infinity and NaN, for other numbers hardly ever.
        # In a thread that has just been woken, searching for them is faster than calling numpy.
        upper = raw[place + LAST * (dtype.itemsize - 1) : place + size * dtype.itemsize : dtype.itemsize]
        if b"\x7f" not in upper and b"\xff" not in upper:
            return True
    return bool(np.isfinite(np.frombuffer(raw, dtype, size, place)).all())
