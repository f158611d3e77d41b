"""Sentence vectors: the reference's numbers, the same in packed rows, learning from scores and from pairs, search."""

import functools
import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import GOLDEN

from keras_bert.batching.shared_rows import packed_batches, packed_shape
from keras_bert.checkpoint import load_encoder, save_pretrained
from keras_bert.checkpoint.files import CheckpointError
from keras_bert.checkpoint.sentence_transformers import read_sentence_modules
from keras_bert.decoding.similarity import Hit, cosine_matrix, search_vectors
from keras_bert.evaluation.ranking import retrieval_report
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, with_example_starts
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.similarity.files import SentenceGroup, as_sentence_groups, read_sentences
from keras_bert.tasks.similarity.losses import ContrastiveLoss, CosineScoreLoss, MatryoshkaLoss
from keras_bert.tasks.similarity.pooling import embedding_model
from keras_bert.tasks.similarity.task import SentenceEmbedder
from keras_bert.text.tokenizer import BertTokenizer

GOLDEN_ARRAYS = GOLDEN / "minilm_sentences.npz"
FILLER = [f"w{number}" for number in range(12)]
TOPICS = [f"t{number}" for number in range(20)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLER, *TOPICS]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=24,
    intermediate_dim=32,
    max_sequence_length=16,
    initializer_range=0.1,
)
FAST = {"learning_rate": 1e-2, "batch_size": 20, "patience": None, "evaluations": 1, "verbose": 0}


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-sentences-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def text_on(topic, random):
    """A few words, one of them on a topic."""
    words = [str(word) for word in random.choice(FILLER, random.integers(2, 7))]
    words.insert(int(random.integers(len(words) + 1)), TOPICS[topic])
    return " ".join(words)


def pairs_on_topics(count, *, seed):
    """Pairs on the same topic; every topic in turn."""
    random = np.random.default_rng(seed)
    return [(text_on(number % 20, random), text_on(number % 20, random)) for number in range(count)]


def scored_pairs(count, *, seed, topics=5):
    """Pairs on the same topic with the score 5, and on two topics with 0."""
    random = np.random.default_rng(seed)
    topics = [(int(random.integers(topics)), int(random.integers(topics))) for _ in range(count)]
    topics = [(first, first if number % 2 else second) for number, (first, second) in enumerate(topics)]
    pairs = [(text_on(first, random), text_on(second, random)) for first, second in topics]
    return pairs, [5.0 if first == second else 0.0 for first, second in topics]


def new_embedder(**options):
    return SentenceEmbedder.from_pretrained(pretrained_directory(), **options)


# === Vectors ===


@pytest.mark.parametrize("kind", ["vectors", "mean", "cls"])
def test_minilm_gives_the_references_vectors(minilm_dir, kind):
    golden = np.load(GOLDEN_ARRAYS)
    options = {"vectors": {}, "mean": {"normalize": False}, "cls": {"pooling": "cls", "normalize": False}}[kind]
    embedder = SentenceEmbedder.from_pretrained(minilm_dir, **options)
    assert embedder.sequence_length == 256  # what sentence-transformers reads
    with pytest.warns(UserWarning, match="1 of 6 texts were cut to 256 tokens"):
        found = embedder.predict(golden["texts"].tolist())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, golden[kind], rtol=0, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_packed_rows_give_the_same_vectors(pooling, normalize):
    embedder = new_embedder(pooling=pooling, normalize=normalize)
    texts = [text for pair in pairs_on_topics(14, seed=1) for text in pair]
    packed = embedding_model(
        with_example_starts(bert_encoder(CONFIG, packed=True)), pooling=pooling, normalize=normalize
    )
    copy_weights(embedder.model, packed)
    tokenized, _, _ = embedder.tokenize(texts)
    shape = packed_shape(tokenized.lengths, batch_size=8, group=2)
    expected, seen = embedder.predict(texts).reshape(14, 2, -1), 0
    for inputs, labels, weights in packed_batches(tokenized, np.arange(14), batch_size=8, shape=shape, seed=0, group=2):
        found = packed(inputs)["sentence_embedding"].numpy().reshape(8, 2, -1)
        real = weights.numpy() > 0
        np.testing.assert_allclose(found[real], expected[labels.numpy()[real]], atol=1e-5)
        assert np.isfinite(found).all()
        seen += real.sum()
    assert seen == 14


