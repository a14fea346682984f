"""Whole experiments: data, model, runs, table."""
