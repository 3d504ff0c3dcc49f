"""Learn which workspace cuDNN takes for a convolution, from recorded calls.

In: recordings of jobs (tools/record_torch_ops.py) and of convolutions of random shapes (tools/record_conv_workspaces.py). Out:
python/brimful/torch/scratch/cudnn_convolutions.json, decision trees that scratch/convolution.py reads; with --fixture also the
reduced recordings for tests/test_torch_convolution.py. Prints a validation in which whole families of models are left out. Needs
numpy and scikit-learn, no GPU.
"""

import argparse
import gzip
import json
import math
import random
import re
import sys
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import numpy
from sklearn.tree import DecisionTreeClassifier

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "brimful" / "torch"))  # without brimful.torch itself, which needs PyTorch
import scratch  # noqa: E402
from scratch import convolution  # noqa: E402

H200 = scratch.Gpu(capability=(9, 0), multiprocessors=132)
MARKER_BYTES = 10**15
MAX_EXTRA_BYTES = 34 << 20  # a split of the sum that is larger than this is some other algorithm
PURE = ("none", "copies", "padded", "padded_groups", "filled", "xyw", "xw", "yw", "x", "y", "per_sample", "winograd", "fft")
WITH_SPLITS = ("none", "copies", "padded", "padded_groups", "filled")  # of two that say the same, the first
# Models that share layers of the same shape are left out together: else the validation would see what it learned from.
FAMILIES = (
    ("resnet18", "resnet50", "resnet101", "wide_resnet50_2", "resnext50_32x4d"),
    ("mobilenet_v2", "mobilenet_v3_large", "mnasnet1_0", "efficientnet_b0", "efficientnet_v2_s"),
    ("vgg11_bn", "vgg16"),
    ("vit_b_16", "vit_b_32"),
    ("convnext_tiny", "swin_t"),
    ("googlenet", "inception_v3"),
    ("unet", "group_norm"),
)
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


class Tensor:
    """A tensor without data, from a description such as `float32[32,64,7,7]s[3136,1,448,64]`."""

    def __init__(self, dtype, shape, stride=None):
        self.dtype, self.shape = dtype, tuple(shape)
        plain = [1]
        for length in reversed(self.shape[1:]):
            plain.insert(0, plain[0] * length)
        self._stride = tuple(stride or plain)

    @classmethod
    def described(cls, text):
        dtype, shape, stride = re.match(r"(\w+)\[([\d,]*)\](?:s\[([\d,]*)\])?$", text).groups()
        numbers = [[int(v) for v in part.split(",") if v] if part else None for part in (shape, stride)]
        return cls(dtype, numbers[0] or (), numbers[1])

    def stride(self):
        return self._stride

    def element_size(self):
        return ITEM_BYTES[self.dtype]

    def numel(self):
        return math.prod(self.shape)


def is_held_out(job):
    """One in eight random shapes is never learned from: they are the test's."""
    return job.startswith("grid") and zlib.crc32(job.encode()) % 8 == 0


def calls_of_jobs(folder):
    """(op, args, results, events, job) of each distinct convolution of each recorded job."""
    for path in sorted(Path(folder).glob("*.json")):
        recording = json.loads(path.read_text())
        seen, current, inner = set(), None, []
        for event in recording["events"]:
            if not isinstance(event, int):
                inner.append(event[1] if event[0] == "a" else "f" if event[0] == "f" else None)
            elif event >= 0:
                current, inner = event, []
            elif current is not None:
                op, args, _, results = recording["calls"][current]
                if op.startswith("aten.convolution"):
                    tokens = [token for token in inner if token is not None]
                    key = json.dumps([op, args, tokens])
                    if key not in seen:
                        seen.add(key)
                        yield op.rsplit(".", 1)[0], args, results, tokens, path.stem
                current = None


