"""The pages of `brimful report` and `brimful plan --format html` in a real browser: clicked, pointed at, driven by keys, read."""

import json
import os
import re
import subprocess
import sys

import pytest
from browser import Browser, chromium
from conftest import BINARY, ROOT
from recordings import GIB, MB, SPIKE_MS, Recorder, leaking_job

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on PATH")

MEMORY = "#plot-memory .plot"
STEP = "#plot-step .plot"
WICKED = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'`&\u202egpj.exe"


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(brimful, tmp_path_factory):
    """The page of a job and the page of a plan."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "job.brimful").write_bytes(leaking_job().bytes())
    assert brimful("report", folder / "job.brimful", "-o", folder / "report.html").returncode == 0
    for form in ("html", "json"):
        asked = ("plan", ROOT / "examples" / "vision_cnn.json", "--batch", 64, "--device", "t4")
        plan = brimful(*asked, "--format", form, "-o", folder / f"plan.{form}")
        assert plan.returncode == 1, plan.stderr
    return folder


@pytest.fixture
def report(browser, pages):
    browser.open(pages / "report.html")
    yield browser
    assert browser.errors == []
    assert browser.loaded == [f"file://{pages / 'report.html'}"]


@pytest.fixture
def plan(browser, pages):
    browser.open(pages / "plan.html")
    yield browser
    assert browser.errors == []
    assert browser.loaded == [f"file://{pages / 'plan.html'}"]


def figure(browser, name, plot=MEMORY):
    """What the key of a series says at the cursor."""
    keys = f"[...document.querySelector({json.dumps(plot)}).closest('figure').querySelectorAll('.key')]"
    return browser.js(f"{keys}.find((key) => key.querySelector('span').textContent === {json.dumps(name)}).querySelector('b').textContent")


def seconds(browser):
    """Where the cursor is."""
    words = re.match(r"(?:The end: )?(?:(\d+):)?([\d.]+)", browser.text("#at"))
    return int(words[1] or 0) * 60 + float(words[2])


def width_in_sight(browser):
    """Seconds from one end of the view to the other."""
    browser.js(f"document.querySelector({json.dumps(MEMORY)}).focus()")
    browser.key("Home")
    begin = seconds(browser)
    browser.key("End")
    return seconds(browser) - begin


def test_the_page_says_what_happened(report):
    assert report.text("h1") == "Killed for memory by the kernel after 2 min 0 s, at 12:02:00 UTC."
    words = report.text("main")
    for said in (
        "of 8.00 GiB (99 %)",
        "worker <1> (process 4243)",
        "Memory leaks from step to step",
        "total += loss.item()",
        "step 590 loss 0.27",
    ):
        assert said in words
    # It begins at the peak.
    assert "Peak of memory" in report.text("#what")


def test_pointing_reads_all_figures_at_that_moment(report):
    report.hover(MEMORY, 0.5)
    at = seconds(report)
    assert 55 < at < 70
    tick = round(at * 10)
    expected = (900 * MB + tick * 6.1 * MB) / GIB
    read = float(figure(report, "resident").split()[0])
    assert abs(read - expected) < 0.3
    assert figure(report, "limit") == "8.00 GiB"
    assert float(figure(report, "cores", "#plot-cpu .plot")) == pytest.approx(1.7)
    assert float(figure(report, "loss", "#plot-train .plot")) == pytest.approx(2.3 / (1 + (tick / 2 - 25) / 80), abs=0.02)
    assert figure(report, "the job", "#plot-gpu0 .plot").endswith("GiB")
    report.hover(MEMORY, 0.9)
    assert float(figure(report, "resident").split()[0]) > read


def test_keys_move_the_cursor_and_tell_the_figures(report):
    report.js(f"document.querySelector({json.dumps(MEMORY)}).focus()")
    report.key("Home")
    assert report.text("#at") == "0.0 s · 12:00:00 UTC"
    report.key("ArrowRight")
    first = seconds(report)
    assert 0 < first < 2
    report.key("ArrowRight")
    assert seconds(report) > first
    report.key("ArrowLeft")
    assert seconds(report) == first
    spoken = report.js(f"document.querySelector({json.dumps(MEMORY)}).getAttribute('aria-valuetext')")
    assert spoken.startswith(report.text("#at")) and "resident " in spoken and "limit 8.00 GiB" in spoken
    report.key("PageDown")
    report.key("PageDown")
    assert seconds(report) == 40.0 and report.text("#what").startswith("Memory grows by 12.4 MB each step")
    report.key("PageUp")
    assert report.text("#what") == "epoch 0 begins."
    report.key("End")
    assert report.text("#at").startswith("02:00.0") and report.text("#what").startswith("Killed for memory")


def test_a_spike_of_one_sample_is_there_at_its_height(report):
    report.js(f"document.querySelector({json.dumps(MEMORY)}).focus()")
    report.drag(MEMORY, 0.52, 0.57)
    report.key("Home")
    heights = {}
    for _ in range(40):
        report.key("ArrowRight")
        heights[seconds(report)] = figure(report, "resident")
    tick = SPIKE_MS // 100
    spike = (900 * MB + tick * 6.1 * MB + 700 * MB) / GIB
    assert float(heights[SPIKE_MS / 1000].split()[0]) == pytest.approx(spike, abs=0.006)


def test_zoom_by_drag_buttons_keys_and_wheel_and_back(report):
    whole = width_in_sight(report)
    assert whole == pytest.approx(120, abs=0.1)
    report.drag(MEMORY, 0.3, 0.6)
    dragged = width_in_sight(report)
    assert 30 < dragged < 50
    report.key("+", "+")
    assert width_in_sight(report) == pytest.approx(dragged / 2, abs=0.3)
    report.click("#out")
    assert width_in_sight(report) == pytest.approx(dragged, abs=0.3)
    report.mouse("mouseWheel", report.place(MEMORY), deltaX=0, deltaY=-100)
    report.settle()
    assert width_in_sight(report) < dragged
    report.click("#all")
    assert width_in_sight(report) == pytest.approx(whole, abs=0.1)
    report.click("#in")
    report.js(f"document.querySelector({json.dumps(MEMORY)}).focus()")
    report.key("0", "0")
    assert width_in_sight(report) == pytest.approx(whole, abs=0.1)
    # The wheel scrolls the page while no plot is in use.
    report.js("document.activeElement.blur(); window.scrollTo(0, 0)")
    report.mouse("mouseWheel", report.place(MEMORY), deltaX=0, deltaY=-100)
    report.settle()
    assert width_in_sight(report) == pytest.approx(whole, abs=0.1)


def test_series_are_hidden_and_shown(report):
    drawn = "document.querySelector('#plot-memory canvas').toDataURL()"
    before = report.js(drawn)
    key = "#plot-memory .key[data-series='0']"
    assert report.js(f"document.querySelector({json.dumps(key)}).getAttribute('aria-pressed')") == "true"
    report.click(key)
    assert report.js(f"document.querySelector({json.dumps(key)}).getAttribute('aria-pressed')") == "false"
    assert report.js(drawn) != before
    report.js(f"document.querySelector({json.dumps(key)}).focus()")
    report.key("Enter", "\r")
    assert report.js(f"document.querySelector({json.dumps(key)}).getAttribute('aria-pressed')") == "true"


def test_the_time_of_a_finding_leads_to_it(report):
    report.click("button[data-at='110000']")
    assert report.text("#at").startswith("01:50.0") and report.text("#what") == "95 % of the limit of 8 GiB are in use."
    assert report.js(f"document.activeElement === document.querySelector({json.dumps(MEMORY)})")


def test_a_table_says_what_a_plot_shows(report):
    rows = report.js(
        "[...document.querySelectorAll('#plot-memory details tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    resident = next(row for row in rows if row[0] == "resident")
    assert resident[1] == "1.12 GiB" and resident[3] == "7.90 GiB"
    report.click("#plot-memory summary")
    assert report.js("document.querySelector('#plot-memory details').open")


def test_everything_can_be_reached_by_keys_and_has_a_name(report):
    reached = []
    for _ in range(400):
        report.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        report.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen = report.js(
            "(() => { const e = document.activeElement; if (e === document.body) return null; return [e.tagName, e.getAttribute('aria-label') || e.textContent.trim(), getComputedStyle(e).outlineStyle]; })()"
        )
        if seen is None:
            break
        reached.append(seen)
    assert all(name for _, name, _ in reached), reached
    assert all(outline != "none" for _, _, outline in reached), reached
    assert sum(tag == "DIV" for tag, _, _ in reached) >= 8 and sum(tag == "BUTTON" for tag, _, _ in reached) > 15


@pytest.mark.parametrize("name", ["report", "plan"])
@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_and_a_phone_needs_no_sideways_scrolling(browser, pages, name, dark):
    browser.open(pages / f"{name}.html", width=375, height=800, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") == 375
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 22, 26)") == dark
    low = browser.js(CONTRAST)
    assert low == [], low
    shifted = browser.js(
        "new Promise((done) => { const o = new PerformanceObserver((l) => done(l.getEntries().reduce((s, e) => s + e.value, 0))); o.observe({type: 'layout-shift', buffered: true}); setTimeout(() => done(0), 300); })"
    )
    assert shifted < 0.01
    assert browser.errors == []


# Text whose colour has less than 4.5:1 against the ground behind it.
CONTRAST = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const lum = (c) => { const [r, g, b] = parse(c).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parse(c)[3] !== 0) return c; } return 'rgb(255, 255, 255)'; };
  const low = [];
  for (const e of document.querySelectorAll('main *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const a = lum(getComputedStyle(e).color), b = lum(ground(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([e.tagName, e.className, ratio]);
  }
  return low;
})()"""


