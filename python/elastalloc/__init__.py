"""A client of elastalloc, which decides how many nodes each elastic training job gets.

The messages are those of elastalloc.v1.allocator_pb2. See docs/schedulers/integrate.md.
"""

import ipaddress
import pkgutil
import re
import time
from typing import Any, Optional

import grpc

from elastalloc.messages import message
from elastalloc.plan import Plan, PoolError, Step, reserve, steps
from elastalloc.v1 import allocator_pb2 as pb
from elastalloc.v1 import allocator_pb2_grpc as rpc

__all__ = ["Client", "Plan", "PoolError", "Step", "message", "pb", "reserve", "steps"]

# How gRPC treats the calls, the same as in the Go client: calls go in turn to every healthy
# server, and again, perhaps elsewhere, where one was not there or busy.
SERVICE_CONFIG = pkgutil.get_data(__name__, "service_config.json").decode()

MAX_RESPONSE_BYTES = 128 << 20

MAX_ATTEMPTS = 4

# A connection is dead after 20 s of silence.
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
]


class Client:
    """Calls the servers behind a target, which is one of

    - host:port, a name whose addresses are all used, or an IP address;
    - 10.0.0.1:50051,10.0.0.2:50051,…, a list of IP addresses, without credentials: gRPC for
      Python takes no list of names, and one of addresses has no name for a certificate;
    - any other target of gRPC, such as unix:///run/elastalloc.sock or ipv4:10.0.0.1:50051.

    White space around it, such as the newline of a file, is ignored. Anything else raises
    ValueError. It connects in the background. credentials are for TLS;
    without them connections are in plain text. It is safe for use by several threads; a
    program needs one.

    Each method takes a snapshot and options, as messages or as message() takes them. Each takes
    a timeout in seconds, by default the client's plus twice the time budget of the request. An
    attempt has half of the time, and at least that budget and half of the rest; then the next
    server is asked, up to four times in all, so that a server which hangs loses no call. gRPC itself
    retries UNAVAILABLE, and RESOURCE_EXHAUSTED when the server says, as far as its budget of
    retries allows. Calls have no side effects. What they raise is a grpc.RpcError: its code()
    says what went wrong, and for INVALID_ARGUMENT its details() name every bad field.
    """

    def __init__(
        self,
        target: str,
        credentials: Optional[grpc.ChannelCredentials] = None,
        timeout: float = 2.0,
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}; want more than 0")
        options = [
            ("grpc.service_config", SERVICE_CONFIG),
            ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
            *KEEPALIVE,
        ]
        target = _grpc_target(target)
        if credentials is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            self._channel = grpc.secure_channel(target, credentials, options)
        self._timeout = timeout
        self._stub = rpc.AllocatorServiceStub(self._channel)

    def allocate(
        self, snapshot: Any, options: Any = None, *, timeout: Optional[float] = None
    ) -> pb.AllocateResponse:
        """Decides how many nodes each job of a snapshot gets."""
        return self._ask("Allocate", timeout, snapshot=snapshot, options=options)

    def fill_idle(
        self, snapshot: Any, *, timeout: Optional[float] = None
    ) -> pb.FillIdleResponse:
        """Gives the idle nodes of a snapshot to its queue, and leaves running jobs alone."""
        return self._ask("FillIdle", timeout, snapshot=snapshot)

    def explain(
        self,
        snapshot: Any,
        options: Any = None,
        *,
        timeout: Optional[float] = None,
        **fields: Any,
    ) -> pb.ExplainResponse:
        """Decides, and says why each job got its size and what would give it more.

        fields are those of an ExplainRequest, such as job_ids.
        """
        return self._ask("Explain", timeout, snapshot=snapshot, options=options, **fields)

    def what_if(
        self,
        snapshot: Any,
        options: Any = None,
        *,
        timeout: Optional[float] = None,
        **fields: Any,
    ) -> pb.WhatIfResponse:
        """Decides a snapshot and variations of it, the scenarios of a WhatIfRequest."""
        return self._ask("WhatIf", timeout, snapshot=snapshot, options=options, **fields)

    def forecast(
        self,
        snapshot: Any,
        options: Any = None,
        *,
        timeout: Optional[float] = None,
        **fields: Any,
    ) -> pb.ForecastResponse:
        """Says when each job of a snapshot starts and ends if no other is submitted.

        fields are those of a ForecastRequest, such as cadence and samples.
        """
        return self._ask("Forecast", timeout, snapshot=snapshot, options=options, **fields)

    def _ask(self, method: str, timeout: Optional[float], **fields: Any) -> Any:
        request = message(getattr(pb, method + "Request"), **fields)
        return self._call(getattr(self._stub, method), request, timeout)

    def _call(self, method: Any, request: Any, timeout: Optional[float]) -> Any:
        budget = _budget(request)
        if timeout is None:
            # A year at most: grpcio overflows on the longest durations of protobuf.
            timeout = min(self._timeout + 2 * budget, 365 * 24 * 3600)
        deadline = time.monotonic() + timeout
        for attempt in range(1, MAX_ATTEMPTS + 1):
            left = share = deadline - time.monotonic()
            if attempt < MAX_ATTEMPTS and left > budget:
                share = left / 2 if left >= 2 * budget else (left + budget) / 2
            try:
                return method(request, timeout=share)
            except grpc.RpcError as error:
                # Perhaps of this attempt alone: the server hangs.
                late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                if not late or attempt == MAX_ATTEMPTS or time.monotonic() >= deadline:
                    raise

    def close(self) -> None:
        """Ends all connections; calls in flight fail."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _budget(request: Any) -> float:
    """Returns the seconds that the decisions of a request may take, 0 if it does not say."""
    if isinstance(request, pb.FillIdleRequest):
        return 0.0
    budget = request.options.time_budget
    seconds = max(0.0, budget.seconds + budget.nanos / 1e9)
    if isinstance(request, pb.WhatIfRequest):
        seconds *= 1 + len(request.scenarios)  # Each scenario has its own.
    return seconds


def _grpc_target(target: str) -> str:
    """Returns what gRPC calls a target of a Client."""
    target = target.strip()
    if re.match(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):", target):
        return target
    addresses = [address.strip() for address in target.split(",")]
    hosts = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        if (
            not host
            or not port
            or re.search(r"[/\s]", address)
            or ":" in host
            and host[0] != "["
        ):
            raise ValueError(
                f'target is "{target}"; want host:port, such as localhost:50051'
            )
        hosts.append(host.strip("[]"))
    if len(addresses) == 1:
        return "dns:///" + addresses[0]  # All addresses of a name.
    try:
        (version,) = {ipaddress.ip_address(host).version for host in hosts}
    except ValueError:
        raise ValueError(
            f'target is "{target}"; want IP addresses of one version in a list, '
            "or one name that has the addresses of all servers"
        ) from None
    return f"ipv{version}:" + ",".join(addresses)
