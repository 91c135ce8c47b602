"""Messages of plain Python: dicts, timedeltas, numbers of seconds."""

from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

from google.protobuf.message import Message

__all__ = ["message"]

MAX_SECONDS = 315_576_000_000  # of a protobuf Duration


def message(kind: Any, **fields: Any) -> Any:
    """Returns a message of a kind, such as pb.Snapshot.

    Messages in it may be dicts of their fields, durations a timedelta or a number of seconds, and
    values of enums their names, long or short: message(pb.Job, id="a", remaining_eta=3600),
    message(pb.AllocateOptions, objective="total-time").
    """
    return kind(**_plain(kind.DESCRIPTOR, fields))


def _plain(descriptor: Any, fields: Any) -> Any:
    """Returns the fields of a message with durations and enums as protobuf takes them."""
    plain = dict(fields)
    for name, value in fields.items():
        field = descriptor.fields_by_name.get(name)
        if field is not None and field.enum_type is not None and isinstance(value, str):
            plain[name] = _enum_value(name, field.enum_type, value)
        if field is None or field.message_type is None:
            continue  # A name that protobuf refuses, or a plain value.
        if isinstance(value, (list, tuple)):
            plain[name] = [_plain_value(name, field.message_type, one) for one in value]
        else:
            plain[name] = _plain_value(name, field.message_type, value)
    return plain


def _enum_value(name: str, enum: Any, value: str) -> int:
    """Returns the number of an enum value: "OBJECTIVE_TOTAL_TIME", "TOTAL_TIME" or "total-time"."""
    prefix = enum.values_by_number[0].name[: -len("UNSPECIFIED")]
    wanted = value.upper().replace("-", "_")
    for full in (wanted, prefix + wanted):
        if full in enum.values_by_name:
            return enum.values_by_name[full].number
    valid = ", ".join(v.name for v in enum.values if v.number)
    raise ValueError(f"{name} is {value!r}; must be one of {valid}")


def _plain_value(name: str, descriptor: Any, value: Any) -> Any:
    """Returns the value of a field that is a message, or one of its list, as protobuf takes it."""
    if value is None or isinstance(value, Message) and value.DESCRIPTOR.full_name == descriptor.full_name:
        return value
    if isinstance(value, dict):
        return _plain(descriptor, value)
    if descriptor.full_name != "google.protobuf.Duration":
        shown = f"a {value.DESCRIPTOR.name}" if isinstance(value, Message) else repr(value)
        raise ValueError(f"{name} is {shown}; must be a {descriptor.name} or a dict of its fields")
    if isinstance(value, timedelta):
        nanos = value // timedelta(microseconds=1) * 1000
    elif not isinstance(value, (Real, Decimal)):
        raise ValueError(f"{name} is {value!r}; must be a number of seconds or a timedelta")
    elif abs(value) <= MAX_SECONDS:  # NaN is not.
        nanos = round(value * 10**9) if isinstance(value, Decimal) else round(float(value) * 1e9)
    else:
        raise ValueError(f"{name} is {value}; must be at most {MAX_SECONDS} seconds")
    sign = 1 if nanos >= 0 else -1  # Of both parts.
    seconds, nanos = divmod(abs(nanos), 10**9)
    return {"seconds": sign * seconds, "nanos": sign * nanos}
