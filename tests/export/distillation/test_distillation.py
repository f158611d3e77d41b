"""A teacher gives a smaller model what it knows: losses by the book, students by the map, vocabularies by the text."""

import functools

import keras
import numpy as np
import pytest
from tiny_tasks import CONFIG, DEEP_CONFIG, VOCABULARY, WORDS, pretrained_directory, reviews

import export.distillation.teacher_outputs
from export.compression.students import make_student, pick_layers, take_layers
from export.compression.vocabulary import trim_vocabulary
from export.distillation.distances import ABSENT, SoftLabels, SoftSpans, SoftYesNo
from export.distillation.losses import Attention, Embeddings, Hidden, Logits, Relations, Vectors
from export.distillation.training import distill, plan_distillation
from keras_bert.checkpoint import load_encoder, save_pretrained
from keras_bert.data.augmentation import NearestWords, augment
from keras_bert.decoding import softmax
from keras_bert.decoding.similarity import cosine_matrix
from keras_bert.finetuning.recipes import Recipe
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.base.fitting import fresh_model
from keras_bert.tasks.base.training_method import TrainingMethod
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.vector_distances import CosineDistance, RelationDistance, SimilarityDistance

FAST = {"learning_rate": 3e-3, "batch_size": 16, "patience": None, "verbose": 0}


@functools.cache
def teacher():
    classifier = TextClassifier.from_pretrained(
        pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32
    )
    report = classifier.fit(*reviews(240, seed=1), epochs=12, evaluations=1, **FAST)
    assert report.best.score > 0.9
    return classifier


def agreement(one, other, texts):
    return np.mean([a[0].name == b[0].name for a, b in zip(one.predict(texts), other.predict(texts), strict=True)])


# === Students ===


@pytest.mark.parametrize(
    ("layers", "choice", "blocks"),
    [
        ((12, 6), "spread", (1, 3, 5, 7, 9, 11)),
        ((6, 4), "spread", (1, 2, 4, 5)),
        ((6, 1), "spread", (5,)),
        ((6, 6), "spread", (0, 1, 2, 3, 4, 5)),
        ((6, 2), "first", (0, 1)),
        ((6, 2), "last", (4, 5)),
        ((6, 2), [0, 5], (0, 5)),
    ],
)
def test_blocks_are_picked_by_the_map(layers, choice, blocks):
    assert pick_layers(*layers, choice).blocks == blocks


@pytest.mark.parametrize("choice", ["middle", [0], [1, 0], [0, 6], [3, 3]])
def test_no_block_is_picked_by_mistake(choice):
    with pytest.raises(ValueError, match="layers="):
        pick_layers(6, 2, choice)


@pytest.mark.slow
def test_a_student_of_the_same_width_starts_from_the_teachers_blocks(capsys):
    student = make_student(teacher(), num_layers=1, intermediate_dim=16)
    printed = capsys.readouterr().out
    assert "student block 1 ← teacher block 2 of 2" in printed and "100% of them" in printed
    ours = {weight.path: to_numpy(weight) for weight in student.model.weights}
    theirs = {weight.path: to_numpy(weight) for weight in teacher().model.weights}
    np.testing.assert_array_equal(ours["block_0/attention/query/kernel"], theirs["block_1/attention/query/kernel"])
    np.testing.assert_array_equal(ours["classifier/kernel"], theirs["classifier/kernel"])
    # The neurons that were kept are whole ones of the teacher, in both matrices and the bias.
    inner, outer = theirs["block_1/intermediate/kernel"], theirs["block_1/output/kernel"]
    places = [
        int(np.flatnonzero((inner == column[:, None]).all(axis=0))[0])
        for column in ours["block_0/intermediate/kernel"].T
    ]
    assert len(set(places)) == 16 and places == sorted(places)
    np.testing.assert_array_equal(ours["block_0/output/kernel"], outer[places])
    np.testing.assert_array_equal(ours["block_0/intermediate/bias"], theirs["block_1/intermediate/bias"][places])


