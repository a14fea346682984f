"""Colours that all figures share."""

from __future__ import annotations

# Okabe and Ito's palette: told apart by readers who do not see all colours.
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
GREY = "#6b7280"
PALETTE = (VERMILION, BLUE, ORANGE, GREEN, PURPLE)
