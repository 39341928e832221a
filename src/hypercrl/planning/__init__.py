"""Planners that turn a model and a reward into actions, one file each, and what they share."""
