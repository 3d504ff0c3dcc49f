#!/usr/bin/env python3
"""Makes real programs fail and keeps what they printed.

In: the jobs of `tests/explain_jobs/jobs.json` and the scripts beside it. Out: for each job `fixtures/logs/NAME.log`, standard output and
standard error in the order they came, and `fixtures/logs/NAME.json`: the command, how it was made to fail, what ran, and what the script is
known to have run out of.

    python tools/record_failures.py                      every job
    python tools/record_failures.py torch_forward ...    some jobs
    python tools/record_failures.py --list
    python tools/record_failures.py --python VENV/bin/python ...    with another interpreter, that has more packages

Every command is run by a bash, so that `Killed` is what a shell prints. Limits belong to the job alone: an address space set by the script,
a `ulimit` in the command, a memory or pids cgroup below the cgroup of this process, a tmpfs in a mount namespace of its own. What a job needs
and this machine does not have is said, and nothing is written.

Nothing is edited but names of this machine: its paths, host name and addresses become neutral ones (see `neutral`).
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = ROOT / "tests" / "explain_jobs"
OUT = ROOT / "fixtures" / "logs"
TIMEOUT_S = 300
VERSIONS = (
    "tensorflow keras torch jax jaxlib numpy scipy pandas scikit-learn dask distributed ray pyspark grpcio lightning transformers datasets "
    "nbclient ipykernel pytest rich joblib h5py duckdb"
).split()


class Impossible(Exception):
    """The job cannot be made to fail here, and why."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="jobs; without names all of them")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that the jobs use")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--jobs", type=Path, default=JOBS / "jobs.json", help="the list of jobs; gpu_jobs.json needs a GPU")
    parser.add_argument("--describe", action="store_true", help="run nothing: write what is expected, and why, anew beside the recordings")
    parser.add_argument("--list", action="store_true", help="print the jobs")
    options = parser.parse_args()
    jobs = {job["name"]: job for job in json.loads(options.jobs.read_text())}
    if options.list:
        for job in jobs.values():
            print(f"{job['name']:34} {job['how']}")
        return 0
    unknown = [name for name in options.names if name not in jobs]
    if unknown:
        print(f"No job is called {', '.join(unknown)}; `--list` shows them.", file=sys.stderr)
        return 2
    if options.describe:
        for name in options.names or jobs:
            describe_again(jobs[name], options.out / f"{name}.json")
        return 0
    # Not resolved: the bin folder of a virtual environment holds links.
    python = Path(os.path.abspath(options.python))
    has = about(python)
    options.out.mkdir(parents=True, exist_ok=True)
    impossible = 0
    for name in options.names or jobs:
        started = time.monotonic()
        try:
            text, status = record(jobs[name], python, has)
            check(jobs[name], text)
        except Impossible as why:
            impossible += 1
            print(f"{name}: not provoked here: {why}", flush=True)
            continue
        (options.out / f"{name}.log").write_text(text)
        (options.out / f"{name}.json").write_text(json.dumps(described(jobs[name], status, has), indent=2) + "\n")
        print(f"{name}: {len(text)} characters, exit {status}, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if impossible else 0


def about(python):
    """Where the interpreter lives and what it can import."""
    code = (
        "import json, sys, platform, importlib.metadata as m\n"
        "print(json.dumps({'prefix': sys.prefix, 'base': sys.base_prefix, 'path': [p for p in sys.path if p], 'python': platform.python_version(),"
        " 'packages': {d.metadata['Name'].lower(): d.version for d in m.distributions()}}))"
    )
    return json.loads(subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout)


def record(job, python, has):
    missing = [name for name in job.get("needs", []) if name not in has["packages"]]
    missing += [program for program in job.get("programs", []) if not shutil.which(program)]
    if missing:
        raise Impossible(f"{', '.join(missing)} is not installed")
    work = Path(tempfile.mkdtemp(prefix="explain_jobs_"))
    groups = []
    try:
        for controller, limit in (("memory", job.get("memory_cgroup_bytes")), ("pids", job.get("pids_cgroup"))):
            if limit is not None:
                groups.append(cgroup(controller, limit))
        output, status = run(job, python, work, groups)
    finally:
        for group in groups:
            remove_cgroup(group)
        shutil.rmtree(work, ignore_errors=True)
    return neutral(output.decode("utf-8", "replace"), python, has, work, groups), status


def run(job, python, work, groups):
    environment = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "HOME": str(work),
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "WORK": str(work),
        **job.get("env", {}),
    }
    command = ["bash", "-c", job["command"] + "\nexit $?"]
    if "shell_file" in job:
        script = work / job["shell_file"]
        script.write_text(job["command"] + "\n")
        command = ["bash", str(script)]
    if "tmpfs" in job:
        mounts = []
        for where, size in job["tmpfs"].items():
            where = where.replace("$WORK", str(work))
            mounts.append(f"mkdir -p {where} && mount -t tmpfs -o size={size} tmpfs {where}")
        inside = " && ".join(mounts)
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*unshare, "bash", "-c", inside], capture_output=True).returncode:
            raise Impossible("a tmpfs cannot be mounted in a namespace")
        command = [*unshare, "bash", "-c", f"{inside} && exec {shlex.join(command)}"]

    if job.get("pid_namespace"):
        # What lists the processes of the machine lists those of the job only.
        if os.geteuid() or "tmpfs" in job:
            raise Impossible("a namespace of processes needs root")
        command = ["unshare", "--pid", "--fork", "--mount-proc", *command]

    def enter():
        # A shell that runs this in the background has it ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    process = subprocess.Popen(
        ["nice", *command],
        cwd=JOBS,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=enter,
    )
    try:
        output, _ = process.communicate(timeout=job.get("timeout_s", TIMEOUT_S))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise Impossible(f"it was still running after {job.get('timeout_s', TIMEOUT_S)} seconds") from None
    return output, process.returncode


