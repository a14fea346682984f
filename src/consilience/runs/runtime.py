"""The runtimes that `cs.sample` takes."""

from .devices import Devices
from .simulate import Simulate

Runtime = Simulate | Devices
