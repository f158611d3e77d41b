"""Puts `benchmarks/README.md` and its pictures on the site, so that the numbers stand in one place alone.

A hook of MkDocs: takes the list of the site's files, adds those of `benchmarks/`. A room of its own because MkDocs
reads `docs/` alone, and a copy there would soon say something else than the original.
"""

from pathlib import Path

from mkdocs.structure.files import File

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SHOWN = {".md", ".png", ".svg"}


def on_files(files, config):
    """Called once for a build; `benchmarks/README.md` becomes the index of `benchmarks/`."""
    for path in sorted(BENCHMARKS.rglob("*")):
        if path.suffix in SHOWN:
            place = path.relative_to(BENCHMARKS.parent).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files
