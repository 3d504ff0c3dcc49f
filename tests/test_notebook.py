"""Brimful in a notebook: cells run in real kernels, with real errors, and what they show looked at in a real browser."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from conftest import ROOT
from framework import environment

pytest.importorskip("nbclient", reason="no nbclient")
pytest.importorskip("ipykernel", reason="no ipykernel")

import brimful as package  # noqa: E402
from brimful.fitting import gpu, memory  # noqa: E402
from brimful.notebook import drawing, plan_box, readings  # noqa: E402
from brimful.planned import Report  # noqa: E402
from browser import Browser, chromium  # noqa: E402
from notebooks import run_cells  # noqa: E402

GUIDE = ROOT / "docs" / "notebook.md"
FAILS = "numpy.zeros((400_000, 400_000))"
SAID = "Host memory ran out: one tensor alone does not fit"
WICKED = "</style><img src=x onerror=document.title='bad'>\"'"

#: Cells by name. Each kind of error, use and misuse, in one kernel.
CELLS = {
    "load": "%load_ext brimful\nimport asyncio, gc, numpy, sys, weakref",
    "load again": "%load_ext brimful\nimport brimful\nbrimful.load_ipython_extension(get_ipython())",
    "fails": FAILS,
    "ordinary": "undefined",
    "ordinary, speaking of memory": "print('CUDA out of memory. Tried to allocate 2.00 GiB', undefined)",
    "interrupted": "raise KeyboardInterrupt",
    "interrupted later": f"try:\n    {FAILS}\nexcept MemoryError:\n    raise KeyboardInterrupt",
    "syntax": "numpy.zeros((",
    "awaits": f"async def step():\n    await asyncio.sleep(0)\n    {FAILS}\nawait step()",
    "caused": f"try:\n    {FAILS}\nexcept MemoryError as error:\n    raise ValueError('no data') from error",
    "hidden": f"try:\n    {FAILS}\nexcept MemoryError:\n    raise ValueError('no data') from None",
    "group": f"try:\n    {FAILS}\nexcept MemoryError as error:\n    raise ExceptionGroup('workers', [KeyError(1), error])"
    if sys.version_info >= (3, 11)
    else FAILS,
    "timed": f"%%time\n{FAILS}",
    "timed, one line": f"%time {FAILS}",
    "shown by hand": f"try:\n    {FAILS}\nexcept MemoryError:\n    get_ipython().showtraceback()",
    "after that": "1 + 1",
    "inner cell": f"get_ipython().run_cell({FAILS!r})\nNone",
    "own handler": "seen = []\nget_ipython().set_custom_exc((MemoryError,), lambda shell, *error, tb_offset=None: seen.append(error[0].__name__))",
    "fails, handled": FAILS,
    "own handler, after": "print(seen)\nget_ipython().set_custom_exc((), None)",
    # What a failed function held: the shell keeps it, the extension does not.
    "held": f"class Tensor: pass\nkept = Tensor()\ndef step():\n    tensor = Tensor()\n    global held\n    held = weakref.ref(tensor)\n    {FAILS}\nstep()",
    "still held": "print(held() is not None)",
    "let go by hand": "sys.last_value = sys.last_traceback = sys.last_type = sys.last_exc = get_ipython().InteractiveTB.tb = None\n"
    "gc.collect()\nprint(held() is None)",
    "held again": "step()",
    "free": "%brimful free",
    "freed": "print(held() is None, type(kept).__name__)",
    "free, nothing": "%brimful free",
    "now": "%brimful",
    "cell": "%%brimful\nlasting = numpy.ones(20_000_000)\npassing = numpy.ones(60_000_000)\ndel passing\nawait asyncio.sleep(0)\nlasting.size",
    "cell and magic": "%%brimful\n%%capture captured\nprint('inside')",
    "captured": "print(captured.stdout)",
    "cell, fails": f"%%brimful\n{FAILS}",
    "cell, wrong": "%%brimful everything",
    "wrong": "%brimful everything",
    "explained": f"import brimful\ntry:\n    {FAILS}\nexcept MemoryError as error:\n    explanation = brimful.explain(error)\nexplanation",
    "unload": "%unload_ext brimful",
    "fails, unloaded": FAILS,
    "unloaded": "%brimful",
    "unload again": "brimful.unload_ipython_extension(get_ipython())",
    "load anew": "%load_ext brimful",
    "reload": "%reload_ext brimful",
    "fails anew": FAILS,
}


@pytest.fixture(scope="module")
def shown():
    return run_cells(CELLS)


@pytest.fixture(scope="module")
def guide():
    """The cells of the guide, in its order, on TensorFlow with a small device; only the pictures are smaller, too."""
    blocks = re.findall(r"```ipython\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    cells = {block.strip(): block for block in blocks}
    sizes = "side, batch = 512, 128"
    assert sizes in cells
    cells[sizes] = "side, batch = 40, 128"
    cells["small"] = 'brimful.plan(model, batch=batch, device="cpu", memory="80MiB")'
    cells["other batch"] = (
        'plan = brimful.plan(model, batch=batch, memory="80MiB").at(4)\nprint(plan.report["job"]["batch"], plan.fits)\nprint(plan)'
    )
    cells["page"] = "print(plan.html()[:15])"
    for wrong in ("batch=0", "device='t44'", "mode='run'", "memory='much'", "shape=3"):
        cells[wrong] = f"brimful.plan(model, {wrong})"
    cells["no graph"] = "class Own(keras.Model):\n    def call(self, x): return x\nbrimful.plan(Own())"
    return run_cells(cells, environment(60))


# What is explained, and what is not.


def test_an_out_of_memory_is_explained_below_its_traceback(shown):
    fails = shown["fails"]
    assert fails.error == "MemoryError" and len(fails.html) == 1
    assert SAID in fails.text[0] and SAID in words(fails.box)
    for said in ("400000 × 400000", "1.16 TiB", "Unable to allocate", "What to do", "print(x.shape, x.dtype)", "%brimful free"):
        assert said in fails.text[0] and said in words(fails.box), said


@pytest.mark.parametrize(
    "cell", ["awaits", "caused", "group", "timed", "timed, one line", "shown by hand", "cell, fails", "fails anew", "fails, handled"]
)
def test_however_it_is_raised(shown, cell):
    assert SAID in words(shown[cell].box), shown[cell]


@pytest.mark.parametrize(
    "cell", ["ordinary", "ordinary, speaking of memory", "interrupted", "interrupted later", "syntax", "hidden", "after that", "unload"]
)
def test_other_errors_are_left_alone(shown, cell):
    assert not shown[cell].html and "brimful" not in shown[cell].stderr


def test_an_explanation_of_one_s_own_draws_itself(shown):
    """Without the advice on the traceback, which is nobody's here."""
    (html,), (text,) = shown["explained"].html, shown["explained"].text
    assert SAID in words(html) and SAID in text and "%brimful" not in html


