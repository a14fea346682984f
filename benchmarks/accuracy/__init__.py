"""How right every sampler is, and at what cost: writes docs/accuracy.md and docs/accuracy.json.

Every sampler runs on every target over every network, one process and one core per cell. Rows are written as they come;
a cell whose row is there already, with the same settings, is not run again (delete the rows of a sampler that changed).
"""
