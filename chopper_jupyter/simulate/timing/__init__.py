"""How long kernels run, when, and what makes them late."""
