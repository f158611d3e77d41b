"""Results are data: files follow one schema, what shows their numbers is made of them, and they are not too old."""

import doctest
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from benchmark_modules import load
from places import ROOT

record, results_files, result_tables = load("record"), load("results_files"), load("result_tables")
claims, pages, render = load("claims"), load("pages"), load("render")
RESULTS = results_files.read_all()
NUMBER = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?(?![\w])")
GOOD = {
    "commit": "592950f+",
    "date": "2026-11-16",
    "command": "python benchmarks/x.py --data DIR",
    "machine": {"cpu": "AMD EPYC", "features": ["avx2"], "cores": 2},
    "versions": {"keras": "3.15.1"},
    "results": [{"contender": "ours", "ms": [2.0, 2.1]}, {"contender": "theirs", "ms": 3.5}],
}


# === The schema ===


@pytest.mark.parametrize("name", RESULTS)
def test_files_follow_the_schema(name):
    for run in RESULTS[name]:
        assert not results_files.problems(run)
    parts = [run["part"] for run in RESULTS[name] if "part" in run]
    assert len(set(parts)) == len(parts), f"{name}.json has a part twice"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"commit": "main"}, "the commit is 'main'"),
        ({"commit": None}, "'commit' is None; expected str"),
        ({"date": "16 November"}, "the date is '16 November'"),
        ({"command": "python benchmarks/x.py --data /home/me/data"}, "the command names /home/me/data"),
        ({"machine": {"cpu": "AMD EPYC"}}, "machine has no 'cores'"),
        ({"machine": {"cpu": "x", "cores": 2, "features": ["mmx"]}}, "machine has the feature 'mmx'"),
        ({"versions": {"keras": "new"}}, "the version of keras is 'new'"),
        ({"seeds": 3}, "'seeds' is 3; expected list"),
        ({"results": [{"ms": float("nan")}]}, "results[0].ms is nan"),
        ({"transcribed": "yes"}, "'transcribed' is 'yes'; expected bool"),
    ],
)
def test_the_schema_refuses(changes, told):
    assert results_files.problems(GOOD) == []
    assert told in "; ".join(results_files.problems({**GOOD, **changes}))


@pytest.mark.parametrize("name", list(GOOD))
def test_the_schema_asks_for_everything(name):
    assert results_files.problems({key: value for key, value in GOOD.items() if key != name})


def test_a_file_may_have_its_runs_by_part(tmp_path):
    for text in ({"fast": GOOD, "slow": GOOD}, {"runs": [{"part": "fast", **GOOD}, {"part": "slow", **GOOD}]}):
        (tmp_path / "x.json").write_text(json.dumps(text), encoding="utf-8")
        assert [run["part"] for run in results_files.read_runs(tmp_path / "x.json")] == ["fast", "slow"]


