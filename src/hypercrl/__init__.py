"""Continual model-based reinforcement learning with hypernetworks."""
