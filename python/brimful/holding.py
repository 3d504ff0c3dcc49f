"""Which lines of the user's code hold the host's memory: the looking of `brimful data check`.

In: the folder in `BRIMFUL_CHECK`. Out: one JSON file there for each process, rewritten whenever it holds more than ever: what each line
holds at that moment. Two things are put together: what Python and NumPy allocated, which `tracemalloc` knows to the byte; and growth of the
process beside that (tensors, buffers of readers and of frameworks), which is put down to the line that the main thread was in. Not
counted: memory that files are mapped into, and the GPU's. It slows a job down two to three times, but not its imports: these are a million
small objects, which tracing makes twenty times as slow, so `tracemalloc` waits while the main thread imports. Nothing of it is there
without `data check`. Like the agent it is loaded without the package around it.
"""

import atexit
import builtins
import json
import linecache
import os
import re
import site
import sys
import sysconfig
import threading
import time
import tracemalloc

#: Frames that are kept of each allocation: enough to come from inside pandas or Keras to the user's line.
FRAMES = 10
TICK_SECONDS = 0.02
#: Looking again costs: only for so much more, and for no more than this share of the time; but always for as much more as this.
MORE, MUCH_MORE = 1.1, 1.5
SHARE_OF_TIME = 0.2
#: An import that lasts so long is not traced; what was traced before it stays with its line.
LONG_IMPORT_SECONDS = 0.1
#: What is less than this is not worth a line.
LEAST_BYTES = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

READS = re.compile(
    r"read_(csv|parquet|json|table|feather|excel|hdf|pickle)|np\.load|loadtxt|genfromtxt|fromfile|\.readlines?\(|\.read\(|imread|load_data|json\.load|pickle\.load"
)
COPIES = re.compile(
    r"astype|to_numpy|\.values\b|np\.(array|asarray|concatenate|stack|vstack|hstack|append|tile|repeat|copy)\b|train_test_split|permutation|get_dummies|to_categorical|\.copy\(|from_tensor_slices|tf\.constant|torch\.tensor|from_numpy|standard|scaler|fit_transform"
)
FEEDS = re.compile(r"\.fit\(|\.shuffle\(|\.prefetch\(|\.cache\(|DataLoader|for .* in .*(loader|dataset|generator|batches)")
IMPORTS = re.compile(r"^(import|from) |import_module\(")
PIECES = re.compile(r"\b(chunksize|nrows|iterator|skiprows|mmap_mode)\s*=")

ADVICE = {
    "reads a file whole": "read it in pieces: brimful.data.open(FILE).batches(ROWS, memory='256MiB')",
    "copies or converts": "the copy lives beside the original: convert while reading (dtype='float32'), or let go of the original first",
    "feeds batches": "bound what is read ahead in bytes: brimful.data.open(FILE).batches(ROWS, shuffle=True, memory='256MiB')",
}


def stage_of(source):
    """What a line does, by its text; empty where that is not clear."""
    if IMPORTS.search(source):
        return "loads libraries"
    if READS.search(source) and PIECES.search(source):
        return "reads in pieces"
    for name, words in (("reads a file whole", READS), ("copies or converts", COPIES), ("feeds batches", FEEDS)):
        if words.search(source):
            return name
    return ""