def test_a_bad_file_is_named(tmp_path):
    (tmp_path / "slow.json").write_text(json.dumps({"runs": [{**GOOD, "date": "today"}]}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"slow.json does not follow the schema: run 0: the date is 'today'"):
        results_files.read_all(tmp_path)


# === Writing ===


def test_a_script_writes_what_the_schema_asks_for(tmp_path, monkeypatch):
    data = tmp_path / "data"
    words = [
        f"{ROOT}/benchmarks/x.py",
        "--data",
        str(data),
        "--start",
        f"a={data}",
        "--python",
        str(data),
        "--output",
        "x.json",
        "--rounds",
        "2",
    ]
    monkeypatch.setattr(sys, "argv", words)
    path = tmp_path / "results" / "x.json"
    record.write_run(path, [{"ms": 1.0}], packages=("numpy", "no-such-package"), part="fast", seeds=[0])
    record.write_run(path, [{"ms": 5.0}], packages=("numpy",), part="slow")
    record.write_run(path, [{"ms": 2.0}], packages=("numpy",), part="fast")
    slow, fast = results_files.read_runs(path)
    assert (slow["part"], fast["part"], fast["results"]) == ("slow", "fast", [{"ms": 2.0}])
    assert fast["command"] == "python benchmarks/x.py --data DIR --start a=data --python PYTHON --rounds 2"
    assert set(fast["versions"]) == {"python", "numpy"}


@pytest.mark.parametrize("module", [record, results_files, result_tables], ids=lambda module: module.__name__)
def test_examples_in_docstrings_are_true(module):
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


# === Tables ===


def test_data_of_any_form_become_tables():
    made = {
        "seconds": 3.5,
        "rows": [{"who": "a", "ms": [1.0, 1.05, 0.95], "load": [{"clients": 1, "p50": 2}]}],
        "files": {"int8": {"MB": 1.5, "ops": {"dense": 4}}, "float": {"MB": 6, "ops": {"dense": 5}}},
    }
    text = "\n".join(table.markdown() for table in result_tables.tables_of(made))
    for line in (
        "| seconds | 3.5 |",
        "| a | 1.000 ± 0.050 |",
        "rows, a, load:",
        "| 1 | 2 |",
        "|  | MB | ops, dense |",
        "| int8 | 1.5 | 4 |",
    ):
        assert line in text, f"{line} is not in\n{text}"


def test_repetitions_that_differ_by_much_are_marked():
    assert result_tables.show_repetitions([1.0, 1.05, 0.95]) == "1.000 ± 0.050"
    assert result_tables.show_repetitions([1.0, 1.2, 0.8]) == f"1.00 ± 0.20 {result_tables.WARNING}"
    assert result_tables.show({"mean": 2.0, "deviation": 0.3, "runs": 3}).endswith(result_tables.WARNING)
    page = render.render_page("unstable", [{**GOOD, "results": [{"ms": [1.0, 2.0]}]}])
    assert result_tables.LEGEND in page
    assert result_tables.LEGEND not in render.render_page("stable", [GOOD])


# === Pages and blocks ===


def test_everything_that_shows_numbers_is_as_its_data_make_it():
    found = [str(path.relative_to(ROOT)) for path in render.differing(RESULTS)]
    assert not found, f"These differ from their data: {', '.join(found)}: make results"


def test_a_page_that_differs_from_its_data_is_found():
    changed = {name: json.loads(json.dumps(runs)) for name, runs in RESULTS.items()}
    ours = next(row for row in changed["tokenizer"][0]["results"] if row["contender"].startswith("ours"))
    ours["MB/s"] = [2 * speed for speed in ours["MB/s"]]
    names = {path.name for path in render.differing(changed)}
    assert {"tokenizer.md", "tokenizer.svg", "README.md"} <= names
    assert "encoder.md" not in names


@pytest.mark.parametrize("name", RESULTS)
def test_pages_have_four_parts_and_are_short(name):
    text = render.render_page(name, RESULTS[name])
    assert re.findall(r"^## (.+)", text, re.MULTILINE) == ["Command", "Setup", "Table", "Reading"]
    reading = text.rpartition("## Reading")[2]
    assert 1 <= len(re.findall(r"[.?!](?=\s|$)", reading)) <= 3, reading
    assert "| --- |" not in text and "nan" not in text.split()
    assert re.search(r"^\|.*\d", text, re.MULTILINE), f"{name}.md has no number"


@pytest.mark.parametrize("name", RESULTS)
def test_pages_have_words_and_columns_that_a_reader_knows(name):
    text = render.render_page(name, RESULTS[name])
    assert render.NO_SENTENCE not in text, f"pages.py has no reading for {name}.json"
    heads = re.findall(r"^(\|.*\|)\n\|---", text, re.MULTILINE)
    known = re.compile(r"(dynamic|static|weight|all)_int\w+")
    found = [word for head in heads for word in re.findall(r"\w+_\w+", head) if not known.fullmatch(word)]
    assert not [word for word in found if word not in ("few_sample", "beta_2")], f"{name}.md has columns named {found}"


def test_what_parts_share_stands_once():
    runs = [{**GOOD, "part": name, "seeds": [0]} for name in ("speed", "memory")]
    runs[1] |= {"command": "python benchmarks/x.py --memory", "note": "A busy machine."}
    text = render.render_page("brand_new", runs)
    assert "# speed\npython benchmarks/x.py --data DIR\n# memory\npython benchmarks/x.py --memory\n" in text
    assert text.count("Commit `592950f+`") == text.count("keras 3.15.1") == 1
    assert "- **speed**: Seed 0.\n- **memory**: Seed 0. A busy machine." in text


def test_a_note_of_one_part_names_it():
    runs = [{**GOOD, "part": "speed"}, {**GOOD, "part": "memory", "note": "A busy machine."}]
    assert "- **memory**: A busy machine." in render.render_page("brand_new", runs)


def test_pages_depend_on_code_that_is_there():
    for name, page in pages.PAGES.items():
        assert page.group in pages.GROUPS
        for path in page.code:
            assert (ROOT / path).exists(), f"{name} depends on {path}, which is not there"


def test_a_new_file_needs_no_page():
    run = {**GOOD, "command": "python benchmarks/tokenizer.py", "results": {"int8": {"ms": 1}, "float": {"ms": 2}}}
    text = render.render_page("brand_new", [run])
    assert text.startswith("# Brand new\n")
    assert "How fast the tokenizer is" in text
    assert "| float | 2 |" in text


@pytest.mark.parametrize("name", [*claims.BLOCKS, *render.LISTS, "tagging", "tagging/wnut17"])
def test_blocks_are_made(name):
    text = render.render_blocks(f"before\n<!-- results:{name} -->\nold\n<!-- /results -->\nafter\n", RESULTS)
    assert text.startswith("before\n") and text.endswith("<!-- /results -->\nafter\n")
    assert "old" not in text.split() and len(text) > 150
    assert render.render_blocks(text, RESULTS) == text


def test_an_unknown_block_is_an_error():
    with pytest.raises(ValueError, match="There is no block 'tokens'; expected the name of a results file"):
        render.render_block("tokens", RESULTS)


def test_the_readme_has_one_number_a_cell():
    lines = render.render_block("readme", RESULTS).splitlines()
    assert len(lines) == 2 + 5
    for line in lines[2:]:
        _, ours, theirs, peer = line.strip("| ").split(" | ")
        assert len(NUMBER.findall(ours)) == len(NUMBER.findall(theirs)) == 1 and peer


def test_the_chinese_readme_has_the_same_rows():
    here, there = (render.render_block(name, RESULTS).splitlines() for name in ("readme", "readme-zh"))
    numbers = [[NUMBER.findall(cell) for cell in line.split("|")[2:4]] for line in (*here[2:], *there[2:])]
    assert len(here) == len(there) and numbers[: len(here) - 2] == numbers[len(here) - 2 :]
    assert {claim.readme for claim in claims.CLAIMS if claim.readme} <= set(claims.CHINESE)


def test_the_summary_is_short():
    assert len((ROOT / "benchmarks/README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_links_of_pages_lead_somewhere():
    for path in (ROOT / "benchmarks").rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_a_claim_needs_both_sides():
    claim = claims.Claim("speed, MB/s", "x", claims.column("MB/s"))
    rows = [{"contender": "ours", "MB/s": [5.0, 4.0, 3.0]}, {"contender": "theirs", "MB/s": 2.5}]
    results = {"x": [{**GOOD, "results": rows}]}
    assert (claim.ratio(results), claim.count(results)) == (2.0, 3)
    assert claim.shown(results, ours=True) == f"5 {result_tables.WARNING}"
    with pytest.raises(ValueError, match=r"x.json has no number of a peer for 'speed, MB/s'"):
        claim.ratio({"x": [{**GOOD, "results": rows[:1]}]})
    with pytest.raises(ValueError, match=r"x.json has no numbers for 'speed, MB/s'"):
        claim.ratio({"x": [{**GOOD, "results": {"MB/s": 5.0}}]})


def test_means_within_their_spread_are_a_tie():
    claim = claims.Claim("F1", "x", claims.means("F1"))

    def tie(*theirs):
        rows = [{"contender": "ours", "F1": [44.6, 44.8]}, {"contender": "theirs", "F1": list(theirs)}]
        return claim.is_tie({"x": [{**GOOD, "results": rows}]})

    assert tie(44.0, 45.0) and not tie(43.0, 43.2) and not tie(44.7)


def test_only_recipes_are_ours_among_the_runtimes():
    runtime = load("page_tables").runtime
    assert runtime("all_int4") == "ours, all_int4"
    assert runtime("ort_int8_plain") == "ONNX Runtime, dynamic int8"
    assert runtime("llama_q9") == "llama_q9"


def known_numbers():
    """What cells may show: every number of the data, also as a percentage and in megabytes."""
    numbers = set()
    for runs in RESULTS.values():
        for run in runs:
            for _, value in results_files.leaves(run):
                if isinstance(value, str):
                    numbers |= {float(one.replace(",", "")) for one in NUMBER.findall(value)}
                elif isinstance(value, (int, float)):
                    numbers.add(float(value))
            numbers |= means_and_deviations(run)
    return numbers | {100 * one for one in numbers} | {one / 1e6 for one in numbers}


def means_and_deviations(value):
    """Of all repetitions in some data."""
    if result_tables.is_repetitions(value):
        return {float(np.mean(value)), float(np.std(value, ddof=1))} if len(value) > 1 else {float(value[0])}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(means_and_deviations(one) for one in inner)) if inner else set()


def matches(text, numbers):
    """Whether a number as it is shown is one of these, rounded."""
    shown = float(text.replace(",", ""))
    decimals = len(text.partition(".")[2])
    return any(abs(one - shown) <= 0.5001 * 10**-decimals for one in numbers)


def stray_numbers(text, numbers):
    """Numbers of a block that are neither measured nor quotients of two others of their row."""
    stray = []
    for line in text.splitlines():
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)
        shown = NUMBER.findall(plain)
        values = [float(one.replace(",", "")) for one in shown]
        quotients = {a / b for a in values for b in values if b}
        stray += [one for one in shown if not matches(one, numbers) and not near(one, quotients)]
    return stray


def near(text, quotients):
    """A quotient of numbers that were rounded themselves."""
    shown = float(text.replace(",", ""))
    return any(abs(one - shown) <= 0.03 * one for one in quotients if one != 1)


def test_every_number_in_a_block_comes_from_a_results_file():
    numbers, blocks = known_numbers(), 0
    for path in render.marked_files():
        for found in render.BLOCK.finditer(path.read_text(encoding="utf-8")):
            if found["name"] in ("charts", "machines", "pages"):
                continue
            blocks += 1
            stray = stray_numbers(found[0], numbers)
            assert not stray, f"{path.name}, block {found['name']}: {stray} are not in benchmarks/results"
    assert blocks
    assert stray_numbers("| tokenizing | 49.87 | 20.6 |", numbers) == ["49.87"]


# === Age ===


needs_history = pytest.mark.skipif(not render.has_history(), reason="no git history")


@needs_history
def test_no_result_is_more_than_a_release_older_than_its_code():
    assert not render.too_old(RESULTS), "measure again, or say in the data why not (`not_repeated`)"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository of its own, in which versions come and code changes."""
    if shutil.which("git") is None:
        pytest.skip("no git")
    render.ask_git.cache_clear()
    monkeypatch.setattr(render, "ROOT", tmp_path)
    (tmp_path / "keras_bert").mkdir()

    def commit(version, code):
        (tmp_path / "keras_bert/__init__.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")
        (tmp_path / "keras_bert/code.py").write_text(code, encoding="utf-8")
        for words in (
            ("init", "-q"),
            ("add", "."),
            ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", code),
        ):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
        render.ask_git.cache_clear()
        return render.ask_git("rev-parse", "HEAD")

    yield commit
    render.ask_git.cache_clear()


def test_a_result_of_two_releases_ago_is_too_old(project):
    first = project("0.1.0", "a")
    results = {"x": [{**GOOD, "commit": first}]}
    project("0.2.0", "b")
    assert render.has_history() and render.too_old(results) == []
    third = project("0.3.0", "c")
    assert render.releases() == ["0.1.0", "0.2.0", "0.3.0"]
    assert render.too_old(results) == ["x.json: 2 releases"]
    assert render.too_old({"x": [{**results["x"][0], "not_repeated": "It takes a day."}]}) == []
    assert render.too_old({"x": [{**GOOD, "commit": third}]}) == []
    gone = {**GOOD, "commit": "0123456789", "date": "2020-01-01"}  # a rebase took it away, before all history
    assert render.too_old({"x": [gone]}) == []
