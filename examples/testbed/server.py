"""Runs an elastalloc server for a testbed."""

import ctypes
import os
import signal
import subprocess
import time

from testbed.forkserver import PR_SET_PDEATHSIG


class Server:
    """A server on a Unix socket, which records its calls. It can be killed and started again. It stops with the thread
    that starts it, so it does not outlive a testbed that is killed."""

    def __init__(self, program: str, directory: str) -> None:
        self._program, self._directory = program, directory
        self.target = "unix://" + os.path.join(directory, "elastalloc.sock")
        self.recordings = []
        self.start()

    def start(self) -> None:
        """Starts the server. Calls wait for it."""
        recording = os.path.join(self._directory, f"recording-{len(self.recordings)}")
        self.recordings.append(recording)
        prctl = ctypes.CDLL(None).prctl  # Linux. It is loaded before the fork, because the new process may do little.
        with open(os.path.join(self._directory, "server.log"), "ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program, "serve", "--listen", self.target.replace("unix://", "unix:"), "--admin-listen", "127.0.0.1:0",
                    "--record", recording, "--drain-delay", "0s",
                ],
                stdout=log, stderr=log, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )

    def running(self) -> bool:
        """Returns whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the server."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stops the server, which completes its recording."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def wait(self, timeout: float = 60.0) -> None:
        """Waits until the server listens."""
        path = self.target.replace("unix://", "")
        until = time.monotonic() + timeout
        while not os.path.exists(path):
            if not self.running() or time.monotonic() > until:
                raise RuntimeError(f"the server does not start; see {self._directory}/server.log")
            time.sleep(0.02)
