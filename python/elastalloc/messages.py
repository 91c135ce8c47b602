"""Messages of plain Python: dicts, timedeltas, numbers of seconds."""

import math
from datetime import timedelta
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from elastalloc.values import integer, number

__all__ = ["message"]

MAX_SECONDS = 315_576_000_000  # of a protobuf Duration

# Smallest and largest values of integer fields.
_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def message(kind: Any, **fields: Any) -> Any:
    """Returns a message of a kind, such as pb.Snapshot.

    Messages in it may be dicts of their fields, durations a timedelta or a number of seconds,
    values of enums their names, long or short, and numbers of any type, such as those of NumPy:
    message(pb.Job, id="a", remaining_eta=3600), message(pb.AllocateOptions, objective="total-time").
    ValueError names a field whose value is of another type. The service checks the values.
    """
    return kind(**_plain(kind.DESCRIPTOR, fields, ""))


def _plain(descriptor: Any, fields: Any, path: str) -> Any:
    """Returns the fields of a message as protobuf takes them. path is the place of the message, "" or
    for example "jobs[3]."."""
    plain = dict(fields)
    for name, value in fields.items():
        field, place = descriptor.fields_by_name.get(name), path + name
        if field is None or value is None:
            continue  # A name that protobuf refuses, or a field that is unset.
        if field.label != FieldDescriptor.LABEL_REPEATED:
            plain[name] = _plain_value(place, field, value)
            continue
        try:
            plain[name] = [_plain_value(f"{place}[{n}]", field, one) for n, one in enumerate(value)]
        except TypeError:
            raise ValueError(f"{place} is {value!r}; must be a list") from None
    return plain


def _plain_value(place: str, field: Any, value: Any) -> Any:
    """Returns the value of a field, or one of its list, as protobuf takes it."""
    if field.message_type is not None:
        return _plain_message(place, field.message_type, value)
    if field.enum_type is not None and isinstance(value, str):
        return _enum_value(place, field.enum_type, value)
    valid, kind = None, "an integer"
    if field.cpp_type in _LIMITS:
        smallest, largest = _LIMITS[field.cpp_type]
        valid = integer(value)
        if valid is not None and not smallest <= valid <= largest:
            valid, kind = None, f"an integer from {smallest} to {largest}"
    elif field.enum_type is not None:
        valid = integer(value)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        valid, kind = _float(value), "a number"
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        valid, kind = bool(value) if "bool" in type(value).__name__ else None, "True or False"
    elif isinstance(value, str):
        valid = value
    else:
        kind = "a string"
    if valid is None:
        raise ValueError(f"{place} is {value!r}; must be {kind}")
    return valid


def _float(value: Any) -> Any:
    """Returns a number as a float, and None for any other value."""
    exact = number(value)
    try:
        return exact if exact is None else float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _enum_value(name: str, enum: Any, value: str) -> int:
    """Returns the number of an enum value: "OBJECTIVE_TOTAL_TIME", "TOTAL_TIME" or "total-time"."""
    prefix = enum.values_by_number[0].name[: -len("UNSPECIFIED")]
    wanted = value.upper().replace("-", "_")
    for full in (wanted, prefix + wanted):
        if full in enum.values_by_name:
            return enum.values_by_name[full].number
    valid = ", ".join(v.name for v in enum.values if v.number)
    raise ValueError(f"{name} is {value!r}; must be one of {valid}")


def _plain_message(place: str, descriptor: Any, value: Any) -> Any:
    """Returns the value of a field that is a message, or one of its list, as protobuf takes it."""
    if isinstance(value, Message) and value.DESCRIPTOR.full_name == descriptor.full_name:
        return value
    if isinstance(value, dict):
        return _plain(descriptor, value, place + ".")
    if descriptor.full_name != "google.protobuf.Duration":
        shown = f"a {value.DESCRIPTOR.name}" if isinstance(value, Message) else repr(value)
        raise ValueError(f"{place} is {shown}; must be a {descriptor.name} or a dict of its fields")
    exact = number(value)
    if isinstance(value, timedelta):
        nanos = value // timedelta(microseconds=1) * 1000
    elif exact is None:
        raise ValueError(f"{place} is {value!r}; must be a number of seconds or a timedelta")
    elif abs(_float(value)) <= MAX_SECONDS:  # NaN is not.
        nanos = round(exact * 10**9)
    else:
        raise ValueError(f"{place} is {value}; must be at most {MAX_SECONDS} seconds")
    sign = 1 if nanos >= 0 else -1  # Of both parts.
    seconds, nanos = divmod(abs(nanos), 10**9)
    return {"seconds": sign * seconds, "nanos": sign * nanos}
