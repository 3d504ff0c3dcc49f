"""Recordings for tests, written by hand in the form that `crates/monitor/src/recording/mod.rs` describes.

In: frames as dicts and names of figures. Out: bytes. A second writer of the format, in another language: what reads these reads the format,
not only what its own writer writes.
"""

import json
import re
import struct
import zlib
from pathlib import Path

MONITOR = Path(__file__).parent.parent / "crates" / "monitor" / "src"
HEADER = b"BRIMFUL-RUN\n" + struct.pack("<H", 1)
START, SAMPLE, STEP, LINE, END, HOLDERS, GPU, FRAMEWORK, FINDING = range(1, 10)
GPU_FIGURES = ["total_bytes", "used_bytes", "job_bytes", "others_bytes", "busy_percent", "temperature_c", "power_mw"]


def sample_figures():
    """The names of a sample's figures, in the order of the recording."""
    text = (MONITOR / "sample.rs").read_text()
    body = text[text.index("\nsample! {") : text.index("\nimpl Sample")]
    return re.findall(r"^    ([a-z_]+),$", body, re.MULTILINE)


def varint(value):
    """A number in as few bytes as it needs."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value):
    """A difference."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value):
    """A text or bytes, its length first."""
    value = value if isinstance(value, bytes) else value.encode()
    return varint(len(value)) + value


class Row:
    """The last known figures; gives what changed."""

    def __init__(self, names):
        self.names = names
        self.values = [0] * len(names)
        self.known = [False] * len(names)

    def encode(self, figures):
        """The figures that changed, and by how much."""
        changed, parts = 0, []
        for index, name in enumerate(self.names):
            value, before = figures.get(name), self.values[index] if self.known[index] else None
            if value == before:
                continue
            changed |= 1 << index
            parts.append(varint(0) if value is None else signed(value - self.values[index]))
            self.known[index] = value is not None
            self.values[index] = self.values[index] if value is None else value
        return varint(changed) + b"".join(parts)


class Recorder:
    """A recording in memory."""

    def __init__(self, **start):
        self.chunks, self.checksum, self.at_ms, self.last = [HEADER], 0, 0, {"step": 0, "epoch": 0, "waited_us": 0}
        self.sample_row, self.gpu_rows = Row(sample_figures()), {}
        self.frame(START, json.dumps(start).encode())

    def frame(self, kind, payload):
        """Adds a frame as it is."""
        body = bytes([kind]) + varint(len(payload)) + payload
        self.checksum = zlib.crc32(body, self.checksum)
        self.chunks += [body, struct.pack("<I", self.checksum)]

    def _time(self, at_ms):
        difference, self.at_ms = at_ms - self.at_ms, at_ms
        return signed(difference)

    def sample(self, at_ms, **figures):
        self.frame(SAMPLE, self._time(at_ms) + self.sample_row.encode(figures))

    def gpu(self, at_ms, index, **figures):
        row = self.gpu_rows.setdefault(index, Row(GPU_FIGURES))
        self.frame(GPU, self._time(at_ms) + varint(index) + row.encode(figures))

    def framework(self, at_ms, pid, framework, device, *figures):
        has = sum((figure is not None) << bit for bit, figure in enumerate(figures))
        known = b"".join(varint(figure) for figure in figures if figure is not None)
        self.frame(FRAMEWORK, self._time(at_ms) + varint(pid) + text(framework) + text(device) + varint(has) + known)

    def step(self, at_ms, step, epoch=None, loss=None, waited_us=None):
        parts = [self._time(at_ms), signed(step - self.last["step"])]
        parts.append(varint((epoch is not None) | (loss is not None) << 1 | (waited_us is not None) << 2))
        self.last["step"] = step
        if epoch is not None:
            parts.append(signed(epoch - self.last["epoch"]))
            self.last["epoch"] = epoch
        if loss is not None:
            parts.append(struct.pack("<d", loss))
        if waited_us is not None:
            parts.append(signed(waited_us - self.last["waited_us"]))
            self.last["waited_us"] = waited_us
        self.frame(STEP, b"".join(parts))

    def holders(self, at_ms, *processes):
        """Each a pid, a name, its resident and its highest memory."""
        each = (varint(pid) + text(name) + varint(rss) + varint(peak) + varint(0) for pid, name, rss, peak in processes)
        self.frame(HOLDERS, self._time(at_ms) + b"".join(each))

    def line(self, at_ms, said):
        self.frame(LINE, self._time(at_ms) + (said if isinstance(said, bytes) else said.encode()))

    def finding(self, at_ms, code, said, **figures):
        self.frame(FINDING, json.dumps({"at_ms": at_ms, "code": code, "text": said, "figures": figures}).encode())

    def end(self, at_ms, **how):
        self.frame(END, json.dumps({"at_ms": at_ms, **how}).encode())

    def bytes(self):
        """The file."""
        return b"".join(self.chunks)


