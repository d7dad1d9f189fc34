"""A client that notes when each piece of a streamed answer came."""

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from peers.prepare import Failure

TIMEOUT_S = 300


@dataclass
class Stream:
    """An answer: when it was asked for, when its pieces came, and what it was. Times are of the monotonic clock."""

    sent: float
    times: list = field(default_factory=list)
    text: str = ""
    usage: dict = field(default_factory=dict)
    first: threading.Event = field(default_factory=threading.Event)
    stopped: bool = False

    def ttft(self):
        return self.times[0] - self.sent

    def gaps(self, begin=0.0, end=float("inf")):
        """Times between pieces, of those that ended between `begin` and `end`."""
        pairs = zip(self.times, self.times[1:])
        return [later - earlier for earlier, later in pairs if begin <= later <= end]


class Client:
    """Asks one server. Each request has a connection of its own."""

    def __init__(self, url, key=None):
        parts = urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = "Bearer " + key

    def get(self, path):
        connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path, headers=self.headers)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def count_tokens(self, text):
        body = {"prompt": text, "add_special_tokens": False}
        connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", "/tokenize", json.dumps(body), self.headers)
            return json.load(connection.getresponse())["count"]
        finally:
            connection.close()

    def stream(self, messages, max_tokens, stream=None, **more):
        """Reads a chat answer to its end, or until somebody sets `stopped`; `stream` fills as it comes."""
        body = {
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }
        stream = stream or Stream(0.0)
        stream.sent = time.monotonic()
        connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), self.headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise Failure("status %d: %s" % (answer.status, answer.read().decode()[:300]))
            for line in answer:
                if stream.stopped or not read_line(line, stream):
                    break
        finally:
            stream.first.set()
            connection.close()
        if not stream.times:
            raise Failure("an answer without text")
        return stream

    def start(self, messages, max_tokens, **more):
        """The same in a thread of its own: the stream, which fills, and the thread."""
        stream = Stream(0.0)
        thread = threading.Thread(
            target=self.stream, args=(messages, max_tokens, stream), kwargs=more, daemon=True
        )
        thread.start()
        return stream, thread


def read_line(line, stream):
    """Books a line of the event stream; false at its end."""
    if not line.startswith(b"data: "):
        return True
    if line.startswith(b"data: [DONE]"):
        return False
    now = time.monotonic()
    event = json.loads(line[6:])
    if "error" in event:
        raise Failure(event["error"]["message"])
    stream.usage = event.get("usage") or stream.usage
    for choice in event.get("choices", []):
        text = choice.get("delta", {}).get("content")
        if text:
            stream.times.append(now)
            stream.text += text
            stream.first.set()
    return True


def user(text):
    return [{"role": "user", "content": text}]


def percentile(values, percent):
    """Between neighbours, as `troupe bench` and numpy compute it."""
    values = sorted(values)
    if not values:
        raise Failure("nothing was measured")
    rank = (len(values) - 1) * percent / 100
    low = int(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (rank - low)
