"""What a suite, a method and a planner must keep, so that everything else can rely on it.

A promise is a function that raises `BrokenPromiseError` with one sentence. The package's own
tests try the promises on every built-in variant, `hypercrl check` on a user's: the same ones.
"""
