"""Eight bytes at a time: loads and tests that the compiled scanner is made of.

The buffer must hold ``PADDING`` zero bytes behind its text, because a load may pass its end, by
``BLOCK`` bytes at most.
The order of bytes in a word is the little-endian one: see ``IS_LITTLE``.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

PADDING = 64

compiled = njit(cache=True, nogil=True, _nrt=False)
"""What the scanner is compiled with: no function allocates, so none counts references."""

inlined = njit(cache=True, nogil=True, _nrt=False, forceinline=True)
"""The same, put into its callers: handing over a dozen arrays takes longer than most steps."""

BLOCK = 32
"""Bytes that ``differing`` compares at once."""

IS_LITTLE = sys.byteorder == "little"

_LOW = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_ONE, _EIGHT, _ALL = np.uint64(1), np.uint64(8), np.uint64(64)
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_BY_10, _BY_100 = np.uint64(10 * 256 + 1), np.uint64(100 * 65536 + 1)
_BY_10000 = np.uint64(10000 * 4294967296 + 1)
_S8, _S16, _S32 = np.uint64(8), np.uint64(16), np.uint64(32)


def repeated(c: int) -> np.uint64:
    """Return a word of eight times the same byte.

    Examples
    --------
    >>> hex(repeated(34))
    '0x2222222222222222'
    """
    return np.uint64(c * int(_LOW))


QUOTES, BACKSLASHES = repeated(34), repeated(92)


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def byte(_context: Any, buf: Any, _i: Any) -> Any:
    """Load the byte at ``i``, which is not negative, as an int64."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_address(context, builder, signature.args, args))
        return builder.zext(loaded, ir.IntType(64))

    return types.int64(buf, types.int64), made


@intrinsic
def word(_context: Any, buf: Any, _i: Any) -> Any:
    """Load the eight bytes from ``i`` on as an uint64."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _address(context, builder, signature.args, args)
        return builder.load(builder.bitcast(at, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(buf, types.int64), made


@intrinsic
def differing(_context: Any, one: Any, _i: Any, other: Any, _k: Any) -> Any:
    """Compare ``BLOCK`` bytes of two buffers; return a bit for each that differs, lowest first."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        many = ir.VectorType(ir.IntType(8), BLOCK)
        loaded = [
            builder.load(
                builder.bitcast(
                    _address(context, builder, signature.args[at:], args[at:]), many.as_pointer()
                ),
                align=1,
            )
            for at in (0, 2)
        ]
        bits = builder.bitcast(builder.icmp_unsigned("!=", *loaded), ir.IntType(BLOCK))
        return builder.zext(bits, ir.IntType(64))

    return types.uint64(one, types.int64, other, types.int64), made


@intrinsic
def first(_context: Any, _mask: Any) -> Any:
    """Return the number of the lowest byte that is not zero, 8 if all are."""

    def made(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        zeros = builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))
        return builder.lshr(zeros, ir.Constant(ir.IntType(64), 3))

    return types.int64(types.uint64), made


@compiled
def equal_to(w: Any, byte_repeated: Any) -> Any:
    """Mark the bytes of a word that equal a byte; exact up to the first one that does."""
    x = w ^ byte_repeated
    return (x - _LOW) & ~x & _HIGH


@compiled
def lowest(n: Any) -> Any:
    """Return a mask of the ``n`` lowest bytes, 0 to 7 of them."""
    return (_ONE << (np.uint64(n) * _EIGHT)) - _ONE


@compiled
def digits(w: Any) -> Any:
    """Count the decimal digits that a word begins with."""
    x = w ^ _ZEROS
    return first(((x + _ABOVE_NINE) | x) & _HIGH)


@compiled
def _eight(x: Any) -> Any:
    """Return the number of eight decimal digits, the first one lowest."""
    x = ((x * _BY_10) >> _S8) & _PAIRS
    x = ((x * _BY_100) >> _S16) & _FOURS
    return (x * _BY_10000) >> _S32


@compiled
def decimal(w: Any, n: Any) -> Any:
    """Return the number that the first ``n`` bytes of a word spell, 1 to 8 digits."""
    return np.int64(_eight((w ^ _ZEROS) << (_ALL - np.uint64(n) * _EIGHT)))


@compiled
def fraction(w: Any, n: Any) -> Any:
    """Return the first ``n`` bytes of a word as digits of eight, filled up with zeros behind."""
    x = w ^ _ZEROS
    if n < 8:
        x &= lowest(n)
    return np.int64(_eight(x))
