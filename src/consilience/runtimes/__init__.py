"""Where agents live. `simulate`: as lanes of one array on one device; `devices`: on a mesh, of one host or of many;
`peers`: each in a process of its own.
"""

from .devices import Devices
from .engine import Chunk, Engine
from .hosts import Hosts
from .simulate import Simulate, Simulation

Runtime = Simulate | Devices

__all__ = ["Chunk", "Devices", "Engine", "Hosts", "Runtime", "Simulate", "Simulation"]
