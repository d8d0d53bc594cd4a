"""Plots as SVG, written by hand, for reports that are one file without scripts."""
