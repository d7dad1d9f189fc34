"""The machine under the numbers, and how much of it others took meanwhile."""

import os
import platform
import subprocess
import time
from pathlib import Path

from . import prepare


def describe(threads):
    program = prepare.memory_reader()
    return {
        "system": "%s %s" % (platform.system(), platform.machine()),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_read_gb_per_second": {
            str(count): float(prepare.run([program, count], 120)) for count in sorted({1, threads})
        },
    }


def cpu_model():
    if platform.system() == "Darwin":
        return subprocess.check_output(["sysctl", "-n", "machdep.cpu.brand_string"], text=True).strip()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


class Others:
    """Cores that were busy with other work than ours, on the average since this was made; Linux only."""

    # More than this, and spinning threads wait for one that is not running: llama.cpp then loses nine tenths.
    QUIET = 0.15

    def __init__(self):
        self.start = self.now()

    def now(self):
        """Seconds of all cores busy, seconds of ours (children count once they ended), and the clock."""
        times = os.times()
        ours = times.user + times.system + times.children_user + times.children_system
        stat = Path("/proc/stat")
        if not stat.exists():
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return busy, ours, times.elapsed

    def busy_cores(self):
        end = self.now()
        if end is None:
            return None
        busy, ours, elapsed = (later - earlier for later, earlier in zip(end, self.start))
        return max(0.0, busy - ours) / elapsed if elapsed > 0 else 0.0


def wait_until_quiet(limit_s):
    """Returns when others leave the cores alone for a second, or after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        others = Others()
        time.sleep(1)
        if (others.busy_cores() or 0.0) <= Others.QUIET:
            return
