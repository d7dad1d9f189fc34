"""What is measured: one function each, which takes a server and gives numbers in seconds."""

import random
import re
import time

from peers.prepare import Failure

from .client import percentile, user

# Requests that flood, all at once, and what each of them asks for.
FLOOD, FLOOD_TOKENS = 200, 64
# Requests of the other tenant, and seconds between one and the next.
OTHERS, OTHERS_TOKENS, EVERY_S = 50, 16, 0.45
# The flood has the machine to itself before the first of them.
AHEAD_S = 1.0

STREAMS, STREAM_TOKENS = 8, 1500
LONG_TOKENS = 6000
BEFORE_S, AFTER_S = 4.0, 2.0

TURNS = 10
WORDS = (
    "river stone garden window morning letter train island mirror forest market winter candle bridge ocean "
    "paper silver engine harbour valley copper lantern village thunder meadow castle orchard compass"
).split()
SUBJECTS = [
    "how bread is baked in an oven of clay",
    "why the sea is salt, and rivers are not",
    "how to plan a walk of three days in the mountains",
    "what a printer of books did in the year 1500",
    "how bees find their way home",
    "what makes a bridge of stone stand",
    "how to learn a language at the age of sixty",
    "why leaves turn red before they fall",
    "how ships were steered before there was a compass",
    "what a good library for a small town should have",
]


def question(seed):
    """Some sixty tokens with those of the template, no two questions with the same beginning."""
    words = random.Random(seed)
    listed = ", ".join(words.choice(WORDS) for _ in range(8))
    return user("Story %d. Tell me a short story in which all of these appear: %s." % (seed, listed))


def others(client, begin):
    """Requests at fixed times from `begin` on, however long each takes: their streams."""
    started = []
    for number in range(OTHERS):
        time.sleep(max(0.0, begin + number * EVERY_S - time.monotonic()))
        started.append(client.start(question(10_000 + number), OTHERS_TOKENS))
    return finished(started)


def finished(started):
    for _, thread in started:
        thread.join()
    streams = [stream for stream, _ in started]
    failed = sum(not stream.times for stream in streams)
    if failed:
        raise Failure("%d of %d requests failed" % (failed, len(streams)))
    return streams


def idle(client):
    """TTFTs of the others, with nobody beside them."""
    client.stream(question(1), 4)
    return {"ttft": [stream.ttft() for stream in others(client, time.monotonic())]}


def flood(flooding, other):
    """TTFTs of both beside each other: pairs of when a request was sent and how long it waited."""
    begin = time.monotonic()
    started = [flooding.start(question(number), FLOOD_TOKENS) for number in range(FLOOD)]
    served = others(other, begin + AHEAD_S)
    flooded = finished(started)
    end = max(stream.times[-1] for stream in flooded)
    beside = [stream for stream in served if stream.sent < end]
    points = lambda streams: [(stream.sent - begin, stream.ttft()) for stream in streams]
    gaps = [gap for stream in flooded for gap in stream.gaps()]
    return {"flood": points(flooded), "others": points(beside), "step": percentile(gaps, 50), "lasted": end - begin}


def words_of(tokens, seed, client):
    """A prompt of so many tokens, as the server counts them."""
    words = random.Random(seed)
    text = " ".join(words.choice(WORDS) for _ in range(tokens * 2))
    low, high = 0, len(text)
    while high - low > 4:
        middle = (low + high) // 2
        low, high = (middle, high) if client.count_tokens(text[:middle]) <= tokens else (low, middle)
    return user(text[:low])


def long_prompt(client, seed):
    """A long prompt alone, then beside streams: its TTFT, and the gaps of the streams before and meanwhile."""
    alone = client.stream(words_of(LONG_TOKENS, seed, client), 1).ttft()
    prompt = words_of(LONG_TOKENS, seed + 1000, client)
    started = [client.start(question(seed + number), STREAM_TOKENS, ignore_eos=True) for number in range(STREAMS)]
    streams = [stream for stream, _ in started]
    for stream in streams:
        stream.first.wait()
    time.sleep(0.5)
    begin = time.monotonic()
    time.sleep(BEFORE_S)
    beside = client.stream(prompt, 1)
    end = beside.times[0]
    if any(stream.times[-1] < end - 2 for stream in streams):
        raise Failure("a stream came to its end before the long prompt's first token")
    time.sleep(AFTER_S)
    for stream in streams:
        stream.stopped = True
    for _, thread in started:
        thread.join()
    one = [at for at in streams[0].times if at >= begin]
    gaps = lambda begin, end: [gap for stream in streams for gap in stream.gaps(begin, end)]
    before, during = gaps(begin, beside.sent), gaps(beside.sent, end)
    return {
        "alone": alone,
        "beside": beside.ttft(),
        "before_p50": percentile(before, 50),
        "before_p95": percentile(before, 95),
        "during_p50": percentile(during, 50),
        "during_p95": percentile(during, 95),
        "during_max": max(during),
        # When the prompt was sent and had its first token, and each gap of one stream, in seconds of this measurement.
        "prompt": (beside.sent - begin, end - begin),
        "gaps": [(later - begin, later - earlier) for earlier, later in zip(one, one[1:])],
    }


def chat(client):
    """A conversation of ten turns: for each, tokens of the prompt, of these cached, and tokens of the answer."""
    messages, turns = [], []
    for subject in SUBJECTS[:TURNS]:
        messages += user("Explain in about a hundred words %s." % subject)
        stream = client.stream(messages, 200)
        messages.append({"role": "assistant", "content": stream.text})
        usage = stream.usage
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        turns.append((usage["prompt_tokens"], cached, usage["completion_tokens"]))
    return {"turns": turns}


def bookkeeping(client):
    """With eight streams: seconds that the scheduler's core took for a step, and seconds from step to step."""
    started = [client.start(question(500 + number), 600, ignore_eos=True) for number in range(STREAMS)]
    for stream, _ in started:
        stream.first.wait()
    time.sleep(0.5)
    before, begin = sums(client), time.monotonic()
    time.sleep(4.0)
    after, end = sums(client), time.monotonic()
    for stream, thread in started:
        stream.stopped = True
        thread.join()
    steps = after[1] - before[1]
    return {"bookkeeping": (after[0] - before[0]) / steps, "step": (end - begin) / steps}


def sums(client):
    text = client.get("/metrics")
    value = lambda name: float(re.search(r"^troupe_scheduler_step_seconds_%s (\S+)$" % name, text, re.M)[1])
    return value("sum"), value("count")
