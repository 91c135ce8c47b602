"""A client of elastalloc, which decides how many nodes each elastic training job gets.

The messages are those of elastalloc.v1.allocator_pb2. See docs/schedulers/integrate.md.
"""

import ipaddress
import json
import pkgutil
import re
import time
from typing import Any, Optional

import grpc

from elastalloc.messages import message
from elastalloc.plan import Plan, PoolError, Step, steps
from elastalloc.restarts import Restarts
from elastalloc.v1 import allocator_pb2 as pb
from elastalloc.v1 import allocator_pb2_grpc as rpc

__all__ = ["Client", "Plan", "PoolError", "Restarts", "Step", "message", "pb", "steps"]

# The service configuration of gRPC, the same as in the Go client: calls rotate over the healthy
# servers, and are retried, possibly on another server, if a server is unavailable or busy.
SERVICE_CONFIG = pkgutil.get_data(__name__, "service_config.json").decode()


def _waiting(service_config: str) -> str:
    """Returns a service configuration with which calls wait for a server within their deadlines. The Go
    client retries them instead."""
    config = json.loads(service_config)
    for method in config["methodConfig"]:
        method["waitForReady"] = True
    return json.dumps(config)


MAX_RESPONSE_BYTES = 128 << 20

MAX_ATTEMPTS = 4

# A connection is closed after 20 s without a response.
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
]

# The client reconnects as the Go client does: it tries again after at most 3 s.
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # Time of one attempt.
]


