"""Puts `benchmarks/README.md`, its pictures and `SECURITY.md` on the site, so that facts stand in one place alone.

A hook of MkDocs: takes the list of the site's files, adds these. A room of its own because MkDocs reads `docs/` alone,
and a copy there would soon say something else than the original.
"""

from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SHOWN = {".md", ".png", ".svg"}


def on_files(files, config):
    """Called once for a build; `benchmarks/README.md` becomes the index of `benchmarks/`."""
    measured = [path for path in sorted((ROOT / "benchmarks").rglob("*")) if path.suffix in SHOWN]
    for path in (ROOT / "SECURITY.md", *measured):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files
