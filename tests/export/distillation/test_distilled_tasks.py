"""Every task can be distilled, from texts without labels, and padding counts nowhere."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from keras import ops
from tiny_tasks import DEEP_CONFIG, VOCABULARY, reviews

from export.compression.students import make_student
from export.compression.vocabulary import trim_vocabulary
from export.distillation.losses import Attention, Embeddings, Hidden, Logits, Relations, Vectors
from export.distillation.training import distill, plan_distillation
from export.tasks.base.measuring import training_step
from export.tasks.base.teacher_labels import label_texts
from keras_bert.batching.length_buckets import bucketed_batches
from keras_bert.checkpoint import save_pretrained
from keras_bert.decoding.similarity import cosine_matrix
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.weights import copy_weights, to_numpy
from keras_bert.tasks.classification.aspect import AspectClassifier
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.intent_slots.task import IntentSlots
from keras_bert.tasks.multiple_choice.task import MultipleChoice
from keras_bert.tasks.question_answering.task import QuestionAnswerer
from keras_bert.tasks.relation.task import RelationClassifier
from keras_bert.tasks.similarity.task import SentenceEmbedder
from keras_bert.tasks.tagging.task import EntityTagger
from keras_bert.text.tokenizer import BertTokenizer

TEXTS = reviews(12, seed=3)[0]
PAIRS = [(f"what is {text.split()[0]}", text) for text in TEXTS]
LAYERS = [Embeddings(), Hidden(), Relations(heads=4), Attention()]
TASKS = {
    "one label": (TextClassifier, {"labels": ["bad", "good"]}, TEXTS),
    "pairs": (TextClassifier, {"labels": ["bad", "good"]}, PAIRS),
    "several labels": (TextClassifier, {"labels": ["bad", "good"], "kind": "multi_label"}, TEXTS),
    "a number": (TextClassifier, {"kind": "regression"}, TEXTS),
    "aspects": (AspectClassifier, {"labels": ["bad", "good"]}, PAIRS),
    "entities": (EntityTagger, {"labels": ["LOC", "PER"]}, TEXTS),
    "entities of words, in a chain": (
        EntityTagger,
        {"labels": ["LOC", "PER"], "head": "crf"},
        [t.split() for t in TEXTS],
    ),
    "intents": (IntentSlots, {"intents": ["bad", "good"], "slots": ["what"]}, TEXTS),
    "intents of words": (IntentSlots, {"intents": ["bad", "good"], "slots": ["what"]}, [t.split() for t in TEXTS]),
    "answers": (QuestionAnswerer, {"max_question_length": 8}, PAIRS),
    "relations": (RelationClassifier, {"labels": ["bad", "good"]}, [f"<e1>{t}</e1> is <e2>good</e2>" for t in TEXTS]),
    "choices": (MultipleChoice, {}, [(t, TEXTS[: 2 + row % 3]) for row, t in enumerate(TEXTS)]),
    "vectors": (SentenceEmbedder, {}, TEXTS),
}


@functools.cache
def pretrained_directory(DEEP_CONFIG):
    """The tiny model with four tokens more, to mark entities with, and one block, because building takes the time."""
    directory, vocabulary = Path(tempfile.mkdtemp()) / "model", [*VOCABULARY, *(f"[unused{n}]" for n in (1, 2, 3, 4))]
    config = DEEP_CONFIG.replace(vocabulary_size=len(vocabulary), num_layers=1, initializer_range=0.1)
    save_pretrained(bert_encoder(config, seed=3), directory, tokenizer=BertTokenizer(vocabulary))
    return directory


@functools.cache
def teacher(name):
    """A task with random weights that passes for a trained one."""
    kind, options, _ = TASKS[name]
    task = kind.from_pretrained(pretrained_directory(DEEP_CONFIG), sequence_length=32, **options)
    head = [weight for weight in task.model.weights if "classifier" in weight.path]
    for weight in head:  # large enough for opinions
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    task.fresh_heads = False
    return task


def twin_of(name, scale=1.0):
    """A student with its teacher's weights, those of the blocks scaled."""
    student = teacher(name).on_encoder(teacher(name).config)
    copy_weights(teacher(name).model, student.model)
    for weight in student.model.weights:
        if weight.path.startswith("block"):
            weight.assign(scale * to_numpy(weight))
    student.fresh_heads = False
    return student


