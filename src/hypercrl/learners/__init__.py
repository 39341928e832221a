"""Continual-learning methods, one file each. Every module here registers one method."""
