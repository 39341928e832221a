"""How parameters move: the session loop, gradients, Adam, and what protects old tasks."""