def test_vectors_of_one_text_of_none_and_of_long_ones():
    embedder, long = new_embedder(long_texts="windows"), " ".join(FILLER * 3)
    one = embedder.predict("w1 w2 t3")
    assert one.shape == (24,) and np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    assert embedder.predict([]).shape == (0, 24)
    vectors = embedder.predict([long, "t4"])
    tokenized, owners, _ = embedder.tokenize([long])
    mean = embedder.outputs(tokenized)["sentence_embedding"].mean(axis=0)
    assert len(owners) > 2
    np.testing.assert_allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-5)
    with pytest.warns(UserWarning, match="1 of 1 texts were cut to 16 tokens"):
        new_embedder().predict([long])
    with pytest.raises(ValueError, match="more windows than texts.*long_texts='cut'"):
        embedder.fit([(long, "t1"), ("t2", "t2")])


# === Shorter vectors ===


def test_the_first_dimensions_are_vectors_of_their_own(tmp_path):
    whole, short = new_embedder(), new_embedder(dimensions=6, sequence_length=12)
    texts = [first for first, _ in pairs_on_topics(6, seed=6)]
    vectors = whole.predict(texts)
    cut = vectors[:, :6] / np.linalg.norm(vectors[:, :6], axis=1, keepdims=True)
    np.testing.assert_allclose(short.predict(texts), cut, atol=1e-6)
    np.testing.assert_allclose(whole.predict(texts, dimensions=6), cut, atol=1e-6)
    assert whole.predict(texts[0], dimensions=6).shape == (6,) and short.predict([]).shape == (0, 6)
    raw = new_embedder(normalize=False)
    np.testing.assert_array_equal(raw.predict(texts, dimensions=6), raw.predict(texts)[:, :6])
    pairs, scores = scored_pairs(12, seed=1)
    ranged = new_embedder(score_range=(0, 5))
    found, wanted = ranged.evaluate(pairs, scores, dimensions=6), new_embedder(score_range=(0, 5), dimensions=6)
    assert found.spearman == pytest.approx(wanted.evaluate(pairs, scores).spearman) != ranged.evaluate(pairs, scores)
    short.save(tmp_path / "model")
    loaded = load_task(tmp_path / "model")
    assert loaded.dimensions == 6 and loaded.on_encoder(CONFIG).predict(texts).shape == (6, 6)
    np.testing.assert_array_equal(loaded.predict(texts), short.predict(texts))
    for wrong in (0, 25, True):
        with pytest.raises(ValueError, match=f"dimensions={wrong}: expected 1 to 24"):
            new_embedder(dimensions=wrong)
        with pytest.raises(ValueError, match=f"dimensions={wrong}: expected 1 to 24"):
            whole.predict(texts, dimensions=wrong)
    with pytest.raises(ValueError, match="dimensions=5: the model gives 24"):
        SentenceEmbedder(whole.model, whole.tokenizer, dimensions=5)


# === Prompts ===

PROMPTS = {"query": "w1 w2 ", "passage": "w3 "}


