"""Hardware counters by replay: the loop is run again under a counter tool, pass by pass."""
