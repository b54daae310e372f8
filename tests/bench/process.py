"""What a running process has used, from the kernel's own books."""

from __future__ import annotations

import os
import time


def cpu(pid: int) -> float:
    """Return the CPU time of *pid* in ms, all threads, also ended ones. Its children have clocks of their own."""
    # The clock of another process, as clock_getcpuclockid(3) makes it; /proc/PID/stat counts in steps of 10 ms.
    return time.clock_gettime((~pid << 3) | 2) * 1000


def resident(pid: int) -> float:
    """Return what *pid* holds in memory, in MB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024 / 1e6


def wakeups(pid: int) -> int:
    """Return how often threads of *pid* that live now have been woken: each wait ends with one."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as status:
            total += next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches:"))
    return total


def settle(pid: int, quiet: float = 0.03) -> float:
    """Wait until *pid* has used no CPU for *quiet* seconds; return its CPU time in ms."""
    used, since = cpu(pid), time.monotonic()
    while time.monotonic() - since < quiet:
        time.sleep(0.001)
        if (now := cpu(pid)) != used:
            used, since = now, time.monotonic()
    return used
