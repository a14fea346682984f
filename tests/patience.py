"""How long a test waits for what must happen: only one that hangs takes so long, on however busy a machine."""

import os

PATIENCE = float(os.environ.get("CONSILIENCE_PATIENCE", "600"))  # seconds; less where faults are planted
