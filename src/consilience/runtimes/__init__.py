"""Runtimes: agents as lanes of an array (`simulate`), on a mesh of devices (`devices`), or in processes (`peers`)."""

from .devices import Devices
from .engine import Chunk, Engine
from .hosts import Hosts
from .simulate import Simulate, Simulation

Runtime = Simulate | Devices

__all__ = ["Chunk", "Devices", "Engine", "Hosts", "Runtime", "Simulate", "Simulation"]
