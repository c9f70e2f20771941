"""The folder that child processes find at the head of their ``PYTHONPATH``."""
