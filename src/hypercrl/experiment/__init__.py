"""Algorithm 1 and what surrounds it: configuration, evaluation, records, checkpoints."""
