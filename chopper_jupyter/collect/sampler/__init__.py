"""A process of its own that samples the sensors of this machine while a loop is recorded.

It imports no torch and shares nothing with the training process but a pipe, whose end tells it
to stop: it cannot slow that process down, nor outlive it.
"""