def test_a_finger_reads_without_zooming_and_two_zoom(browser, pages):
    browser.open(pages / "report.html", width=375, height=800, touch=True)
    x, y = browser.place(MEMORY, 0.5)
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y, "id": 1}])
    browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x + 40, "y": y, "id": 1}])
    browser.settle()
    assert 60 < seconds(browser) < 100
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert width_in_sight(browser) == pytest.approx(120, abs=0.1)
    x, y = browser.place(MEMORY, 0.5)
    browser.call(
        "Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x - 20, "y": y, "id": 1}, {"x": x + 20, "y": y, "id": 2}]
    )
    browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x - 60, "y": y, "id": 1}, {"x": x + 60, "y": y, "id": 2}])
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.settle()
    assert width_in_sight(browser) < 80
    assert browser.errors == []


def test_the_plan_shows_the_op_under_the_pointer_and_the_peak(plan, pages):
    peak = json.loads((pages / "plan.json").read_text())["peak"]
    needed, at = f"{peak['allocated_bytes'] / (1 << 30):.1f}\xa0GiB", peak["at"]
    assert plan.text("h1").startswith(f"Does not fit: needs {needed} of 13.3\xa0GiB usable")
    assert plan.text("#what") == f"Peak, {needed}, {at['phase']}: {at['op']} in {at['layer']}.".replace("\xa0", " ")
    plan.hover(STEP, 0.15)
    assert re.match(r"forward: \w+", plan.text("#what"))
    plan.js(f"document.querySelector({json.dumps(STEP)}).focus()")
    plan.key("Home")
    assert plan.text("#at").startswith("Event 0 of ")
    assert figure(plan, "parameters", STEP) == "1.00 GiB" and figure(plan, "gradients", STEP) == "0 B"
    # The parts at the peak are those of the table above.
    plan.key("PageDown")
    rows = plan.js("[...document.querySelectorAll('#fill ~ .wide')[0].querySelectorAll('tbody tr')].map((row) => row.textContent)")
    (saved,) = [row for row in rows if row.startswith("saved activations")]
    assert figure(plan, "saved activations", STEP) in saved


