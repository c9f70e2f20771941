"""One file per format, each from a file to events."""
