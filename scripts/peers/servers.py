"""A server that is started for one measurement, on 127.0.0.1, and ended by its process."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from fetch import ROOT

from .prepare import Failure

LOAD_LIMIT_S = 120
END_LIMIT_S = 40
POLL_S = 0.005


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Runs while the `with` block does. `command` gets the port as its last word."""

    def __init__(self, command, ready_path):
        self.command = [str(word) for word in command]
        self.ready_path = ready_path
        self.process = None
        self.url = None
        self.ready_seconds = None

    def __enter__(self):
        port = free_port()
        self.url = "http://127.0.0.1:%d" % port
        start = time.monotonic()
        try:
            self.process = subprocess.Popen(
                [*self.command, str(port)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise Failure("%s: %s" % (self.name(), error.strerror)) from None
        try:
            self.wait_until_ready(start + LOAD_LIMIT_S)
        except BaseException:
            self.end()
            raise
        self.ready_seconds = time.monotonic() - start
        return self

    def __exit__(self, *_):
        self.end()

    def name(self):
        return Path(self.command[0]).name

    def wait_until_ready(self, deadline):
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure("%s ended with status %d before it was ready" % (self.name(), self.process.returncode))
            try:
                urllib.request.urlopen(self.url + self.ready_path, timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(POLL_S)
        raise Failure("%s was not ready after %d s" % (self.name(), LOAD_LIMIT_S))

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def post(self, path, body):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def peak_rss_bytes(self):
        """The most memory that the process held at once, or None where the system does not say."""
        status = Path("/proc/%d/status" % self.process.pid)
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
