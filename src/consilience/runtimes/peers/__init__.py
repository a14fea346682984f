"""Agents as processes of their own, on machines of their own."""