MB, GIB = 10**6, 1 << 30
SPIKE_MS = 61_300


def leaking_job(seconds=120, name="python"):
    """A job of two minutes on a GPU that leaks, spikes for one sample, and is killed at its limit."""
    job = Recorder(
        command=["python", "train.py", "--epochs", "3"],
        pid=4242,
        started_unix_ms=1_794_744_000_000,
        versions={"brimful": "0.1.0", "torch": "2.11.0"},
        limits_bytes={"cgroup": 8 * GIB},
        environment={"OMP_NUM_THREADS": "4"},
    )
    step, waited = 0, 0
    for tick in range(seconds * 10):
        at_ms = tick * 100
        rss = int(900 * MB + tick * 6.1 * MB) + (300 * MB if tick % 70 < 4 else 0) + (700 * MB if at_ms == SPIKE_MS else 0)
        job.sample(
            at_ms, rss_bytes=rss, peak_rss_bytes=rss + 30 * MB, pss_bytes=rss - 80 * MB, shared_bytes=80 * MB,
            process_count=3, thread_count=41, open_file_count=120, cpu_ms=tick * 170, disk_read_bytes=tick * 9 * MB,
            disk_written_bytes=tick // 100 * 40 * MB, cgroup_limit_bytes=8 * GIB, cgroup_used_bytes=rss + 400 * MB,
            cgroup_anon_bytes=rss - 100 * MB, cgroup_inactive_file_bytes=350 * MB, cgroup_shmem_bytes=60 * MB, cgroup_swap_bytes=0,
            cgroup_oom_kill_count=0, machine_total_bytes=64 * GIB, machine_available_bytes=50 * GIB - rss, namespace_received_bytes=tick * 1000,
        )  # fmt: skip
        if tick % 5 == 0:
            busy = 35 + tick % 60
            job.gpu(
                at_ms,
                0,
                total_bytes=16 * GIB,
                used_bytes=6 * GIB + tick * MB,
                job_bytes=5 * GIB + tick * MB,
                busy_percent=busy,
                temperature_c=61,
                power_mw=130_000,
            )
            job.framework(at_ms, 4242, "torch", "cuda:0", 3 * GIB + tick * MB, 5 * GIB, 4 * GIB, 15 * GIB)
        if tick >= 50 and tick % 2 == 0:
            step, waited = step + 1, waited + 60_000
            job.step(at_ms, step, epoch=step // 200, loss=2.3 / (1 + step / 80), waited_us=waited)
        if tick % 50 == 0:
            job.holders(at_ms, (4242, name, rss - 300 * MB, rss), (4243, "worker <1>", 200 * MB, 210 * MB))
    job.finding(
        40_000,
        "leak_host",
        "Memory grows by 12.4 MB each step; at this rate the limit of 8 GiB is reached at step 590.",
        bytes_per_step=12.4e6,
    )
    job.finding(110_000, "near_limit", "95 % of the limit of 8 GiB are in use.", share=0.95)
    job.line(50_000, "phase evaluate begins")
    job.line(58_000, "phase evaluate ends")
    job.line(seconds * 1000, "step 590 loss 0.27")
    cause = {
        "code": "leak",
        "title": "Memory leaks from step to step",
        "confidence": "likely",
        "because": ["Resident memory grew by 12.4 MB each step."],
    }
    remedy = {
        "id": "detach_results",
        "title": "Keep numbers, not tensors with their graphs",
        "apply": [{"framework": "torch", "code": "total += loss.item()"}],
    }
    job.end(seconds * 1000, signal=9, oom_kills=1, explanation={"cause": cause, "remedies": [remedy]})
    return job
