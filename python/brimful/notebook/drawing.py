"""The pieces of what a notebook shows: a box with its style, a bar to scale, tables, code.

In: texts and figures. Out: HTML that loads nothing and runs nothing: it is the same in Jupyter, Colab, VS Code and in a saved notebook, and where a
frontend takes styles away the words and tables stay. Colours are those of the pages (`crates/core/src/page/style.css`); the dark ones replace
them where a frontend says that it is dark. Every text is escaped here, so that names from a model or a log cannot leave their place.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

#: How frontends say that they are dark: JupyterLab, VS Code, Colab, documentation made of notebooks.
_DARK = (
    'body[data-jp-theme-light="false"], body.vscode-dark, body.vscode-high-contrast:not(.vscode-high-contrast-light), '
    'html[theme="dark"], html[data-theme="dark"], body[data-theme="dark"], body.quarto-dark, html.dark, body.dark'
)
_STYLE = f"""
.brimful {{
  --ground: #ffffff; --raised: #f4f5f7; --text: #1b1d21; --quiet: #555b66; --line: #d5d9df; --strong: #767d89;
  --good: #0a6b2c; --warning: #8a4b00; --bad: #b3261e;
  --c0: #0b62b5; --c1: #b84a00; --c2: #007d68; --c3: #a32a7e; --c4: #846800; --c5: #5a49c8; --c6: #0f7f9e; --c7: #6b6f76;
  background: var(--ground); color: var(--text); border: 1px solid var(--line); border-left: 4px solid var(--edge, var(--strong));
  border-radius: 4px; padding: .7em 1em; margin: .3em 0; max-width: 74em; box-sizing: border-box;
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; text-align: left; overflow-wrap: anywhere;
}}
:is({_DARK}) .brimful {{
  --ground: #14161a; --raised: #1f2329; --text: #e9ebee; --quiet: #aab1bc; --line: #343a43; --strong: #808995;
  --good: #6fdc8c; --warning: #ffc46b; --bad: #ff9a90;
  --c0: #5fb2ff; --c1: #ff9a57; --c2: #3ccfae; --c3: #f08cd0; --c4: #e0c34a; --c5: #ab9dff; --c6: #62d2f0; --c7: #b9bec7;
}}
.brimful-good {{ --edge: var(--good); }} .brimful-warning {{ --edge: var(--warning); }} .brimful-bad {{ --edge: var(--bad); }}
.brimful.brimful p, .brimful.brimful ul, .brimful.brimful ol {{ margin: .3em 0; }}
.brimful.brimful ul, .brimful.brimful ol {{ padding-inline-start: 1.4em; }}
.brimful.brimful p.brimful-head {{ font-size: 1.15em; font-weight: 600; color: var(--edge); }}
.brimful.brimful p.brimful-title {{ font-weight: 600; margin: .8em 0 .2em; }}
.brimful.brimful .brimful-quiet {{ color: var(--quiet); }}
.brimful-wide {{ overflow-x: auto; }} .brimful-side > div {{ max-width: 100%; }}
.brimful-side {{ display: flex; flex-wrap: wrap; gap: 0 2.5em; align-items: flex-start; }}
.brimful.brimful table {{ border-collapse: collapse; margin: .2em 0; font-size: .95em; border: 0; color: inherit; table-layout: auto; }}
.brimful.brimful tr:nth-child(n), .brimful.brimful tr:nth-child(n):hover {{ background: none; }}
.brimful.brimful th, .brimful.brimful td {{
  padding: .15em 1em .15em 0; text-align: start; vertical-align: top; border: 0; border-bottom: 1px solid var(--line);
  white-space: normal; max-width: 26em; color: inherit; background: none; font-weight: 400;
}}
.brimful.brimful thead th {{ font-weight: 600; white-space: nowrap; }}
.brimful.brimful .brimful-number {{ text-align: end; white-space: nowrap; font-variant-numeric: tabular-nums; }}
.brimful.brimful pre, .brimful.brimful code {{
  font: 12.5px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--raised); color: var(--text); border: 0;
}}
.brimful.brimful pre {{ margin: .2em 0; padding: .4em .6em; border-radius: 3px; overflow-x: auto; white-space: pre; }}
.brimful.brimful pre.brimful-said {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.brimful.brimful code {{ padding: .1em .3em; border-radius: 3px; white-space: nowrap; }}
.brimful-bar {{ position: relative; height: 1.4em; margin: .5em 0 .6em; background: var(--raised); border: 1px solid var(--strong); border-radius: 3px; }}
.brimful-bar i {{ position: absolute; top: 0; bottom: 0; }}
.brimful-bar b {{ position: absolute; top: -.3em; bottom: -.3em; width: 3px; background: var(--bad); box-shadow: 0 0 0 2px var(--ground); }}
.brimful-dot {{ display: inline-block; width: .8em; height: .8em; margin-inline-end: .45em; border-radius: 2px; vertical-align: -.05em; }}
.brimful-key {{ display: inline-block; margin-inline-end: 1.4em; }}
.brimful.brimful summary {{ cursor: pointer; color: var(--quiet); width: fit-content; }}
"""


def escape(text: object) -> str:
    """A text in its place, also within quotes; characters that control a terminal are left out."""
    return html.escape("".join(letter for letter in str(text) if letter >= " " or letter in "\n\t"), quote=True)


def box(tone: str, *pieces: str) -> str:
    """What is shown, as one element with its style. `tone`: `good`, `warning`, `bad` or nothing."""
    return f'<div class="brimful brimful-{tone or "plain"}"><style>{_STYLE}</style>{"".join(pieces)}</div>'


def headline(text: str) -> str:
    """The answer."""
    return f'<p class="brimful-head">{escape(text)}</p>'


def title(text: str) -> str:
    """What comes below."""
    return f'<p class="brimful-title">{escape(text)}</p>'


def paragraph(text: str, quiet: bool = False) -> str:
    """A sentence or more."""
    return f"<p{_quietly(quiet)}>{escape(text)}</p>" if text else ""


def points(texts: Iterable[str], quiet: bool = False) -> str:
    """A list."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul{_quietly(quiet)}>{items}</ul>" if items else ""


def code(text: str) -> str:
    """Code to copy."""
    return f"<pre>{escape(text)}</pre>"


def said(text: str) -> str:
    """A quoted line, which may be long."""
    return f'<pre class="brimful-said">{escape(text)}</pre>'


def folded(summary: str, *pieces: str) -> str:
    """What is there on a click."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(pieces)}</details>" if any(pieces) else ""


def beside(*pieces: str) -> str:
    """Next to each other where there is room."""
    return f'<div class="brimful-side">{"".join(f"<div>{piece}</div>" for piece in pieces if piece)}</div>'


def dot(colour: int) -> str:
    """The sign of a part of a bar."""
    return f'<i class="brimful-dot" style="background:var(--c{colour})"></i>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Rows of HTML; the columns in `numbers` stand to the right."""
    mark = [' class="brimful-number"' if column in numbers else "" for column in range(max(len(head), 16))]
    top = "".join(f"<th{mark[column]}>{escape(cell)}</th>" for column, cell in enumerate(head))
    body = "".join(f"<tr>{''.join(f'<td{mark[column]}>{cell}</td>' for column, cell in enumerate(row))}</tr>" for row in rows)
    drawn = f"<table>{f'<thead><tr>{top}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    return f'<div class="brimful-wide">{drawn}</div>' if body else ""


def key(parts: Iterable[tuple[str, int, int]]) -> str:
    """What the colours of a bar mean."""
    words = (f'<span class="brimful-key">{dot(colour)}{escape(f"{name} {human(size)}")}</span>' for name, size, colour in parts if size > 0)
    return f"<p>{''.join(words)}</p>"


def bar(parts: Iterable[tuple[str, int, int]], label: str, limit_bytes: int | None = None, scale_bytes: int = 0) -> str:
    """Parts to scale, each a name, its bytes and the number of its colour; a line where the limit is, if anything lies beyond it."""
    shown = [part for part in parts if part[1] > 0]
    total = sum(size for _, size, _ in shown)
    scale = max(total, limit_bytes or 0, scale_bytes, 1)
    pieces, begin = [], 0
    for name, size, colour in shown:
        left, width = 100 * begin / scale, 100 * size / scale
        hint = escape(f"{name}: {human(size)}")
        pieces.append(f'<i style="left:{left:.3f}%;width:{width:.3f}%;background:var(--c{colour})" title="{hint}"></i>')
        begin += size
    if limit_bytes is not None and limit_bytes < scale:
        hint = escape(f"limit: {human(limit_bytes)}")
        pieces.append(f'<b style="left:calc({100 * limit_bytes / scale:.3f}% - 1px)" title="{hint}"></b>')
    return f'<div class="brimful-bar" role="img" aria-label="{escape(label)}">{"".join(pieces)}</div>'


def text_bar(parts: Iterable[tuple[str, int]], limit_bytes: int | None, cells: int = 32) -> str:
    """The same for a terminal: a letter for each cell of a part, and what is free."""
    parts = [part for part in parts if part[1] > 0]
    scale = max(sum(size for _, size in parts), limit_bytes or 0, 1)
    drawn, begin = "", 0
    for letter, size in parts:
        begin += size
        drawn += letter * (round(begin / scale * cells) - len(drawn))
    return drawn.ljust(cells, "·")


def human(size_bytes: float) -> str:
    """Bytes in three digits, as reports have them."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if abs(size_bytes) >= 1 << power:
            value = size_bytes / (1 << power)
            return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f} {unit}"
    return f"{size_bytes:.0f} B"


def _quietly(quiet: bool) -> str:
    return ' class="brimful-quiet"' if quiet else ""
