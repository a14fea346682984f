"""Masks: the sum is exact, its parts are noise, and what would weaken them is refused."""

import itertools
import sys

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from consilience.neighbors import KeyPair, Masks
from consilience.neighbors import masks as masks_module
from consilience.neighbors.masks import FRACTION_BITS, decode, encode, fits, partners

UNIT = 2.0**-FRACTION_BITS
LOW_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 19 - 1).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
]


def everyone(size, context=b"run 1"):
    keys = [KeyPair() for _ in range(size)]
    publics = [key.public for key in keys]
    return [Masks(key, index, publics, context) for index, key in enumerate(keys)]


def all_pads(size, counter=0, words=5):
    return np.array([agent.pads(counter, words) for agent in everyone(size)])


# --- partners --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 4, 5, 6, 7, 8, 9, 20, 101])
def test_partners_are_mutual_several_and_connected(size):
    of = {index: partners(index, size) for index in range(size)}
    for index, others in of.items():
        assert index not in others
        assert list(others) == sorted(set(others))
        assert len(others) == min(size - 1, 6)
        assert all(index in of[other] for other in others)
    assert nx.node_connectivity(nx.Graph((i, j) for i in of for j in of[i])) == min(size - 1, 6)


def test_the_next_three_on_either_side():
    assert partners(1, 10) == (0, 2, 3, 4, 8, 9)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_too_few_agents_are_refused(size):
    with pytest.raises(ValueError, match="knows the other's"):
        partners(0, size)


def test_two_agents_get_no_masks():
    keys = [KeyPair(), KeyPair()]
    with pytest.raises(ValueError, match="knows the other's"):
        Masks(keys[0], 0, [key.public for key in keys], b"")


@pytest.mark.parametrize("index", [-1, 3])
def test_an_agent_that_is_not_there_is_refused(index):
    with pytest.raises(IndexError, match=f"agent {index} is not one of"):
        partners(index, 3)


# --- cancellation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(3, 13))
def test_pads_cancel_over_all_agents(size):
    assert not all_pads(size).sum(axis=0, dtype=np.uint64).any()


@pytest.mark.parametrize("size", [3, 4, 5, 8])
def test_masks_without_signs_would_be_found_out(size, monkeypatch):
    monkeypatch.setattr(masks_module, "_sign", lambda index, other: 1)
    assert all_pads(size).sum(axis=0, dtype=np.uint64).all()


@pytest.mark.parametrize("size", [3, 5, 9])
def test_no_proper_subset_cancels(size):
    pads = all_pads(size)
    for count in range(1, size):
        for some in itertools.combinations(range(size), count):
            # A word is 0 by chance once in 2^64.
            assert pads[list(some)].sum(axis=0, dtype=np.uint64).all(), some


def test_pads_of_long_messages_cancel_and_do_not_depend_on_their_length(monkeypatch):
    agents = everyone(4)
    words = 2 * masks_module.CHUNK_WORDS + 7
    pads = np.array([agent.pads(0, words) for agent in agents])
    assert not pads.sum(axis=0, dtype=np.uint64).any()
    assert len(np.unique(pads[0])) == words  # no chunk repeats another

    keys = [KeyPair() for _ in range(3)]
    publics = [key.public for key in keys]
    long, short = Masks(keys[0], 0, publics, b""), Masks(keys[0], 0, publics, b"")
    monkeypatch.setattr(masks_module, "CHUNK_WORDS", 64)
    np.testing.assert_array_equal(long.pads(3, 1000)[:130], short.pads(3, 130))
    assert long.pads(4, 0).shape == (0,)


