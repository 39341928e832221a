"""Ordered tasks, one file a suite. Every module here registers one suite under its own name."""
