"""From a training cell to a run folder; torch is imported when recording starts."""