class Places:
    """Tells the user's lines from those of libraries."""

    def __init__(self):
        folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        folders += getattr(site, "getsitepackages", list)() + [os.path.dirname(os.path.abspath(__file__))]
        self._libraries = tuple({os.path.realpath(folder) + os.sep for folder in folders if folder})
        self._known = {}

    def is_users(self, file):
        found = self._known.get(file)
        if found is None:
            inside = os.path.realpath(file).startswith(self._libraries)
            found = self._known[file] = not (file.startswith("<") or inside)
        return found

    def of_frame(self, frame):
        while frame is not None:
            if self.is_users(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return None

    def of_trace(self, frames):
        """Frames of `tracemalloc`, the latest last."""
        for frame in reversed(frames):
            if self.is_users(frame.filename):
                return frame.filename, frame.lineno
        return None


def anonymous_bytes():
    """Memory of this process that no file stands behind."""
    with open("/proc/self/statm", "rb") as file:
        _, resident, shared = map(int, file.read().split()[:3])
    return (resident - shared) * PAGE_BYTES


class Imports:
    """Knows when the main thread imports, and begins tracing when it has: the next line may hold the most, and be over before anyone looks."""

    def __init__(self):
        self._original, self._depth, self._lock = builtins.__import__, 0, threading.Lock()
        builtins.__import__ = self._import

    def _import(self, *args, **kwargs):
        if threading.current_thread() is not threading.main_thread():
            return self._original(*args, **kwargs)
        self._depth += 1
        try:
            return self._original(*args, **kwargs)
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0 and not tracemalloc.is_tracing():
                    tracemalloc.start(FRAMES)

    def stop_tracing(self):
        """Not if the import is over; true if it did."""
        with self._lock:
            if self._depth:
                tracemalloc.stop()
            return self._depth > 0

    def forked(self):
        """In a child: nobody holds the lock there, whoever held it when the process forked."""
        self._lock = threading.Lock()


class Looking(threading.Thread):
    """Looks at this process until it ends."""

    def __init__(self, folder, imports):
        super().__init__(name="brimful-holding", daemon=True)
        self._imports = imports
        self._file = os.path.join(folder, "%d.json" % os.getpid())
        self._places = Places()
        self._main = threading.main_thread().ident
        self._before = anonymous_bytes()
        self._looked_at = self._before
        self._beside = []
        self._spent, self._began = 0.0, time.monotonic()
        self._import = (None, 0.0)
        self._one_look = threading.Lock()  # The last look comes from the main thread, perhaps in the middle of another.

    def run(self):
        last, still = (anonymous_bytes(), tracemalloc.get_traced_memory()[0]), 0
        while True:
            time.sleep(TICK_SECONDS)
            try:
                if self._switch():
                    last = (anonymous_bytes(), tracemalloc.get_traced_memory()[0])
                now = (anonymous_bytes(), tracemalloc.get_traced_memory()[0])
                self._put_down((now[0] - now[1]) - (last[0] - last[1]))
                still = still + 1 if abs(now[0] - last[0]) < LEAST_BYTES else 0
                last = now
                settled = still == 5 and now[0] > self._looked_at + LEAST_BYTES
                if (now[0] > self._looked_at * MORE + LEAST_BYTES or settled) and self._may(now[0]):
                    self._look(now[0])
            except Exception as error:  # The job goes on, whatever happens here.
                sys.stderr.write("brimful: memory is not looked at any more: %s: %s\n" % (type(error).__name__, error))
                return

    def _switch(self):
        """Begins tracing when the user's code runs, and ends it in a long import; true if it did."""
        place = self._places.of_frame(sys._current_frames().get(self._main))
        if place is None:
            return False
        if not IMPORTS.search(linecache.getline(*place).strip()):
            self._import = (None, 0.0)
            if tracemalloc.is_tracing():
                return False
            tracemalloc.start(FRAMES)
            return True
        if self._import[0] != place:
            self._import = (place, time.monotonic())
        if not tracemalloc.is_tracing() or time.monotonic() - self._import[1] < LONG_IMPORT_SECONDS:
            return False
        traced = [[place, size] for place, size in self._traced().items()]
        if not self._imports.stop_tracing():
            return False
        self._beside[:0] = traced
        return True

    def _traced(self):
        """What `tracemalloc` knows to be held, by line."""
        by_place = {}
        for trace in tracemalloc.take_snapshot().traces if tracemalloc.is_tracing() else ():
            if trace.size < 512:
                continue  # Millions of them, and nothing together.
            place = self._places.of_trace(trace.traceback)
            by_place[place] = by_place.get(place, 0) + trace.size
        return by_place

    def _may(self, held):
        # As often as it grows by half: a few times in all.
        return held > self._looked_at * MUCH_MORE or self._spent <= SHARE_OF_TIME * (time.monotonic() - self._began)

    def at_exit(self):
        """The last look, if more is held than ever."""
        held = anonymous_bytes()
        try:
            if held > self._looked_at + LEAST_BYTES:
                self._look(held)
        except Exception as error:  # As in `run`: the job's own end is the one that counts.
            sys.stderr.write("brimful: what was held at the end is not known: %s: %s\n" % (type(error).__name__, error))

    def _put_down(self, grown):
        """Growth beside Python's to the line that runs; what shrinks was most likely the latest."""
        if grown > 0:
            place = self._places.of_frame(sys._current_frames().get(self._main))
            if self._beside and self._beside[-1][0] == place:
                self._beside[-1][1] += grown
            else:
                self._beside.append([place, grown])
        while grown < 0 and self._beside:
            gone = min(-grown, self._beside[-1][1])
            self._beside[-1][1] -= gone
            grown += gone
            if self._beside[-1][1] == 0:
                self._beside.pop()

    def _look(self, held):
        with self._one_look:
            if held > self._looked_at:
                self._note(held)

    def _note(self, held):
        began = time.monotonic()
        by_place, beside = self._traced(), {}
        for place, grown in self._beside:
            beside[place] = beside.get(place, 0) + grown
        holders = [self._holder(place, size, "") for place, size in by_place.items() if size >= LEAST_BYTES]
        holders += [self._holder(place, size, "beside Python") for place, size in beside.items() if size >= LEAST_BYTES]
        holders.sort(key=lambda holder: -holder["bytes"])
        found = {"pid": os.getpid(), "command": sys.argv[:1], "before_bytes": self._before, "peak_bytes": held, "holders": holders}
        self._write(found)
        self._looked_at = held
        self._spent += time.monotonic() - began

    def _holder(self, place, size, what):
        if place is None:
            return {"place": "(no line of yours)", "source": "", "stage": what, "bytes": size, "advice": None}
        file, line = place
        source = linecache.getline(file, line).strip()
        stage = stage_of(source)
        name = os.path.relpath(file) if not os.path.relpath(file).startswith("..") else file
        words = ", ".join(word for word in (stage, what) if word)
        return {"place": "%s:%d" % (name, line), "source": source[:100], "stage": words, "bytes": size, "advice": ADVICE.get(stage)}

    def _write(self, found):
        temporary = self._file + ".new"
        with open(temporary, "w") as file:
            json.dump(found, file)
        os.replace(temporary, self._file)


def install(folder):
    """Looks at this process, and at those that it forks."""

    imports = Imports()

    def again():
        # What the parent allocated is the parent's.
        tracemalloc.clear_traces()
        imports.forked()
        begin()

    looking = [None]

    def begin():
        looking[0] = Looking(folder, imports)
        looking[0].start()

    begin()
    # A child that ends as programs do looks at itself, not at its parent, whose lock may be held.
    atexit.register(lambda: looking[0].at_exit())
    os.register_at_fork(after_in_child=again)
