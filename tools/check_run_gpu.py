#!/usr/bin/env python3
"""`brimful run` on a real NVIDIA GPU: what it reads, finds and says, against nvidia-smi, the frameworks and what each job knows of itself.

    python tools/check_run_gpu.py OUT [JOB...]

In: a GPU, PyTorch, JAX, the jobs of `run_gpu_jobs.py`, and `brimful` (`target/release/brimful`, or the one that `BRIMFUL` names). Out: for each job
`OUT/JOB.brimful`, `OUT/JOB.txt` (what it and `brimful` printed), `OUT/JOB.csv`, and one line of JSON in `OUT/checks.jsonl`: what was expected and
what was seen. Takes five minutes; jobs that must not disturb each other's figures run after each other, the others together. Nothing here is a
test: it needs a GPU that nobody else uses.
"""

import csv
import ctypes
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BRIMFUL = os.environ.get("BRIMFUL", str(ROOT / "target" / "release" / "brimful"))
JOBS = str(Path(__file__).with_name("run_gpu_jobs.py"))
MIB = 1 << 20


def smi(fields, kind="gpu"):
    command = ["nvidia-smi", f"--query-{kind}={fields}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.strip().splitlines()
    return [[cell.strip() for cell in line.split(",")] for line in lines]


class Smi(threading.Thread):
    """nvidia-smi, again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.rows, self.ends = [], False

    def run(self):
        while not self.ends:
            before = time.time()
            gpu = smi("memory.used,memory.reserved,memory.total,utilization.gpu,temperature.gpu,power.draw")[0]
            processes = smi("pid,used_memory", "compute-apps")
            self.rows.append({"unix_s": (before + time.time()) / 2, "gpu": gpu, "processes": processes})
            time.sleep(0.4)


class Watched:
    """A job under `brimful run`."""

    def __init__(self, out, name, env=None):
        self.out, self.name = out, name
        (out / f"{name}.brimful").unlink(missing_ok=True)
        command = [BRIMFUL, "run", "-o", str(out / f"{name}.brimful"), "--", sys.executable, JOBS, name]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT / "python"), **(env or {})}
        self.text = open(out / f"{name}.txt", "w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.text, stderr=subprocess.STDOUT, env=environment)

    def wait(self, seconds=240):
        try:
            self.code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.code = self.process.wait()
        self.text.close()
        recording = str(self.out / f"{self.name}.brimful")
        for form, end in (("csv", "csv"), ("json", "json"), ("html", "html"), ("text", "report.txt")):
            subprocess.run([BRIMFUL, "report", recording, "--format", form, "-o", str(self.out / f"{self.name}.{end}")], check=False)
        with open(self.out / f"{self.name}.csv", newline="") as file:
            self.rows = list(csv.DictReader(file))
        self.summary = json.loads((self.out / f"{self.name}.json").read_text())
        text = (self.out / f"{self.name}.txt").read_text()
        self.knows = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("KNOWS ")]
        return self

    def at(self, unix_s):
        """The first row from this moment on, with at least a fifth of a second for messages to come in."""
        began = self.summary["started_unix_ms"] / 1000
        after = [row for row in self.rows if began + int(row["at_ms"]) / 1000 >= unix_s + 0.2]
        return after[0] if after else self.rows[-1]

    def column(self, row, end):
        found = [value for key, value in row.items() if key.endswith(end) and value]
        return int(found[0]) if found else None

    def findings(self):
        return [
            {"at_ms": each["at_ms"], "code": each["code"], "text": each["text"], "figures": each["figures"]}
            for each in self.summary["findings"]
        ]


def write(out, what, **found):
    with open(out / "checks.jsonl", "a") as file:
        file.write(json.dumps({"what": what, **found}) + "\n")
    print(what, json.dumps(found)[:1500], flush=True)


def compare_frameworks(out, job):
    """The allocators' figures that the agent told against those that the job read."""
    off = []
    for known in job.knows:
        if "allocated" in known and "total" in known:
            want = {name: known[name] for name in ("allocated", "reserved", "peak")}
        elif "stats" in known and known["stats"]:
            stats = known["stats"]
            want = {"allocated": stats["bytes_in_use"], "reserved": stats.get("pool_bytes"), "peak": stats["peak_bytes_in_use"]}
            want["limit"] = stats["bytes_limit"]
        else:
            continue
        row = job.at(known["unix_s"])
        ends = {"allocated": "_allocated_bytes", "reserved": "_reserved_bytes", "peak": "_peak_allocated_bytes", "limit": "_limit_bytes"}
        names = [key for key in row if key.startswith(("torch_", "jax_"))]
        seen = {}
        for name in want:
            keys = [key for key in names if key.endswith(ends[name]) and (name != "allocated" or not key.endswith("_peak_allocated_bytes"))]
            seen[name] = int(row[keys[0]]) if keys and row[keys[0]] else None
        off.append({name: [want[name], seen[name]] for name in want})
    limits = {each["limit_bytes"] for each in job.summary["frameworks"]}
    write(out, f"{job.name}: allocator", moments=off, limits=list(limits), own_limit=[k.get("limit") for k in job.knows if "limit" in k])


def compare_smi(out, job, smi_rows):
    began = job.summary["started_unix_ms"] / 1000
    differences = {name: [] for name in ("used_mib", "busy", "temperature", "power_w", "job_mib")}
    pid = job.knows[0]["pid"] if job.knows else None
    last = []
    for moment in smi_rows:
        at_ms = (moment["unix_s"] - began) * 1000
        near = [row for row in job.rows if row.get("gpu0_used_bytes")]
        if not near or not 3000 < at_ms < int(near[-1]["at_ms"]) - 1000:
            continue
        row = min(near, key=lambda row: abs(int(row["at_ms"]) - at_ms))
        used, reserved, total, busy, temperature, power = (float(cell) for cell in moment["gpu"])
        own = [float(cells[1]) for cells in moment["processes"] if cells and cells[0] == str(pid)]
        differences["used_mib"].append(int(row["gpu0_used_bytes"]) / MIB - used)
        differences["busy"].append(float(row["gpu0_busy_percent"] or -1) - busy)
        differences["temperature"].append(float(row["gpu0_temperature_c"] or -1) - temperature)
        differences["power_w"].append(float(row["gpu0_power_mw"] or -1) / 1000 - power)
        if own and row.get("gpu0_job_bytes"):
            differences["job_mib"].append(int(row["gpu0_job_bytes"]) / MIB - own[0])
        last = [moment["gpu"], moment["processes"], {key: value for key, value in row.items() if key.startswith("gpu0")}]
    shown = {name: [round(min(v), 1), round(statistics.median(v), 1), round(max(v), 1), len(v)] for name, v in differences.items() if v}
    write(out, f"{job.name}: nvidia-smi (least, median, largest difference, moments)", differences=shown, last=last)


def compare_leak(out, job):
    found = [each for each in job.findings() if each["code"] == "leak_device"]
    want = next((known["bytes_per_step"] for known in job.knows if "bytes_per_step" in known), None)
    steps = [known["step"] for known in job.knows if "step" in known]
    first = found[0] if found else None
    figures = first["figures"] if first else {}
    write(
        out,
        f"{job.name}: leak",
        found=first,
        rate_off=round(figures["bytes_per_step"] / want - 1, 4) if "bytes_per_step" in figures else None,
        said_limit_at_step=figures.get("limit_at_step"),
        last_step_told=job.summary["steps"]["last"] if job.summary["steps"] else None,
        last_hundred=steps[-1] if steps else None,
    )


def nvml_times(out):
    """How long the driver takes for what a reader asks."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    memory, rates, number = (ctypes.c_ulonglong * 8)(), (ctypes.c_uint * 2)(), ctypes.c_uint()
    processes = ctypes.create_string_buffer(4096 * 32)

    def list_processes():
        count = ctypes.c_uint(1024)
        return nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)

    calls = {
        "memory": lambda: nvml.nvmlDeviceGetMemoryInfo(device, memory),
        "utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(device, rates),
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(number)),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(device, ctypes.byref(number)),
        "processes": list_processes,
    }
    times = {}
    for name, call in calls.items():
        took = []
        for _ in range(30):
            began = time.perf_counter()
            code = call()
            took.append((time.perf_counter() - began) * 1e6)
        times[name] = [round(statistics.median(took)), round(max(took)), code]
    write(out, "nvml: µs median, most; code", times=times)


def main(out, names):
    out.mkdir(parents=True, exist_ok=True)
    wanted = lambda name: not names or name in names  # noqa: E731
    write(out, "machine", smi=smi("name,driver_version,memory.total,memory.used"), pid_namespace=os.readlink("/proc/self/ns/pid"))
    write(out, "devices", text=subprocess.run([BRIMFUL, "devices"], capture_output=True, text=True).stdout)
    nvml_times(out)
    small = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.1"}
    for name, env in (("torch_steady", None), ("jax_steady", small)):
        if wanted(name):
            seen = Smi()
            seen.start()
            job = Watched(out, name, env).wait()
            seen.ends = True
            seen.join()
            compare_frameworks(out, job)
            compare_smi(out, job, seen.rows)
            write(
                out, f"{name}: end", code=job.code, findings=job.findings(), gpus=job.summary["gpus"], frameworks=job.summary["frameworks"]
            )
    own = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    third = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3"}
    tiny = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.018"}
    later = [Watched(out, name, env) for name, env in (("torch_reserved", None), ("jax_preallocated", third)) if wanted(name)]
    for group in (
        (("torch_waits", None), ("torch_idle", None)),
        (("torch_leak", None), ("jax_leak", tiny), ("jax_plain_leak", tiny)),
        (("torch_other", None),),
        (("jax_other", own),),
        (("torch_batch", None),),
    ):
        holder = None
        if group[0][0].endswith("_other") and wanted(group[0][0]):
            # Started from here: what a job leaves behind is the job's.
            holder = subprocess.Popen([sys.executable, JOBS, "hold", "1.5"], stdout=subprocess.PIPE, text=True)
            holder.stdout.readline()
        for job in [Watched(out, name, env) for name, env in group if wanted(name)]:
            job.wait(90)
            if holder is not None:
                holder.kill()
                holder.wait()
            if "leak" in job.name:
                compare_leak(out, job)
            waited = [known["waited_share"] for known in job.knows if "waited_share" in known]
            steps = job.summary["steps"]
            write(out, f"{job.name}: end", code=job.code, findings=job.findings(), waited=waited, steps=steps, gpus=job.summary["gpus"])
    for job in later:
        job.wait()
        compare_frameworks(out, job)
        write(out, f"{job.name}: end", code=job.code, findings=job.findings(), gpus=job.summary["gpus"])


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