def test_the_first_agents_pads_are_the_keystreams_that_are_promised():
    """Against AES itself, one block at a time: other implementations must find the same."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    keys = [KeyPair() for _ in range(3)]
    expected = np.zeros(4, np.uint64)
    for other in (1, 2):
        info = b"consilience masks 1" + bytes(4) + keys[0].public + bytes([0, 0, 0, other]) + keys[other].public
        secret = keys[other].shared_secret(keys[0].public)
        key = HKDF(hashes.SHA256(), length=32, salt=None, info=info + b"run").derive(secret)
        block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        stream = b"".join(block.update((258).to_bytes(8, "big") + k.to_bytes(8, "big")) for k in range(2))
        expected += np.frombuffer(stream, "<u8")
    np.testing.assert_array_equal(Masks(keys[0], 0, [key.public for key in keys], b"run").pads(258, 4), expected)


# --- keys ------------------------------------------------------------------------------------------------


def only_between(one, other, monkeypatch, contexts=(b"run 1", b"run 1"), size=9):
    """The pads of two agents when no one else is their partner."""
    monkeypatch.setattr(masks_module, "partners", lambda index, size: (other,) if index == one else (one,))
    keys = [KeyPair() for _ in range(size)]
    publics = [key.public for key in keys]
    return [Masks(keys[i], i, publics, context).pads(7, 9) for i, context in zip((one, other), contexts, strict=True)]


@pytest.mark.parametrize(("one", "other"), [(0, 1), (2, 5), (8, 0)])
def test_both_ends_derive_the_same_pad(one, other, monkeypatch):
    plus, minus = only_between(min(one, other), max(one, other), monkeypatch)
    np.testing.assert_array_equal(plus, -minus)
    assert plus.all()


def test_another_context_gives_other_pads(monkeypatch):
    plus, minus = only_between(0, 1, monkeypatch, (b"run 1", b"run 2"))
    assert not np.any(plus == -minus)


def test_every_pair_and_every_key_has_its_own_pad(monkeypatch):
    """One secret for all: what is left to tell pairs apart is what the key is bound to."""
    monkeypatch.setattr(KeyPair, "shared_secret", lambda self, public: bytes(32))
    keys = [KeyPair() for _ in range(4)]
    publics = [key.public for key in keys]
    seen = []
    for one, other in itertools.permutations(range(4), 2):
        monkeypatch.setattr(masks_module, "partners", lambda index, size, other=other: (other,))
        sign = 1 if one < other else -1
        seen.append(tuple(sign * Masks(keys[one], one, publics, b"").pads(0, 2).view(np.int64)))
    assert len(set(seen)) == 6  # unordered pairs
    changed = [*publics[:3], KeyPair().public]
    monkeypatch.setattr(masks_module, "partners", lambda index, size: (3,))
    assert tuple(Masks(keys[0], 0, changed, b"").pads(0, 2).view(np.int64)) not in seen


def test_keys_are_fresh():
    publics = {KeyPair().public for _ in range(20)}
    assert len(publics) == 20
    assert {len(public) for public in publics} == {32}


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), "x" * 32, *LOW_ORDER])
def test_a_wrong_public_key_is_refused_by_its_owners_number(bad):
    own = KeyPair()
    publics = [own.public, KeyPair().public, bad, KeyPair().public]
    with pytest.raises(ValueError, match="public key of agent 2 cannot be used"):
        Masks(own, 0, publics, b"")


def test_keys_in_another_order_are_refused():
    own, other = KeyPair(), KeyPair()
    with pytest.raises(ValueError, match="agent 0, this one, is not its own"):
        Masks(own, 0, [other.public, own.public, other.public], b"")


class NoCryptography:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "cryptography":
            raise ModuleNotFoundError("No module named 'cryptography'", name=name)


def test_without_cryptography_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoCryptography, *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'consilience\[peers\]'"):
        KeyPair()


# --- what a message shows --------------------------------------------------------------------------------


def test_a_message_is_uniform_and_tells_nothing_of_its_values():
    """Three tests at 1e-4 each; a failure is tried once more, with fresh keys, at 1e-6: one false alarm in 1e9 runs."""
    values = np.linspace(-50.0, 50.0, 40_000)  # without a mask, the high bytes are all 0 or all 255
    plain = encode(values, 5)

    def p_values():
        sent = plain + everyone(5)[2].pads(0, plain.size)
        counts = np.bincount(sent.view(np.uint8), minlength=256)
        bits = np.unpackbits(sent.view(np.uint8)).reshape(-1, 64)
        z = (bits.sum(axis=0) - plain.size / 2) / np.sqrt(plain.size / 4)
        return [
            stats.chisquare(counts).pvalue,
            stats.chi2.sf((z**2).sum(), 64),
            stats.pearsonr(values, decode(sent, float)).pvalue,
        ]

    assert min(p_values()) > 1e-4 or min(p_values()) > 1e-6
    assert stats.chisquare(np.bincount(plain.view(np.uint8), minlength=256)).pvalue < 1e-100  # the test has power


def test_the_same_values_look_different_in_every_message():
    agent = everyone(3)[1]
    plain = encode(np.ones(50), 3)
    sent = np.array([plain + agent.pads(counter, 50) for counter in (0, 1, 2, 255, 256, 2**32, 2**63)])
    assert len(np.unique(sent)) == sent.size


def test_a_counter_serves_once():
    agent = everyone(3)[0]
    agent.pads(4, 1)
    for counter in (4, 3, 0, -1):
        with pytest.raises(RuntimeError, match="reveals the difference"):
            agent.pads(counter, 1)
    agent.pads(5, 1)
    with pytest.raises(OverflowError):
        agent.pads(2**64, 1)
    agent.pads(2**64 - 1, 1)


# --- fixed point -----------------------------------------------------------------------------------------


def test_known_values():
    x = np.array([0.0, 1.0, -1.0, 0.5 * UNIT, 1.5 * UNIT, -0.5 * UNIT, -1.5 * UNIT])
    one = 2**FRACTION_BITS
    np.testing.assert_array_equal(encode(x, 3), np.array([0, one, 2**64 - one, 0, 2, 0, 2**64 - 2], np.uint64))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_round_trip(dtype):
    x = (np.random.default_rng(0).standard_normal((50, 3)) * np.logspace(-6, 6, 50)[:, None]).astype(dtype)
    back = decode(encode(x, 3), dtype)
    assert (back.dtype, back.shape) == (np.dtype(dtype), x.shape)
    assert np.all(np.abs(back - x) <= 0.5 * UNIT)
    large = np.array([2.0**20 + 2.0**-32, -123_456_789.123_456_78, 3e7 + 1 / 3]).astype(dtype)
    np.testing.assert_array_equal(decode(encode(large, 3), dtype), large)  # beyond a million nothing is lost


@pytest.mark.parametrize("size", [3, 4, 7, 10, 100, 1024, 3000, 4096, 4097, 2**20])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_sum_of_values_that_fit_wraps(size, sign):
    # The greatest float that fits, by bisection over floats (whose bits are ordered as they are).
    low, high = np.array([0.0, 2.0**40]).view(np.int64).tolist()
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(np.int64(middle).view(np.float64), size) else (low, middle)
    edge = np.int64(low).view(np.float64)
    assert edge == pytest.approx(2.0 ** (63 - FRACTION_BITS) / size, rel=1e-6)
    assert edge < 2.0 ** (63 - FRACTION_BITS) / size
    one = int(encode(sign * edge, size).view(np.int64))
    assert -(2**63) <= size * one < 2**63
    total = np.full(size, one).view(np.uint64).sum(dtype=np.uint64)
    assert decode(total, np.float64) == float(size * one) / 2**FRACTION_BITS
    with pytest.raises(ValueError, match="cannot be summed"):
        encode(np.array([0.0, sign * np.int64(high).view(np.float64)]), size)


def test_what_fits():
    x = np.array([0.0, -0.0, 1e8, -1e8, 2.0**31 / 3, -(2.0**31) / 3, 1e300, np.inf, -np.inf, np.nan])
    assert fits(x, 3).tolist() == [True] * 4 + [False] * 6
    assert fits(np.ones((2, 3), np.float32), 3).shape == (2, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e12])
def test_what_does_not_fit_is_not_encoded(bad):
    with pytest.raises(ValueError, match="Ask `fits` first"):
        encode(np.array([1.0, bad]), 3)


# --- all of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 5, 8, 12])
def test_the_sum_of_messages_is_the_integer_sum_in_any_order(size):
    rng = np.random.default_rng(size)
    x = rng.standard_normal((size, 40)) * np.logspace(-8, 7, 40)
    integers = [[round(float(v) * 2**FRACTION_BITS) for v in row] for row in x]
    expected = [sum(column) for column in zip(*integers, strict=True)]
    agents = everyone(size)
    for counter in range(3):
        sent = [encode(x[i], size) + agents[i].pads(counter, 40) for i in rng.permutation(size)]
        while len(sent) > 1:  # partial sums, as some tree would form them
            sent.append(sent.pop(0) + sent.pop(0))
        assert sent[0].view(np.int64).tolist() == expected
        np.testing.assert_array_equal(decode(sent[0], np.float64), [total / 2**FRACTION_BITS for total in expected])
    np.testing.assert_allclose(decode(sent[0], np.float64), x.sum(axis=0), rtol=1e-14, atol=size * 0.5 * UNIT)
