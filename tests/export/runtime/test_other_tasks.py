"""Aspects, relations, choices, commands and vectors on the device: each file gives what its task's `predict` gives."""

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tiny_tasks
from places import ROOT

import export
from export.deployment.packages import write_package
from export.runtime import AspectJudge, Assistant, Chooser, Embedder, RelationFinder, load
from export.serving.saving import save_serving
from export.tasks.base.inputs import task_reader
from export.tflite.string_input import convert_strings
from export.verification.parity import verify
from keras_bert.checkpoint import save_pretrained
from keras_bert.model.encoder import bert_encoder
from keras_bert.tasks.classification.aspect import AspectClassifier
from keras_bert.tasks.intent_slots.task import IntentSlots
from keras_bert.tasks.multiple_choice.task import MultipleChoice
from keras_bert.tasks.relation.task import RelationClassifier
from keras_bert.tasks.similarity.task import SentenceEmbedder
from keras_bert.text.tokenizer import BertTokenizer
from tests.export.runtime.test_tagging_and_answers import changed

VOCABULARY = [*tiny_tasks.VOCABULARY, *(f"[unused{number}]" for number in range(1, 5))]
TEXTS = ["the film was great", "a dull plot and 👍 Café 中文", "very " * 40 + "poor", "it is [unused1] fine"]
PAIRS = [("the film was great", "film"), ("a dull plot", "the cast"), ("it is 中 very", "👍 plot")]
MARKED = [
    "the <e1>film</e1> was a <e2>great</e2> 中文 plot",
    "<e2>it 👍</e2> is <e1>[unused1]</e1>",
    ("the café was dull", (4, 8), (13, 17)),
    "very " * 30 + "<e1>good</e1>" + " film" * 30 + " <e2>cast</e2>",
]
CHOICES = [
    ("the film was", ["good", "very dull", "中"]),
    ("it is " * 30, ["a plot", "the cast"]),
    ("a fine", ["👍", "bad film", "poor", "the"]),
]


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-tasks-")) / "model"
    config = tiny_tasks.CONFIG.replace(vocabulary_size=len(VOCABULARY), num_layers=1, initializer_range=0.3)
    save_pretrained(bert_encoder(config, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def louder(task, *heads):
    """Heads that give different answers to different texts."""
    random = np.random.default_rng(4)
    for name in heads:
        head = task.model.get_layer(name)
        head.kernel.assign(random.normal(0, 3, head.kernel.shape))
    return task


def new_aspects():
    return louder(AspectClassifier.from_pretrained(pretrained_directory()), "classifier")


def new_relations():
    labels = ["Part(e1,e2)", "Part(e2,e1)", "Other"]
    task = RelationClassifier.from_pretrained(pretrained_directory(), labels=labels)
    return louder(task, "relation_dense", "relation_classifier")


def new_chooser():
    return louder(MultipleChoice.from_pretrained(pretrained_directory()), "classifier")


def new_commands():
    names = {"intents": ["play", "stop", "ask"], "slots": ["song", "time"]}
    task = IntentSlots.from_pretrained(pretrained_directory(), **names)
    return louder(task, "classifier", "token_classifier")


def new_embedder(**options):
    return SentenceEmbedder.from_pretrained(pretrained_directory(), **options)


# A task, its runtime, inputs, and labelled data.
TASKS = {
    "aspect": (new_aspects, AspectJudge, PAIRS, (PAIRS, ["positive", "negative", "neutral"])),
    "relation": (new_relations, RelationFinder, MARKED, (MARKED[:3], ["Other", "Part(e1,e2)", "Part(e2,e1)"])),
    "multiple_choice": (new_chooser, Chooser, CHOICES, (CHOICES, [0, 1, 3])),
    "intent_slots": (
        new_commands,
        Assistant,
        [*TEXTS, ""],
        ([["the", "film"], ["a", "plot"]], [("play", ["O", "B-song"]), ("stop", ["O", "O"])]),
    ),
    "similarity": (new_embedder, Embedder, TEXTS, (PAIRS, [0.1, 0.9, 0.3])),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("other_tasks")


@functools.cache
def task_of(name):
    return TASKS[name][0]()


@pytest.fixture(scope="module", params=TASKS)
def exported(request, place):
    task = task_of(request.param)
    path = export.convert(task, place / f"{request.param}.tflite", recipe="float32", lengths=32).path
    return request.param, task, path


def flat(answer):
    """An answer as names and numbers, to compare."""
    if isinstance(answer, np.ndarray | list | tuple):
        parts = [flat(part) for part in answer]
        return [name for names, _ in parts for name in names], [number for _, numbers in parts for number in numbers]
    if hasattr(answer, "__dataclass_fields__"):
        return flat([getattr(answer, name) for name in answer.__dataclass_fields__])
    return ([], [float(answer)]) if isinstance(answer, float | np.floating) else ([answer], [])


def assert_same(ours, theirs, atol=1e-4):
    (names, numbers), (other_names, other_numbers) = flat(ours), flat(theirs)
    assert names == other_names
    np.testing.assert_allclose(numbers, other_numbers, atol=atol)


@pytest.mark.filterwarnings("ignore:.* (cut|apart)")
def test_answers_are_those_of_predict(exported):
    name, task, path = exported
    _, kind, inputs, _ = TASKS[name]
    runtime, expected = load(path), task.predict(inputs)
    assert type(runtime) is kind
    assert len({str(flat(answer)) for answer in expected}) > 1  # or equality would mean nothing
    assert_same(runtime(inputs), expected)
    assert_same(runtime(inputs[:1]), task.predict(inputs[:1]))
    assert len(runtime([])) == 0


@pytest.mark.filterwarnings("ignore:.* (cut|apart)")
def test_a_file_is_verified_with_what_the_task_is_measured_with(exported):
    name, task, path = exported
    _, _, inputs, labelled = TASKS[name]
    report = verify(task, path, *labelled).check()
    assert report.agreement == pytest.approx(1.0) and report.relative_error < 1e-4 and report.tokens_differ == 0
    assert report.file_score == pytest.approx(report.keras_score) and report.ops.partitions["length_32"] == 1
    assert verify(task, path, inputs).metric is None


@pytest.mark.filterwarnings("ignore:.* (cut|apart)")
@pytest.mark.slow
def test_a_package_of_integers_has_golden_answers(tmp_path):
    task = task_of("relation")
    package = write_package(task, tmp_path, recipe="dynamic_int8", lengths="dynamic", check=False)
    assert package.report.relative_error < 0.2
    rows = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))
    assert rows[0]["answer"] and set(rows[0]["outputs"]) == set(load(tmp_path).reader.outputs)


def test_other_ways_to_ask(place):
    paths = {name: place / f"{name}.tflite" for name in TASKS}
    for name, path in paths.items():
        if not path.exists():
            export.convert(task_of(name), path, recipe="float32", lengths=32)
    judge, task = load(paths["aspect"]), task_of("aspect")
    assert_same(judge("a dull plot", aspects=["plot", "cast"]), task.predict("a dull plot", aspects=["plot", "cast"]))
    with pytest.raises(TypeError, match="There is no aspect"):
        judge("a dull plot")
    relate = load(paths["relation"])
    assert_same([relate(MARKED[2])], [task_of("relation").predict(MARKED[2])])
    with pytest.raises(ValueError, match="missing tag <e2>"):
        relate("a <e1>film</e1>")
    choose = load(paths["multiple_choice"])
    assert_same(choose(*CHOICES[0]), task_of("multiple_choice").predict(*CHOICES[0]))
    with pytest.raises(TypeError, match="There are no choices"):
        choose("the film was")
    embed, task = load(paths["similarity"]), task_of("similarity")
    np.testing.assert_allclose(embed(TEXTS[0]), task.predict(TEXTS[0]), atol=1e-5)
    np.testing.assert_allclose(embed.similarity(TEXTS[:1], TEXTS[1]), task.similarity(TEXTS[:1], TEXTS[1]), atol=1e-5)
    hits = embed.search("a film", TEXTS[:2], top=1)
    assert (hits[0].index, hits[0].text) == (task.search("a film", TEXTS[:2], top=1)[0].index, TEXTS[hits[0].index])
    code = (
        "import sys; from export.runtime import load;"
        f"[load(path)([load(path).reader.sample]) for path in {[str(path) for path in paths.values()]}];"
        "print([m for m in ('tensorflow', 'keras', 'jax', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.filterwarnings("ignore:.* (cut|apart)")
def test_prompts_and_dimensions_are_in_the_file(tmp_path):
    prompts = {"query": "the film ", "passage": "a plot "}
    task = new_embedder(prompts=prompts, default_prompt_name="passage", dimensions=8)
    path = export.convert(task, tmp_path / "model.tflite", recipe="float32", lengths=32).path
    verify(task, path, TEXTS).check()
    embed = load(path)
    for options in ({}, {"prompt_name": "query"}, {"prompt_name": ""}, {"dimensions": 3}):
        np.testing.assert_allclose(embed(TEXTS, **options), task.predict(TEXTS, **options), atol=1e-5)
    assert embed(TEXTS[0], dimensions=3).shape == (3,)
    assert np.abs(embed(TEXTS) - embed(TEXTS, prompt_name="query")).max() > 0.01
    hits, wanted = (one.search("a film", TEXTS[:3], top=3) for one in (embed, task))
    np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in wanted], atol=1e-5)
    assert [hit.index for hit in hits] == [hit.index for hit in wanted]
    with pytest.raises(ValueError, match="prompt_name='title'; expected one of 'query', 'passage'"):
        embed(TEXTS, prompt_name="title")
    with pytest.raises(ValueError, match="dimensions=9: expected 1 to 8"):
        embed(TEXTS, dimensions=9)
    with pytest.raises(ValueError, match="cannot join strings.*default_prompt_name=None"):
        convert_strings(task, tmp_path / "strings.tflite")


