"""Every family with both kinds of tokenizers goes through fine-tuning, files, the server and compression."""

import numpy as np
import pytest
from family_models import TWISTS
from tiny_tasks import CONFIG, VOCABULARY, reviews
from tiny_unigram import TINY_UNIGRAM

import export
from export.recipes import RECIPES
from keras_bert.checkpoint import save_pretrained
from keras_bert.model.encoder import bert_encoder
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer

KINDS = {
    "xlm-roberta": (TWISTS["xlm-roberta"], UnigramTokenizer),
    "multilingual bert": ({}, UnigramTokenizer),
    "distilbert": (TWISTS["distilbert"], BertTokenizer),
    "electra": (TWISTS["electra"], BertTokenizer),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in KINDS if name != "xlm-roberta"]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A fine-tuned classifier of each kind, made when it is asked for."""
    made = {}

    def make(name):
        if name not in made:
            twists, kind = KINDS[name]
            tokenizer = kind(TINY_UNIGRAM if kind is UnigramTokenizer else VOCABULARY)
            # XLM-R's tables have more rows than its tokenizer has tokens.
            sizes = {"vocabulary_size": tokenizer.vocabulary_size + 3, "initializer_range": 0.1}
            directory = tmp_path_factory.mktemp("model") / "pretrained"
            save_pretrained(bert_encoder(CONFIG.replace(**sizes, **twists), seed=3), directory, tokenizer=tokenizer)
            task = TextClassifier.from_pretrained(directory, labels=["bad", "good"], sequence_length=20)
            task.fit(*reviews(400, seed=1), epochs=6, batch_size=16, learning_rate=3e-3, verbose=0)
            made[name] = task
        return made[name]

    return make


def probabilities(answers):
    return np.array([[row["bad"], row["good"]] for row in ({a.name: a.probability for a in one} for one in answers)])


EACH = pytest.mark.parametrize("name", ["xlm-roberta", *SLOW])
TEXTS, LABELS = reviews(24, seed=2)


@EACH
def test_fit_save_and_convert(tasks, name, tmp_path):
    task = tasks(name)
    right = np.mean([answer[0].name == label for answer, label in zip(task.predict(TEXTS), LABELS, strict=True)])
    assert right > 0.8
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    np.testing.assert_array_equal(probabilities(again.predict(TEXTS)), probabilities(task.predict(TEXTS)))
    file = export.convert(task, tmp_path / "model.tflite", recipe="float32").path
    run = export.load(file)
    np.testing.assert_allclose(probabilities(run(TEXTS)), probabilities(task.predict(TEXTS)), atol=1e-5)
    assert export.read_metadata(file).vocabulary == tuple(task.tokenizer.vocabulary)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_recipe_and_the_server(tasks, name, tmp_path):
    task = tasks(name)
    for recipe in RECIPES:
        file = export.convert(task, tmp_path / f"{recipe}.tflite", recipe=recipe, calibration=TEXTS, lengths=(20,)).path
        found = probabilities(export.load(file)(TEXTS))
        assert np.abs(found - probabilities(task.predict(TEXTS))).max() < (0.3 if "int4" in recipe else 0.1), recipe
    export.verify(task, export.save_serving(task, tmp_path / "serving", name="reviews"), TEXTS[:8])  # or an error


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_smaller_models(tasks, name):
    task = tasks(name)
    student = export.make_student(task, hidden_dim=16, num_heads=2, intermediate_dim=32, verbose=False)
    export.distill(task, student, TEXTS, LABELS, epochs=1, batch_size=8, verbose=0)
    assert student.config.position_offset == task.config.position_offset
    few = TEXTS[:2]
    trimmed, report = export.trim_vocabulary(task, few, held_out=few, keep_characters=False)
    assert report.same == len(few)
    assert report.after < report.before
    np.testing.assert_allclose(probabilities(trimmed.predict(few)), probabilities(task.predict(few)), atol=1e-6)
    shorter, _ = export.remove_neurons(task, TEXTS, LABELS, share=0.5, verbose=False)
    pruned, _ = export.prune(task, TEXTS, LABELS, epochs=2, batch_size=8, verbose=0)
    for smaller in (student, shorter, pruned):
        assert np.isfinite(probabilities(smaller.predict(TEXTS[:2]))).all()
