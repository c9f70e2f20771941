"""Ties what was recorded apart: kernels to launches, operators, spans and clocks."""
