"""Numbers that callers pass, of any type: those of Python and NumPy, decimals and fractions."""

import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any, List, Optional

__all__ = ["integer", "integers", "number", "real"]


def number(value: Any) -> Any:
    """Returns a number as an int, float, Decimal or Fraction, and None for any other value, such as
    a bool or a text."""
    if type(value) in (int, float):
        return value
    if "bool" in type(value).__name__:  # NumPy's, too.
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    if isinstance(value, (Decimal, Fraction)):
        return value
    try:
        return float(value) if hasattr(value, "__float__") else None
    except (TypeError, ValueError):
        return None  # An array.


def integer(value: Any) -> Optional[int]:
    """Returns an integral number, such as 4, numpy.int64(4) or 4.0, as an int, and None for any other value."""
    exact = number(value)
    try:
        whole = int(exact)
    except (TypeError, ValueError, OverflowError):
        return None  # None, NaN or infinite.
    return whole if whole == exact else None


def integers(bad: List[str], name: str, value: Any) -> int:
    """Returns integer(value), or notes in bad that the value is no integer and returns 0."""
    whole = integer(value)
    if whole is None:
        bad.append(f"{name}: is {value!r}; must be an integer")
    return whole or 0


def real(name: str, value: Any) -> float:
    """Returns a number as a float. ValueError names a value that is no number."""
    exact = number(value)
    if exact is None:
        raise ValueError(f"{name}: is {value!r}; must be a number")
    return float(exact)