@pytest.mark.slow
def test_a_narrower_table_keeps_most_of_the_teachers():
    student = make_student(teacher(), embedding_dim=16, verbose=False)
    table = to_numpy(teacher().model.get_layer("token_embedding").embeddings)
    weights = {weight.path: to_numpy(weight) for weight in student.model.weights}
    back = weights["token_embedding/embeddings"] @ weights["embeddings/projection/kernel"]
    left = np.linalg.norm(table - back) / np.linalg.norm(table)
    exact = np.sqrt(np.sum(np.linalg.svd(table)[1][16:] ** 2)) / np.linalg.norm(table)
    assert left == pytest.approx(exact, abs=1e-5)  # no 16 directions keep more
    narrow = make_student(teacher(), hidden_dim=16, num_heads=2, verbose=False)
    assert narrow.predict("a good film") and narrow.config.hidden_dim == 16
    with pytest.raises(ValueError, match="trim_vocabulary"):
        make_student(teacher(), vocabulary_size=10)


def test_taken_layers_train_on_with_the_heads_of_the_teacher():
    shorter = take_layers(teacher(), pick_layers(2, 1))
    begun = fresh_model(shorter, Recipe(), 5, None, TrainingMethod())  # what a run with seed 5 begins with
    for ours, theirs in (("classifier", "classifier"), ("block_0", "block_1")):
        for mine, its in zip(begun.get_layer(ours).weights, teacher().model.get_layer(theirs).weights, strict=True):
            np.testing.assert_array_equal(to_numpy(mine), to_numpy(its))


def test_a_student_on_a_pretrained_encoder_has_its_vocabulary_and_learns(tmp_path, capsys):
    words = [*VOCABULARY[:5], *reversed(WORDS), "unused"]
    config = CONFIG.replace(vocabulary_size=len(words), hidden_dim=16, num_heads=2)
    save_pretrained(bert_encoder(config, seed=3), tmp_path / "small", tokenizer=BertTokenizer(words))
    student = make_student(teacher(), encoder=tmp_path / "small", seed=1)
    assert f"the encoder's from {tmp_path / 'small'}" in capsys.readouterr().out
    assert list(student.tokenizer.vocabulary) == words and student.labels == teacher().labels
    source, _ = load_encoder(tmp_path / "small")
    np.testing.assert_array_equal(to_numpy(source.weights[0]), to_numpy(student.model.weights[0]))
    texts, _ = reviews(64, seed=4)
    before = np.square(softmax(student.logits(texts)) - softmax(teacher().logits(texts))).mean()
    distill(teacher(), student, texts, label_weight=0, epochs=2, **FAST)
    assert np.square(softmax(student.logits(texts)) - softmax(teacher().logits(texts))).mean() < before
    with pytest.raises(ValueError, match="a pretrained encoder has its own"):
        make_student(teacher(), encoder=tmp_path / "small", num_layers=1)


# === Vocabulary ===


def test_a_trimmed_vocabulary_changes_no_answer_of_texts_it_holds(tmp_path):
    texts = [text for text in reviews(60, seed=2)[0] if "great" not in text and "dull" not in text]
    smaller, report = trim_vocabulary(teacher(), texts, held_out=reviews(60, seed=3)[0], keep_characters=False)
    assert report.after < report.before == len(WORDS) + 5 and "tokens kept" in str(report)
    np.testing.assert_allclose(smaller.logits(texts), teacher().logits(texts), atol=1e-5)
    assert "great" not in smaller.tokenizer.vocabulary and smaller.tokenizer.vocabulary_size == report.after
    assert 0 < report.same < report.checked and report.unknown > 0
    assert smaller.model.count_params() == report.parameters_after < report.parameters_before
    smaller.save(tmp_path / "small")
    assert TextClassifier.load(tmp_path / "small").predict(texts[:3]) == smaller.predict(texts[:3])
    spelled, _ = trim_vocabulary(teacher(), texts, keep_characters=False, alphabet="great")
    assert "great" in spelled.tokenizer.vocabulary and "dull" not in spelled.tokenizer.vocabulary
    with pytest.raises(ValueError, match="not in the vocabulary"):
        trim_vocabulary(teacher(), texts, keep=["xyzzy"])
    with pytest.raises(ValueError, match="no texts"):
        trim_vocabulary(teacher(), [])


