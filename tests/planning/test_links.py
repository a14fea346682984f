"""Links as users write them."""

import numpy as np
import pytest

import consilience as cs
from consilience.planning import LinkSpeeds, bits_per_second, read_links, seconds

RING = cs.Network.ring(3)


@pytest.mark.parametrize(
    ("text", "value"), [("20ms", 0.02), ("0.5 s", 0.5), ("300us", 3e-4), ("300 µs", 3e-4), ("0", 0.0), (".5ms", 5e-4)]
)
def test_times(text, value):
    assert seconds("--latency", text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("50Mbit/s", 5e7), ("50 Mbit", 5e7), ("1Gbit/s", 1e9), ("100kbit/s", 1e5), ("10MB/s", 8e7), ("1.5Gbitps", 1.5e9)],
)
def test_bandwidths(text, value):
    assert bits_per_second("--bandwidth", text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("read", "text", "fix"),
    [
        (seconds, "20", "Write --x 20ms."),
        (seconds, "fast", "Write --x 20ms"),
        (seconds, "-3ms", "Write --x 20ms"),
        (seconds, "20min", "Write --x 20ms"),
        (bits_per_second, "50", "Write --x 50Mbit/s."),
        (bits_per_second, "50 parsec", "Write --x 50Mbit/s"),
        (bits_per_second, "0Mbit/s", "Write --x 50Mbit/s"),
    ],
)
def test_nonsense_is_refused_with_the_right_line(read, text, fix):
    with pytest.raises(ValueError) as refusal:
        read("--x", text)
    assert fix in str(refusal.value)


def write(folder, *lines):
    path = folder / "links.csv"
    path.write_text("from,to,latency,bandwidth\n" + "\n".join(lines))
    return path


def test_a_table_has_a_line_for_each_link(tmp_path):
    path = write(tmp_path, "1,0,5ms,1Gbit/s", "1, 2, 20ms, 50Mbit/s", "2,0,,10Mbit/s")
    links = read_links(path, RING, 0.001, None)
    assert dict(zip(RING.edges, zip(links.latency, links.bandwidth, strict=True), strict=True)) == {
        (0, 1): (0.005, 1e9),
        (0, 2): (0.001, 1e7),
        (1, 2): (0.02, 5e7),
    }
    assert links.slowest == (0.02, 1e7)
    assert "at worst" in str(links)
    assert "at worst" not in str(LinkSpeeds.alike(RING, 0.02, 1e7))


def test_links_that_are_left_out_are_as_all_others(tmp_path):
    links = read_links(write(tmp_path, "0,1,5ms,1Gbit/s"), RING, 0.02, 5e7)
    np.testing.assert_allclose(links.latency, [0.005, 0.02, 0.02])


@pytest.mark.parametrize(
    ("lines", "fix"),
    [
        (["0,1,5ms,1Gbit/s"], "Write 0,2,20ms,50Mbit/s there"),
        (["0,1,5ms,1Gbit/s", "1,0,5ms,1Gbit/s"], "line 3: the link between 0 and 1 is there twice"),
        (["0,7,5ms,1Gbit/s"], "has no link between 0 and 7"),
        (["a,b,5ms,1Gbit/s"], "0 to 2"),
        (["0,1,5,1Gbit/s"], "line 2: latency"),
        (["0,1,,1Gbit/s"], "--latency"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(tmp_path, lines, fix):
    with pytest.raises(ValueError) as refusal:
        read_links(write(tmp_path, *lines), RING, None, None)
    assert fix in str(refusal.value)


def test_another_header_is_refused(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("a,b\n0,1\n")
    with pytest.raises(ValueError, match="from,to,latency,bandwidth"):
        read_links(path, RING, None, None)
