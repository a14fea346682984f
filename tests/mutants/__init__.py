"""Faults planted on purpose, one line each: `make mutants` shows that the tests find every one of them."""
