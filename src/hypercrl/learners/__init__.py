"""Continual-learning methods, one file each, composed of parts from `hypercrl.learning`."""