def test_an_error_is_explained_once(shown):
    assert [SAID in words(html) for html in shown["inner cell"].html] == [True]


def test_a_handler_of_the_user_s_is_still_called(shown):
    assert shown["fails, handled"].error is None
    assert "MemoryError" in shown["own handler, after"].stdout


def test_nothing_of_the_error_is_kept(shown):
    assert shown["held"].error == "MemoryError" and SAID in words(shown["held"].box)
    assert shown["still held"].stdout == "True\n", "the shell does not keep what failed any more: is the advice still right?"
    assert shown["let go by hand"].stdout == "True\n"


def test_what_the_shell_keeps_is_let_go_of(shown):
    assert shown["held again"].error == "MemoryError" and shown["free"].error is None
    assert shown["freed"].stdout == "True Tensor\n"
    assert "let go" in shown["free, nothing"].text[0]


def test_it_can_be_loaded_twice_and_taken_out(shown):
    assert "already loaded" in shown["load again"].stdout
    assert len(shown["fails"].html) == 1
    assert not shown["fails, unloaded"].html and "not found" in shown["unloaded"].stderr
    assert shown["unload again"].error is None and len(shown["fails anew"].html) == 1


# Memory.


def test_memory_now_against_its_limit(shown):
    assert re.search(r"Host memory: [\d.]+ .iB of [\d.]+ .iB \((the machine's RAM|the limit of its cgroup)\)", words(shown["now"].box))
    assert "this notebook" in shown["now"].text[0] and 'role="img"' in shown["now"].box


