"""Limits that a job sets for itself, once its libraries are loaded: how much more address space, and what it has resident."""

import re
import resource


def allow_more(more_bytes):
    """From now on the process may have so much more address space than it has."""
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + more_bytes, resource.RLIM_INFINITY))


def resident_mb():
    return _status("VmRSS") / 2**20


def _status(field):
    with open("/proc/self/status") as file:
        return int(re.search(rf"^{field}:\s+(\d+) kB", file.read(), re.MULTILINE)[1]) << 10
