"""The README's Python blocks run, one after the other in one process, and print what the README says they print."""

import contextlib
import doctest
import io
import re

import pytest
from places import ROOT

BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n?```text\n(?P<output>.*?)```)?", re.DOTALL)


@pytest.mark.slow
def test_blocks_run_and_print_what_they_say(tmp_path, monkeypatch, minilm_dir):
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")))
    assert len(blocks) >= 2
    namespace, checker = {}, doctest.OutputChecker()
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], "README.md", "exec"), namespace)
        if block["output"] is not None:
            same = checker.check_output(block["output"], printed.getvalue(), doctest.ELLIPSIS)
            assert same, f"{block['code']}printed\n{printed.getvalue()}and not\n{block['output']}"


def test_links_lead_to_files():
    for document in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{document.name} links to {target}"
