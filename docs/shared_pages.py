"""Adds `benchmarks/README.md`, its pictures and `SECURITY.md` to the site.

A hook of MkDocs that takes the list of the site's files and adds these. MkDocs reads only `docs/`, and copies there
would soon differ from the originals.
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


def on_page_markdown(markdown, page, **kwargs):
    """Called for each page; a search finds guides before results."""
    if page.file.src_uri.startswith("benchmarks/"):
        page.meta["search"] = {"boost": 0.1}
    return markdown
