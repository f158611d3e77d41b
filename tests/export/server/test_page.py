"""The page at `/` in headless Chromium: it asks, draws every kind of answer, and loads nothing from anywhere else."""

import html
import re
import shutil
import subprocess
import urllib.parse

import pytest
from server_process import server_process
from tiny_server import FILES, serving

import export

pytestmark = pytest.mark.slow

TEXT = "👍 Anna is in the train to Rome. <b>the film</b> was very good"
QUESTION = {"question": "where is anna ?", "context": "👍 Anna is in the train to Rome, and the film was very good."}
CHOICES = {"context": "the film was very good", "choices": "it is good\na train\nbad"}
ASKED = {
    "classification.float32": {"text": TEXT},
    "classification_multi_label": {"text": TEXT},
    "classification_regression": {"text": TEXT},
    "aspect": {"text": "the film was very good", "pair": "plot"},
    "tagging_crf": {"text": TEXT},
    "intent_slots": {"text": TEXT},
    "relation": {"text": "<e1>Anna</e1> is in the <e2>train</e2>."},
    "multiple_choice": CHOICES,
    "question_answering": QUESTION,
    "similarity": {"text": "the film was very good", "pair": "a dull plot"},
    "seq2seq": {"text": "the film was very good"},
}


def browse(address, given):
    """The text of the page's answer, its marked parts, and its state, after it was asked."""
    program = shutil.which("chromium") or shutil.which("google-chrome") or pytest.skip("Chromium is not installed")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    place = f"{address}/#{urllib.parse.urlencode(given, quote_via=urllib.parse.quote)}"
    done = subprocess.run(
        [program, *words, "--dump-dom", place], capture_output=True, text=True, timeout=120, check=True
    )
    (answer,) = re.findall(r'<section id="answer"[^>]*>(.*?)</section>', done.stdout, re.DOTALL)
    (state,) = re.findall(r'<span id="state"[^>]*>(.*?)</span>', done.stdout, re.DOTALL)
    marks = [html.unescape(mark) for mark in re.findall(r"<mark[^>]*>(.*?)<small", answer, re.DOTALL)]
    return html.unescape(re.sub(r"<[^>]+>", " ", answer)), marks, html.unescape(state), done.stdout


def expected(name, given):
    """What the page has to show: words, and the parts of the text that are marked."""
    runtime, values = export.load(FILES / f"{name}.tflite"), list(given.values())
    if name == "multiple_choice":
        (answer,) = runtime([(values[0], values[1].split("\n"))])
        return [choice.text for choice in answer], []
    if name == "similarity":
        first, second = runtime(values)
        return [f"cosine {first @ second / (first @ first) ** 0.5 / (second @ second) ** 0.5:.3f}"], []
    (answer,) = runtime([tuple(values) if len(values) > 1 else values[0]])
    if name == "tagging_crf":
        return [f"{len(answer)} found"], [entity.text for entity in answer]
    if name == "intent_slots":
        return [answer.intent], [slot.text for slot in answer.slots]
    if name == "question_answering":
        return [answer.text], [answer.text]
    if name == "aspect":
        return [f"{answer.aspect}: {answer.label}", f"{answer.probability:.0%}"], []
    if isinstance(answer, str | float):
        return [answer if isinstance(answer, str) else f"{answer:.3f}"], []
    return [label.name for label in answer] + [f"{answer[0].probability:.0%}"], []


@pytest.mark.parametrize("name", ASKED)
def test_every_kind_of_answer_is_drawn(name):
    words, marked = expected(name, ASKED[name])
    with server_process(FILES / f"{name}.tflite", "--name", "tiny", "--threads", "1") as server:
        answer, marks, state, page = browse(server.address, ASKED[name])
    assert state.endswith(" ms"), state
    for word in words:
        assert " ".join(word.split()) in " ".join(answer.split())
    assert marks == marked
    assert "<b>" not in page.split('<section id="answer"')[1].split("</section>")[0]  # a text is text
    assert '<h1 id="name">tiny</h1>' in page


def test_errors_are_shown_as_sentences():
    with server_process(FILES / "classification.float32.tflite", "--name", "tiny", "--max-characters", "20") as server:
        answer, _, state, _ = browse(server.address, {"text": TEXT})
    assert not answer.strip() and "expected at most 20" in state


def test_nothing_comes_from_outside():
    with serving("classification.float32") as server:
        pages = [server.get(path) for path in ("/", "/page.css", "/page.js")]
        assert all(page.status_code == 200 for page in pages)
        text = "".join(page.text for page in pages)
        assert not re.findall(r"https?://|//[a-z]+\.|@import|url\((?!data:)", text)
        assert "innerHTML" not in text and "default-src 'none'" in pages[0].headers["content-security-policy"]