def test_the_plan_of_a_pytorch_model_has_the_same_page(browser, tmp_path):
    pytest.importorskip("torch")
    environment = {**os.environ, "BRIMFUL_PYTHON": sys.executable}
    command = [BINARY, "plan", "examples/torch_cnn.py:make_trained", "--device", "t4", "--format", "html", "-o", tmp_path / "torch.html"]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    browser.open(tmp_path / "torch.html")
    assert browser.text("h1").startswith("Fits: needs ")
    assert re.match(r"Peak, [\d.]+ \wiB, (forward|backward): aten\.\w+ in ", browser.text("#what"))
    assert figure(browser, "saved activations", STEP) != "0 B" and figure(browser, "reserved by the allocator", STEP).endswith("GiB")
    assert browser.errors == []


def test_the_layers_are_sorted_and_filtered(plan):
    first = "document.querySelector('table.sorts tbody tr').cells[0].textContent"
    names = "[...document.querySelectorAll('table.sorts tbody tr')].filter((row) => !row.hidden).map((row) => row.cells[0].textContent)"
    heaviest = plan.js(first)
    plan.click("table.sorts th:nth-child(1) button")
    assert plan.js(names) == sorted(plan.js(names)) and len(plan.js(names)) > 8
    assert plan.js("document.querySelector('table.sorts th').getAttribute('aria-sort')") == "ascending"
    plan.click("table.sorts th:nth-child(3) button")
    assert plan.js(first) == heaviest
    plan.click(".filter input")
    plan.call("Input.insertText", text="block2 CONV")
    assert plan.js(names) and all("block2" in name and "conv" in name for name in plan.js(names))
    assert re.match(r"\d+ of \d+", plan.text(".filter output"))


