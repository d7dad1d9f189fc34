"""What the threads of a process took of the processors; Linux only."""

from pathlib import Path

from peers.prepare import Failure


def cpu_seconds(pid):
    """Seconds that each thread ran, by its id, with its name."""
    seconds = {}
    for task in Path("/proc/%d/task" % pid).iterdir():
        try:
            ran = int((task / "schedstat").read_text().split()[0])
            seconds[int(task.name)] = ((task / "comm").read_text().strip(), ran / 1e9)
        except FileNotFoundError:
            # It ended while we looked.
            continue
    if not seconds:
        raise Failure("the system does not say what the threads of process %d took" % pid)
    return seconds


def between(before, after):
    """Seconds between two readings by the name of the thread, all threads of a name together."""
    by_name = {}
    for thread, (name, ran) in after.items():
        by_name[name] = by_name.get(name, 0.0) + ran - before.get(thread, (name, 0.0))[1]
    return by_name


def rss_bytes(pid):
    lines = Path("/proc/%d/status" % pid).read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
