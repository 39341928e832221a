"""What the MuJoCo suites share: the environment, the arm and its control, rendering."""