# === Losses ===


def test_soft_labels_are_the_divergence_at_a_temperature():
    random = np.random.default_rng(0)
    theirs, ours = random.normal(size=(5, 4)).astype("float32"), random.normal(size=(5, 4)).astype("float32")
    p, q = softmax(theirs / 3), softmax(ours / 3)
    expected = 9 * np.sum(p * (np.log(p) - np.log(q)), axis=-1)
    np.testing.assert_allclose(SoftLabels(3.0, reduction=None)(theirs, ours), expected, rtol=1e-4)
    assert float(SoftLabels(3.0, weight=2.0)(theirs, ours)) == pytest.approx(2 * expected.mean(), rel=1e-4)
    keras_own = keras.distillation.LogitsDistillation(3.0, loss=keras.losses.KLDivergence()).compute_loss(theirs, ours)
    assert float(SoftLabels(3.0)(theirs, ours)) == pytest.approx(float(keras_own), rel=1e-4)
    # A class more that is not there changes nothing, whatever the student thinks of it.
    more = [np.pad(part, ((0, 0), (0, 1)), constant_values=value) for part, value in ((theirs, ABSENT), (ours, 9.0))]
    np.testing.assert_allclose(SoftLabels(3.0, reduction=None)(*more), expected, rtol=1e-4)


def test_each_of_several_labels_is_a_question_of_its_own():
    random = np.random.default_rng(0)
    theirs, ours = random.normal(size=(5, 4)).astype("float32"), random.normal(size=(5, 4)).astype("float32")
    p, q = 1 / (1 + np.exp(-theirs / 2)), 1 / (1 + np.exp(-ours / 2))
    expected = 4 * np.mean(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)), axis=-1)
    np.testing.assert_allclose(SoftYesNo(2.0, reduction=None)(theirs, ours), expected, rtol=1e-3)


def test_vectors_of_texts_are_compared_by_cosine_and_similarities_by_all_cosines():
    random = np.random.default_rng(0)
    theirs, ours = random.normal(size=(3, 2, 8)).astype("float32"), random.normal(size=(3, 2, 4)).astype("float32")
    expected = 1 - np.mean(np.diagonal(cosine_matrix(theirs[:, 0], 3 * theirs[:, 1])))
    assert float(CosineDistance()(theirs[:, :1], 3 * theirs[:, 1:])) == pytest.approx(expected, rel=1e-4)
    flat = [part.reshape(6, -1) for part in (theirs, ours)]
    apart = (cosine_matrix(flat[0], flat[0]) - cosine_matrix(flat[1], flat[1])) ** 2
    assert float(SimilarityDistance()(theirs, ours)) == pytest.approx(apart.mean(), rel=1e-4)
    weights = np.array([1.0, 1.0, 0.0], "float32")  # the last pair is not there
    assert float(SimilarityDistance()(theirs, ours, weights)) == pytest.approx(apart[:4, :4].mean(), rel=1e-4)
    with pytest.raises(ValueError, match="expected 'auto', 'vectors' or 'similarities'"):
        Vectors(by="cosine")


def test_soft_spans_leave_padding_out():
    random = np.random.default_rng(0)
    theirs, ours = (random.normal(size=(1, 6, 2)).astype("float32") for _ in range(2))
    real = np.ones((1, 6, 1), "float32")
    whole = float(SoftSpans(2.0)(np.concatenate([theirs, real], -1), ours))
    junk = np.full((1, 3, 2), 5.0, "float32")
    padded = np.concatenate([np.concatenate([theirs, real], -1), np.zeros((1, 3, 3), "float32")], axis=1)
    weights = np.array([[1.0] * 6 + [0.0] * 3], "float32")
    assert float(SoftSpans(2.0)(padded, np.concatenate([ours, junk], 1), weights)) == pytest.approx(whole, rel=1e-5)
    p, q = (softmax(part[0].T / 2) for part in (theirs, ours))
    assert whole == pytest.approx(4 * np.mean(np.sum(p * (np.log(p) - np.log(q)), axis=-1)), rel=1e-4)