def test_prompts_stand_before_texts(tmp_path):
    plain, embedder = new_embedder(), new_embedder(prompts=PROMPTS, default_prompt_name="query")
    texts = ["t3 w5", "w4"]
    queries, passages = (plain.predict([prompt + text for text in texts]) for prompt in PROMPTS.values())
    np.testing.assert_array_equal(embedder.predict(texts), queries)
    np.testing.assert_array_equal(embedder.predict(texts, prompt_name="passage"), passages)
    np.testing.assert_array_equal(embedder.predict(texts, prompt_name=""), plain.predict(texts))
    np.testing.assert_array_equal(embedder.predict(texts[0]), queries[0])
    np.testing.assert_allclose(embedder.similarity(texts, texts), queries @ queries.T, atol=1e-5)
    hit = embedder.search(texts[0], texts, top=1)[0]
    assert hit.score == pytest.approx((passages @ queries[0]).max(), abs=1e-5)
    embedder.save(tmp_path / "model")
    said = json.loads((tmp_path / "model/config_sentence_transformers.json").read_text())
    assert said["prompts"] == PROMPTS and said["default_prompt_name"] == "query"
    np.testing.assert_array_equal(load_task(tmp_path / "model").predict(texts), queries)
    (tmp_path / "model/keras_bert_task.json").unlink()  # from sentence-transformers' file alone
    np.testing.assert_array_equal(SentenceEmbedder.from_pretrained(tmp_path / "model").predict(texts), queries)
    bare = SentenceEmbedder.from_pretrained(tmp_path / "model", prompts={})
    np.testing.assert_array_equal(bare.predict(texts), plain.predict(texts))
    plain.save(tmp_path / "model")
    assert not (tmp_path / "model/config_sentence_transformers.json").exists()


def test_prompts_in_training_follow_the_kind_of_data():
    plain, embedder = new_embedder(), new_embedder(prompts=PROMPTS)
    pairs, triplets = [("t1", "t2"), ("w4", "t3")], [("t1", "t2", "t3")]

    def ids(task, *examples):
        return task.prepare(*examples).tokenized.first_ids.tolist()

    (query, passage), scores = PROMPTS.values(), [0.5, 1.0]
    assert ids(embedder, pairs, scores) == ids(plain, pairs, scores)  # alike: the default, which is none
    assert ids(embedder, pairs, None) == ids(plain, [(query + a, passage + b) for a, b in pairs], None)
    wanted = [(query + a, passage + b, passage + c) for a, b, c in triplets]
    assert ids(embedder, triplets, None) == ids(plain, wanted, None)


def test_missing_prompts_are_named():
    embedder = new_embedder(prompts=PROMPTS)
    with pytest.raises(ValueError, match="prompt_name='title'; expected one of 'query', 'passage'"):
        embedder.predict(["w1"], prompt_name="title")
    with pytest.raises(ValueError, match="prompt_name='query'; this model has no prompts: pass prompts="):
        new_embedder().predict(["w1"], prompt_name="query")
    with pytest.raises(ValueError, match="default prompt is 'title'; expected one of 'query'"):
        new_embedder(prompts=PROMPTS, default_prompt_name="title")
    with pytest.raises(ValueError, match="expected a text for each name"):
        new_embedder(prompts={"query": 3})


# === Search ===


def test_search_goes_through_a_collection_in_parts():
    random = np.random.default_rng(0)
    queries, collection = random.normal(size=(3, 8)), random.normal(size=(50, 8))
    collection[40] = 2 * collection[7]  # as near: the first comes first
    cosines = cosine_matrix(queries, collection)
    expected = np.argsort(-cosines.astype("float64").round(5), axis=1, kind="stable")[:, :6]
    hits = search_vectors(queries, collection, top=6, part=9)
    assert [[hit.index for hit in found] for found in hits] == expected.tolist()
    assert hits[1][0].score == pytest.approx(cosines[1].max(), abs=1e-6)
    assert [len(found) for found in search_vectors(queries, collection[:2], top=6)] == [2, 2, 2]
    assert str(Hit(3, 0.5)) == "number 3 (0.50)" and str(Hit(3, 0.5, "a cat")) == "a cat (0.50)"
    with pytest.raises(ValueError, match="top=0"):
        search_vectors(queries, collection, top=0)
    with pytest.raises(ValueError, match=r"\[3, 8\] and \[50, 7\]; expected"):
        search_vectors(queries, collection[:, 1:])


def test_search_by_texts_and_by_vectors():
    embedder = new_embedder()
    texts = [first for first, _ in pairs_on_topics(20, seed=2)]
    hits = embedder.search(texts[4], texts, top=2)
    assert hits[0].text == texts[4] and hits[0].index == 4 and hits[0].score == pytest.approx(1, abs=1e-5)
    vectors = embedder.predict(texts)
    by_vectors = embedder.search([texts[4]], vectors, top=2)[0]
    assert [hit.index for hit in by_vectors] == [hit.index for hit in hits] and by_vectors[0].text is None
    np.testing.assert_allclose(embedder.similarity(texts[:2], vectors), vectors[:2] @ vectors.T, atol=1e-5)


