"""The peers runtime: every agent is a process of its own, on a machine of its own."""
