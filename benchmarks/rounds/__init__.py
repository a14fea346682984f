"""How many sums, rounds and bytes a thousand effective draws take: writes docs/rounds.md and docs/rounds.json.

Every model is sampled from a cold start by `nuts`, by `nuts` from a surrogate, and by `surrogate`, one process and one
core a cell, and compared with a long run on the pooled data. Rows are written as they come; a cell whose row is there
already, with the same settings, is not run again (delete the rows of a sampler that changed).
"""
