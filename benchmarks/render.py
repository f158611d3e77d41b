"""Writes everything that shows measured numbers, from the results files: pages, charts, and marked blocks.

    make results                            # or python benchmarks/render.py
    python benchmarks/render.py --check     # what differs from its data; exit code 1 where something does
    python benchmarks/render.py --old       # results that are older than the last change of their code

Reads `results/*.json`. Writes `results/NAME.md` (command, setup, table, reading), `charts/*.svg`, and what stands
between `<!-- results:NAME -->` and `<!-- /results -->` in README.md, benchmarks/*.md and docs/: NAME is one of
`claims.BLOCKS`, of `LISTS` below, or a results file, whose tables are shown (`tagging/wnut17`: those of one part).
"""

import argparse
import functools
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from charts import CHARTS, shows, values, write_charts
from claims import BLOCKS
from page_tables import merged
from pages import GROUPS, Page, page_of
from result_tables import LEGEND, WARNING, show
from results_files import RESULTS, Run, part, read_all

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- results:(?P<name>[^\n]+?) -->\n).*?(<!-- /results -->)", re.DOTALL)
TOLD = "<!-- Made by `make results` from {name}.json and pages.py; do not edit. -->"
NO_SENTENCE = "Nobody has written about these numbers yet."

Results = dict[str, list[Run]]


# === Pages ===


