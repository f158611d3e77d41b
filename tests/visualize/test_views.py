"""Views show what the model computes: the same attention, attributions that add up, inputs that are its inputs."""

import html.parser
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from places import HELPERS
from tiny_tasks import DEEP_CONFIG, VOCABULARY, pretrained_directory

import keras_bert
from keras_bert import visualize
from keras_bert.model.encoder import bert_encoder
from keras_bert.visualize.integrated_gradients import integrate_gradients
from keras_bert.visualize.token_attributions import from_token_vectors

TEXT = "the film was very good and the plot was bad"
HOSTILE = "a </span><script>alert('x')</script> & \"good\" film"


@pytest.fixture(scope="module")
def classifier():
    """Weights wide enough that a word moves the logits by more than rounding does."""
    task = keras_bert.TextClassifier.from_pretrained(
        pretrained_directory(DEEP_CONFIG), labels=["bad", "good", "so <so>"]
    )
    random = np.random.default_rng(0)
    for weight in task.model.get_layer("classifier").weights:
        weight.assign(random.normal(0, 2.0, weight.shape))
    return task


@pytest.fixture(scope="module")
def encoder():
    return keras_bert.load_encoder(pretrained_directory(DEEP_CONFIG))


class Page(html.parser.HTMLParser):
    """The tags and the visible text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self._style = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._style = tag == "style"

    def handle_endtag(self, tag):
        self._style = self._style and tag != "style"

    def handle_data(self, data):
        self.text += "" if self._style else data


def all_views(task, text):
    return {
        "one head": visualize.attention(task, text, layer=1, head=0),
        "a layer": visualize.attention(task, text, layer=0),
        "all": visualize.attention(task, text),
        "why": visualize.attributions(task, text, label="so <so>", steps=4),
        "inputs": visualize.embedding_inputs(task, (text, "it is bad")),
        "padding": visualize.padding_mask(task, text, sequence_length=32),
        "packed": visualize.packed_mask(task, [text, "fine"]),
        "prefix": visualize.prefix_mask(task, text, "it is bad"),
    }


# === Attention ===


def test_the_room_is_found_by_its_name():
    assert keras_bert.visualize is visualize
    assert "visualize" in dir(keras_bert)


def test_attention_is_the_encoders_own(encoder):
    model, tokenizer = encoder
    view = visualize.attention(model, ("the film", "was good"), tokenizer=tokenizer)
    twin = bert_encoder(DEEP_CONFIG.replace(initializer_range=0.1), return_attentions=True)
    twin.set_weights(model.get_weights())
    batch = keras_bert.pack(tokenizer, ["the film"], ["was good"])
    expected = np.stack([np.asarray(layer)[0] for layer in twin(batch)["attentions"]])
    np.testing.assert_allclose(view.weights, expected, atol=1e-6)
    assert view.tokens == ("[CLS]", "the", "film", "[SEP]", "was", "good", "[SEP]")
    np.testing.assert_allclose(view.weights.sum(-1), 1, atol=1e-5)


def test_attention_shows_what_was_asked_for(classifier):
    view = visualize.attention(classifier, TEXT, layer=-1, head="mean")
    np.testing.assert_allclose(view.shown[0, 0], view.weights[1].mean(0))
    assert view.title == "Attention: layer 1, the mean of 2 heads"
    one = visualize.attention(classifier, TEXT, layer=0, head=1)
    np.testing.assert_array_equal(one.shown[0, 0], one.weights[0, 1])
    assert f"film → good: {one.weights[0, 1, 2, 5]:.1%}" in Page(one.html()).text
    assert Page(visualize.attention(classifier, TEXT).html()).tags.count("img") == 4
    with pytest.raises(ValueError, match="layer=2: the model has 2; expected 0 to 1"):
        visualize.attention(classifier, TEXT, layer=2)


# === Attributions ===


def test_integrated_gradients_of_a_known_function():
    random = np.random.default_rng(1)
    vectors, baseline, slope = (random.normal(size=(3, 4)).astype("float32") for _ in range(3))

    def linear(x):
        return keras.ops.sum(x * slope, axis=(1, 2))

    values, score, least, _ = integrate_gradients(linear, vectors, baseline)
    np.testing.assert_allclose(values, np.sum(slope * (vectors - baseline), axis=1), rtol=1e-5)
    np.testing.assert_allclose([score, least], [np.sum(slope * vectors), np.sum(slope * baseline)], rtol=1e-5)
    # x²y from (0, 0): of x²y, x has two thirds and y one third.
    points = np.array([[3.0], [5.0]], "float32")
    values, *_ = integrate_gradients(lambda p: p[:, 0, 0] ** 2 * p[:, 1, 0], points, 0 * points, steps=4)
    np.testing.assert_allclose(values, [30, 15], rtol=1e-5)


@pytest.mark.parametrize("baseline", ["pad", "mask", "zero"])
def test_attributions_are_complete(classifier, baseline):
    view = visualize.attributions(classifier, TEXT, label="good", baseline=baseline, tolerance=1e-3)
    logits = classifier.logits([TEXT])[0]
    assert view.score == pytest.approx(logits[1], abs=1e-4)
    difference = view.score - view.baseline_score
    assert abs(difference) > 0.05  # else nothing is shown by what follows
    assert abs(view.values.sum() - difference) <= 1e-3 * (1 + abs(difference))
    assert abs(view.gap) <= 1e-3 * (1 + abs(difference))
    special = np.isin(view.tokens, ["[CLS]", "[SEP]"])
    assert np.all(view.values[special] == 0) == (baseline != "zero")
    assert view.answer.probability == pytest.approx(np.exp(logits[1]) / np.exp(logits).sum(), abs=1e-5)


def test_baseline_is_the_text_without_its_words(classifier):
    view = visualize.attributions(classifier, "good film", label=0, steps=2)
    ids = np.array([[2, 0, 0, 3]], "int32")
    empty = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    assert view.baseline_score == pytest.approx(float(classifier.model(empty)["class_logits"][0, 0]), abs=1e-5)


def test_words_sum_their_pieces_and_answers_can_be_held_against_each_other(classifier):
    view = visualize.attributions(classifier, TEXT, label="good", against="bad", steps=16)
    both = [visualize.attributions(classifier, TEXT, label=name, steps=16) for name in ("good", "bad")]
    np.testing.assert_allclose(view.values, both[0].values - both[1].values, atol=1e-4)
    assert "Why “good” " in view.title and "rather than “bad”" in view.title
    pieces = visualize.Attributions(("un", "##do", "it"), np.array([1.0, 2.0, 4.0]), view.answer, 0.0, 0.0, 1)
    assert pieces.words == [("undo", 3.0), ("it", 4.0)]


def test_attributions_warn_when_they_do_not_add_up(classifier, monkeypatch):
    monkeypatch.setattr("keras_bert.visualize.integrated_gradients._MOST", 16)
    monkeypatch.setattr("keras_bert.visualize.integrated_gradients._integrate", lambda *_: np.zeros(12))
    with pytest.warns(UserWarning, match="off by .* from the logits' difference .* after 16 steps"):
        visualize.attributions(classifier, TEXT)


def test_token_vectors_give_the_models_own_answer(classifier):
    view = visualize.attributions(classifier, TEXT, steps=1)
    inputs = {name: np.asarray(value) for name, value in keras_bert.pack(classifier.tokenizer, [TEXT]).items()}
    function, vectors = from_token_vectors(classifier.model, inputs, view.answer)
    assert vectors.shape == (12, 32)
    np.testing.assert_allclose(np.asarray(function(vectors[None])), [view.score], atol=1e-5)


def test_other_tasks_choose_their_number():
    directory = pretrained_directory(DEEP_CONFIG)
    tagger = keras_bert.EntityTagger.from_pretrained(directory, labels=["THING"])
    view = visualize.attributions(tagger, TEXT, label="B-THING", token="film", steps=8)
    place = view.tokens.index("film")
    logits = tagger.model({k: np.asarray(v) for k, v in keras_bert.pack(tagger.tokenizer, [TEXT]).items()})
    assert view.score == pytest.approx(float(logits["token_logits"][0, place, 1]), abs=1e-5)
    assert "Why “B-THING” at “film”" in view.title
    assert visualize.attributions(tagger, TEXT, steps=1).answer.label != "O"
    with pytest.raises(ValueError, match="token='dog' is not a word of the text, which has: .*film"):
        visualize.attributions(tagger, TEXT, token="dog")
    answerer = keras_bert.QuestionAnswerer.from_pretrained(directory)
    span = visualize.attributions(answerer, ("film", "the film was good"), label="end", token="good", steps=1)
    assert span.answer.output == "span_logits" and span.answer.column == 1 and span.tokens[span.answer.place] == "good"
    commands = keras_bert.IntentSlots.from_pretrained(directory, intents=["ask", "say"], slots=["THING"])
    assert visualize.attributions(commands, TEXT, label="say", steps=1).answer.output == "class_logits"
    slot = visualize.attributions(commands, TEXT, output="token_logits", label="I-THING", token=2, steps=1)
    assert slot.answer.place == 2 and slot.answer.column == 2


def test_relations_show_their_markers():
    directory = pretrained_directory(DEEP_CONFIG)
    task = keras_bert.RelationClassifier.from_pretrained(
        directory, labels=["x", "y"], markers=("a", "it", "is", "very")
    )
    view = visualize.attributions(task, "the <e1>film</e1> was <e2>good</e2>", label="y", steps=1)
    assert view.tokens == ("[CLS]", "the", "a", "film", "it", "was", "is", "good", "very", "[SEP]")
    assert view.answer.output == "relation_logits"


def test_what_has_no_answer_is_refused(encoder, classifier):
    model, tokenizer = encoder
    with pytest.raises(ValueError, match="none of these are logits of an answer"):
        visualize.attributions(model, TEXT, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="pass tokenizer=…"):
        visualize.attention(model, TEXT)
    with pytest.raises(ValueError, match="label='great' is unknown; expected one of bad, good, so <so>"):
        visualize.attributions(classifier, TEXT, label="great")
    with pytest.raises(ValueError, match="baseline='noise': expected one of 'pad', 'mask', 'zero'"):
        visualize.attributions(classifier, TEXT, baseline="noise")
    with pytest.raises(TypeError, match="expected a string, or a pair of strings"):
        visualize.attention(classifier, ["a", "b", "c"])


# === Inputs and masks ===


def test_embedding_inputs_are_the_encoders_first_state(encoder):
    model, tokenizer = encoder
    view = visualize.embedding_inputs(model, ("the film", "was good"), tokenizer=tokenizer)
    hidden = model(keras_bert.pack(tokenizer, ["the film"], ["was good"]))["hidden_states"][0]
    np.testing.assert_allclose(view.normed, np.asarray(hidden)[0], atol=1e-5)
    np.testing.assert_array_equal(view.segments, [0, 0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(view.total - view.token_vectors - view.segment_vectors, view.position_vectors, atol=1e-6)
    table = np.asarray(model.get_layer("token_embedding").embeddings)
    np.testing.assert_array_equal(view.token_vectors[2], table[VOCABULARY.index("film")])


def test_mask_patterns(encoder):
    tokenizer = encoder[1]
    padding = visualize.padding_mask(tokenizer, "good film", sequence_length=6)
    assert padding.tokens == ("[CLS]", "good", "film", "[SEP]", "[PAD]", "[PAD]")
    np.testing.assert_array_equal(padding.visible, np.tile([1, 1, 1, 1, 0, 0], (6, 1)).astype(bool))
    packed = visualize.packed_mask(tokenizer, ["good", "the film"], sequence_length=8)
    expected = np.zeros((8, 8), bool)
    expected[:3, :3] = expected[3:7, 3:7] = expected[7:, 7:] = True
    np.testing.assert_array_equal(packed.visible, expected)
    prefix = visualize.prefix_mask(tokenizer, "the film", "good")
    np.testing.assert_array_equal(prefix.visible[:4], np.tile([1, 1, 1, 1, 0, 0], (4, 1)).astype(bool))
    np.testing.assert_array_equal(prefix.visible[4:].astype(int), [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]])
    with pytest.raises(ValueError, match="sequence_length=3: the text has 4 tokens"):
        visualize.padding_mask(tokenizer, "good film", sequence_length=3)


# === Pages and pictures ===


def test_pages_need_nothing_from_outside_and_escape_texts(classifier):
    tokens = [*VOCABULARY, "<", ">", "/", "script", "##script", "&", '"', "'"]
    task = classifier.on_encoder(
        DEEP_CONFIG.replace(vocabulary_size=len(tokens)), tokenizer=keras_bert.BertTokenizer(tokens)
    )
    for name, view in all_views(task, HOSTILE).items():
        page = Page(view.html())
        assert "script" not in page.tags, name
        assert "link" not in page.tags and "iframe" not in page.tags
        assert not any(key.startswith("on") for key, _ in page.attributes), name
        addresses = [value for key, value in page.attributes if key in ("src", "href", "action")]
        assert all(value.startswith("data:image/png;base64,") for value in addresses), name
        assert "http" not in view.html() and "@import" not in view.html() and "url(" not in view.html(), name
        assert "<" in page.text or name in ("a layer", "all"), name  # shown, not swallowed
        assert view._repr_html_() in view.html()
    page = Page(all_views(task, HOSTILE)["why"].html())
    assert "Why “so <so>”" in page.text


def test_save_writes_html_and_png(classifier, tmp_path):
    for name, view in all_views(classifier, "the film").items():
        assert view.save(tmp_path / f"{name}.html").read_text(encoding="utf-8") == view.html()
        assert view.save(tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n"), name
    with pytest.raises(ValueError, match="'x.pdf' ends in '.pdf'; expected .html or .png"):
        visualize.prefix_mask(classifier, "a", "film").save(tmp_path / "x.pdf")


def test_pictures_say_what_they_need(classifier, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    view = visualize.prefix_mask(classifier, "a", "film")
    with pytest.raises(ImportError, match=r'pip install "keras-bert-edge\[plots\]"'):
        view.save(tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
    view.save(tmp_path / "x.html")


def test_long_texts_stay_small(classifier):
    text = " ".join(["film"] * 30)
    page = visualize.attention(classifier, text, layer=0, head=0).html()
    assert len(visualize.attention(classifier, text * 5).tokens) == 32  # what the task reads at once
    assert len(page) < 400_000


@pytest.mark.slow
def test_attributions_on_jax():
    """The gradients come from JAX there; the numbers are those of TensorFlow."""
    code = f"""
import sys; sys.path.insert(0, {str(HELPERS)!r})
import keras, keras_bert, numpy as np
from keras_bert import visualize
from tiny_tasks import DEEP_CONFIG, VOCABULARY
model = keras_bert.bert_model(DEEP_CONFIG.replace(initializer_range=0.3), "classification", num_classes=2, seed=5)
tokenizer = keras_bert.BertTokenizer(VOCABULARY)
view = visualize.attributions(model, {TEXT!r}, label=1, tokenizer=tokenizer, tolerance=1e-3)
print(abs(view.gap) <= 1e-3 * (1 + abs(view.score - view.baseline_score)), keras.backend.backend(), len(view.values))
"""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "jax", "12"], done.stderr[-2000:]
