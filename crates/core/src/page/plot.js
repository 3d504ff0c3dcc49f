"use strict";
// Draws the plots: in, the JSON of #data; out, canvases, the keys' figures and one cursor that all of them share.
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const root = byId("plots");
  if (!root) return { go() {} };
  const time = data.axis.kind === "time";
  const whole = [0, Math.max(1, data.axis.end)];
  const peak = data.marks.find((mark) => mark.kind === "peak");
  let view = whole.slice(), cursor = peak ? peak.at : null, drag = null, pinch = null, waiting = false;
  // Lines are told apart by their dashes, too.
  const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 2], [1, 2]];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- Figures as people read them; the same as in the text around.
  const fixed = (value) => value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0);
  const bytes = (value) => {
    const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let place = 0;
    while (Math.abs(value) >= 1024 && place < 5) { value /= 1024; place++; }
    return (place ? fixed(value) : Math.round(value)) + " " + names[place];
  };
  const plain = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size < 1e-3 || size >= 1e6) return value.toExponential(3);
    return value.toFixed(Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(size)))));
  };
  const figure = {
    bytes, bytes_per_second: (v) => bytes(v) + "/s", percent: (v) => v.toFixed(1) + " %", celsius: (v) => v.toFixed(0) + " °C",
    watt: (v) => v.toFixed(0) + " W", count: (v) => Number.isInteger(v) ? String(v) : v.toFixed(2), number: plain,
  };
  // On the axis: no more digits than the step between two lines needs.
  const onAxis = (value, unit) => figure[unit](unit.startsWith("bytes") ? value : +value.toPrecision(6)).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const elapsed = (ms, fine) => {
    const s = ms / 1000;
    if (s < 60) return (fine ? s.toFixed(1) : +s.toFixed(3)) + " s";
    const clock = two(s / 60 % 60) + ":" + two(s % 60) + (fine ? "." + Math.floor(s * 10 % 10) : "");
    return s < 3600 ? clock : Math.floor(s / 3600) + ":" + clock;
  };
  const place = (x) => {
    if (!time) return "Event " + Math.round(x).toLocaleString("en") + " of " + data.axis.end.toLocaleString("en");
    const began = data.axis.began_unix_ms;
    if (!began) return elapsed(x, true);
    const date = new Date(began + x);
    return elapsed(x, true) + (isNaN(date) ? "" : " \u00b7 " + date.toISOString().slice(11, 19) + " UTC");
  };

  // ---- Series: sums of what was sent.
  const summed = (differences) => { let sum = 0; return differences.map((each) => (sum += each)); };
  for (const panel of data.panels) {
    panel.series.forEach((series, index) => {
      series.x = summed(series.x);
      series.y = series.grain === null ? series.y : summed(series.y).map((value) => value * series.grain);
      series.colour = series.limit ? "--bad" : "--c" + index % 8;
      series.dash = series.limit ? [8, 4] : panel.stacked ? [] : DASHES[Math.floor(index / 2) % DASHES.length];
    });
  }
  // The first place at or behind x.
  const find = (xs, x) => {
    let low = 0, high = xs.length;
    while (low < high) { const middle = (low + high) >> 1; if (xs[middle] < x) low = middle + 1; else high = middle; }
    return low;
  };
  // What holds at x: in a stack the event before it, else the nearest point.
  const nearest = (series, x, before) => {
    const at = find(series.x, x);
    if (series.x[at] === x || at === 0) return at;
    return before || at === series.x.length || x - series.x[at - 1] <= series.x[at] - x ? at - 1 : at;
  };

  // ---- Panels
  const panels = [...root.querySelectorAll(".plot")].map((box) => {
    const panel = data.panels[box.dataset.panel];
    const figureBox = box.closest("figure");
    const keys = [...figureBox.querySelectorAll("button.key")];
    panel.box = box;
    panel.canvas = box.querySelector("canvas");
    panel.values = [];
    figureBox.classList.toggle("stacked", panel.stacked);
    keys.forEach((key) => {
      const series = panel.series[key.dataset.series];
      key.style.setProperty("--colour", "var(" + series.colour + ")");
      key.style.setProperty("--dash", !series.dash.length ? "solid" : series.dash[0] < 4 ? "dotted" : "dashed");
      panel.values[key.dataset.series] = key.querySelector("b");
      key.addEventListener("click", () => {
        series.shown = !series.shown;
        key.setAttribute("aria-pressed", series.shown);
        later();
      });
    });
    box.setAttribute("aria-valuemax", whole[1]);
    return panel;
  });

  const nice = (span, count, base) => {
    const rough = span / count, power = Math.pow(base, Math.floor(Math.log(rough) / Math.log(base)));
    for (const factor of base === 2 ? [1, 2] : [1, 2, 5, 10]) if (factor * power >= rough) return factor * power;
    return base * power;
  };
  const timeStep = (span, count) => {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5];
    return steps.find((step) => step >= span / count) || nice(span / 864e5, count, 10) * 864e5;
  };

  // Of what is drawn in the view: the lowest and the highest value.
  function scale(panel) {
    let high = 0, low = 0;
    const drawn = panel.series.filter((series) => series.shown && series.x.length);
    const range = (series, each) => {
      const begin = Math.max(0, find(series.x, view[0]) - 1), end = Math.min(series.x.length, find(series.x, view[1]) + 1);
      for (let at = begin; at < end; at++) each(at);
    };
    const lines = drawn.filter((series) => !series.limit);
    if (panel.stacked) {
      if (lines.length) range(lines[0], (at) => { high = Math.max(high, lines.reduce((sum, series) => sum + series.y[at], 0)); });
    } else {
      for (const series of lines) range(series, (at) => { high = Math.max(high, series.y[at]); low = Math.min(low, series.y[at]); });
    }
    // A limit far above all would make the rest a line on the ground.
    const most = high * 2.5 || Infinity;
    for (const series of drawn) if (series.limit) range(series, (at) => { if (series.y[at] <= most) high = Math.max(high, series.y[at]); });
    for (const limit of panel.limits) if (limit.value <= most) high = Math.max(high, limit.value);
    if (panel.unit === "percent") high = Math.max(high, lines.length && high > 50 ? 100 : high);
    if (panel.unit.startsWith("bytes")) high = Math.max(high, 1024);
    if (high <= low) high = low + 1;
    return [low, high + (high - low) * 0.06];
  }

  function draw(panel) {
    const { canvas, box } = panel, ratio = window.devicePixelRatio || 1;
    const width = box.clientWidth, height = box.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    const area = panel.area = { left: width < 500 ? 58 : 72, right: width - 8, top: 8, bottom: height - 22 };
    const [low, high] = scale(panel);
    const X = (x) => area.left + (x - view[0]) / (view[1] - view[0]) * (area.right - area.left);
    const Y = (y) => area.bottom - (y - low) / (high - low) * (area.bottom - area.top);
    const text = css("--quiet"), line = css("--line");

    // Ground: lines and their figures.
    const unit = panel.unit.startsWith("bytes") ? Math.pow(1024, Math.max(0, Math.floor(Math.log(high || 1) / Math.log(1024)))) : 1;
    const step = nice((high - low) / unit, Math.max(2, height / 48), 10) * unit;
    pen.fillStyle = text; pen.strokeStyle = line; pen.lineWidth = 1;
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (let y = Math.ceil(low / step) * step; y <= high; y += step) {
      pen.beginPath(); pen.moveTo(area.left, Y(y)); pen.lineTo(area.right, Y(y)); pen.stroke();
      const round = Math.abs(y) < step / 1e6 ? 0 : y;
      pen.fillText(onAxis(round, panel.unit), area.left - 6, Y(y));
    }
    pen.textBaseline = "top"; pen.textAlign = "center";
    const columns = Math.max(2, (area.right - area.left) / 100), span = view[1] - view[0];
    const across = time ? timeStep(span, columns) : Math.max(1, nice(span, columns, 10));
    for (let x = Math.ceil(view[0] / across) * across; x <= view[1]; x += across) {
      pen.beginPath(); pen.moveTo(X(x), area.bottom); pen.lineTo(X(x), area.bottom + 4); pen.stroke();
      pen.fillText(time ? elapsed(x, false) : x.toLocaleString("en"), Math.min(Math.max(X(x), area.left + 10), area.right - 16), area.bottom + 6);
    }
    pen.save();
    pen.beginPath(); pen.rect(area.left, area.top - 4, area.right - area.left, area.bottom - area.top + 5); pen.clip();

    // A limit is seen on any colour.
    const outlined = (dash) => {
      pen.setLineDash([]); pen.strokeStyle = css("--ground"); pen.lineWidth = 4; pen.stroke();
      pen.setLineDash(dash); pen.strokeStyle = css("--bad"); pen.lineWidth = 2; pen.stroke();
      pen.setLineDash([]);
    };

    // What happened.
    for (const mark of data.marks) {
      if (mark.at < view[0] || mark.at > view[1]) continue;
      const strong = mark.kind === "finding" || mark.kind === "end" || mark.kind === "peak";
      pen.strokeStyle = pen.fillStyle = css(mark.kind === "finding" ? "--warning" : mark.kind === "phase" || mark.kind === "epoch" ? "--strong" : "--text");
      pen.setLineDash(strong ? [] : [2, 4]);
      pen.beginPath(); pen.moveTo(X(mark.at), area.top); pen.lineTo(X(mark.at), area.bottom); pen.stroke();
      if (strong) { pen.beginPath(); pen.moveTo(X(mark.at) - 5, area.top - 4); pen.lineTo(X(mark.at) + 5, area.top - 4); pen.lineTo(X(mark.at), area.top + 4); pen.fill(); }
    }
    pen.setLineDash([]);

    // The lines, or the layers.
    const trace = (series, value, stepped) => {
      const begin = Math.max(0, find(series.x, view[0]) - 1), end = Math.min(series.x.length, find(series.x, view[1]) + 1);
      for (let at = begin; at < end; at++) {
        if (at === begin) pen.moveTo(X(series.x[at]), Y(value(at)));
        else { if (stepped) pen.lineTo(X(series.x[at]), Y(value(at - 1))); pen.lineTo(X(series.x[at]), Y(value(at))); }
      }
      return [begin, end];
    };
    if (panel.stacked) {
      const layers = panel.series.filter((series) => series.shown && !series.limit && series.x.length);
      const tops = layers.map(() => null);
      let sum = layers.length ? new Float64Array(layers[0].x.length) : null;
      layers.forEach((series, index) => { tops[index] = sum = sum.map((value, at) => value + series.y[at]); });
      for (let index = layers.length - 1; index >= 0; index--) {
        const top = tops[index];
        pen.fillStyle = css(layers[index].colour);
        pen.beginPath();
        const [begin, end] = trace(layers[index], (at) => top[at], true);
        pen.lineTo(X(Math.min(view[1], Math.max(whole[1], layers[index].x[end - 1]))), Y(top[end - 1]));
        pen.lineTo(X(Math.min(view[1], whole[1])), Y(low)); pen.lineTo(X(layers[index].x[begin]), Y(low)); pen.fill();
      }
    }
    for (const series of panel.series) {
      if (!series.shown || !series.x.length || (panel.stacked && !series.limit)) continue;
      pen.strokeStyle = pen.fillStyle = css(series.colour); pen.lineWidth = 2; pen.setLineDash(series.dash); pen.lineJoin = "round";
      pen.beginPath();
      trace(series, (at) => series.y[at], series.limit);
      if (series.limit) outlined(series.dash); else pen.stroke();
      if (series.x.length === 1) pen.fillRect(X(series.x[0]) - 2, Y(series.y[0]) - 2, 4, 4);
    }
    for (const limit of panel.limits) {
      pen.beginPath(); pen.moveTo(area.left, Y(limit.value)); pen.lineTo(area.right, Y(limit.value));
      outlined([8, 4]);
    }

    if (drag && drag.to !== null) {
      pen.fillStyle = css("--select");
      pen.fillRect(Math.min(X(drag.from), X(drag.to)), area.top, Math.abs(X(drag.to) - X(drag.from)), area.bottom - area.top);
    }
    if (cursor !== null) {
      pen.strokeStyle = css("--text"); pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(X(cursor), area.top); pen.lineTo(X(cursor), area.bottom); pen.stroke();
      if (!panel.stacked) for (const series of panel.series) {
        if (!series.shown || !series.x.length) continue;
        const at = nearest(series, cursor);
        pen.fillStyle = css(series.colour);
        pen.beginPath(); pen.arc(X(series.x[at]), Y(series.y[at]), 3.5, 0, 7); pen.fill();
      }
    }
    pen.restore();
  }

  // The figures at the cursor, in the keys and for those who listen.
  function read() {
    const at = cursor === null ? whole[1] : cursor;
    byId("at").textContent = cursor === null ? "The end: " + place(at) : place(at);
    let near = null;
    for (const mark of data.marks) {
      const away = Math.abs(mark.at - at);
      if (away <= (view[1] - view[0]) / 100 && (!near || away <= Math.abs(near.at - at))) near = mark;
    }
    for (const panel of panels) {
      const said = [];
      panel.series.forEach((series, index) => {
        const value = series.x.length ? figure[panel.unit](series.y[nearest(series, at, panel.stacked)]) : "";
        if (panel.values[index]) panel.values[index].textContent = value;
        if (series.shown && value) said.push(series.name + " " + value);
      });
      if (panel.labels && panel.series.length) {
        const label = panel.names[panel.labels[nearest(panel.series[0], at, true)]];
        said.unshift(label);
        // The peak names the request that made it; the last one before it may be a few bytes of another op.
        if (!near || near.at !== at) near = { text: label };
      }
      panel.box.setAttribute("aria-valuenow", Math.round(at));
      panel.box.setAttribute("aria-valuetext", place(at) + ": " + said.join(", "));
    }
    byId("what").textContent = byId("what").title = near ? near.text : "";
  }

  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; panels.forEach(draw); read(); });
  }

  // ---- Moves
  const least = time ? 20 : 4;
  function show(from, to) {
    let span = Math.min(whole[1], Math.max(Math.min(least, whole[1]), to - from));
    from = Math.min(Math.max(0, from), whole[1] - span);
    view = [from, from + span];
    later();
  }
  function zoom(factor, around) {
    const x = around === null ? (view[0] + view[1]) / 2 : Math.min(Math.max(around, view[0]), view[1]);
    show(x - (x - view[0]) * factor, x + (view[1] - x) * factor);
  }
  function go(x) {
    cursor = Math.min(Math.max(0, x), whole[1]);
    const span = view[1] - view[0];
    if (cursor < view[0] || cursor > view[1]) show(cursor - span / 2, cursor + span / 2);
    later();
  }
  // To the next point that can be told apart on the screen.
  function step(panel, direction, size) {
    const series = panel.series.find((each) => each.shown && each.x.length > 1) || panel.series[0];
    const from = cursor === null ? whole[1] : cursor;
    const target = from + direction * (view[1] - view[0]) / 200 * size;
    if (!series || !series.x.length) return go(target);
    let at = nearest(series, target);
    if (direction > 0 && series.x[at] <= from) at = Math.min(series.x.length - 1, find(series.x, from + 1e-9));
    if (direction < 0 && series.x[at] >= from) at = Math.max(0, find(series.x, from) - 1);
    go(series.x[at]);
  }
  function keys(panel, event) {
    const key = event.key, marks = data.marks.map((mark) => mark.at).sort((a, b) => a - b), from = cursor === null ? whole[1] : cursor;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (key === "ArrowRight" || key === "ArrowUp") step(panel, 1, event.shiftKey ? 10 : 1);
    else if (key === "ArrowLeft" || key === "ArrowDown") step(panel, -1, event.shiftKey ? 10 : 1);
    else if (key === "Home") go(view[0]);
    else if (key === "End") go(view[1]);
    else if (key === "PageDown") { const next = marks.find((at) => at > from); if (next !== undefined) go(next); }
    else if (key === "PageUp") { const last = marks.reverse().find((at) => at < from); if (last !== undefined) go(last); }
    else if (key === "+" || key === "=") zoom(0.5, cursor);
    else if (key === "-") zoom(2, cursor);
    else if (key === "0" || key === "Escape") show(...whole);
    else return;
    event.preventDefault();
  }
  for (const panel of panels) {
    const { box } = panel;
    const at = (event) => {
      const { left, right } = panel.area, x = event.clientX - box.getBoundingClientRect().left;
      return view[0] + Math.min(1, Math.max(0, (x - left) / (right - left))) * (view[1] - view[0]);
    };
    const fingers = new Map();
    box.addEventListener("keydown", (event) => keys(panel, event));
    box.addEventListener("pointermove", (event) => {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event.clientX);
      if (pinch && fingers.size === 2) {
        const [a, b] = [...fingers.values()], away = Math.max(20, Math.abs(a - b));
        const span = (pinch.view[1] - pinch.view[0]) * pinch.away / away;
        show(pinch.x - span * pinch.share, pinch.x + span * (1 - pinch.share));
        return;
      }
      cursor = at(event);
      if (drag) drag.to = cursor;
      later();
    });
    box.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      if (event.pointerType === "touch") {
        fingers.set(event.pointerId, event.clientX);
        if (fingers.size === 2) {
          const [a, b] = [...fingers.values()], x = at({ clientX: (a + b) / 2 });
          pinch = { away: Math.max(20, Math.abs(a - b)), x, view: view.slice(), share: (x - view[0]) / (view[1] - view[0]) };
        }
      } else drag = { from: at(event), to: null };
      box.setPointerCapture(event.pointerId);
      cursor = at(event);
      later();
    });
    const done = (event) => {
      fingers.delete(event.pointerId);
      pinch = null;
      const ended = drag;
      drag = null;
      if (event.type === "pointerup" && ended && ended.to !== null && Math.abs(ended.to - ended.from) > (view[1] - view[0]) / 100) show(Math.min(ended.from, ended.to), Math.max(ended.from, ended.to));
      later();
    };
    box.addEventListener("pointerup", done);
    box.addEventListener("pointercancel", done);
    // The page scrolls by the wheel, unless a plot is in use.
    box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== box) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, { passive: false });
    box.addEventListener("dblclick", () => show(...whole));
  }
  byId("in").addEventListener("click", () => zoom(0.5, cursor));
  byId("out").addEventListener("click", () => zoom(2, cursor));
  byId("all").addEventListener("click", () => show(...whole));
  window.addEventListener("resize", later);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  const paper = (on) => () => {
    document.documentElement.classList.toggle("paper", on);
    document.querySelectorAll("details").forEach((each) => { each.open = on; });
    panels.forEach(draw);
  };
  window.addEventListener("beforeprint", paper(true));
  window.addEventListener("afterprint", paper(false));
  root.querySelector(".bar").classList.remove("idle");
  panels.forEach(draw);
  read();
  return { go(x) { go(x); panels[0].box.scrollIntoView({ block: "center" }); panels[0].box.focus({ preventScroll: true }); } };
})();
