"""One iteration of training: what the host runs and launches."""
