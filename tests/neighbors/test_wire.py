"""Bytes of messages: what is read is what was written, and numbers that are none are found wherever they are."""

import numpy as np
import pytest

from consilience.neighbors import HEADER, Form, fault_of, header_of, pack, unpack
from consilience.neighbors.wire import FEW, NOT_FINITE, arrays_of

RUN = bytes(range(8))


def packed(*arrays):
    form = Form.of("test", arrays)
    return pack(header_of(RUN, 3, 7, form), form, arrays), form


def test_arrays_are_as_they_were():
    arrays = [
        np.arange(6.0).reshape(2, 3)[:, ::-1],
        np.array([True, False]),
        np.float32(2.5).reshape(()),
        np.array([1, 2**63], np.uint64),
        np.empty((0, 4)),
    ]
    raw, form = packed(*arrays)
    assert len(raw) == HEADER.size + form.bytes
    message = unpack(RUN, raw)
    assert message.round == (3, 7) and message.flags == 0 and message.fault(form) is None
    for found, expected in zip(arrays_of(raw, form), arrays, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("size", [1, 5, FEW, FEW + 1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_number_that_is_not_finite_is_found_and_no_other(dtype, size):
    largest = np.finfo(dtype).max
    random = np.random.default_rng(0)
    before, after = np.ones(3, dtype), np.zeros(2, dtype)
    for value in (0.0, -0.0, 1.0, -1.0, largest, -largest, largest / 2, np.finfo(dtype).tiny, np.nan, np.inf, -np.inf):
        numbers = random.standard_normal(size).astype(dtype)
        numbers[random.integers(size)] = value
        raw, form = packed(before, numbers, after)
        assert unpack(RUN, raw).flags == (0 if np.isfinite(value) else NOT_FINITE)
        silent = header_of(RUN, 3, 7, form) + raw[HEADER.size :]
        fault = None if np.isfinite(value) else "it has numbers that are not finite, and does not say so"
        assert fault_of(silent, form) == unpack(RUN, silent).fault(form) == fault
        assert unpack(RUN, raw).fault(form) is None


def test_a_nan_may_look_like_anything():
    """Of any sign and payload; and whole numbers are never taken for one."""
    for bits in (0x7F800001, 0xFFC00000, 0x7FFFFFFF, 0xFF800001):
        _, form = packed(np.ones(1, np.float32))
        assert fault_of(header_of(RUN, 1, 1, form) + np.uint32(bits).tobytes(), form) is not None
        raw, form = packed(np.array([bits], np.uint32))
        assert unpack(RUN, raw).flags == 0 and fault_of(raw, form) is None