@pytest.mark.filterwarnings("ignore:.* (cut|apart)")
@pytest.mark.slow
def test_a_saved_model_puts_prompts(tmp_path):
    task = new_embedder(prompts={"query": "the film "}, default_prompt_name="query", dimensions=8)
    verify(task, save_serving(task, tmp_path / "serving", name="vectors"), TEXTS)  # or an error


def test_vectors_of_windows_are_joined():
    task = new_embedder(sequence_length=16, long_texts="windows")
    reader = task_reader(task, 16)
    data = reader.prepare(TEXTS)
    assert len(data.owners) > len(TEXTS)
    outputs = {"embedding": task.outputs(data.tokenized)["sentence_embedding"]}
    np.testing.assert_allclose(reader.answers(outputs, data, TEXTS), task.predict(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("relation", {"markers": ["[unused1]"] * 4}, "expected four different tokens"),
        ("relation", {"markers": ["[unused1]", "nowhere", "the", "a"]}, "no token 'nowhere' among"),
        ("relation", {"markers": "[unused1]"}, "expected a list of 4"),
        ("similarity", {"normalize": "yes"}, "normalize='yes'; expected true or false"),
        ("similarity", {"prompts": {"query": 1}}, "expected an object of names and short texts"),
        ("similarity", {"default_prompt_name": "query"}, "default prompt is 'query'; this model has no prompts"),
        ("similarity", {"dimensions": -1}, "dimensions=-1; expected a whole number"),
        ("intent_slots", {"tags": ["song"]}, "expected tags of words"),
        ("intent_slots", {"tags": ["O", "B-song", "I-song"]}, "numbers for 3 labels in token_logits"),
        ("aspect", {"kind": "regression"}, "do not go together"),
    ],
)
def test_files_that_do_not_say_the_truth(place, tmp_path, name, changes, message):
    path = place / f"{name}.tflite"
    if not path.exists():
        export.convert(task_of(name), path, recipe="float32", lengths=32)
    lies = changed(path, tmp_path / "lies.tflite", **changes)
    with pytest.raises(ValueError, match=message):
        ask_sample(lies)


def ask_sample(path):
    runtime = load(path)
    return runtime([runtime.reader.sample])


@pytest.mark.parametrize("name", ["intent_slots", "multiple_choice", "relation"])
def test_each_task_is_served(tmp_path, name):
    artifact = save_serving(task_of(name), tmp_path / name)
    assert artifact.max_error < 1e-4
    (first, *_, last) = artifact.signatures
    assert first.name == "serving_default" and last.name == "from_ids"
    forms = {"multiple_choice": ("text", "pair"), "relation": ("token_ids", "segment_ids", "padding_mask")}
    assert first.inputs == forms.get(name, ("text",))
