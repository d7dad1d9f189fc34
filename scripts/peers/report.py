"""Medians, ratios, and the table that people read."""

import statistics
from dataclasses import asdict, dataclass

from .machine import Others


@dataclass(frozen=True)
class Ratio:
    """A number of Troupe's over a peer's. Numbers are (measurement, name)."""

    title: str
    peer: str
    ours: tuple
    theirs: tuple
    bar: float
    goal: float


@dataclass(frozen=True)
class Limit:
    """A number of Troupe's that must stay below another."""

    title: str
    ours: tuple
    limit: float
    unit: str


DECODE, PREFILL, OUTPUT = "decode", "prefill", "output"

RATIOS = [
    Ratio("decode, 1 stream", "llama.cpp", ("troupe decode", DECODE), ("llama.cpp decode", DECODE), 1.3, 2.0),
    Ratio("prefill of 512", "llama.cpp", ("troupe prefill", PREFILL), ("llama.cpp prefill", PREFILL), 1.5, 3.0),
    Ratio("8 streams over HTTP", "llama-server", ("troupe http", OUTPUT), ("llama.cpp http", OUTPUT), 1.5, 3.0),
    Ratio("f16: decode", "llama.cpp", ("troupe f16 decode", DECODE), ("llama.cpp f16 decode", DECODE), 1.0, 1.3),
    Ratio("f16: prefill", "llama.cpp", ("troupe f16 prefill", PREFILL), ("llama.cpp f16 prefill", PREFILL), 1.0, 1.3),
    Ratio("decode, 1 stream", "mlx-lm bf16", ("troupe decode", DECODE), ("mlx-lm bf16", DECODE), 20, 40),
    Ratio("decode, 1 stream", "mlx-lm 4-bit", ("troupe decode", DECODE), ("mlx-lm 4-bit", DECODE), 20, 40),
    Ratio("prefill", "mlx-lm bf16", ("troupe prefill", PREFILL), ("mlx-lm bf16", PREFILL), 20, 40),
    Ratio("prefill", "mlx-lm 4-bit", ("troupe prefill", PREFILL), ("mlx-lm 4-bit", PREFILL), 20, 40),
    Ratio("decode at 4096", "Troupe at 128", ("troupe context", "long"), ("troupe context", "short"), 0.70, 0.85),
    Ratio(
        "decode at 4096, int8 KV",
        "Troupe at 128",
        ("troupe context int8", "long"),
        ("troupe context int8", "short"),
        0.70,
        0.85,
    ),
    Ratio("decode at 4096", "llama.cpp at 4096", ("troupe context", "long"), ("llama.cpp context", "long"), 1.3, 2.0),
]
LIMITS = [
    Limit("peak memory beside weights and KV", ("troupe http", "overhead_mb"), 150, "MB"),
    Limit("start to ready", ("troupe http", "ready_seconds"), 1.5, "s"),
]


@dataclass(frozen=True)
class Run:
    """One measurement in one round: its numbers, and the cores that others kept busy meanwhile (None: unknown)."""

    numbers: dict
    busy_cores_of_others: float

    def is_quiet(self):
        return (self.busy_cores_of_others or 0.0) <= Others.QUIET


class Results:
    """What the rounds brought, by measurement, and the failures."""

    def __init__(self):
        self.runs = {}
        self.failures = {}

    def add(self, measurement, run):
        self.runs.setdefault(measurement, []).append(run)

    def fail(self, measurement, reason):
        self.failures.setdefault(measurement, []).append(reason)

    def counted(self, measurement):
        """The quiet runs, or all if there was no quiet one."""
        runs = self.runs.get(measurement, [])
        return [run for run in runs if run.is_quiet()] or runs

    def is_disturbed(self, measurement):
        return any(not run.is_quiet() for run in self.counted(measurement))

    def median(self, number):
        measurement, name = number
        values = [run.numbers[name] for run in self.counted(measurement) if name in run.numbers]
        return statistics.median(values) if values else None

    def document(self):
        return {
            "measurements": {name: [asdict(run) for run in runs] for name, runs in self.runs.items()},
            "failures": self.failures,
            "ratios": [self.ratio(row) for row in RATIOS],
            "limits": [self.limit(row) for row in LIMITS],
        }

    def ratio(self, row):
        ours, theirs = self.median(row.ours), self.median(row.theirs)
        return {
            "title": row.title,
            "peer": row.peer,
            "troupe_median": ours,
            "peer_median": theirs,
            "ratio": ours / theirs if ours is not None and theirs else None,
            "disturbed": self.is_disturbed(row.ours[0]) or self.is_disturbed(row.theirs[0]),
            "bar": row.bar,
            "goal": row.goal,
        }

    def limit(self, row):
        return {
            "title": row.title,
            "troupe_median": self.median(row.ours),
            "limit": row.limit,
            "unit": row.unit,
            "disturbed": self.is_disturbed(row.ours[0]),
        }


def table(document):
    """Markdown: what it was measured on, the ratios, the limits, and what is missing."""
    lines = head(document)
    lines += ["", "| tokens/s, medians | Troupe | peer | | ratio | bar | goal |", "|---|---|---|---|---|---|---|"]
    for row in document["ratios"]:
        figures = [figure(row[key]) for key in ("troupe_median", "peer_median", "ratio", "bar", "goal")]
        lines.append("| %s |" % " | ".join([row["title"] + mark(row), *figures[:2], row["peer"], *figures[2:]]))
    lines += ["", "| | Troupe | limit |", "|---|---|---|"]
    for row in document["limits"]:
        figures = figure(row["troupe_median"]), figure(row["limit"])
        lines.append("| %s, %s%s | %s | %s |" % (row["title"], row["unit"], mark(row), *figures))
    if any(row["disturbed"] for row in document["ratios"] + document["limits"]):
        lines += ["", "* no quiet run: other work kept more than %.2f cores busy. Not a comparison." % Others.QUIET]
    for what, reasons in document["failures"].items():
        lines += ["", "failed: %s (%d times): %s" % (what, len(reasons), reasons[-1])]
    return "\n".join(lines)


def mark(row):
    return " *" if row["disturbed"] else ""


def head(document):
    machine = document["machine"]
    speeds = machine["memory_read_gb_per_second"].items()
    reads = ", ".join("%.1f GB/s by %s" % (speed, "1 thread" if n == "1" else n + " threads") for n, speed in speeds)
    loads = " ".join("%.1f" % load for load in document["load_averages"])
    busy = document["busy_cores_of_others"]
    others = "unknown" if busy is None else "%.2f cores" % busy
    place = machine["system"], machine["cpu"], machine["cores"]
    return [
        "%s, %s on %s: %s, %d cores" % (document["date"], document["troupe"], *place),
        "%s, %d threads, medians; rounds: %d" % (document["model"], document["threads"], document["rounds"]),
        "memory read: %s; load average before each round: %s; other work meanwhile: %s" % (reads, loads, others),
    ]


def figure(value):
    """Three digits that count."""
    if value is None:
        return "–"
    return "%.0f" % value if abs(value) >= 100 else "%.3g" % value
