"""The Chinese pages are in step with the English ones: the same code, output, tables and links."""

import io
import re
import tokenize

import pytest
from doc_pages import Block, read_blocks, read_links
from places import ROOT

PAIRS = (("README.md", "README.zh-CN.md"), ("docs/quick-start.md", "docs/zh/quick-start.md"))
BOTH = pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=lambda name: name.replace("/", "-"))


def without_comments(block: Block) -> str:
    """The code of a block; of one without a language the first column, which names files or programs."""
    if block.language == "python":
        kept = tokenize.generate_tokens(io.StringIO(block.code).readline)
        return "\n".join(token.string for token in kept if token.type != tokenize.COMMENT and token.string.strip())
    lines = [re.sub(r"^([\w/]+/) {2,}.*", r"\1", line) for line in block.code.splitlines()]
    return "\n".join(lines)


@BOTH
def test_code_is_the_same_but_for_its_comments(english, chinese):
    ours, theirs = (
        [(block.language, without_comments(block)) for block in read_blocks(ROOT / page)] for page in (english, chinese)
    )
    assert ours and ours == theirs


@BOTH
def test_tables_name_the_same_code(english, chinese):
    ours, theirs = (
        re.findall(r"^\| (`.+?`) \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        for page in (english, chinese)
    )
    assert ours == theirs


@BOTH
def test_links_lead_to_files(english, chinese):
    page = ROOT / chinese
    for target in read_links(page):
        if "://" not in target:
            assert (page.parent / target.split("#")[0]).is_file(), f"{chinese} links to {target}"
    found = {path.name for path in (page.parent / target for target in read_links(page)) if path.suffix == ".md"}
    assert english.rsplit("/", 1)[-1] in found, f"{chinese} does not link to {english}"


def test_the_comparison_sees_a_changed_line():
    one, other = (Block("python", code, 1) for code in ("fit(epochs=2)  # two\n", "fit(epochs=2)  # 两轮\n"))
    assert without_comments(one) == without_comments(other)
    assert without_comments(one) != without_comments(Block("python", "fit(epochs=3)  # two\n", 1))
    tree, changed = (Block("", f"docs/   {words}\n  a/ b/\n", 1) for words in ("the guides", "文档"))
    assert without_comments(tree) == without_comments(changed)
