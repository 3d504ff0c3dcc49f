"""Writes docs/api.md, the reference of the Python package, from its signatures and docstrings. `--check` only says whether it is up to date.

In: the sources under python/brimful, which are read and not imported: no framework is needed. Out: one page, in the order of each
package's `__all__`. Not in it: names without a docstring, and what begins with `_`.

    python tools/make_api_docs.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "api.md"
#: The packages that people import, and the page that says how they are used.
PACKAGES = {
    "brimful": "",
    "brimful.keras": "fit.md",
    "brimful.torch": "torch_step.md",
    "brimful.data": "data.md",
    "brimful.fitting": "",
}
#: Classes that people make themselves; others come from a function, and their arguments are nobody's business.
MADE_BY_USERS = ("brimful.keras.Step", "brimful.torch.Step", "brimful.torch.recover")
WIDEST_LINE = 100
HEAD = """\
# The Python package

Written by `make api` from the docstrings; `help(brimful.plan)` shows the same. The command is described by `brimful --help`.
"""


def file_of(module: str) -> Path:
    path = ROOT / "python" / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def parsed(module: str) -> ast.Module:
    return ast.parse(file_of(module).read_text())


def constant(tree: ast.Module, name: str, default):
    """The value of a literal that a module assigns to a name."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
            return ast.literal_eval(node.value)
    return default


def definition(module: str, name: str) -> tuple[str, ast.AST] | None:
    """The module and the code that define a name of a module: there, in a module that it imports from, or in one that it imports late."""
    tree = parsed(module)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom):
            original = next((alias.name for alias in node.names if (alias.asname or alias.name) == name), None)
            home = original and absolute(module, node)
            if home and home.startswith("brimful") and file_of(home).exists():
                return definition(home, original)
    home = constant(tree, "_LAZY", {}).get(name)
    return definition(home if home.startswith("brimful") else f"{module}.{home}", name) if home else None


def absolute(module: str, node: ast.ImportFrom) -> str:
    """The module that `from … import` names."""
    if not node.level:
        return node.module
    package = module if file_of(module).name == "__init__.py" else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def signature(name: str, node: ast.FunctionDef, own: bool = False) -> str:
    """`name(arguments) -> result`, one argument on a line where it is long; `own` leaves the first one out."""
    taken, defaults = node.args, [*node.args.defaults]
    plain = [*taken.posonlyargs, *taken.args]
    values = [None] * (len(plain) - len(defaults)) + defaults
    parts = [with_default(argument, value) for argument, value in zip(plain, values)][own:]
    if taken.vararg:
        parts.append(f"*{ast.unparse(taken.vararg)}")
    elif taken.kwonlyargs:
        parts.append("*")
    parts += [with_default(argument, value) for argument, value in zip(taken.kwonlyargs, taken.kw_defaults)]
    if taken.kwarg:
        parts.append(f"**{ast.unparse(taken.kwarg)}")
    returns = ast.unparse(node.returns).strip("'") if node.returns else "None"
    result = f" -> {returns}" if returns != "None" else ""
    line = f"{name}({', '.join(parts)}){result}".replace("'", '"')
    if len(line) <= WIDEST_LINE:
        return line
    return (f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}").replace("'", '"')


def with_default(argument: ast.arg, value: ast.AST | None) -> str:
    equals = " = " if argument.annotation else "="
    return ast.unparse(argument) + (equals + ast.unparse(value) if value else "")


def prose(docstring: str) -> str:
    """A docstring as Markdown: `name: what it is` becomes a list, ``code`` becomes `code`, an example a block; transcripts are left out."""
    rows, state = [], "text"
    for line in inspect.cleandoc(docstring).replace("``", "`").splitlines():
        argument = re.match(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.+)", line)
        if state == "example" and line and not line.startswith("    "):
            rows, state = [*rows, "```", ""], "text"
        if line.startswith(">>> ") or (state == "transcript" and line):
            state = "transcript"
        elif argument:
            rows += ([] if state == "list" else [""]) + [f"- `{argument[1]}`: {argument[2]}"]
            state = "list"
        elif line.startswith("    ") and state == "list":
            rows.append("  " + line.strip())
        elif line.startswith("    "):
            rows += ([] if state == "example" else ["```py"]) + [line[4:]]
            state = "example"
        elif line or state != "example":
            rows, state = [*rows, line], "text"
    rows += ["```"] if state == "example" else []
    return re.sub(r"\n{3,}", "\n\n", "\n".join(rows)).strip() + "\n"


def public_members(module: str, node: ast.ClassDef):
    """The methods and properties with a docstring; those of its bases in this package behind its own, unless it has them itself."""
    members = [member for member in node.body if isinstance(member, ast.FunctionDef)]
    for base in node.bases:
        found = definition(module, base.id) if isinstance(base, ast.Name) else None
        own = {member.name for member in members}
        members += [member for member in public_members(*found) if member.name not in own] if found else []
    return [member for member in members if not member.name.startswith("_") and ast.get_docstring(member)]


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id.endswith("property") for decorator in node.decorator_list)


def is_error(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)


def entry(full_name: str, module: str, node: ast.AST) -> str:
    """What the page says of a function or a class."""
    short = full_name.rpartition(".")[2]
    if isinstance(node, ast.FunctionDef):
        return f"### `{full_name}`\n\n```py\n{signature(short, node)}\n```\n\n{prose(ast.get_docstring(node))}"
    made_by = next((member for member in node.body if isinstance(member, ast.FunctionDef) and member.name == "__init__"), None)
    # What people can catch it by; other bases are how it is built.
    bases = f"({', '.join(ast.unparse(base) for base in node.bases)})" if is_error(node) else ""
    shown = signature(short, made_by, own=True) if made_by and full_name in MADE_BY_USERS else f"class {short}{bases}"
    text = f"### `{full_name}`\n\n```py\n{shown}\n```\n\n{prose(ast.get_docstring(node))}"
    items, long = "", ""
    for member in public_members(module, node):
        head = f".{member.name}" if is_property(member) else signature(f".{member.name}", member, own=True)
        said = prose(ast.get_docstring(member))
        if "\n" in head or "\n\n" in said:
            long += f"\n```py\n{head}\n```\n\n{said}"
        else:
            items += f"- `{head}`: {said}".replace("\n", "\n  ").rstrip() + "\n"
    return text + (f"\n{items}" if items else "") + long


def page() -> str:
    parts, seen = [HEAD], {}
    for package, guide in PACKAGES.items():
        tree = parsed(package)
        first = inspect.cleandoc(ast.get_docstring(tree)).split("\n\n")[0]
        parts.append(f"## `{package}`\n\n{first}" + (f" How it is used: [{guide}]({guide}).\n" if guide else "\n"))
        for name in constant(tree, "__all__", []):
            found = definition(package, name)
            if found is None or not ast.get_docstring(found[1]):
                continue
            home, full_name = (found[0], found[1].name), f"{package}.{name}"
            parts.append(f"### `{full_name}`\n\nThe same as `{seen[home]}`.\n" if home in seen else entry(full_name, *found))
            seen.setdefault(home, full_name)
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/api.md from the docstrings of the Python package.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is out of date")
    args = parser.parse_args()
    text = page()
    if not args.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print("docs/api.md is out of date: run `make api` and read the difference", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
