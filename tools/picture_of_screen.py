#!/usr/bin/env python3
"""Takes a picture of what a command shows in a terminal.

In: a command, the size of the terminal, how long to wait. Out: a PNG. The command runs in tmux, whose cells are set as HTML and photographed by
headless Chromium; needs both. Keys may be sent before the picture, and `q` is sent after it.

    python tools/picture_of_screen.py -o docs/pictures/live.png --columns 120 --rows 36 --after 60 -- brimful run -- python train.py
"""

import argparse
import html
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

# Okabe and Ito's colours where there is one: told apart by all eyes.
SIXTEEN = [
    "#20242b", "#d55e00", "#009e73", "#e69f00", "#4d9de0", "#cc79a7", "#56b4e9", "#c8ccd4",
    "#6b7280", "#ff7b39", "#2fd3a0", "#f0e442", "#7dbcf5", "#e6a5cd", "#8fd3f7", "#ffffff",
]  # fmt: skip
FRONT, BACK = "#d7dae0", "#16191f"
# In DejaVu Sans Mono of this size a full block fills the cell.
CELL_WIDTH, CELL_HEIGHT, FONT_PX = 10, 19, 16.4


def tmux(*arguments):
    # A server of its own, so that nobody's settings or sessions are touched.
    command = ["tmux", "-L", f"picture-{os.getpid()}", "-f", "/dev/null", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def captured(command, columns, rows, after_s, keys):
    """The screen's lines, with escape sequences for styles."""
    tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), *command, ";", "set", "-g", "status", "off")
    try:
        tmux("resize-window", "-x", str(columns), "-y", str(rows))
        for key in keys:
            tmux("send-keys", key)
        time.sleep(after_s)
        text = tmux("capture-pane", "-p", "-e", "-N")
        tmux("send-keys", "q")
        return text.split("\n")[:rows]
    finally:
        subprocess.run(["tmux", "-L", f"picture-{os.getpid()}", "kill-server"], check=False, capture_output=True)


def indexed(index):
    if index < 16:
        return SIXTEEN[index]
    if index >= 232:
        return "#" + f"{8 + (index - 232) * 10:02x}" * 3
    levels = [0, 95, 135, 175, 215, 255]
    index -= 16
    return "#{:02x}{:02x}{:02x}".format(levels[index // 36], levels[index // 6 % 6], levels[index % 6])


class Style:
    """What the escape sequences so far have set."""

    def __init__(self):
        self.front, self.back, self.bold, self.dim, self.reversed = None, None, False, False, False

    def take(self, codes):
        codes = [int(code or 0) for code in re.split("[;:]", codes)]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()
            elif code in (1, 2, 7):
                setattr(self, {1: "bold", 2: "dim", 7: "reversed"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code == 27:
                self.reversed = False
            elif code in (38, 48):
                kind = codes.pop(0)
                colour = indexed(codes.pop(0)) if kind == 5 else "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3))
                setattr(self, "front" if code == 38 else "back", colour)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.front = SIXTEEN[code - 30 if code < 40 else code - 82]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.back = SIXTEEN[code - 40 if code < 50 else code - 92]
            elif code == 39:
                self.front = None
            elif code == 49:
                self.back = None

    def css(self):
        front, back = self.front or FRONT, self.back
        if self.reversed:
            front, back = back or BACK, front
        rules = [f"color:{front}"]
        rules += [f"background:{back}"] if back else []
        rules += ["font-weight:bold"] if self.bold else []
        rules += ["opacity:.6"] if self.dim else []
        return ";".join(rules)


def page(lines, columns, rows):
    style, body = Style(), []
    for row, line in enumerate(lines):
        column = 0
        for escape, text in re.findall(r"\x1b\[([\d;:]*)m|([^\x1b]+|\x1b)", line):
            if not text:
                style.take(escape)
                continue
            for character in text:
                # Each in its own cell: fonts do not agree on the width of blocks.
                place = f"left:{column * CELL_WIDTH}px;top:{row * CELL_HEIGHT}px"
                body.append(f'<i style="{place};{style.css()}">{html.escape(character)}</i>')
                column += 1
    font = f"{FONT_PX}px/{CELL_HEIGHT}px 'DejaVu Sans Mono', monospace"
    return (
        f"<!doctype html><meta charset=utf-8><style>body{{margin:10px;background:{BACK};width:{columns * CELL_WIDTH}px;"
        f"height:{rows * CELL_HEIGHT}px;position:relative}}i{{position:absolute;font:{font};font-style:normal;"
        f"width:{CELL_WIDTH}px;height:{CELL_HEIGHT}px;white-space:pre;overflow:hidden}}</style><div style='position:absolute'>"
        + "".join(body)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=36)
    parser.add_argument("--after", type=float, default=2.0, help="seconds until the picture is taken")
    parser.add_argument("--key", action="append", default=[], help="a key to send at first, as tmux names it")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None or shutil.which("tmux") is None:
        parser.error("needs tmux and Chromium")
    lines = captured(arguments.command, arguments.columns, arguments.rows, arguments.after, arguments.key)
    size = f"{arguments.columns * CELL_WIDTH + 20},{arguments.rows * CELL_HEIGHT + 20}"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "screen.html"
        source.write_text(page(lines, arguments.columns, arguments.rows), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        target = f"--screenshot={arguments.output.resolve()}"
        subprocess.run([browser, *options, target, source.as_uri()], check=True, capture_output=True, timeout=60)
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
