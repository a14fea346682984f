"""Masks that hide every agent's part of a sum and leave the sum exact.

Agent i turns its values x_i into integers and sends, instead of them,

    y_i = q_i + Σ_{j ∈ P(i)} s_ij · pad_ij  mod 2^64,    q_i = round(x_i · 2^F) mod 2^64,

where P(i) are its `partners`, pad_ij = pad_ji is a keystream that only i and j know, and s_ij is +1 for i < j and -1
for i > j. In the sum over all agents every pad meets its opposite, so Σ y_i = Σ q_i, to the bit and in whatever order
the tree adds. The partners form a connected graph, so every proper subset has a partner outside of it, and its sum,
such as that of a subtree, still carries a pad: uniform noise to whoever does not know that pad. This is the pairwise
masking of Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning" (CCS 2017), without
its recovery from drop-outs: all agents take part, or there is no sum.

What it protects from: agents, and those who read the links, that follow the protocol and look. A coalition that pools
what it knows takes its own agents out of the graph of partners, and learns the sum of each connected piece that
remains: one agent's values only if all its partners join. Keys are not authenticated here: whoever can swap public keys
on their way can read the values, so keys must travel over authenticated links.

**Fixed point.** F = `FRACTION_BITS` = 32: a resolution of 2^-32 = 2.3e-10, an error of at most 1.2e-10 an agent, and
sums of up to 2^31 = 2.1e9. The spacing of float64 is 2^-32 between 2^20 and 2^21, so log densities beyond a million
lose nothing at all, and a log density of 1e8 leaves a factor of 20 for agents with more than their share. Fewer bits
would cost the gradients, whose errors of 1e-10 must stay below 1e-8 after 100 draws; more would cost the range, which
every agent has only 1/m of. The error is absolute: gradients far below one, of parameters with a scale of thousands,
keep fewer digits.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import require
from .._refused import Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext
    from numpy.typing import DTypeLike

FRACTION_BITS = 32
REACH = 3  # partners on either side
KEY_BYTES = 32  # length of X25519 keys, public and private, and of AES-256 keys
CHUNK_WORDS = 2**15  # of keystream at a time: 256 KiB stay in the cache, however long the message
ZEROS = bytes(8 * CHUNK_WORDS)  # plaintext whose encryption is the keystream


# --- fixed point -----------------------------------------------------------------------------------------


def fits(x: np.ndarray, size: int) -> np.ndarray:
    """Tell which values are finite and below 2^(63 - F) / size in modulus, so that no sum of `size` such can wrap."""
    # One unit less, since rounding may add half of one. It matters above 2^11 agents, where floats at the edge have
    # fractions of a unit.
    limit = (2**63 // size - 1) / 2**FRACTION_BITS
    return np.abs(np.asarray(x, np.float64)) < limit  # false for nan and inf


def encode(x: np.ndarray, size: int) -> np.ndarray:
    """Encode numbers as round(x · 2^F) mod 2^64, halves to even. All of `x` must fit a sum over `size` agents."""
    good = fits(x, size)
    if not good.all():
        worst = np.asarray(x)[~good].flat[0]
        raise ValueError(
            f"{worst} cannot be summed over {size} agents in fixed point: values must be finite and below "
            f"{2 ** (63 - FRACTION_BITS) / size:.3g} in modulus. Ask `fits` first."
        )
    scaled = np.asarray(x, np.float64) * 2.0**FRACTION_BITS
    return np.rint(scaled).astype(np.int64).view(np.uint64)


def decode(total: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return a sum of encoded values as numbers of type `dtype`: two's complement, divided by 2^F."""
    return (np.asarray(total, np.uint64).view(np.int64) * 2.0**-FRACTION_BITS).astype(dtype)


# --- who shares a pad with whom --------------------------------------------------------------------------


def partners(index: int, size: int) -> tuple[int, ...]:
    """Return the agents that agent `index` shares pads with: the next three on either side, with numbers in a circle.

    With up to seven agents, that is everyone else. If j is a partner of i, then i is one of j.
    """
    if size < 3:
        raise Refused(
            f"{size} {'agent' if size == 1 else 'agents'} cannot hide values in a sum",
            "whoever knows the sum and its own value knows the other's",
            "Masks need 3 agents or more.",
        )
    if not 0 <= index < size:
        raise IndexError(f"agent {index} is not one of 0 ... {size - 1}.")
    return tuple(sorted({(index + step) % size for step in range(-REACH, REACH + 1)} - {index}))


