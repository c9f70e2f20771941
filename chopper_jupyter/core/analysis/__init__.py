"""Questions to a Trace: functions from a Trace to a table."""