@pytest.mark.parametrize("name", TASKS)
def test_who_thinks_as_the_teacher_has_nothing_to_learn(name):
    head = Vectors() if name == "vectors" else Logits()
    student, texts = twin_of(name), TASKS[name][2]
    method, data = plan_distillation([teacher(name)], student, texts, losses=[head, *LAYERS], label_weight=0)
    model, batches, summed = training_step(student.for_data(method.data), data, batch_size=8, method=method)
    batch = next(iter(batches))
    assert float(summed(model(batch[0]), *batch[1:])[0]) == pytest.approx(0, abs=0.01)
    losses = method.losses(student.training_losses())
    outputs = [name for name in losses if name.startswith(("soft", "hidden", "relations", "attention"))]
    assert len(outputs) == len(LAYERS) + (2 if name.startswith("intents") else 1)
    for weight in model.weights:
        if weight.path.startswith("block"):
            weight.assign(1.3 * to_numpy(weight))
    changed = model(batch[0])
    for output in outputs:  # each of them notices, but for the embeddings, which are below the blocks
        loss = losses[output]
        weights = batch[2][output] if isinstance(batch[2], dict) else batch[2]
        value = float(loss(batch[1][output], changed[output], weights))
        assert value == pytest.approx(0, abs=1e-4) if output == "hidden_0_0" else value > 1e-4, output


def test_padding_counts_nowhere():
    """The same questions in rows of 20 and of 32 places have the same losses, whatever stands in the padding."""
    student = make_student(teacher("answers"), hidden_dim=16, verbose=False)
    method, data = plan_distillation([teacher("answers")], student, PAIRS, losses=[Logits(), *LAYERS], label_weight=0)
    model, _, _ = training_step(student, data, method=method)
    losses, found = method.losses(student.training_losses()), []
    for width in (20, 32):
        options = {"batch_size": 12, "boundaries": (width,), "sample_weights": np.ones(12, np.float32)}
        inputs, labels, weights = next(iter(bucketed_batches(data.tokenized, data.labels, **options)))
        ids = ops.where(inputs["padding_mask"] > 0, inputs["token_ids"], 7)
        outputs = model({**inputs, "token_ids": ids})
        found.append([float(loss(labels[name], outputs[name], weights[name])) for name, loss in losses.items()])
    assert len(found[0]) == 6 and min(found[0][1:]) > 1e-3
    np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.slow
def test_a_narrow_embedder_compares_as_its_teacher_does():
    name, others = "vectors", reviews(24, seed=9)[0]
    student = make_student(teacher(name), hidden_dim=16, intermediate_dim=32, verbose=False)

    def apart():
        ours, theirs = (cosine_matrix(*[task.predict(others)] * 2) for task in (student, teacher(name)))
        return np.mean(np.abs(ours - theirs))

    before = apart()
    options = {"learning_rate": 1e-2, "batch_size": 16, "epochs": 12, "verbose": 0}
    report = distill(teacher(name), student, reviews(96, seed=8)[0], label_weight=0, **options)
    assert report.metric == "training_spearman" and report.best.score > 0.5  # with the teacher's cosines
    assert apart() < 0.6 * before


def test_an_embedder_learns_scores_and_its_teacher_at_once():
    pairs, scores = list(zip(TEXTS[::2], TEXTS[1::2], strict=True)), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    student = make_student(teacher("vectors"), hidden_dim=16, verbose=False)
    losses = [Vectors(by="vectors"), Hidden()]
    method, data = plan_distillation([teacher("vectors")], student, pairs, scores, losses=losses)
    assert data.labels["soft_sentence_embedding"].shape == (6, 2, 32)
    model, batches, summed = training_step(student.for_data(method.data), data, batch_size=4, method=method)
    assert model.get_layer("soft_sentence_embedding_projection").kernel.shape == (16, 32)
    assert all(np.isfinite(float(summed(model(inputs), *others)[0])) for inputs, *others in batches)
    with pytest.raises(ValueError, match=r"has none of the outputs that Logits\(\) compares; try Vectors"):
        plan_distillation([teacher("vectors")], student, pairs, scores, losses=[Logits()])


def test_labels_that_are_there_are_kept_and_missing_ones_are_the_teachers():
    texts, labels = TEXTS[:3], ["bad", "bad", "good"]
    assert label_texts(teacher("one label"), texts, labels) == (texts, labels, {})
    x, y, _ = label_texts(teacher("one label"), texts)
    assert x == texts and y == [answer[0].name for answer in teacher("one label").predict(texts)]
    with pytest.raises(ValueError, match="no label"):
        plan_distillation([teacher("one label")], twin_of("one label"), texts)


def test_a_trimmed_embedder_keeps_the_tokens_of_its_prompts():
    texts = [text for text in TEXTS if "great" not in text.split()]
    prompts = {"query": "great ", "document": ""}
    task = SentenceEmbedder.from_pretrained(pretrained_directory(DEEP_CONFIG), prompts=prompts)
    smaller, report = trim_vocabulary(task, texts, keep_characters=False)
    assert report.after < report.before and "great" in smaller.tokenizer.vocabulary
    for name in prompts:
        wanted = task.predict(texts, prompt_name=name)
        np.testing.assert_allclose(smaller.predict(texts, prompt_name=name), wanted, atol=1e-6)
