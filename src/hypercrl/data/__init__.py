"""Transitions on their way to the learner: buffer, memory of old tasks, normaliser."""