# === Losses ===


def reference_contrastive(vectors, numbers, weights, temperature, symmetric):
    """The definition, in loops."""
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

    def minus_log_probability(row, query, target, candidates):
        own, negatives = unit[row, query] @ unit[row, target], []
        for other in range(len(unit)):
            for place in candidates:
                is_target = place == target
                same = numbers[other, place] in (numbers[row, target], numbers[row, query])
                same_anchor = is_target and numbers[other, 0] == numbers[row, 0]
                if weights[other] and not same and not same_anchor:
                    negatives.append(unit[row, query] @ unit[other, place])
        scores = np.array([own, *negatives]) / temperature
        return np.log(np.exp(scores).sum()) - scores[0]

    places = range(1, vectors.shape[1])
    losses = []
    for row in range(len(unit)):
        loss = minus_log_probability(row, 0, 1, places)
        losses.append(0.5 * (loss + minus_log_probability(row, 1, 0, [0])) if symmetric else loss)
    return np.average(losses, weights=weights)


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("symmetric", [False, True])
def test_contrastive_loss_leaves_out_what_is_no_negative(group, symmetric):
    random = np.random.default_rng(group)
    vectors = random.normal(size=(6, group, 5)).astype("float32")
    numbers = np.arange(6 * group).reshape(6, group)
    numbers[1, 1] = numbers[0, 1]  # two anchors, one answer
    numbers[3, 0] = numbers[2, 0]  # one anchor, two answers
    numbers[4, 1] = numbers[0, 0]  # an anchor is another's answer
    weights = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 0.0])
    loss = ContrastiveLoss(0.2, symmetric)
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    found = float(loss(numbers, vectors, weights))
    assert found == pytest.approx(reference_contrastive(vectors, numbers, weights, 0.2, symmetric), abs=1e-5)
    vectors[5] = 1e3  # who is not there changes nothing
    assert float(loss(numbers, vectors, weights)) == pytest.approx(found, abs=1e-5)


def test_cosine_loss_and_gradients_are_finite_for_empty_groups():
    vectors = tf.constant(np.random.default_rng(0).normal(size=(3, 2, 4)), tf.float32)
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    expected = np.average((np.sum(unit[:, 0] * unit[:, 1], -1) - [0.1, 0.2, 0.9]) ** 2, weights=[1, 2, 0])
    loss = CosineScoreLoss()
    assert float(loss(np.array([0.1, 0.2, 0.9]), vectors, np.array([1.0, 2.0, 0.0]))) == pytest.approx(expected)
    empty = tf.Variable(tf.zeros([2, 2, 4]))
    for value, targets in ((loss, np.zeros(2)), (ContrastiveLoss(), np.arange(4).reshape(2, 2))):
        with tf.GradientTape() as tape:
            result = value(targets, empty, np.array([1.0, 0.0]))
        assert np.isfinite(tape.gradient(result, empty)).all()
    with pytest.raises(ValueError, match="temperature=0"):
        ContrastiveLoss(0)


@pytest.mark.parametrize("numbers", [np.array([0.1, 0.9]), np.arange(4).reshape(2, 2)])
def test_the_matryoshka_loss_is_the_mean_over_lengths(numbers):
    vectors = np.random.default_rng(3).normal(size=(2, 2, 6)).astype("float32")
    weights = np.array([1.0, 3.0], "float32")
    inner = CosineScoreLoss() if numbers.ndim == 1 else ContrastiveLoss(0.2, symmetric=True)
    loss = MatryoshkaLoss(inner, (6, 3, 1))
    expected = np.mean([float(inner(numbers, vectors[..., :width], weights)) for width in (6, 3, 1)])
    assert float(loss(numbers, vectors, weights)) == pytest.approx(expected, abs=1e-5)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert float(again(numbers, vectors, weights)) == pytest.approx(expected, abs=1e-5)


# === Learning ===


