"""The shared analysis core: files -> Trace -> answers. Knows no notebook and no torch."""