def test_nothing_in_a_recording_gets_out_of_its_place(browser, brimful, tmp_path):
    job = Recorder(command=[WICKED, "--x"], versions={WICKED: WICKED}, environment={WICKED: WICKED}, limits_bytes={WICKED: 1})
    for tick in range(30):
        job.sample(tick * 100, rss_bytes=100 * MB + tick)
    job.holders(100, (1, WICKED, 100 * MB, 100 * MB), (2, b"\xff\xfe\x00", 1, 1))
    job.framework(200, 1, WICKED, WICKED, 1000, 2000, 3000, 4000)
    job.finding(300, WICKED, WICKED)
    job.line(400, WICKED)
    job.line(500, b"not \xff\xfe UTF-8 \x1b[31m\x00 <!-- ")
    job.end(
        3000,
        exit_code=1,
        explanation={"cause": {"title": WICKED, "because": [WICKED]}, "remedies": [{"title": WICKED, "apply": [{"code": WICKED}]}]},
    )
    (tmp_path / "x.brimful").write_bytes(job.bytes())
    assert brimful("report", tmp_path / "x.brimful", "-o", tmp_path / "x.html").returncode == 0
    browser.open(tmp_path / "x.html")
    assert browser.js("window.hacked") is None and browser.errors == []
    assert browser.js("document.querySelectorAll('img').length") == 0 and browser.js("document.scripts.length") == 2
    assert browser.loaded == [f"file://{tmp_path / 'x.html'}"]
    assert "\u202e" not in browser.js("document.documentElement.innerHTML")
    assert "onerror='window.hacked = 1'" in browser.text("main") and "[U+202E]" in browser.text("main")
    browser.click("button[data-at='300']")
    assert "script" in browser.text("#what")
    # What got through could load and send nothing.
    blocked = browser.js("fetch('https://example.org').then(() => 'sent', (error) => String(error))")
    assert "Failed to fetch" in blocked and any("Content Security Policy" in str(error) for error in browser.errors)


def test_on_paper_all_tables_are_open(browser, pages):
    browser.open(pages / "report.html", dark=True)
    browser.js("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.js("[...document.querySelectorAll('details')].every((each) => each.open)")
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.js("window.dispatchEvent(new Event('afterprint'))")
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
    assert browser.call("Page.printToPDF")["data"]
