"""What is measured: one function each, which takes a server and gives numbers in seconds and bytes."""

import json
import random
import re
import subprocess
import time
from urllib.parse import urlsplit

from fetch import ROOT
from peers.prepare import Failure
from tenants.client import Client, percentile, user
from tenants.scenarios import WORDS

from . import threads
from .client import Probe, Reader, Stream

STREAMS = 8
LIMIT_S = 120
# Tokens of context at which steps are compared: those that the engine's own bench computes.
CONTEXT, STEPS = 128, 64
REPEATS = 12
ENGINE_RUNS = 5
# The threads that compute; all others of the server read, schedule and write.
COMPUTING = "gpu-executor"
WINDOW_S = 8.0

IDLE = 2000
# So many connections are begun at once, which is less than a listener's backlog.
LOT = 100

ARRIVALS, EVERY_S = 120, 0.1


def address(server):
    parts = urlsplit(server.url)
    return parts.hostname, parts.port


def ask(server, text, max_tokens):
    return Stream(address(server), {"messages": user(text), "max_tokens": max_tokens, "ignore_eos": True})


def words(count, seed):
    drawn = random.Random(seed)
    return " ".join(drawn.choice(WORDS) for _ in range(count))


def eight(server, text, max_tokens):
    """Streams that say different things and have the beginning of their prompts in common."""
    return [ask(server, "%s %d" % (text, number), max_tokens) for number in range(STREAMS)]


def start_all(reader, streams):
    """Returns when each has said something."""
    for stream in streams:
        reader.start(stream)
    # The first event is the role's.
    reader.until(lambda: all(len(stream.times) > 1 for stream in streams), LIMIT_S, "the first tokens")


def prompt_of(server, tokens):
    """A text whose conversation has at most so many tokens, and hardly fewer."""
    client = Client(server.url)
    text = words(tokens, 7)
    while text:
        usage = client.stream(user(text + " 0"), 1).usage
        if usage["prompt_tokens"] <= tokens:
            return text
        text = text.rsplit(" ", max(1, (usage["prompt_tokens"] - tokens) // 2))[0]
    raise Failure("no prompt is as short as %d tokens" % tokens)


def step_over_http(server):
    """Seconds from token to token of eight streams at the context that the engine's bench has."""
    text = prompt_of(server, CONTEXT)
    gaps = []
    # The first finds nothing cached, so its streams do not begin together.
    for repeat in range(REPEATS + 1):
        with Reader() as reader:
            streams = eight(server, text, STEPS + 8)
            start_all(reader, streams)
            reader.until(lambda: not reader.open, LIMIT_S, "the streams")
        if repeat == 0:
            continue
        for stream in streams:
            # From the second token to the one at the end of the bench's steps.
            times = stream.times[2 : STEPS + 2]
            gaps.append((times[-1] - times[0]) / (len(times) - 1))
    return {"step": percentile(gaps, 50)}


def step_of_engine():
    """The same of the engine alone. cargo builds its bench if need be, and tells it where MLX is."""
    bench = ["cargo", "bench", "--locked", "--quiet", "-p", "troupe-gpu", "--bench", "step", "--"]
    runs = ["%dx%d" % (STREAMS, CONTEXT)] * ENGINE_RUNS
    done = subprocess.run([*bench, *runs], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    rates = [float(rate) for rate in re.findall(r"%d streams .*: ([\d.]+) tokens/s" % STREAMS, done.stdout)]
    if done.returncode != 0 or not rates:
        raise Failure("the engine's bench ended with status %d and %d figures" % (done.returncode, len(rates)))
    return {"step": STREAMS / percentile(rates, 50)}


def processors(server):
    """Seconds of processor time that the server's threads take for a step of eight streams, by their names."""
    with Reader() as reader:
        start_all(reader, eight(server, words(60, 11), 4000))
        reader.during(0.5)
        steps, before, begin = steps_of(server), threads.cpu_seconds(server.process.pid), time.monotonic()
        reader.during(WINDOW_S)
        steps, after = steps_of(server) - steps, threads.cpu_seconds(server.process.pid)
        seconds = time.monotonic() - begin
        if len(reader.open) < STREAMS:
            raise Failure("a stream ended while it was measured")
    by_name = {name: ran / steps for name, ran in threads.between(before, after).items()}
    serving = sum(ran for name, ran in by_name.items() if name != COMPUTING)
    return {"step": seconds / steps, "serving": serving, "threads": by_name}


def steps_of(server):
    text = Client(server.url).get("/metrics")
    return float(re.search(r"^troupe_scheduler_step_seconds_count (\S+)$", text, re.M)[1])


def idle_streams(server):
    """Memory of the server with one stream that is served, then with so many more that wait."""
    with Reader() as reader:
        running = ask(server, words(20, 1), 6000)
        start_all(reader, [running])
        before = threads.rss_bytes(server.process.pid)
        begin = time.monotonic()
        waiting = [ask(server, words(20, 2 + number), 16) for number in range(IDLE)]
        for first in range(0, IDLE, LOT):
            lot = waiting[first : first + LOT]
            for stream in lot:
                reader.start(stream)
            reader.until(lambda: all(stream.times for stream in lot), LIMIT_S, "the heads of %d streams" % LOT)
        seconds = time.monotonic() - begin
        reader.during(1.0)
        after = threads.rss_bytes(server.process.pid)
        status = json.loads(Client(server.url).get("/ready"))
        if len(reader.open) < IDLE + 1 or status["num_requests_waiting"] != IDLE:
            raise Failure("of %d streams that were to wait %d do" % (IDLE, status["num_requests_waiting"]))
    return {"before": before, "with_streams": after, "opened_in": seconds}


def first_bytes(server):
    """Seconds from each request to the first byte of its answer, while eight streams are served; and from each probe."""
    arrived, probes = [], []
    with Reader() as reader:
        streams = eight(server, words(60, 13), 6000)
        start_all(reader, streams)
        begin = time.monotonic()
        for number in range(ARRIVALS):
            for others, stream, at in (
                (arrived, ask(server, words(60, 100 + number), 4), number),
                (probes, Probe(address(server)), number + 0.5),
            ):
                reader.during(begin + at * EVERY_S - time.monotonic())
                reader.start(stream)
                others.append(stream)
        all_begun = lambda: all(stream.first_byte for stream in arrived + probes)
        reader.until(all_begun, LIMIT_S, "the heads of the answers")
        if any(stream not in reader.open for stream in streams):
            raise Failure("a stream ended while others arrived")
    times = lambda of: [stream.first_byte - stream.sent for stream in of]
    return {"first_byte": times(arrived), "probe": times(probes)}
