"""Rounds put together, and the rows of the table of bars."""

import statistics

from tenants.client import percentile

from .scenarios import IDLE


def rows(rounds):
    """What is asked for, the bar, what was measured, and whether that meets it."""
    parts = [processor_rows, step_rows, idle_rows, first_byte_rows]
    return [row for part in parts for row in part(rounds)]


def processor_rows(rounds):
    runs = rounds.get("processors", [])
    if not runs:
        return []
    share = statistics.median(run["serving"] / run["step"] for run in runs)
    median = lambda name: 1e3 * statistics.median(run[name] for run in runs)
    told = "%.1f %% (%.2f of %.2f ms)" % (100 * share, median("serving"), median("step"))
    return [("processor time of all threads but the engine's, of a step of 8 streams", "below 5 %", told, share < 0.05)]


def step_rows(rounds):
    if "engine" not in rounds or "http" not in rounds:
        return []
    median = lambda name: statistics.median(run["step"] for run in rounds[name])
    engine, http = median("engine"), median("http")
    told = "+%.1f %% (%.2f and %.2f ms)" % (100 * (http / engine - 1), 1e3 * http, 1e3 * engine)
    return [("step of 8 streams as a client on the same cores sees it, beside the engine alone", "", told, None)]


def idle_rows(rounds):
    runs = rounds.get("idle", [])
    if not runs:
        return []
    growth = statistics.median(run["with_streams"] - run["before"] for run in runs)
    opened = statistics.median(run["opened_in"] for run in runs)
    told = "%.0f MB (%.0f kB each; opened in %.1f s)" % (growth / 1e6, growth / IDLE / 1e3, opened)
    return [("memory of %d streams that wait" % IDLE, "below 200 MB", told, growth < 200e6)]


def first_byte_rows(rounds):
    runs = rounds.get("first byte", [])
    if not runs:
        return []
    streams, probes = ([seconds for run in runs for seconds in run[name]] for name in ("first_byte", "probe"))
    return [
        ("first byte of a stream beside 8 others", "p99 below 5 ms", spread(streams), percentile(streams, 99) < 5e-3),
        ("first byte of /health beside them", "", spread(probes), None),
    ]


def spread(times):
    told = [1e3 * percentile(times, percent) for percent in (50, 99, 100)]
    return "p50 %.2f ms, p99 %.2f ms, most %.2f ms" % tuple(told)
