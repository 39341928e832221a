"""Models of dynamics: state encodings, networks of explicit weights, hypernetworks, training."""