# --- keys and pads ---------------------------------------------------------------------------------------


class KeyPair:
    """A fresh X25519 key pair. It lives in this process only: a resumed run draws another, and other pads with it."""

    def __init__(self) -> None:
        self._x25519 = require("cryptography.hazmat.primitives.asymmetric.x25519", "peers")
        self._private = self._x25519.X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def shared_secret(self, public: bytes) -> bytes:
        """Return the secret shared with the holder of `public`'s private key; ValueError for an unusable `public`."""
        if not isinstance(public, bytes) or len(public) != KEY_BYTES:
            raise ValueError(f"it is not {KEY_BYTES} bytes")
        try:
            return self._private.exchange(self._x25519.X25519PublicKey.from_public_bytes(public))
        except ValueError:
            # A point of low order leads everyone to the secret 0, which anyone can guess.
            raise ValueError("its point is of low order") from None


class Masks:
    """One agent's masks: the pads that it shares with its partners, made anew for every message.

    For each partner, X25519 gives a secret, and HKDF-SHA256 a key from it, bound to `context` (the run, the epoch:
    whatever must not share pads), to both indices and to both public keys. pad_ij of message c is the keystream of
    AES-256 in counter mode from the block (c, 0) on, as little-endian words. A block counter has 64 bits, so two
    messages share no block.

    Args:
        own: this agent's keys.
        index: this agent's number.
        publics: all agents' public keys in the order of their numbers, this agent's included.
        context: what the keys are bound to; must be the same on all agents.
    """

    def __init__(self, own: KeyPair, index: int, publics: Sequence[bytes], context: bytes) -> None:
        chosen = partners(index, len(publics))
        if publics[index] != own.public:
            raise Refused("", f"the public key listed for agent {index}, this one, is not its own")
        self._streams = [(_sign(index, other), _keystream(own, index, other, publics, context)) for other in chosen]
        self._last = -1
        self._lock = threading.Lock()
        self._room = bytearray(8 * CHUNK_WORDS + 16)  # the cipher asks for one block more than it fills

    def pads(self, counter: int, words: int) -> np.ndarray:
        """Return Σ_j s_ij · pad_ij mod 2^64 for message number `counter`, to be added to its encoded values.

        Numbers must grow from call to call: the difference of two messages under one mask is that of their values.
        """
        with self._lock:
            if counter <= self._last:
                raise RuntimeError(
                    f"message {counter} comes after message {self._last}: a mask used twice reveals the difference "
                    "of what it hid. Number messages upwards, and send a lost one again as it was."
                )
            nonce = counter.to_bytes(8, "big") + bytes(8)
            self._last = counter
            total = np.zeros(words, np.uint64)
            for sign, stream in self._streams:
                stream.reset_nonce(nonce)
                for start in range(0, words, CHUNK_WORDS):
                    part = total[start : start + CHUNK_WORDS]
                    stream.update_into(memoryview(ZEROS)[: part.nbytes], self._room)
                    pad = np.frombuffer(self._room, "<u8", part.size)
                    if sign > 0:
                        part += pad
                    else:
                        part -= pad
            return total


def _sign(index: int, other: int) -> int:
    return 1 if index < other else -1


def _keystream(own: KeyPair, index: int, other: int, publics: Sequence[bytes], context: bytes) -> CipherContext:
    """Return the keystream for the pads of `index` and `other`: the same for both, and for no other pair."""
    try:
        secret = own.shared_secret(publics[other])
    except ValueError as reason:
        raise Refused(f"the public key of agent {other} cannot be used", str(reason)) from None
    hashes: Any = require("cryptography.hazmat.primitives.hashes", "peers")
    hkdf: Any = require("cryptography.hazmat.primitives.kdf.hkdf", "peers")
    ciphers: Any = require("cryptography.hazmat.primitives.ciphers", "peers")
    pair = sorted((index, other))
    # Only the context varies in length, and it comes last: different inputs never give the same info.
    info = b"consilience masks 1" + b"".join(i.to_bytes(4, "big") + publics[i] for i in pair) + context
    key = hkdf.HKDF(hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)
    return ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CTR(bytes(16))).encryptor()
