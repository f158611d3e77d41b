"""Writes the lists of public names on the first pages of the reference.

    python docs/public_names.py

Takes the names and their groups from `keras_bert/__init__.py` and `export/__init__.py`, and the first line of each
docstring. Rewrites `docs/reference/index.md` and `docs/reference/export-names.md` between their two marks; a test fails
where a page differs.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
PAGES = {"keras_bert": "index.md", "export": "export-names.md"}
START, END = "<!-- names: docs/public_names.py writes them -->", "<!-- end of names -->"

_GROUP, _NAME = re.compile(r"# === (.+) ==="), re.compile(r'"(\w+)": "([\w.]+)"')


def main() -> None:
    """Write both pages."""
    for package, page in PAGES.items():
        path = REFERENCE / page
        path.write_text(with_names(path.read_text(encoding="utf-8"), package), encoding="utf-8")


def with_names(page: str, package: str) -> str:
    """Return a page with the list of a package between its marks."""
    before, rest = page.split(START)
    _, after = rest.split(END)
    return f"{before}{START}\n{names_as_markdown(package)}{END}{after}"


def names_as_markdown(package: str) -> str:
    """Return a table for each group: name with a link, what it does."""
    pages = _pages()
    lines = []
    for group, names in _groups(package):
        lines += [f"\n## {group}\n", "| name | what it does |", "|---|---|"]
        for name in names:
            module = f"{package}.{dict(_homes(package))[name]}"
            link = f"[`{name}`]({pages[f'{package}.{name}']}#{package}.{name})"
            lines.append(f"| {link} | {_first_line(module, name)} |")
    return "\n".join(lines) + "\n"


def _groups(package):
    groups = []
    for line in (ROOT / package / "__init__.py").read_text(encoding="utf-8").split("_HOMES = {")[1].splitlines():
        if line == "}":
            return groups
        if found := _GROUP.search(line):
            groups.append((found[1], []))
        elif found := _NAME.search(line):
            groups[-1][1].append(found[1])
    raise ValueError(f"{package}/__init__.py: found no end of _HOMES.")


def _homes(package):
    return _NAME.findall((ROOT / package / "__init__.py").read_text(encoding="utf-8"))


def _pages():
    """Where the reference shows each name."""
    shown = {}
    for path in sorted(REFERENCE.glob("*.md")):
        for name in re.findall(r"^::: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            shown[name] = path.name
    return shown


def _first_line(module, name):
    """The first line of the docstring, or for a value the comment above it; read, not imported."""
    path = ROOT / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return (ast.get_docstring(node) or "").splitlines()[0].rstrip(".")
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return _first_line(node.module, name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return source.splitlines()[node.lineno - 2].lstrip("# ").rstrip(".")
    raise ValueError(f"{module} has no {name!r}.")


if __name__ == "__main__":
    main()
