"""Who may talk to whom: graphs, mixing weights, spectra."""

from .network import Network

__all__ = ["Network"]