class Client:
    """Calls the servers behind a target, which is one of

    - host:port, a name whose addresses are all used, or an IP address;
    - 10.0.0.1:50051,10.0.0.2:50051,…, a list of IP addresses, without credentials: gRPC for
      Python takes no list of names, and one of addresses has no name for a certificate;
    - dns:///host:port, ipv4:10.0.0.1:50051, or unix:///run/elastalloc.sock, a Unix socket;
    - any other target of gRPC with the scheme unix-abstract, vsock or xds.

    White space around it, such as the newline of a file, is ignored. Any other target raises
    ValueError. The client connects in the background. credentials are for TLS; without them
    connections are in plain text. A client is safe for use by several threads.

    Each method accepts a snapshot and options, as messages or as dicts (see message()), and a
    timeout in seconds, by default the client's plus twice the time budget of the request. An
    attempt has half of the remaining time, and at least the time budget and half of the rest. If it
    times out, the client calls the next server, with up to four attempts in total, so that a server
    that hangs does not fail a call. gRPC itself retries UNAVAILABLE, and RESOURCE_EXHAUSTED after the
    delay that the server requests, within its retry budget. If no server can be reached, a call waits
    for one until its timeout, and connections are tried again after at most 3 s. Calls have no side effects. They raise
    grpc.RpcError. Its code() is the gRPC status, and for INVALID_ARGUMENT its details() name every
    bad field.
    """

    def __init__(
        self,
        target: str,
        credentials: Optional[grpc.ChannelCredentials] = None,
        timeout: float = 2.0,
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}; must be greater than 0")
        options = [
            ("grpc.service_config", _waiting(SERVICE_CONFIG)),
            ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
            *KEEPALIVE,
            *RECONNECT,
        ]
        target = _grpc_target(target)
        if "," in target:  # gRPC would send the whole list to the HTTP proxy of the environment as one name.
            options.append(("grpc.enable_http_proxy", 0))
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
        return self._request("Allocate", timeout, snapshot=snapshot, options=options)

    def decide(
        self, snapshot: Any, options: Any = None, *, timeout: Optional[float] = None
    ) -> pb.AllocateResponse:
        """Decides like allocate(), for Plan.reconcile().

        Options that are unset have the defaults of the API, except for the treatment of bad
        jobs: it defaults to BAD_JOBS_HOLD, so that one bad job does not stop all decisions.
        """
        return self.allocate(snapshot, _hold_bad_jobs(options), timeout=timeout)

    def fill_idle(
        self, snapshot: Any, *, timeout: Optional[float] = None
    ) -> pb.FillIdleResponse:
        """Allocates the idle nodes of a snapshot to queued jobs. Running jobs keep their nodes."""
        return self._request("FillIdle", timeout, snapshot=snapshot)

    def explain(
        self,
        snapshot: Any,
        options: Any = None,
        *,
        timeout: Optional[float] = None,
        **fields: Any,
    ) -> pb.ExplainResponse:
        """Decides a snapshot, and explains the size of each job and what would increase it.

        fields are further fields of ExplainRequest, such as job_ids.
        """
        return self._request("Explain", timeout, snapshot=snapshot, options=options, **fields)

    def what_if(
        self,
        snapshot: Any,
        options: Any = None,
        *,
        timeout: Optional[float] = None,
        **fields: Any,
    ) -> pb.WhatIfResponse:
        """Decides a snapshot and variations of it, the scenarios of WhatIfRequest."""
        return self._request("WhatIf", timeout, snapshot=snapshot, options=options, **fields)

    def forecast(
        self,
        snapshot: Any,
        options: Any = None,
        *,
        timeout: Optional[float] = None,
        **fields: Any,
    ) -> pb.ForecastResponse:
        """Estimates when each job of a snapshot starts and completes.

        fields are further fields of ForecastRequest, such as cadence and samples.
        """
        return self._request("Forecast", timeout, snapshot=snapshot, options=options, **fields)

    def _request(self, method: str, timeout: Optional[float], **fields: Any) -> Any:
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
                # Only this attempt may have timed out: the server hangs.
                late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                if not late or attempt == MAX_ATTEMPTS or time.monotonic() >= deadline:
                    raise

    def close(self) -> None:
        """Closes all connections. Calls in flight fail."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _hold_bad_jobs(options: Any) -> pb.AllocateOptions:
    """Returns a copy of options with BAD_JOBS_HOLD if the treatment of bad jobs is unset."""
    completed = pb.AllocateOptions()
    completed.CopyFrom(message(pb.AllocateRequest, options=options).options)
    completed.bad_jobs = completed.bad_jobs or pb.BAD_JOBS_HOLD
    return completed


def _budget(request: Any) -> float:
    """Returns the time budget of a request in seconds, 0 if it has none."""
    if isinstance(request, pb.FillIdleRequest):
        return 0.0
    budget = request.options.time_budget
    seconds = max(0.0, budget.seconds + budget.nanos / 1e9)
    if isinstance(request, pb.WhatIfRequest):
        seconds *= 1 + len(request.scenarios)  # Each scenario has its own.
    return seconds


# host:port. The host is a name or an IP address, of version 6 in brackets.
_ADDRESS = re.compile(
    r"(\[[^\[\]\s/]+\]|[^\[\]\s/:]+):0*"
    r"(\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
)


def _grpc_target(target: str) -> str:
    """Returns the gRPC target of a target of a Client. The Go client has the same rules."""
    target = target.strip()
    scheme, _, rest = target.partition(":")
    if scheme == "unix":
        if not re.fullmatch(r"(?!//)[^\0]+|///[^\0]*", rest):
            raise ValueError(f'target is "{target}"; must be unix:///path or unix:path')
        return target
    if scheme == "dns":
        if not _ADDRESS.fullmatch(re.sub(r"^//[^/]*(/|$)", "", rest)):
            raise ValueError(f'target is "{target}"; must be dns:///host:port')
        return target
    if scheme in ("unix-abstract", "vsock", "xds"):
        return target
    listed = scheme in ("ipv4", "ipv6")
    addresses = [address.strip() for address in (rest if listed else target).split(",")]
    if not all(_ADDRESS.fullmatch(address) for address in addresses):
        raise ValueError(f'target is "{target}"; must be host:port, for example localhost:50051')
    if listed:
        return target
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    if len(addresses) == 1:
        return "dns:///" + addresses[0]  # All addresses of a name.
    try:
        (version,) = {ipaddress.ip_address(host).version for host in hosts}
    except ValueError:
        raise ValueError(
            f'target is "{target}"; must be a list of IP addresses of one version, '
            "or one name that has the addresses of all servers"
        ) from None
    return f"ipv{version}:" + ",".join(addresses)