def test_the_peak_of_a_cell_and_what_it_leaves(shown):
    """160 MB stay and 480 MB go: the cell runs as it stands, with `await` and its own value."""
    said = shown["cell"].text
    assert said[0] == "20000000"
    found = re.search(r"before ([\d.]+) MiB, peak ([\d.]+) MiB, after ([\d.]+) MiB; left behind: ([\d.]+) MiB", said[1])
    before, peak, after, left = map(float, found.groups())
    assert left == pytest.approx(160e6 / (1 << 20), abs=20) and after - before == pytest.approx(left, abs=2)
    assert peak - before == pytest.approx(640e6 / (1 << 20), abs=30)
    assert "left behind" in words(shown["cell"].box)


def test_other_magics_work_below_it(shown):
    assert shown["captured"].stdout == "inside\n\n" and "left behind" in words(shown["cell and magic"].box)


def test_a_wrong_word_gets_one_sentence(shown):
    for cell, name in (("wrong", "%brimful"), ("cell, wrong", "%%brimful")):
        said = shown[cell].stderr.strip()
        assert said.startswith(f"UsageError: {name} does not know 'everything': write ") and said.count("\n") == 0


def test_the_limit_that_leaves_least_counts(tmp_path):
    files = {
        "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n",
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.max": "4000000000\n",
        "sys/fs/cgroup/job/memory.current": "3000000000\n",
        "sys/fs/cgroup/job/memory.stat": "inactive_file 500000000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (reading,) = readings.host(tmp_path)
    assert (reading.limit_bytes, reading.used_bytes, reading.limit_name) == (4_000_000_000, 2_500_000_000, "the limit of its cgroup")
    (tmp_path / "sys/fs/cgroup/job/memory.max").write_text("max\n")
    (reading,) = readings.host(tmp_path)
    assert (reading.limit_bytes, reading.used_bytes, reading.limit_name) == (8_000_000 << 10, 2_000_000 << 10, memory.MACHINE)


def test_a_system_without_proc_is_read_all_the_same(tmp_path):
    """By psutil, which every kernel comes with."""
    (reading,) = readings.host(tmp_path)
    assert 0 < reading.own_bytes < reading.limit_bytes and 0 < reading.used_bytes < reading.limit_bytes


def test_only_gpus_that_the_process_sees():
    assert [gpu._visible(names, 4) for names in (None, "", "-1", "2,0", "1,-1,2", "0,9,1", "GPU-8932f937")] == [
        [0, 1, 2, 3], [], [], [2, 0], [1], [0], [0, 1, 2, 3],
    ]  # fmt: skip


# The guide, on real TensorFlow.


def test_the_guide_plans(guide):
    drawn = next(cell for source, cell in guide.items() if 'device="t4"' in source)
    assert re.fullmatch(r"<Plan: sequential at batch 128, 0\.\d\d GiB, fits>", drawn.text[0])
    assert re.match(r"Fits: needs [\d.]+ MiB of 13.3 GiB usable on Tesla T4\.", words(drawn.box))


def test_the_guide_s_cell_runs_out_and_is_explained(guide):
    failed = next(cell for source, cell in guide.items() if "\nmodel.fit(" in source)
    assert failed.error == "ResourceExhaustedError"
    said = words(failed.box)
    assert "Host memory ran out: the batch, or its activations, are too large" in said
    for part in ("OOM when allocating tensor with shape", "[128 × 36 × 36 × 64]", "brimful.keras.fit(model, x, y", "%brimful free"):
        assert part in said, part
    assert "brimful fit -- python" not in said + failed.text[0]


def test_the_guide_s_cells_after_that_work(guide):
    assert guide["%brimful free"].error is None and guide["%brimful free"].html
    trained = next(cell for source, cell in guide.items() if source.startswith("%%brimful"))
    assert trained.error is None and "same gradients" in trained.stderr
    peak = re.search(r"TensorFlow on CPU:0\n.*peak ([\d.]+) MiB", trained.text[-1])
    assert 5 < float(peak[1]) <= 60
    assert re.search(r"TensorFlow on CPU:0: .* of 60.0 MiB", words(guide["%brimful"].box))


def test_plans_of_keras_models_have_what_others_have(guide):
    assert words(guide["small"].box).startswith("Does not fit: needs ") and "Cheapest way to fit" in words(guide["small"].box)
    assert guide["other batch"].stdout.startswith("4 True\nFits: needs ") and guide["page"].stdout == "<!doctype html>\n"
    for wrong in ("batch=0", "device='t44'", "mode='run'", "memory='much'", "no graph"):
        assert guide[wrong].error == "ValueError", wrong
    assert guide["shape=3"].error == "TypeError"


# Words, and names that want out of their place.


def words(html):
    """What a person reads, with its style left out."""

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.parts, self.quiet = [], False

        def handle_starttag(self, tag, attributes):
            assert tag not in ("script", "img", "link", "iframe"), tag
            assert not [name for name, _ in attributes if name.startswith("on") or name in ("src", "href")], attributes
            self.quiet = tag == "style"

        def handle_endtag(self, tag):
            self.quiet = False
            self.parts.append(" ")

        def handle_data(self, data):
            self.parts.append("" if self.quiet else data)

    reader = Reader()
    reader.feed(html)
    return " ".join("".join(reader.parts).split()).replace(" :", ":")


@pytest.mark.parametrize(
    "options", [["--device", "t4"], ["--device", "t4", "--batch", 8], ["--memory", "1200MiB", "--batch", 1], ["--inference"], []]
)
def test_a_plan_says_what_the_text_says(brimful, options):
    command = ["plan", "examples/vision_cnn.json", *(options if "--device" in options else [*options, "--device", "cpu"])]
    text = brimful(*command).stdout
    plan = Report(json.loads(brimful(*command, "--format", "json").stdout))
    assert words(plan._repr_html_()).startswith(" ".join(text.split("\n\n")[0].split()))
    drawn = words(plan._repr_html_())
    for part in re.findall(r"^  \w (\w.*?)  +([\d.]+ .i?B)", text, re.MULTILINE):
        assert " ".join(part) in drawn, part
    for sentence in re.findall(r"^  (?:The batch|The largest batch|Not even)[^.]*\.", text, re.MULTILINE):
        assert sentence.strip() in drawn
    for title in re.findall(r"^  [✓✗] (.*)", text, re.MULTILINE):
        assert title in drawn


def test_a_recorded_plan_draws_itself(recorded):
    from brimful.torch.result import Plan

    plan = Plan(recorded, {"batch": 8, "device": "t4", "optimizer": "adam", "model": "Net", "modules": [{"path": "fc", "class": "Linear"}]})
    drawn = words(plan._repr_html_())
    assert drawn.startswith(plan.text().split("\n")[0]) and "train.py:3" in drawn and "Heaviest modules" in drawn


def wicked_report(brimful):
    report = json.loads(brimful("plan", "examples/vision_cnn.json", "--device", "t4", "--format", "json").stdout)
    report["model"]["name"] = report["device"]["name"] = report["layers"][0]["layer"] = report["peak"]["at"]["layer"] = WICKED
    report["notes"].append({"code": "x", "layer": WICKED, "text": WICKED})
    report["remedies"][0]["title"] = WICKED
    return report


def test_names_cannot_leave_their_place(brimful):
    drawn = plan_box.box(wicked_report(brimful))
    assert "<img" not in drawn and WICKED[:8] in words(drawn)
    explained = package.explain(f"CUDA out of memory. Tried to allocate 2.00 GiB {WICKED}\x1b[31m\0")
    assert explained.resource == "gpu_memory" and "<img" not in explained._repr_html_() and "\x1b" not in explained._repr_html_()
    assert words(explained._repr_html_()).startswith(explained.first_sentence)


def test_a_model_without_inputs_gets_one_sentence():
    with pytest.raises(TypeError, match=r"inputs is missing: .* such as \(64, 3, 224, 224\)"):
        package.plan(object())


def test_sizes_are_the_report_s():
    sizes = [0, 17, 4096, 312 << 20, 1340 << 20, 51 << 30, 1 << 50]
    assert [drawing.human(size) for size in sizes] == ["0 B", "17 B", "4.00 KiB", "312 MiB", "1.31 GiB", "51.0 GiB", "1024 TiB"]


# Elsewhere than in a notebook.


def test_a_terminal_gets_text():
    lines = f"%load_ext brimful\nimport numpy\n%brimful\nundefined\n{FAILS}\n%brimful free\n"
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "--HistoryManager.enabled=False"]
    run = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120)
    assert run.stdout.count(SAID) == 1 and "Host memory\n" in run.stdout and "let go of" in run.stdout, run.stdout + run.stderr
    assert "<div" not in run.stdout


