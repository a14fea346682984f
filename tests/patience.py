"""How long a test waits for what must happen: only one that hangs takes so long, on however busy a machine."""

PATIENCE = 600.0  # seconds
