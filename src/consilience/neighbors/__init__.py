"""One agent's link to the others: gossip and sums over a tree, and its twins: lanes, a mesh, messages."""

from .alone import Alone
from .collectives import Arrays, Collectives, Interrupted, OutOfStep, OutOfTurn, RiderForm
from .counting import Exchange
from .edges import edge_lists, no_edges
from .lanes import AGENTS, LaneNeighbors
from .masks import KeyPair, Masks
from .mesh import DEVICES, DeviceNeighbors
from .messages import PeerNeighbors
from .placement import Placement, Wiring, agents_per_group, wire
from .protocol import Neighbors, Repeated, projection
from .traffic import Kind, Traffic, price
from .wire import HEADER, Form, Malformed, Message, fault_of, header_of, pack, unpack
