"""Planners that turn a model and a reward into actions, one file each."""
