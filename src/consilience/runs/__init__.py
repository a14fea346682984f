"""The way from `cs.sample` to draws: one driver, and the runtimes, which are simulate, devices and peers."""

from .bar import Report
from .devices import Devices
from .driver import Stopped
from .member import Excluded, dispatch_as_peers_must
from .peer import PATIENCE, Peer
from .request import MOST_SEED, NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP, Length
from .sampling import sample
from .simulate import chain_keys, lane_inputs, lane_link, simulation
