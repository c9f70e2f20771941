"""The files of a simulated run, in the formats of the tools that would have written them."""