def test_without_ipython_it_is_a_sentence_and_plans_still_draw():
    script = "import sys; sys.modules['IPython'] = None\nimport brimful, brimful.notebook.session, brimful.planned\n"
    script += "print(len(brimful.explain('Killed')._repr_html_()) > 1000)\nbrimful.load_ipython_extension(None)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout == "True\n" and "ValueError: there is no IPython shell" in run.stderr


# The page, in a browser.

CONTRAST = """(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => part / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const own = getComputedStyle(element).backgroundColor;
    return own.startsWith("rgba(0, 0, 0, 0") && element.parentElement ? ground(element.parentElement) : own;
  };
  let least = 99;
  for (const element of document.querySelectorAll(".brimful *")) {
    if (element.closest("style") || !element.textContent.trim() || element.closest(".brimful-bar")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
})()"""


@pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH")
def test_the_page_in_a_browser(shown, guide, brimful, tmp_path):
    """As JupyterLab shows it, with its way of saying that it is dark; names that want to run something do not."""
    failed = next(cell for source, cell in guide.items() if "\nmodel.fit(" in source)
    boxes = [guide["small"].box, failed.box, guide["%brimful"].box, shown["cell"].box, plan_box.box(wicked_report(brimful))]
    page = tmp_path / "page.html"
    browser = Browser()
    try:
        for is_dark in (False, True):
            body = f'<body data-jp-theme-light="{"false" if is_dark else "true"}" style="margin:8px">{"".join(boxes)}</body>'
            page.write_text(
                f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>good</title>{body}'
            )
            for width in (1100, 420):
                browser.open(page, width=width)
                assert browser.errors == [] and browser.loaded == [f"file://{page}"]
                assert browser.js("document.title") == "good"
                assert browser.js("document.documentElement.scrollWidth") <= width
                assert browser.js("document.querySelectorAll('.brimful').length") == len(boxes)
                assert browser.js(CONTRAST) >= 4.5
        grounds = "[...new Set([...document.querySelectorAll('.brimful')].map((box) => getComputedStyle(box).backgroundColor))]"
        assert browser.js(grounds) == ["rgb(20, 22, 26)"]
        browser.js("document.body.removeAttribute('data-jp-theme-light')")
        # Colab's and VS Code's ways.
        for place, name, value in (("documentElement", "theme", "dark"), ("body", "class", "vscode-dark")):
            assert browser.js(grounds) == ["rgb(255, 255, 255)"]
            browser.js(f"document.{place}.setAttribute('{name}', '{value}')")
            assert browser.js(grounds) == ["rgb(20, 22, 26)"]
            browser.js(f"document.{place}.removeAttribute('{name}')")
        first = "document.querySelector('.brimful-bar')"
        needed, limit = browser.js(
            f"[{first}.lastElementChild.getBoundingClientRect().x - {first}.getBoundingClientRect().x, {first}.clientWidth]"
        )
        assert 0 < needed < limit, "the line of the limit stands inside the bar of a job that is too large"
    finally:
        browser.close()