def calls_of_grid(path):
    """The same, for convolutions of random shapes."""

    def describe(dtype, shape, channels_last, always=False):
        n, c, h, w = shape
        text = f"{dtype}[{n},{c},{h},{w}]"
        last, plain = [h * w * c, 1, w * c, c], [c * h * w, h * w, w, 1]
        both = c == 1 or h == w == 1  # `contiguous` returns such a tensor as it is; a new one has the strides asked for
        return text + f"s[{','.join(map(str, last))}]" if channels_last and last != plain and (always or not both) else text

    for number, line in enumerate(Path(path).read_text().splitlines()):
        r = json.loads(line)
        if "error" in r:
            continue
        x = describe(r["dtype"], (r["n"], r["c"], r["side"], r["side"]), r["channels_last"])
        w = describe(r["dtype"], (r["k"], r["c"] // r["groups"], r["kernel"], r["kernel"]), r["channels_last"])
        y = describe(r["dtype"], (r["n"], r["k"], r["out"], r["out"]), "s" in x[8:] or "s" in w[8:], always=True)
        bias = f"{r['dtype']}[{r['k']}]" if r["bias"] else None
        how = [[r["stride"]] * 2, [r["padding"]] * 2, [1, 1], False, [0, 0], r["groups"]]
        results = [text if wanted else None for text, wanted in zip((x, w, f"{r['dtype']}[{r['k']}]"), r["mask"])]
        tokens = {name: [e[1] if e[0] == "a" else "f" for e in r[name]] for name in ("forward", "backward")}
        yield "aten.convolution", [x, w, bias, *how], y, tokens["forward"], f"grid-{number}"
        sizes = [r["k"]] if r["bias"] else None
        yield "aten.convolution_backward", [y, x, w, sizes, *how, r["mask"]], results, tokens["backward"], f"grid-{number}"


def to_call(op, args, results):
    """The call that the rule would see."""
    args = tuple(Tensor.described(a) if isinstance(a, str) and "[" in a else a for a in args)
    results = [results] if isinstance(results, str) else results
    outputs = [Tensor.described(text) for text in results if isinstance(text, str) and "[" in text]
    return scratch.Call(op, args, {}, outputs, H200)


def observe(op, args, results, tokens):
    """The workspaces seen in one call as [(direction, problem, channels last, bytes)], or None where the order does not fit."""
    asked = []

    def marker(memory, direction, problem, channels_last):
        asked.append((direction, problem, channels_last))
        return MARKER_BYTES + len(asked) - 1

    real, convolution.workspace_bytes = convolution.workspace_bytes, marker
    try:
        call = to_call(op, args, results)
        steps = scratch.RULES[op](call).steps
    finally:
        convolution.workspace_bytes = real
    program = []
    for step in steps:
        if step[0] == "out":
            output = call.outputs[step[1]]
            program.append(output.numel() * output.element_size())
        else:
            program.append(step[2] if step[0] == "take" else "f")
    found = _match(program, tokens)
    return None if found is None else [(*asked[number], found.get(number, 0)) for number in range(len(asked))]


def _match(program, tokens):
    if not program:
        return {} if not tokens else None
    first = program[0]
    if first != "f" and first >= MARKER_BYTES:
        if len(tokens) > 1 and tokens[0] != "f" and tokens[1] == "f":
            rest = _match(program[2:], tokens[2:])
            if rest is not None:
                return {first - MARKER_BYTES: tokens[0], **rest}
        return _match(program[2:], tokens)
    return _match(program[1:], tokens[1:]) if tokens and tokens[0] == first else None


class Sample:
    """One workspace: what is known, its size, its form and what it has on top of the form."""

    def __init__(self, direction, problem, channels_last, size_bytes, job):
        self.direction, self.problem, self.channels_last = direction, problem, channels_last
        self.size_bytes, self.job = size_bytes, job
        model = job if job.startswith("grid") else job.split("-")[0]
        self.family = next((family[0] for family in FAMILIES if model in family), model)
        self.features = convolution.features(problem)
        self.forms = {form: convolution.form_bytes(form, direction, problem) for form in PURE}
        self.tensors_bytes = problem.x_bytes + problem.y_bytes + problem.w_bytes
        self.split_bytes = 4 * problem.k * problem.c_group * problem.w_pixels
        self.form, self.extra_bytes = self._label()

    def _label(self):
        size_bytes = self.size_bytes
        possible = [form for form in self.forms if form != "padded_groups" or self.problem.groups > 1]
        left = [(size_bytes - self.forms[form], PURE.index(form)) for form in possible]
        pure = [(extra_bytes, index) for extra_bytes, index in left if 0 <= extra_bytes <= 1024]
        if pure:
            extra_bytes, index = min(pure)
            return PURE[index], extra_bytes
        candidates = []
        for form in WITH_SPLITS:
            extra_bytes = size_bytes - self.forms[form]
            if extra_bytes < 0 or form not in possible or (form == "filled" and not self.channels_last):
                continue
            several = extra_bytes / self.split_bytes
            whole = several > 0.9 and abs(several - round(several)) * self.split_bytes < 4096
            if extra_bytes <= MAX_EXTRA_BYTES or (whole and several < 64 and form != "none"):
                candidates.append((extra_bytes, WITH_SPLITS.index(form)))
        if candidates:
            extra_bytes, index = min(candidates)
            return WITH_SPLITS[index] + "+", extra_bytes
        return "other", size_bytes

    @property
    def key(self):
        kind = "half" if self.problem.item_bytes == 2 else "float32"
        return f"{self.direction}/{kind}/{'nhwc' if self.channels_last else 'nchw'}"

    def predicted(self, form, extra_bytes, splits):
        extra_bytes = min(extra_bytes + int(splits * self.split_bytes), max(8 * self.tensors_bytes, convolution.SMALL_BYTES))
        return min(self.forms[form], 8 * self.tensors_bytes + 64 * convolution.MIB) + extra_bytes


def load(recordings, grid):
    samples, calls, unmatched = [], [], 0
    sources = [calls_of_jobs(recordings)] if recordings else []
    sources += [calls_of_grid(grid)] if grid else []
    for source in sources:
        for op, args, results, tokens, job in source:
            seen = observe(op, args, results, tokens)
            calls.append((op, args, results, tokens, job, seen is not None))
            if seen is None:
                unmatched += 1
                continue
            samples.extend(Sample(*one, job) for one in seen)
    return samples, calls, unmatched


# --- learning ---


def importance(sample):
    """Large workspaces matter more, but a few huge ones must not decide; models that exist matter more than random shapes."""
    size = max(sample.tensors_bytes, sample.size_bytes) / convolution.MIB
    return min(max(math.sqrt(size), 0.2), 20) * (1 if sample.job.startswith("grid") else 4)


def leaf_of(samples):
    """The form, and what comes on top of it, with the least error in bytes; too little counts half as much again as too much."""
    weights = numpy.array([importance(s) / max(s.tensors_bytes, s.size_bytes, 1) for s in samples])
    sizes = numpy.array([s.size_bytes for s in samples], dtype=float)
    best = None
    for label in {s.form for s in samples if s.form != "other"} or {"none"}:
        form = label.rstrip("+")
        members = [s for s in samples if s.form == label]
        extra_bytes = sorted(s.extra_bytes for s in members) or [0]
        several = sorted(s.extra_bytes / s.split_bytes for s in members) or [0]
        for fixed, relative in ((extra_bytes[len(extra_bytes) // 2], 0), (0, several[len(several) // 2])):
            if relative and not label.endswith("+"):
                continue
            guess = numpy.array([s.predicted(form, fixed, relative) for s in samples], dtype=float)
            error = guess - sizes
            cost = float((weights * numpy.where(error < 0, -1.5 * error, error)).sum())
            wrong = sum(importance(s) for s in samples if s.form != label)
            cost += 0.02 * wrong
            if best is None or cost < best[0]:
                best = (cost, [form, int(fixed), round(float(relative), 3)])
    return best[1]


def learn(samples, depth):
    """One tree as a list of nodes: [feature, threshold, node if at most, node if more] or a leaf [form, bytes, splits]."""
    x = numpy.array([s.features for s in samples], dtype=numpy.float64)
    labels = [s.form for s in samples]
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=3, ccp_alpha=0.0, random_state=1, criterion="entropy")
    tree.fit(x, labels, sample_weight=[importance(s) for s in samples])
    where, inner = tree.apply(x), tree.tree_
    members = defaultdict(list)
    for sample, node in zip(samples, where):
        members[node].append(sample)
    nodes = []

    def build(node):
        index = len(nodes)
        nodes.append(None)
        if inner.children_left[node] < 0:
            nodes[index] = leaf_of(members[node])
            return index
        threshold = float(inner.threshold[node])
        left, right = build(inner.children_left[node]), build(inner.children_right[node])
        if len(nodes[left]) == 3 and nodes[left] == nodes[right]:  # both sides say the same
            leaf = nodes[left]
            del nodes[index + 1 :]
            nodes[index] = leaf
        else:
            nodes[index] = [int(inner.feature[node]), float(f"{threshold:.6g}"), left, right]
        return index

    build(0)
    return nodes


def learn_all(samples, depth, depth_nhwc):
    by_key = defaultdict(list)
    for sample in samples:
        by_key[sample.key].append(sample)
    return {key: learn(members, depth_nhwc if key.endswith("nhwc") else depth) for key, members in sorted(by_key.items())}


def predict(trees, sample):
    nodes = trees[sample.key]
    node = nodes[0]
    while len(node) == 4:
        node = nodes[node[2] if sample.features[node[0]] <= node[1] else node[3]]
    return node[0], sample.predicted(*node)


# --- validation ---


def summary(title, pairs):
    """pairs: (sample, form, predicted bytes)."""
    if not pairs:
        return
    print(f"{title}: {len(pairs)} workspaces")
    groups = defaultdict(list)
    for pair in pairs:
        groups["all"].append(pair)
        groups[pair[0].key].append(pair)
    for key, members in sorted(groups.items()):
        right = sum(form == s.form.rstrip("+") for s, form, _ in members)
        near = sum(abs(size - s.size_bytes) <= max(0.05 * s.size_bytes, convolution.MIB) for s, _, size in members)
        total = sum(s.size_bytes for s, _, _ in members) or 1
        error = sum(abs(size - s.size_bytes) for s, _, size in members)
        low = sum(max(s.size_bytes - size, 0) for s, _, size in members)
        print(
            f"  {key:28} {len(members):6}  form right {right / len(members):6.1%}  within 5 % or 1 MiB {near / len(members):6.1%}"
            f"  error in bytes {error / total:6.1%} (too low {low / total:5.1%}) of {total / 1e9:8.2f} GB"
        )


def summary_of_jobs(pairs):
    """The largest workspace of each job, which matters most for its peak."""
    if not pairs:
        return
    jobs = defaultdict(list)
    for pair in pairs:
        jobs[pair[0].job].append(pair)
    errors, rows = [], []
    for job, members in sorted(jobs.items()):
        true, guess = max(s.size_bytes for s, _, _ in members), max(size for _, _, size in members)
        if true < convolution.MIB:
            continue
        errors.append(guess / true - 1)
        rows.append((abs(errors[-1]), job, true, guess))
    errors.sort(key=abs)
    within = [sum(abs(e) <= limit for e in errors) / len(errors) for limit in (0.01, 0.05, 0.2)]
    print(
        f"  largest workspace of a job: {len(errors)} jobs, median error {abs(errors[len(errors) // 2]):.2%},"
        f" within 1 % {within[0]:.0%}, 5 % {within[1]:.0%}, 20 % {within[2]:.0%},"
        f" too low by more than 5 %: {sum(e < -0.05 for e in errors)}"
    )
    for _, job, true, guess in sorted(rows, reverse=True)[:8]:
        print(f"    {job:60} {true / 1e6:9.1f} MB predicted {guess / 1e6:9.1f} MB")


def leave_models_out(samples, folds, depth, depth_nhwc):
    families = sorted({s.family for s in samples if not s.job.startswith("grid")})
    random.Random(7).shuffle(families)
    pairs = []
    for fold in range(folds):
        out = set(families[fold::folds])
        trees = learn_all([s for s in samples if s.family not in out and not is_held_out(s.job)], depth, depth_nhwc)
        pairs += [(s, *predict(trees, s)) for s in samples if s.family in out and s.key in trees]
    return pairs


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--recordings")
    arguments.add_argument("--grid")
    arguments.add_argument("--depth", type=int, default=8)
    arguments.add_argument("--depth-nhwc", type=int, default=6)
    arguments.add_argument("--folds", type=int, default=8)
    arguments.add_argument("--out", default=str(Path(convolution.__file__).with_name("cudnn_convolutions.json")))
    arguments.add_argument("--fixture")
    options = arguments.parse_args()
    samples, calls, unmatched = load(options.recordings, options.grid)
    print(f"{len(calls)} calls, {unmatched} whose order of allocations does not fit, {len(samples)} workspaces")
    counts, sizes = Counter(), Counter()
    for s in samples:
        counts[s.form] += 1
        sizes[s.form] += s.size_bytes
    for form, count in counts.most_common():
        print(f"  {form:16} {count:6}  {sizes[form] / 1e9:9.2f} GB")
    jobs = [s for s in samples if not s.job.startswith("grid")]
    grid = [s for s in samples if s.job.startswith("grid")]
    depths = (options.depth, options.depth_nhwc)
    if jobs and grid:
        trees = learn_all(jobs, *depths)
        summary("random shapes, learned from models only", [(s, *predict(trees, s)) for s in grid if s.key in trees])
        trees = learn_all(grid, *depths)
        pairs = [(s, *predict(trees, s)) for s in jobs]
        summary("models, learned from random shapes only", pairs)
        summary_of_jobs(pairs)
    if jobs:
        pairs = leave_models_out(samples, options.folds, *depths)
        summary("whole families of models left out", pairs)
        summary_of_jobs(pairs)
    trees = learn_all([s for s in samples if not is_held_out(s.job)], *depths)
    summary("as written, random shapes that were not learned from", [(s, *predict(trees, s)) for s in grid if is_held_out(s.job)])
    summary("as written, models (learned from)", [(s, *predict(trees, s)) for s in jobs])
    summary_of_jobs([(s, *predict(trees, s)) for s in jobs])
    origin = "cuDNN 9.19, NVIDIA H200, learned by tools/learn_conv_workspaces.py"
    lines = [f"  {json.dumps(key)}: {json.dumps(nodes, separators=(',', ':'))}" for key, nodes in trees.items()]
    head = f'{{"origin": {json.dumps(origin)},\n "features": {json.dumps(convolution.FEATURES)},\n "trees": {{\n'
    text = head + ",\n".join(lines) + "\n}}\n"
    Path(options.out).write_text(text)
    print(f"wrote {options.out}: {len(text)} bytes, {sum(map(len, trees.values()))} nodes")
    if options.fixture:
        write_fixture(options.fixture, calls)


def write_fixture(path, calls):
    """Every distinct convolution of the models once, with the jobs that had it, and the random shapes that are not learned from."""
    rows, jobs = {}, defaultdict(set)
    for op, args, results, tokens, job, _ in calls:
        if job.startswith("grid") and not is_held_out(job):
            continue
        key = json.dumps([op, args, tokens])
        rows[key] = [op, args, results, tokens]
        jobs[key].add(job if not job.startswith("grid") else "random")
    text = "".join(json.dumps([*row, sorted(jobs[key])], separators=(",", ":")) + "\n" for key, row in rows.items())
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"wrote {path}: {len(rows)} calls, {Path(path).stat().st_size} bytes")


if __name__ == "__main__":
    main()