def cgroup(controller, limit):
    """A new group below the one that this process is in, with version 1 of the interface."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            group = Path("/sys/fs/cgroup") / controllers / path.lstrip("/") / f"explain_jobs_{os.getpid()}"
            try:
                group.mkdir()
                if controller == "memory":
                    (group / "memory.limit_in_bytes").write_text(str(limit))
                else:
                    (group / "pids.max").write_text(str(limit))
            except OSError as error:
                raise Impossible(f"no right to make a {controller} cgroup ({error})") from None
            return group
    raise Impossible(f"no {controller} cgroup of version 1")


def remove_cgroup(group):
    for _ in range(50):
        try:
            group.rmdir()
            return
        except OSError:
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.1)


def neutral(text, python, has, work, groups):
    """The names of this machine, replaced by names that belong to nobody. The only edit."""
    names = {
        str(JOBS): "/home/user/project",
        str(ROOT): "/home/user/project",
        str(work): "/home/user/tmp",
        has["prefix"]: "/home/user/venv",
        has["base"]: "/usr/local",
        str(Path.home()): "/home/user",
    }
    for path in has["path"]:
        if path.endswith("/site-packages"):
            names.setdefault(str(Path(path).parents[2]), "/home/user/venv")
    for group in groups:
        names["/" + str(group.relative_to("/sys/fs/cgroup")).split("/", 1)[1]] = "/jobs/train"
    for name in sorted(names, key=len, reverse=True):
        # A path as Ray and others write it, with another separator, counts as well.
        text = text.replace(name, names[name])
    release = os.uname().release
    text = text.replace(release, release.split("-")[0])
    host = socket.gethostname()
    text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "node1", text)
    for address in own_addresses():
        text = re.sub(rf"(?<![\d.]){re.escape(address)}(?![\d.])", "192.0.2.10", text)
    return text


def own_addresses():
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split() if shutil.which("hostname") else []
    return [address for address in found if not address.startswith("127.")]


def check(job, text):
    """The failure must be the one that the job is about: words that the output has to hold, as the program wrote them."""
    for words in job["shows"]:
        if words not in text:
            tail = "\n".join("    " + line[:200] for line in text.splitlines()[-25:])
            raise Impossible(f"the output does not say {words!r}; its end:\n{tail}")
    for words in job.get("never", []):
        if words in text:
            raise Impossible(f"the output says {words!r}, it was another failure")


def describe_again(job, path):
    """Only what nobody measured; the capacity of the machine that recorded stays."""
    if not path.exists():
        return
    before = json.loads(path.read_text())
    expected = dict(job["expected"])
    if expected["capacity_bytes"] == "the machine":
        expected["capacity_bytes"] = before["expected"]["capacity_bytes"]
    path.write_text(json.dumps({**before, "how": job["how"], "expected": expected}, indent=2) + "\n")


def described(job, status, has):
    kernel = os.uname()
    expected = dict(job["expected"])
    if expected["capacity_bytes"] == "the machine":
        expected["capacity_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    uses = job.get("needs", [])
    return {
        "name": job["name"],
        "command": job["command"],
        "environment": job.get("env", {}),
        "how": job["how"],
        "exit_status": status,
        "versions": {
            "python": has["python"],
            **{name: has["packages"][name] for name in VERSIONS if name in uses and name in has["packages"]},
            "kernel": f"{kernel.sysname} {kernel.release.split('-')[0]} {kernel.machine}",
        },
        "expected": expected,
    }


if __name__ == "__main__":
    sys.exit(main())
