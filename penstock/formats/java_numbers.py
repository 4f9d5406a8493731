"""The text of floating-point numbers as Java prints them (`Double.toString`, `Float.toString`): `0.1`, `1.0E7`, `NaN`.

Hudi prints numbers in this form when a column becomes a string column. Java before version 19 does not always print the fewest
digits that identify a number. Hudi 0.15 runs on these versions, so this module prints what they print:

- a whole number from 2^53 on (2^24 for float) and below 2^63 is printed with more digits (`_replace_whole_numbers`);
- other digits may be printed for a power of two, for a subnormal number, and for a number like 1.0E23, whose shortest text lies
  exactly halfway between two floating-point numbers (`_generate_digits`);
- every other number has the fewest digits, which Arrow's cast returns. Java rounds some numbers between 2.0E25 and 1.0E26 wrongly
  in the last digit; this module rounds them correctly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: Java prints numbers from the first bound on and below the second without exponent.
_PLAIN = (1e-3, 1e7)
_PARTS = r"^-?(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?(?:e(?P<exponent>[+-]?[0-9]+))?$"
#: The decimal exponents at which Java tests after the first digit whether the digits are enough; otherwise after the second.
_ONE_DIGIT = range(-3, 8)

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating[Any]]


def print_floats(numbers: pa.Array) -> pa.Array:
    """Return the numbers of a float or double array as Java prints them. Null stays null."""
    values = np.asarray(pc.fill_null(numbers, 0.0))
    sizes = np.abs(values)
    text = pc.cast(numbers, pa.string())
    has_point = pc.match_substring(text, ".")
    text = pc.if_else(has_point, text, pc.binary_join_element_wise(text, ".0", ""))
    needs_exponent = np.isfinite(values) & (values != 0) & ((sizes < _PLAIN[0]) | (sizes >= _PLAIN[1]))
    if needs_exponent.any():
        mask = pa.array(needs_exponent)
        text = pc.replace_with_mask(text, mask, _print_with_exponent(numbers.filter(mask)))
    if not np.isfinite(values).all():
        text = pc.if_else(pa.array(np.isnan(values)), "NaN", text)
        text = pc.if_else(pa.array(np.isposinf(values)), "Infinity", text)
        text = pc.if_else(pa.array(np.isneginf(values)), "-Infinity", text)
    return pc.if_else(pc.is_valid(numbers), text, pa.scalar(None, pa.string()))


def _print_with_exponent(numbers: pa.Array) -> pa.Array:
    """Return the text of finite numbers with an exponent, such as `1.5E-7`. At least one digit follows the point."""
    values = np.asarray(numbers)
    parts = pc.extract_regex(pc.cast(numbers, pa.string()), _PARTS)
    whole = pc.struct_field(parts, "whole")
    exponents = pc.struct_field(parts, "exponent")
    exponents = np.asarray(pc.cast(pc.if_else(pc.equal(exponents, ""), "0", pc.utf8_ltrim(exponents, "+")), pa.int64()))
    digits = pc.binary_join_element_wise(whole, pc.struct_field(parts, "fraction"), "")
    from_first = pc.utf8_ltrim(digits, "0")
    zeros = np.asarray(pc.subtract(pc.utf8_length(digits), pc.utf8_length(from_first)))
    exponents = exponents + np.asarray(pc.utf8_length(whole)) - 1 - zeros
    digits, exponents = _replace_whole_numbers(values, from_first, exponents)
    digits, exponents = _replace_rare_numbers(values, digits, exponents)
    first = pc.utf8_slice_codeunits(digits, 0, 1)
    following = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, 1), "0")
    following = pc.if_else(pc.equal(following, ""), "0", following)
    sign = pc.if_else(pa.array(values < 0), "-", "")
    exponent_text = pc.cast(pa.array(exponents), pa.string())
    mantissa = pc.binary_join_element_wise(first, following, ".")
    return pc.binary_join_element_wise(sign, pc.binary_join_element_wise(mantissa, exponent_text, "E"), "")


def _replace_whole_numbers(
    values: Floats, digits: pa.Array, exponents: npt.NDArray[np.int64]
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return (digits, exponents) in which large whole numbers have the digits that Java prints; other numbers stay unchanged.

    These are the numbers from 2^53 on (2^24 for float) and below 2^63. In this range not every whole number can be represented.
    Java prints these numbers as integers, rounded half up to a number of digits that only depends on the binary exponent.

    Args:
        values: the numbers.
        digits: the decimal digits of each number without a point, such as `15` for 1.5E-7.
        exponents: the decimal exponent of the first digit of each number, such as -7 for 1.5E-7.
    """
    precision = np.finfo(values.dtype).nmant + 1
    sizes = np.abs(values).astype(np.float64)
    is_whole = (sizes >= 2.0**precision) & (sizes < 2.0**63)
    if not is_whole.any():
        return digits, exponents
    integers = sizes[is_whole].astype(np.int64)
    bits = np.frexp(sizes[is_whole])[1] - 2 - precision
    dropped = np.where(bits > 1, np.floor(bits * math.log10(2)), 0).astype(np.int64)
    unit = np.int64(10) ** dropped
    rounded = integers // unit + ((dropped > 0) & (integers % unit >= unit // 2))
    texts = pc.cast(pa.array(rounded), pa.string())
    exponents = exponents.copy()
    exponents[is_whole] = np.asarray(pc.utf8_length(texts)) - 1 + dropped
    return pc.replace_with_mask(digits, pa.array(is_whole), texts), exponents