@pytest.mark.parametrize("cross", [False, True])
def test_relations_stay_within_a_text(cross):
    random = np.random.default_rng(0)
    vectors = 2 if cross else 3
    theirs, ours = (random.normal(size=(2, 5, vectors * 8)).astype("float32") for _ in range(2))
    loss = RelationDistance(heads=4, vectors=vectors, cross=cross, reduction=None)
    apart = [np.asarray(loss(theirs[i : i + 1], _numbered(ours[i : i + 1], [[1] * 5])))[0] for i in range(2)]
    # Both texts in one row, with padding behind: the same numbers at every token.
    row = [np.concatenate([part[0], part[1], random.normal(size=(2, vectors * 8))])[None] for part in (theirs, ours)]
    together = np.asarray(loss(row[0].astype("float32"), _numbered(row[1], [[1] * 5 + [2] * 5 + [0, 0]])))[0]
    np.testing.assert_allclose(together[:10], np.concatenate(apart), atol=1e-5)
    assert np.all(np.concatenate(apart) > 0)
    same = np.asarray(loss(theirs, _numbered(theirs, [[1] * 5] * 2)))
    np.testing.assert_allclose(same, 0, atol=1e-6)


def _numbered(vectors, numbers):
    return np.concatenate([np.array(numbers)[..., None], vectors], axis=-1).astype("float32")


# === Learning ===


def test_a_student_learns_its_teachers_opinion_without_labels():
    proposer = NearestWords(*load_encoder(pretrained_directory(DEEP_CONFIG)), top_k=3, min_similarity=-1.0)
    more = augment(reviews(60, seed=4)[0], proposer=proposer, seed=1, per_text=4, progress=False)
    assert len(more.texts) > 200
    student = make_student(teacher(), num_layers=1, hidden_dim=16, num_heads=2, intermediate_dim=32, verbose=False)
    report = distill(teacher(), student, more.texts, label_weight=0, epochs=10, evaluations=1, **FAST)
    assert agreement(student, teacher(), reviews(100, seed=5)[0]) > 0.9
    assert report.best.score > 0.9  # by what the teacher says


@pytest.mark.slow
def test_layers_are_learned_too_and_the_projection_is_left_out():
    texts, labels = reviews(96, seed=6)
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
    student = make_student(teacher(), **sizes, verbose=False)
    names = [weight.path for weight in student.model.weights]
    aims = [Embeddings(), Hidden(), Relations(heads=4, weight=10.0), Attention(), Logits(1.0)]
    before = distances(student, texts)
    distill(teacher(), student, texts, labels, losses=aims, epochs=24, evaluations=1, **FAST)
    assert [weight.path for weight in student.model.weights] == names
    assert distances(student, texts) < 0.7 * before


