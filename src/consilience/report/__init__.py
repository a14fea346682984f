"""Reports on runs, as HTML pages, and the colours of all figures."""