@pytest.fixture(scope="module")
def scored():
    embedder = new_embedder(score_range=(0, 5), sequence_length=12)
    report = embedder.fit(*scored_pairs(200, seed=1), validation_data=scored_pairs(60, seed=2), epochs=8, **FAST)
    return embedder, report


def test_it_learns_scores(scored):
    embedder, report = scored
    data = scored_pairs(80, seed=3)
    assert report.metric == "spearman" and report.best.score > 0.7
    before, after = new_embedder(score_range=(0, 5)).evaluate(*data), embedder.evaluate(*data)
    assert after.spearman > 0.7 > before.spearman and after.mse < before.mse
    raw = new_embedder().evaluate(*data)
    assert raw.spearman == pytest.approx(before.spearman) and "see score_range" in str(raw)


@pytest.mark.slow
@pytest.mark.parametrize("triplets", [False, True])
def test_it_learns_from_pairs_and_triplets(triplets):
    embedder, train = new_embedder(), pairs_on_topics(160, seed=1)
    if triplets:
        random = np.random.default_rng(2)
        train = [(*pair, text_on((number + 1) % 20, random)) for number, pair in enumerate(train)]
    held_out = pairs_on_topics(20, seed=4)  # a topic each
    before = embedder.evaluate(held_out)
    # Measured on scores, although it learns from pairs without.
    report = embedder.fit(train, validation_data=scored_pairs(40, seed=5), epochs=5, symmetric=not triplets, **FAST)
    after = embedder.evaluate(held_out)
    assert report.metric == "spearman" and report.best.score > 0.6
    assert before.accuracy_at_1 < 0.75 < after.accuracy_at_1 and after.mrr > before.mrr
    assert after.candidates == 20 and "accuracy@1" in str(after) and after.to_dict()["count"] == 20


def test_saved_and_loaded_it_embeds_the_same(scored, tmp_path):
    embedder, _ = scored
    texts = [first for first, _ in pairs_on_topics(6, seed=6)]
    embedder.save(tmp_path / "model")
    loaded = load_task(tmp_path / "model")
    assert isinstance(loaded, SentenceEmbedder) and loaded.settings() == embedder.settings()
    assert loaded.sequence_length == 12 and loaded.score_range == (0.0, 5.0)
    np.testing.assert_array_equal(loaded.predict(texts), embedder.predict(texts))
    # The directory also says it in sentence-transformers' words, and is an ordinary encoder.
    (tmp_path / "model/keras_bert_task.json").unlink()
    again = SentenceEmbedder.from_pretrained(tmp_path / "model")
    assert (again.pooling, again.normalize, again.sequence_length) == ("mean", True, 12)
    np.testing.assert_array_equal(again.predict(texts), embedder.predict(texts))
    with pytest.warns(UserWarning, match="has no pooler"):
        load_encoder(tmp_path / "model")
    pooled = new_embedder(pooling="pooler", normalize=False)
    pooled.save(tmp_path / "model")
    assert not (tmp_path / "model/modules.json").exists()
    np.testing.assert_array_equal(load_task(tmp_path / "model").predict(texts), pooled.predict(texts))


@pytest.mark.slow
def test_matryoshka_training_teaches_the_first_dimensions():
    train, errors = scored_pairs(200, seed=1), {}
    for widths in ((), (6,)):
        embedder = new_embedder(score_range=(0, 5), sequence_length=12)
        embedder.fit(*train, epochs=4, matryoshka=widths, **FAST)
        errors[widths] = embedder.evaluate(*train, dimensions=6).mse
    assert errors[6,] < 0.8 * errors[()]