def distances(student, texts):
    """How differently the last blocks relate tokens."""
    total = 0.0
    for text in texts[:8]:
        vectors = []
        for task in (teacher(), student):
            block = task.model.get_layer(f"block_{task.config.num_layers - 1}")
            ids = np.array([[task.tokenizer.cls_id, *task.tokenizer(text).numpy(), task.tokenizer.sep_id]])
            inside = keras.Model(task.model.input, block.input if not isinstance(block.input, list) else block.input[0])
            states = inside({"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1})
            parts = [part(states) for part in (block.attention.query, block.attention.key, block.attention.value)]
            vectors.append(np.concatenate(parts, axis=-1))
        numbered = _numbered(vectors[1], np.ones(vectors[1].shape[:2]))
        total += float(RelationDistance(heads=4)(vectors[0], numbered))
    return total


@pytest.mark.slow
def test_teachers_are_asked_once(tmp_path, monkeypatch):
    texts, labels = reviews(32, seed=8)
    options = {"losses": [Logits(), Hidden()], "epochs": 1, "cache": tmp_path / "cache", **FAST}
    distill(teacher(), make_student(teacher(), num_layers=1, verbose=False), texts, labels, **options)
    monkeypatch.setattr(
        export.distillation.teacher_outputs, "row_outputs", lambda *_, **__: pytest.fail("the teacher was asked again")
    )
    distill(teacher(), make_student(teacher(), num_layers=1, verbose=False), texts, labels, **options)
    with pytest.raises(pytest.fail.Exception):  # other texts are not in the cache
        distill(teacher(), make_student(teacher(), num_layers=1, verbose=False), texts[:16], labels[:16], **options)


def test_a_teacher_that_was_killed_goes_on_with_the_texts_that_are_left(tmp_path, monkeypatch):
    tokenized, _, _ = teacher().tokenize(reviews(22, seed=8)[0])
    model = keras.Model(
        teacher().model.input,
        {"logits": teacher().model.output["class_logits"], "states": teacher().model.get_layer("embeddings").output},
    )
    ask, asked = export.distillation.teacher_outputs.row_outputs, []

    def row_outputs(forward, part, **options):
        asked.append(len(part))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return ask(forward, part, **options)

    options = {"token_outputs": ("states",), "verbose": False}
    whole = export.distillation.teacher_outputs.teacher_outputs(teacher(), model, tokenized, **options)
    monkeypatch.setattr(export.distillation.teacher_outputs, "_TEXTS_OF_A_PART", 8)
    monkeypatch.setattr(export.distillation.teacher_outputs, "row_outputs", row_outputs)
    with pytest.raises(KeyboardInterrupt):
        export.distillation.teacher_outputs.teacher_outputs(teacher(), model, tokenized, cache=tmp_path, **options)
    found = export.distillation.teacher_outputs.teacher_outputs(teacher(), model, tokenized, cache=tmp_path, **options)
    assert asked == [8, 8, 6, 6]
    for name, tolerance in (("logits", 1e-5), ("states", 2e-3)):
        assert found[name].dtype == whole[name].dtype
        np.testing.assert_allclose(found[name], whole[name], atol=tolerance)
    with pytest.raises(ValueError, match="read-only"):
        found["logits"][0] = 0


@pytest.mark.slow
def test_several_teachers_are_averaged():
    texts, labels = reviews(24, seed=9)
    other = TextClassifier.from_pretrained(
        pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32, seed=5
    )
    student = make_student(teacher(), num_layers=1, verbose=False)
    _, data = plan_distillation([teacher(), other], student, texts, labels)
    expected = (teacher().logits(texts) + other.logits(texts)) / 2
    np.testing.assert_allclose(data.labels["soft_class_logits"], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([Relations(heads=5)], "divides both widths"),
        ([Hidden([(3, 1)])], "the student has no layer 3"),
        ([Relations([(1, 0)])], "the teacher has no layer 0"),
        ([], "nothing to learn"),
        (["logits"], "expected Logits"),
    ],
)
def test_what_cannot_be_learned_is_an_error(losses, words):
    student = make_student(teacher(), num_layers=1, verbose=False)
    with pytest.raises((ValueError, TypeError), match=words):
        distill(teacher(), student, *reviews(8, seed=1), losses=losses, label_weight=0, **FAST)


def test_teacher_and_student_must_answer_alike():
    other = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["a", "b"], sequence_length=32)
    with pytest.raises(ValueError, match="same task and labels"):
        distill(teacher(), other, *reviews(8, seed=1))
    trimmed, _ = trim_vocabulary(teacher(), ["a good film"], keep_characters=False)
    student = make_student(trimmed, num_layers=1, verbose=False)
    texts, labels = ["the great plot", "a bad film"], ["good", "bad"]
    distill(teacher(), student, texts * 4, labels * 4, epochs=1, **FAST)  # logits alone need no common pieces
