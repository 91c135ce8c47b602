"""Starts workers by fork, so that a start does not import PyTorch again, and reports their exits.

It reads lines of JSON: {"start": spec} and {"signal": [id, number]}, with the id of the spec. It writes a line
{"id": id, "exit": status} for each worker that is gone, after a first line "ready". At the end of its input it kills all workers and exits.
"""

import ctypes
import json
import os
import select
import signal
import sys
import traceback
from typing import Any, Dict

PR_SET_PDEATHSIG = 1


def start(spec: Dict[str, Any]) -> int:
    """Starts a worker and returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # Linux; a worker does not outlive this process.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if spec["exec"]:
            os.execv(sys.executable, [sys.executable, "-m", "testbed.worker", json.dumps(spec)])
        from testbed import worker

        worker.run(spec)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def serve() -> None:
    """Serves standard input until its end."""
    workers: Dict[int, int] = {}  # id by process id
    pending = b""
    os.write(1, b"ready\n")
    while True:
        if select.select([0], [], [], 0.01)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in map(json.loads, lines):
                if "start" in line:
                    workers[start(line["start"])] = line["start"]["id"]
                    continue
                id, number = line["signal"]
                for process, known in workers.items():  # Not reaped yet, so the process id is not reused.
                    if known == id:
                        os.kill(process, number)
        while workers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                break
            gone = {"id": workers.pop(process), "exit": os.waitstatus_to_exitcode(status)}
            os.write(1, json.dumps(gone).encode() + b"\n")
    for process in workers:
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "torch":
        from testbed import models

        models.warm_up()
    from testbed import worker  # noqa: F401  Before the first fork.

    serve()
