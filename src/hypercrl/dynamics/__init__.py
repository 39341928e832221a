"""Models of dynamics: networks of explicit weights, what their outputs mean, hypernetworks."""