def render_page(name: str, runs: list[Run]) -> str:
    """The page of a results file."""
    page = page_of(name, runs)
    parts = by_part(runs)
    blocks = [f"# {page.title}", TOLD.format(name=name), "## Command"]
    blocks += commands(page, parts)
    blocks += ["## Setup", *[text for text in (page.setup,) if text], setup(page, parts)]
    blocks += ["## Table"]
    tables = tables_by_part(page, parts)
    blocks += tables + ([LEGEND] if any(WARNING in table for table in tables) else [])
    blocks += [f"![{chart.title}](../charts/{chart.name}.svg)" for chart in CHARTS if chart.name in page.charts]
    blocks += ["## Reading", page.reading or NO_SENTENCE]
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def by_part(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs of the same part together, those without one first, otherwise in the order of the file."""
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: "part" in run):
        found.setdefault(run.get("part", ""), []).append(run)
    return found


def commands(page: Page, parts: dict[str, list[Run]]) -> list[str]:
    """What to type for each part, in one block, then when and on which code that was done."""
    lines = []
    for line, titles in grouped((run["command"], title) for title, runs in parts.items() for run in runs).items():
        lines += [f"# {names(page, titles)}"] * (len(parts) > 1) + [line]
    when = grouped((made(runs), title) for title, runs in parts.items())
    return ["```bash\n" + "\n".join(lines) + "\n```", "\n".join(labelled(page, when, parts))]


def made(runs: list[Run]) -> str:
    """The commit and the day of a part, and what is special about them."""
    commits, dates = (unique(run[name] for run in runs) for name in ("commit", "date"))
    told = f"Commit {', '.join(f'`{one}`' for one in commits)}, {' to '.join(sorted({min(dates), max(dates)}))}."
    if any(run.get("transcribed") for run in runs):
        told += " Copied from an earlier text."
    reasons = unique(run["not_repeated"] for run in runs if "not_repeated" in run)
    return told + "".join(f" Not repeated on newer code: {reason[0].lower()}{reason[1:]}" for reason in reasons)


def setup(page: Page, parts: dict[str, list[Run]]) -> str:
    """Machines and versions, then settings, seeds and notes; what several parts share stands once."""
    runs = [(run, title) for title, some in parts.items() for run in some]
    told = [grouped((tell(run), title) for run, title in runs) for tell in (where, how)]
    lines = [line for one in told for line in labelled(page, one, parts)]
    return "\n".join(line if line.startswith("- ") else f"- {line}" for line in lines)


def where(run: Run) -> str:
    """Machine and versions of a run."""
    machine = run["machine"]
    memory = f", {machine['memory_gb']:g} GB" if "memory_gb" in machine else ""
    used = f"{name_machine(machine)}, of which {machine.get('used', machine['cores'])} used{memory}"
    return f"{used}. {', '.join(f'{name} {version}' for name, version in run['versions'].items())}."


def how(run: Run) -> str:
    """Settings, seeds and the note of a run."""
    told = ["; ".join(f"{name}: {show(value)}" for name, value in run.get("settings", {}).items())]
    seeds = run.get("seeds", [])
    told.append(f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" if seeds else "")
    text = ". ".join(f"{one[0].upper()}{one[1:]}" for one in told if one)
    return f"{text}{'.' * bool(text)} {run.get('note', '').strip()}".strip()


def grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The parts by what is told of them, without what is told of none."""
    found: dict[str, list[str]] = {}
    for text, title in pairs:
        if text and title not in found.setdefault(text, []):
            found[text].append(title)
    return found


def labelled(page: Page, told: dict[str, list[str]], parts: Collection[str]) -> list[str]:
    """What is told of the parts: as it is where it is the same of all, otherwise as a list with their names."""
    if any(len(titles) == len(parts) for titles in told.values()):
        return list(told)
    return [f"- **{names(page, titles)}**: {text}" for text, titles in told.items()]


def names(page: Page, titles: list[str]) -> str:
    """What the page calls some parts."""
    return " · ".join(page.name_of(title) for title in titles)


def name_machine(machine: dict[str, Any]) -> str:
    """A processor with its features, and the cores of the machine."""
    features = ", ".join(name.replace("_", "-").upper() for name in machine.get("features", []))
    return f"{machine['cpu']}{f' ({features})' if features else ''}, {machine['cores']} cores"


def tables_by_part(page: Page, parts: dict[str, list[Run]]) -> list[str]:
    """The tables of each part under its name."""
    found = []
    if page.whole is not None:
        return [table.markdown() for table in page.whole([run for runs in parts.values() for run in runs])]
    if page.joined:
        parts = {"": [run for runs in parts.values() for run in runs]}
    for title, runs in parts.items():
        if len(parts) > 1 and (title or title in page.parts):
            found.append(f"### {page.name_of(title)}\n")
        found += [table.markdown() for table in merged([table for run in runs for table in page.tables_of(run)])]
    return found


def unique(values: Iterator[Any] | list[Any]) -> list[Any]:
    """Each value once, in order."""
    return list(dict.fromkeys(values))


# === Marked blocks ===


def list_of_pages(results: Results) -> str:
    """Links to all pages, by group."""
    pages = {name: page_of(name, runs) for name, runs in results.items()}
    lines = []
    for group in GROUPS:
        links = [f"[{page.title}](results/{name}.md)" for name, page in pages.items() if page.group == group]
        if links:
            lines.append(f"- {group}: {' · '.join(links)}\n")
    return "".join(lines)


def all_charts(results: Results) -> str:
    """Every chart."""
    return "".join(f"![{chart.title}](charts/{chart.name}.svg)\n" for chart in CHARTS)


def machines(results: Results) -> str:
    """The machines that the results come from, with the number of runs on each."""
    found: dict[str, int] = {}
    for runs in results.values():
        for run in runs:
            machine = run["machine"]
            found[name_machine(machine)] = found.get(name_machine(machine), 0) + 1
    return "".join(f"- {name}: {count} {'runs' if count > 1 else 'run'}\n" for name, count in found.items())


LISTS = {"pages": list_of_pages, "charts": all_charts, "machines": machines}


def render_block(name: str, results: Results) -> str:
    """What stands in a marked block."""
    if name in BLOCKS or name in LISTS:
        return (BLOCKS | LISTS)[name](results)
    file, _, title = name.partition("/")
    if file not in results:
        known = ", ".join((*BLOCKS, *LISTS))
        raise ValueError(f"There is no block {name!r}; expected the name of a results file, or one of {known}.")
    runs = [part(results[file], title)] if title else results[file]
    return "\n".join(tables_by_part(page_of(file, runs), by_part(runs)))


def render_blocks(text: str, results: Results) -> str:
    """A text with its marked blocks made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{render_block(found['name'], results)}{found[3]}", text)


def marked_files() -> list[Path]:
    """The files that may have marked blocks."""
    pages = (ROOT.glob("README*.md"), (ROOT / "benchmarks").glob("*.md"), (ROOT / "docs").rglob("*.md"))
    return [path for some in pages for path in sorted(some)]


# === Writing and checking ===


def rendered(results: Results) -> dict[Path, str]:
    """Every file that shows numbers, as it should be."""
    found = {RESULTS / f"{name}.md": render_page(name, runs) for name, runs in results.items()}
    for path in marked_files():
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            found[path] = render_blocks(text, results)
    return found


def differing(results: Results) -> list[Path]:
    """Files that are not as their data make them, pages without data included."""
    files = rendered(results)
    found = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    found += [path for path in RESULTS.glob("*.md") if path not in files]
    for chart in CHARTS:
        path = ROOT / "benchmarks" / "charts" / f"{chart.name}.svg"
        numbers = values(chart, results[chart.file])
        if not path.exists() or not shows(path.read_text(encoding="utf-8"), numbers):
            found.append(path)
    return found


def write_all(results: Results) -> list[Path]:
    """Write what differs, and remove pages whose data are gone."""
    files = rendered(results)
    changed = [path for path in differing(results) if path.suffix == ".md"]
    for path in changed:
        if path in files:
            path.write_text(files[path], encoding="utf-8")
        else:
            path.unlink()
    return changed + write_charts(results)


# === Age ===


@functools.cache
def ask_git(*words: str) -> str:
    """What git answers; nothing where it cannot."""
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def has_history() -> bool:
    """Whether this is a repository with its history."""
    return ask_git("rev-parse", "--is-shallow-repository") == "false"


def releases() -> list[str]:
    """The versions that the package has had, in order."""
    words = ("log", "--reverse", "--format=%H", "-G__version__ = ", "--", "keras_bert/__init__.py")
    return unique([version for commit in ask_git(*words).split() if (version := version_at(commit))])


def version_at(commit: str) -> str:
    """The version of the package at a commit."""
    found = re.search(r'__version__ = "(.+)"', ask_git("show", f"{commit}:keras_bert/__init__.py"))
    return found[1] if found else ""


def commit_of(run: Run) -> str:
    """The commit of a run, or where a rebase took it away the last one of its day."""
    known = ask_git("rev-parse", "--verify", "--quiet", f"{run['commit'].rstrip('+')}^{{commit}}")
    return known or ask_git("rev-list", "-1", f"--before={run['date']} 23:59:59", "HEAD")


def age(name: str, run: Run) -> tuple[int, int]:
    """How many releases and how many commits of its code a result is behind."""
    page, commit = page_of(name, [run]), commit_of(run)
    versions, last = releases(), ask_git("log", "-1", "--format=%H", "--", *page.code)
    if not commit or not last:
        return 0, 0
    behind = versions.index(version_at(last)) - versions.index(version_at(commit))
    return max(0, behind), int(ask_git("rev-list", "--count", f"{commit}..HEAD", "--", *page.code) or 0)


def too_old(results: Results) -> list[str]:
    """Results that are more than a release older than the last change of their code, without a reason."""
    found = []
    for name, runs in results.items():
        for run in runs:
            behind, _ = age(name, run)
            if behind > 1 and "not_repeated" not in run:
                found.append(f"{name}.json{', ' + run['part'] if 'part' in run else ''}: {behind} releases")
    return found


def print_ages(results: Results) -> None:
    """Every result whose code has changed since, and why it is not repeated."""
    for name, runs in results.items():
        for run in runs:
            behind, commits = age(name, run)
            if commits:
                why = f"; not repeated: {run['not_repeated']}" if "not_repeated" in run else ""
                print(f"{name}{', ' + run['part'] if 'part' in run else ''}: {commits} commits, {behind} releases{why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs from its data")
    parser.add_argument("--old", action="store_true", help="list results that are older than their code")
    arguments = parser.parse_args()
    results = read_all()
    if arguments.old:
        print_ages(results)
        return
    paths = differing(results) if arguments.check else write_all(results)
    print(*(path.relative_to(ROOT) for path in paths), sep="\n")
    if arguments.check and paths:
        sys.exit("These differ from their data: make results")


if __name__ == "__main__":
    main()
