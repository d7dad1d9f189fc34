"""Many streams read by one thread, which takes as little of the machine as it can: it notes when bytes came."""

import json
import selectors
import socket
import time

from peers.prepare import Failure

PATH = "/v1/chat/completions"


class Stream:
    """A streamed answer on a connection of its own. Times are of the monotonic clock."""

    def __init__(self, address, body):
        self.address = address
        text = json.dumps({"stream": True, "temperature": 0, **body}).encode()
        head = "POST %s HTTP/1.1\r\nhost: %s:%d\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.request = (head % (PATH, *address, len(text))).encode() + text
        self.socket = None
        self.sent = None
        # When the first byte of the answer came, and when each event ended.
        self.first_byte = None
        self.times = []
        self.tail = b""

    def send(self):
        self.socket = socket.create_connection(self.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = time.monotonic()
        self.socket.sendall(self.request)
        self.socket.setblocking(False)

    def read(self):
        """Takes what came; false at the end of the answer."""
        data = self.socket.recv(1 << 16)
        now = time.monotonic()
        if not data:
            return False
        if self.first_byte is None:
            self.first_byte = now
            if not data.startswith(b"HTTP/1.1 200"):
                raise Failure("a stream was answered with " + data[:300].decode(errors="replace"))
        self.times += [now] * (self.tail + data).count(b"\n\n")
        # An event's end that is cut in two counts once.
        self.tail = b"" if data.endswith(b"\n\n") else data[-1:]
        return True

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None


class Probe(Stream):
    """What asks for nothing: the way through sockets and threads alone."""

    def __init__(self, address):
        super().__init__(address, {})
        self.request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


class Reader:
    """Reads streams until they end, or somebody has seen enough of them."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.open = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """The server notices that its clients are gone."""
        for stream in list(self.open):
            self.end(stream)
        self.selector.close()

    def start(self, stream):
        stream.send()
        self.selector.register(stream.socket, selectors.EVENT_READ, stream)
        self.open.add(stream)

    def end(self, stream):
        self.selector.unregister(stream.socket)
        self.open.discard(stream)
        stream.close()

    def step(self, limit_s):
        """Reads what there is, after waiting for it so long at most."""
        for key, _ in self.selector.select(max(0.0, limit_s)):
            if not key.data.read():
                self.end(key.data)

    def until(self, is_enough, limit_s, what):
        deadline = time.monotonic() + limit_s
        while not is_enough():
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure("%s took more than %d s" % (what, limit_s))
            self.step(left)

    def during(self, seconds):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.step(left)