def test_what_fit_refuses():
    embedder, (pairs, scores) = new_embedder(), scored_pairs(8, seed=1)
    with pytest.raises(ValueError, match="go from 0 to 5.*score_range"):
        embedder.fit(pairs, scores)
    with pytest.raises(ValueError, match="outside of score_range=\\(0.0, 4.0\\)"):
        new_embedder(score_range=(0, 4)).fit(pairs, scores)
    with pytest.raises(ValueError, match="loss='cosine' needs scores"):
        embedder.fit(pairs, loss="cosine")
    with pytest.raises(ValueError, match="leave out the scores"):
        embedder.fit(pairs, [0, 1] * 4, loss="contrastive")
    with pytest.raises(ValueError, match="metric='spearman': pairs without scores are measured by accuracy@1"):
        embedder.fit(pairs, metric="spearman")
    with pytest.raises(ValueError, match="class_weight"):
        embedder.fit(pairs, class_weight="balanced")
    with pytest.raises(ValueError, match=r"matryoshka=\(64,\): expected numbers from 1 to 24"):
        embedder.fit(pairs, matryoshka=(64,))
    with pytest.raises(ValueError, match="leave compile\\(\\) out"):
        embedder.compile("sgd")
    with (
        tf.distribute.OneDeviceStrategy("/cpu:0").scope(),
        pytest.raises(ValueError, match="OneDeviceStrategy's scope"),
    ):
        embedder.fit(pairs)
    with pytest.raises(ValueError, match="pooling='max'"):
        new_embedder(pooling="max")
    with pytest.raises(ValueError, match="score_range"):
        new_embedder(score_range=(5, 0))


def test_opposite_scores_become_opposite_cosines():
    embedder = new_embedder(score_range=(-2, 2))
    np.testing.assert_allclose(embedder._scaled(np.array([-2.0, 0.0, 1.0])), [-1.0, 0.0, 0.5])
    np.testing.assert_allclose(new_embedder(score_range=(1, 3))._scaled(np.array([1.0, 2.0])), [0.0, 0.5])


# === Reports ===


def test_retrieval_counts_every_right_answer_and_never_the_anchor():
    eye = np.eye(4)
    # Two answers to one anchor (0); the anchor of the second example stands among the answers.
    vectors = np.array([[eye[0], eye[1]], [eye[0], eye[0] + 0.1 * eye[1]], [eye[2], eye[0]], [eye[3], eye[3]]])
    numbers = np.array([[0, 1], [0, 2], [3, 4], [4, 5]])
    report = retrieval_report(vectors, numbers)
    assert report.count == 4 and report.candidates == 4
    # The third finds nothing: its own answer scores 0, and so do the others.
    assert report.accuracy_at_1 == 0.25 and report.mrr == pytest.approx((1 / 2 + 1 / 2 + 1 / 4 + 1) / 4)
    same = retrieval_report(np.ones((5, 2, 3)), np.arange(10).reshape(5, 2))
    assert same.accuracy_at_1 == 0


# === Data ===


