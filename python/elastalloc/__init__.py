"""A client of elastalloc, which decides how many nodes each elastic training job gets.

The messages are those of elastalloc.v1.allocator_pb2. See docs/integrate.md.
"""

import pkgutil
from typing import Any, NamedTuple, Optional

import grpc

from elastalloc.v1 import allocator_pb2 as pb
from elastalloc.v1 import allocator_pb2_grpc as rpc

__all__ = ["Client", "Step", "pb", "steps"]

# How gRPC treats the calls, the same as in the Go client: calls go in turn to every healthy
# server, and again, perhaps elsewhere, where one was not there or busy.
SERVICE_CONFIG = pkgutil.get_data(__name__, "service_config.json").decode()

MAX_RESPONSE_BYTES = 128 << 20


class Client:
    """Calls the servers behind a target such as "elastalloc:50051".

    It is safe for use by several threads; a program needs one. Calls raise grpc.RpcError.
    """

    def __init__(
        self,
        target: str,
        credentials: Optional[grpc.ChannelCredentials] = None,
        timeout: float = 2.0,
    ) -> None:
        options = [
            ("grpc.service_config", SERVICE_CONFIG),
            ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
        ]
        if "/" not in target:
            target = "dns:///" + target  # All addresses of a name.
        if credentials is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            self._channel = grpc.secure_channel(target, credentials, options)
        self._timeout = timeout
        # All methods, as generated; they take no timeout of their own.
        self.stub = rpc.AllocatorServiceStub(self._channel)

    def allocate(
        self, snapshot: pb.Snapshot, options: Optional[pb.AllocateOptions] = None
    ) -> pb.AllocateResponse:
        """Decides how many nodes each job of a snapshot gets."""
        request = pb.AllocateRequest(snapshot=snapshot, options=options)
        return self.stub.Allocate(request, timeout=self._timeout)

    def fill_idle(self, snapshot: pb.Snapshot) -> pb.FillIdleResponse:
        """Gives the idle nodes of a snapshot to its queue, and leaves running jobs alone."""
        return self.stub.FillIdle(
            pb.FillIdleRequest(snapshot=snapshot), timeout=self._timeout
        )

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Step(NamedTuple):
    """One job to resize when a decision is carried out."""

    job_id: str
    nodes: int  # What it holds once the step is done; 0 is none.
    frees: bool  # The step frees nodes, and does not take any.


def steps(response: Any) -> "list[Step]":
    """Returns the order to carry out an answer of allocate or fill_idle in.

    Jobs that free nodes come first, then in the order of the snapshot those that take some,
    so that there are never more nodes in use than the pool has. Where a step fails, leave
    out the rest and ask for a new decision on what is then.
    """
    frees, takes = [], []
    for a in response.allocations:
        if a.change in (pb.CHANGE_PREEMPT, pb.CHANGE_SCALE_DOWN):
            frees.append(Step(a.job_id, a.nodes, True))
        elif a.change in (pb.CHANGE_START, pb.CHANGE_SCALE_UP):
            takes.append(Step(a.job_id, a.nodes, False))
    return frees + takes
