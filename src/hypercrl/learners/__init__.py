"""Continual-learning methods, one file each. `baseline` is what the multi-head ones share."""