def test_groups_from_files(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("sentence1\tsentence2\tscore\na b\tb\t4.5\n\tc\t1\nb\tc\tmany\nc\tb\t\n", encoding="utf-8")
    groups = read_sentences(table, text="sentence1", pair="sentence2")
    assert groups.groups == (SentenceGroup(("a b", "b"), 4.5, 2),)
    assert groups.report.reasons == {"empty text": 1, "score is no number": 1, "missing score": 1}
    unscored = read_sentences(table, text="sentence1", pair="sentence2", label=False)
    assert not unscored.has_scores and len(unscored) == 3
    lines = [{"text": "a", "pair": "b", "negative": "c"}, {"text": "a", "pair": "b"}, ["a"], {"text": 1, "pair": "b"}]
    lines = "\n".join(map(json.dumps, lines))
    (tmp_path / "triplets.jsonl").write_text(lines, encoding="utf-8")
    triplets = read_sentences(tmp_path / "triplets.jsonl")
    assert triplets.texts_per_example == 3 and triplets.texts == ["a", "b", "c"]
    assert triplets.report.reasons == {"no key 'negative'": 2, "not a JSON object": 1}
    with pytest.raises(ValueError, match="no column 'text'.*'score', 'sentence1', 'sentence2'"):
        read_sentences(table)
    numbered = tmp_path / "plain.tsv"
    numbered.write_text("a\tb\nb\tc\n", encoding="utf-8")
    assert read_sentences(numbered, text=0, pair=1).text_numbers.tolist() == [[0, 1], [1, 2]]


def test_groups_from_values():
    rows = as_sentence_groups(tf.data.Dataset.from_tensor_slices(((["a", "b"], ["c", "d"]), [0.5, 1.0])))
    assert rows.scores.tolist() == [0.5, 1.0] and rows[1].texts == ("b", "d")
    assert as_sentence_groups(list(rows)).texts == rows.texts
    for wrong, words in (
        (["a"], "pass each twice"),
        ([("a", "")], "empty text 2"),
        ([("a", "b"), ("a", "b", "c")], "Row 1 is a pair without a score and row 2 is a triplet"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            as_sentence_groups(wrong)
    with pytest.raises(ValueError, match="2 pairs and 1 scores"):
        as_sentence_groups([("a", "b")] * 2, [1.0])
    with pytest.raises(ValueError, match="Triplets have scores"):
        as_sentence_groups([("a", "b", "c")], [1.0])
    with pytest.raises(ValueError, match="score is no number"):
        as_sentence_groups([("a", "b")], [float("nan")])
    with pytest.raises(ValueError, match="score is no number"):
        as_sentence_groups([("a", "b")], [10**400])  # too large for a float


# === Sentence-transformers' files ===


def write_modules(directory, pooling, kinds=("Transformer", "Pooling"), path="1_Pooling"):
    (directory / "1_Pooling").mkdir(parents=True, exist_ok=True)
    paths = {"Transformer": "", "Pooling": path}
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": paths.get(kind, kind)} for kind in kinds]
    (directory / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (directory / "1_Pooling/config.json").write_text(json.dumps(pooling), encoding="utf-8")
    return directory


def test_modules_are_read_or_refused(tmp_path):
    found = read_sentence_modules(write_modules(tmp_path, {"pooling_mode_cls_token": True}))
    assert (found.pooling, found.normalize, found.sequence_length) == ("cls", False, None)
    assert read_sentence_modules(write_modules(tmp_path, {"pooling_mode": "mean"})).pooling == "mean"
    both = {"pooling_mode": "mean", "pooling_mode_cls_token": True}  # the newer key counts, as there
    assert read_sentence_modules(write_modules(tmp_path, both)).pooling == "mean"
    (tmp_path / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "query: "}, "default_prompt_name": "query"}), encoding="utf-8"
    )
    found = read_sentence_modules(tmp_path)
    assert (found.prompts, found.default_prompt_name) == ({"query": "query: "}, "query")
    with pytest.raises(CheckpointError, match="include_prompt is false"):
        read_sentence_modules(write_modules(tmp_path, {"pooling_mode": "mean", "include_prompt": False}))
    write_modules(tmp_path, {"pooling_mode": "mean"})
    for said, words in (
        ({"prompts": {"query": "query: "}, "default_prompt_name": "passage"}, "prompts has 'query'; expected one"),
        ({"default_prompt_name": "query"}, "prompts has none; expected one"),
        ({"prompts": ["query: "]}, "expected an object of names and texts"),
        ({"prompts": {"query": "query: "}, "default_prompt_name": ["query"]}, "expected one of these names"),
    ):
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(said), encoding="utf-8")
        with pytest.raises(CheckpointError, match=words):
            read_sentence_modules(tmp_path)
    (tmp_path / "config_sentence_transformers.json").unlink()
    for pooling in ({"pooling_mode_max_tokens": True}, {"pooling_mode": ["mean", "cls"]}, {"pooling_mode": 5}, {}):
        with pytest.raises(CheckpointError, match="Pass pooling="):
            read_sentence_modules(write_modules(tmp_path, pooling))
    assert read_sentence_modules(tmp_path, pooling="mean").pooling == "mean"
    write_modules(tmp_path, {"pooling_mode": "mean"}, ("Transformer", "Pooling", "Dense"))
    with pytest.raises(CheckpointError, match="Transformer, Pooling, Dense"):
        read_sentence_modules(tmp_path)
    write_modules(tmp_path, {"pooling_mode": "mean"}, path="../elsewhere")
    with pytest.raises(CheckpointError, match="outside of the directory"):
        read_sentence_modules(tmp_path)
    (tmp_path / "modules.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="not JSON"):
        read_sentence_modules(tmp_path)