def _replace_rare_numbers(
    values: Floats, digits: pa.Array, exponents: npt.NDArray[np.int64]
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return (digits, exponents) in which rare numbers have the digits that Java prints, which may not be the fewest possible.

    Rare numbers are powers of two, subnormal numbers, and numbers from 2^63 on whose shortest text lies exactly halfway between
    two floating-point numbers.

    Args:
        values: the numbers.
        digits: the decimal digits of each number without a point, such as `15` for 1.5E-7.
        exponents: the decimal exponent of the first digit of each number, such as -7 for 1.5E-7.
    """
    kind = np.finfo(values.dtype)
    sizes = np.abs(values).astype(np.float64)
    is_power = (np.frexp(sizes)[0] == 0.5) & ((sizes < 1) | (sizes >= 2.0**63))
    is_middle = (sizes >= 2.0**63) & _is_in_the_middle(digits, exponents, kind.nmant + 1)
    is_rare = is_power | is_middle | (sizes < float(kind.smallest_normal))
    if not is_rare.any():
        return digits, exponents
    distinct, places = np.unique(sizes[is_rare], return_inverse=True)
    # A loop over distinct values: exact arithmetic needs Python's integers, and columns hold few of these numbers.
    generated = [_generate_digits(size, precision=kind.nmant + 1, exponent_min=int(kind.minexp)) for size in distinct.tolist()]
    texts = pa.array([text for text, _ in generated]).take(pa.array(places))
    exponents = exponents.copy()
    exponents[is_rare] = np.array([exponent for _, exponent in generated], np.int64)[places]
    return pc.replace_with_mask(digits, pa.array(is_rare), texts), exponents


def _is_in_the_middle(digits: pa.Array, exponents: npt.NDArray[np.int64], precision: int) -> Flags:
    """Return a mask over large whole numbers in decimal, true where a number may lie halfway between two floating-point numbers.

    A number halfway between two has one significant bit more than the type can hold. So its greatest odd factor has
    `precision` + 1 bits.

    Args:
        digits: the decimal digits of each number.
        exponents: the decimal exponent of each number's first digit.
        precision: the bits of the type's significand.
    """
    short = pc.utf8_rtrim(digits, "0")
    factors = np.asarray(pc.cast(short, pa.int64()))
    tens = np.maximum(exponents + 1 - np.asarray(pc.utf8_length(short)), 0)
    odd_factors = factors // (factors & -factors)
    bits = np.log2(odd_factors) + tens * math.log2(5)
    return np.asarray(np.abs(bits - precision - 0.5) < 0.6)


def _generate_digits(size: float, *, precision: int, exponent_min: int) -> tuple[str, int]:
    """Return (the digits that Java prints for a positive number, the decimal exponent of the first digit): ("15", -7) for 1.5E-7.

    The digits are generated one by one until they identify the number. They do when their value, or their value with the last
    digit raised by one, differs from the number by less than a margin. The margin is half the distance to the next floating-point
    number. For a power of two it is a quarter, because the distance to the number below is half as large.

    Args:
        size: the number.
        precision: the bits of the type's significand.
        exponent_min: the binary exponent of the smallest normal number.
    """
    fraction, binary_exponent = math.frexp(size)
    margin = Fraction(2) ** (max(binary_exponent - 1, exponent_min) - precision)
    if fraction == 0.5:
        margin /= 2
    exponent = math.floor(math.log10(size))
    number = Fraction(size)
    exponent += (number >= Fraction(10) ** (exponent + 1)) - (number < Fraction(10) ** exponent)
    rest = number / Fraction(10) ** exponent
    margin /= Fraction(10) ** exponent
    digits = 0
    is_enough = False
    count = 0
    while not is_enough:
        digit = math.floor(rest)
        digits = digits * 10 + digit
        count += 1
        rest = (rest - digit) * 10
        margin *= 10
        is_low = rest < margin
        is_high = rest + margin > 10
        is_enough = (is_low or is_high) and (count > 1 or exponent in _ONE_DIGIT)
    if is_high and (not is_low or rest > 5 or (rest == 5 and digits % 2)):
        digits += 1
    text = str(digits)
    return text, exponent + len(text) - count
