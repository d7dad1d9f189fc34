"""Rounds put together, and the table of bars."""

import statistics

from .client import percentile


def ms(seconds):
    return "%.0f ms" % (seconds * 1e3) if seconds < 10 else "%.1f s" % seconds


def rows(rounds):
    """What is asked for, the bar, what was measured, and whether that meets it."""
    parts = [flood_rows(rounds), long_rows(rounds), chat_rows(rounds), bookkeeping_rows(rounds)]
    return [row for part in parts for row in part]


def flood_rows(rounds):
    if not all(name in rounds for name in ("idle", "flood", "fifo")):
        return []
    idle = percentile([ttft for run in rounds["idle"] for ttft in run["ttft"]], 95)
    step = statistics.median(run["step"] for run in rounds["flood"])
    ttft = lambda name, percent: percentile([y for run in rounds[name] for _, y in run["others"]], percent)
    bar, beside = 2 * idle + step, ttft("flood", 95)
    told = "%s (p50 %s; idle p95 %s, a step %s)" % (ms(beside), ms(ttft("flood", 50)), ms(idle), ms(step))
    fifo = "p95 %s, p50 %s" % (ms(ttft("fifo", 95)), ms(ttft("fifo", 50)))
    return [
        ("TTFT p95 beside 200 flooding requests", "2 x idle + a step = %s" % ms(bar), told, beside <= bar),
        ("the same, first come, first served", "", fifo, None),
    ]


def long_rows(rounds):
    if "long" not in rounds:
        return []
    median = lambda name: statistics.median(run[name] for run in rounds["long"])
    growth = statistics.median(run["during_p95"] / run["before_p95"] for run in rounds["long"])
    slowdown = statistics.median(run["beside"] / run["alone"] for run in rounds["long"])
    gaps = "%.2f x (%s to %s; p50 %s to %s)" % (
        growth,
        ms(median("before_p95")),
        ms(median("during_p95")),
        ms(median("before_p50")),
        ms(median("during_p50")),
    )
    ttft = "%.2f x (%s to %s)" % (slowdown, ms(median("alone")), ms(median("beside")))
    return [
        ("ITL p95 of 8 streams beside a prompt of 6000 tokens", "below 2 x", gaps, growth < 2),
        ("TTFT of that prompt, beside the streams", "at most 1.5 x", ttft, slowdown <= 1.5),
        ("longest gap of the streams meanwhile", "", ms(median("during_max")), None),
    ]


def chat_rows(rounds):
    if "chat" not in rounds:
        return []
    later = [turn for run in rounds["chat"] for turn in run["turns"][1:]]
    share = sum(cached for _, cached, _ in later) / sum(prompt for prompt, _, _ in later)
    by_turn = ["%.0f" % (100 * cached / prompt) for prompt, cached, _ in rounds["chat"][0]["turns"][1:]]
    told = "%.1f %% (turns 2 to 10: %s)" % (100 * share, ", ".join(by_turn))
    return [("prompt tokens cached from turn 2 on, chat of 10 turns", "at least 90 %", told, share >= 0.9)]


def bookkeeping_rows(rounds):
    if "bookkeeping" not in rounds:
        return []
    median = lambda name: statistics.median(run[name] for run in rounds["bookkeeping"])
    share = statistics.median(run["bookkeeping"] / run["step"] for run in rounds["bookkeeping"])
    told = "%.2f %% (%.0f us of %.1f ms)" % (100 * share, median("bookkeeping") * 1e6, median("step") * 1e3)
    return [("bookkeeping of a step, 8 streams", "below 1 %", told, share < 0.01)]


def table(rows):
    lines = ["| | bar | measured | met |", "|---|---|---|---|"]
    words = {True: "yes", False: "no", None: ""}
    return "\n".join(lines + ["| %s | %s | %s | %s |" % (*row[:3], words[row[3]]) for row in rows])
