"""A student learns from a teacher on raw text: same, trimmed and other vocabularies, kept outputs, exact resumption."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import keras
import numpy as np
import pytest
from places import HELPERS
from pretraining_run import CONFIG, TOKENIZER, WORDS, write_tiny_examples
from taught_run import TAUGHT_PLAN, TEACHER_CONFIG, teach, write_teacher

from keras_bert.checkpoint import load_encoder, load_model
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.weights import copy_weights, to_numpy
from keras_bert.pretraining.corpus.writing import CorpusError, write_examples
from keras_bert.pretraining.records import read_history
from keras_bert.pretraining.report import write_report
from keras_bert.pretraining.run import pretrain
from keras_bert.pretraining.teacher import cache as teacher_cache
from keras_bert.pretraining.teacher.alignment import Alignment
from keras_bert.pretraining.teacher.batches import StudentBatches
from keras_bert.pretraining.teacher.cache import TeacherCache
from keras_bert.pretraining.teacher.groups import ReadingGroups
from keras_bert.pretraining.teacher.hidden_states import TeacherOutputs, load_teacher
from keras_bert.pretraining.teacher.initial_weights import start_from_teacher
from keras_bert.pretraining.teacher.plan import Targets, Teacher
from keras_bert.pretraining.teacher.student import WordMeans, student_losses, student_model
from keras_bert.pretraining.teacher.vocabulary import trim_tokenizer, write_word_lists
from keras_bert.text.tokenizer import BertTokenizer

SHORT = replace(TAUGHT_PLAN, steps=4, save_every=2)
# Cuts `w12` into `w1` and `##2`, where the student has one piece for it.
SPELLING = BertTokenizer(
    [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        ".",
        "w",
        *(f"w{n}" for n in range(1, 4)),
        *(f"##{n}" for n in range(10)),
    ]
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("teacher")


@pytest.fixture(scope="module")
def examples(place):
    return write_tiny_examples(place / "examples")


@pytest.fixture(scope="module")
def singles(place):
    return write_tiny_examples(place / "singles", pairs="single")


@pytest.fixture(scope="module")
def teacher(place):
    return write_teacher(place / "model")


@pytest.fixture(scope="module")
def speller(place):
    return write_teacher(place / "speller", tokenizer=SPELLING)


@pytest.fixture
def without_xla(monkeypatch):
    """For runs of a few steps, most of whose time XLA would compile."""
    from keras_bert.training.devices import Devices

    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})
    compile_model = keras.Model.compile
    monkeypatch.setattr(keras.Model, "compile", lambda *a, **k: compile_model(*a, **{**k, "jit_compile": False}))


def rows_of(texts, tokenizer=TOKENIZER, length=12):
    """Rows of the student, padded."""
    rows = {name: np.zeros((len(texts), length), np.int32) for name in ("token_ids", "segment_ids", "padding_mask")}
    for index, text in enumerate(texts):
        ids = [tokenizer.cls_id, *tokenizer(text).numpy(), tokenizer.sep_id]
        rows["token_ids"][index, : len(ids)] = ids
        rows["padding_mask"][index, : len(ids)] = 1
    return rows


def outputs_of(teacher, tokenizer=TOKENIZER, *, length=12, **options):
    plan = Teacher(model=teacher, **options)
    loaded = load_teacher(plan)
    targets = Targets.find(plan, loaded.config, CONFIG)
    alignment = Alignment(tokenizer, loaded.tokenizer, max_length=loaded.config.max_sequence_length)
    return TeacherOutputs(loaded, plan, targets, alignment, packed=False, sequence_length=length), loaded


# === A run ===


@pytest.mark.usefixtures("without_xla")
@pytest.mark.slow
def test_a_short_run_measures_on_all_of_the_validation_text(singles, teacher, tmp_path):
    plan = replace(TAUGHT_PLAN, steps=2, save_every=2, batch_size=4, validation_steps=3)
    history = teach(singles, teacher, tmp_path, plan=plan, validation=singles)
    assert history["step"] == [2] and history["val_hidden_1_3_loss"][0] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_a_student_comes_closer_and_leaves_an_ordinary_model(singles, teacher, tmp_path):
    plan = replace(TAUGHT_PLAN, steps=60, save_every=20, learning_rate=3e-3)
    history = teach(singles, teacher, tmp_path, plan=plan, relations=1.0, validation=singles)
    for name in ("hidden_1_3_loss", "sentence_loss", "relations_1_3_loss", "val_hidden_1_3_loss"):
        assert history[name][-1] < history[name][0], name
    assert history["step"] == [20, 40, 60]
    record = json.loads((tmp_path / "plan.json").read_text())
    assert record["plan"]["teacher_model"] == str(teacher)
    assert record["teacher"]["alignment"] == "pieces"
    manifest = json.loads((tmp_path / "teacher" / "manifest.json").read_text())
    assert manifest["outputs"] == ["hidden_3", "relations_3"]
    assert len(manifest["teacher"]["weights_sha256"]) == len(manifest["examples_sha256"]) == 64
    encoder, tokenizer = load_encoder(tmp_path / "model")
    assert encoder_config(encoder) == CONFIG
    assert tokenizer.vocabulary == TOKENIZER.vocabulary
    assert not any("hidden_1_3" in weight.path for weight in encoder.weights)
    assert write_report(tmp_path).is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_transformers_opens_the_student(singles, teacher, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    teach(singles, teacher, tmp_path, plan=SHORT)
    encoder, _ = load_encoder(tmp_path / "model")
    rows = rows_of(["w1 w2 w3 .", "w7 w8 ."])
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    inputs = {theirs: torch.tensor(rows[ours]).long() for ours, theirs in names.items()}
    with torch.no_grad():
        theirs = transformers.BertModel.from_pretrained(tmp_path / "model").eval()(**inputs).last_hidden_state.numpy()
    ours = to_numpy(encoder(rows)["sequence_output"])
    visible = rows["padding_mask"] > 0
    np.testing.assert_allclose(ours[visible], theirs[visible], atol=1e-4)


OTHER_MIXTURES = [
    {"cache_gb": 0, "relations": 1.0, "device": "cpu:0"},
    {"hidden": 0.0, "sentence": 0.0, "relations": 1.0, "relation_heads": 8, "relation_layers": (1, 2)},
    {"hidden_layers": ((0, 0), (1, 3)), "token_table": "embeddings"},
    {"start": "random", "hidden": 0.0},
]


@pytest.mark.usefixtures("without_xla")
@pytest.mark.parametrize(
    "options", [{"mlm": 1.0}, *(pytest.param(options, marks=pytest.mark.slow) for options in OTHER_MIXTURES)]
)
def test_every_mixture_of_losses_trains(examples, teacher, tmp_path, options):
    history = teach(examples, teacher, tmp_path, plan=SHORT, **options)
    assert np.isfinite(history["loss"]).all()
    wanted = {"mlm_logits", "nsp_logits"} if options.get("mlm") else {"sequence_output"}
    assert wanted <= set(load_model(tmp_path / "model")[0].output)


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
@pytest.mark.parametrize("mlm", [0.0, 1.0])
def test_packed_rows_and_words(examples, speller, tmp_path, mlm):
    plan = replace(SHORT, packed=True, mask_unit="word", negatives=8 if mlm else None)
    history = teach(examples, speller, tmp_path, plan=plan, relations=1.0, mlm=mlm)
    assert np.isfinite(history["loss"]).all()
    assert json.loads((tmp_path / "plan.json").read_text())["teacher"]["alignment"] == "words"


@pytest.mark.slow
def test_killed_at_any_point_it_continues_as_if_nothing_had_happened(examples, teacher, tmp_path):
    def command(output):
        return [sys.executable, HELPERS / "taught_run.py", examples, teacher, output]

    options = {"cwd": HELPERS, "capture_output": True, "text": True, "timeout": 600}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(command(whole), **options)
    assert done.returncode == 0, done.stderr[-2000:]
    # While the teacher reads, and while the student learns.
    for sign in ("teacher/chunk-*", "state/step-*"):
        process = subprocess.Popen(command(killed), cwd=HELPERS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not list(killed.glob(sign)) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (killed / "model").exists()
    again = subprocess.run(command(killed), **options)
    assert again.returncode == 0, again.stderr[-2000:]
    resumed, expected = (read_history(path / "history.jsonl") for path in (killed, whole))
    for name in set(expected) - {"seconds", "tokens_per_second"}:
        np.testing.assert_allclose(resumed[name], expected[name], atol=1e-5, rtol=1e-5, err_msg=name)
    ours, theirs = (load_model(path / "model")[0] for path in (killed, whole))
    for mine, other in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(to_numpy(mine), to_numpy(other), atol=1e-5, err_msg=mine.path)
    # The disk's limit allowed fewer rows than the run needed: the teacher read on, and early chunks are gone.
    record = json.loads((whole / "plan.json").read_text())["teacher"]
    assert record["steps_on_them"] < TAUGHT_PLAN.steps
    assert min(int(path.name[6:]) for path in (whole / "teacher").glob("chunk-*")) > 0


@pytest.mark.slow
def test_jax_takes_the_same_steps(singles, teacher, tmp_path):
    pytest.importorskip("jax")
    script = (
        "import sys; from dataclasses import replace; from taught_run import teach, TAUGHT_PLAN\n"
        "plan = replace(TAUGHT_PLAN, steps=4, save_every=2, dropout=0.0)\n"
        "teach(*sys.argv[1:4], plan=plan, relations=1.0)\n"
    )
    losses = {}
    for backend in ("tensorflow", "jax"):
        command = [sys.executable, "-c", script, singles, teacher, tmp_path / backend]
        environment = {**_environment(), "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(command, cwd=HELPERS, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        losses[backend] = read_history(tmp_path / backend / "history.jsonl")["loss"]
    # Initial weights come from each backend's own generator.
    assert np.isfinite(losses["jax"]).all()
    np.testing.assert_allclose(losses["jax"], losses["tensorflow"], rtol=0.2)


def _environment():
    import os

    return {**os.environ, "PYTHONPATH": f"{HELPERS}{os.pathsep}{HELPERS.parents[1]}"}


# === The teacher's outputs ===


@pytest.mark.usefixtures("without_xla")
def test_outputs_are_the_hidden_states_of_each_row_in_its_order(teacher):
    outputs, loaded = outputs_of(teacher, relations=1.0)
    rows = rows_of(["w1 .", "w1 w2 w3 w4 .", "w9 w8 w7"])
    vectors, counts = outputs(rows)
    assert counts.tolist() == [4, 7, 5]
    states = to_numpy(loaded.encoder(rows)["hidden_states"][3])
    expected = np.concatenate([states[row, :count] for row, count in enumerate(counts)])
    np.testing.assert_allclose(vectors["hidden_3"], expected, atol=5e-3)
    assert vectors["hidden_3"].dtype == np.float16
    assert vectors["relations_3"].shape == (16, 3 * TEACHER_CONFIG.hidden_dim)
    outputs.measure(rows)
    standard, _ = outputs(rows)
    np.testing.assert_allclose(standard["hidden_3"].astype("float32").mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(standard["hidden_3"].astype("float32").std(axis=0), 1, atol=0.02)


def test_a_vocabulary_is_trimmed_by_all_of_the_text(tmp_path):
    corpus = tmp_path / "corpus.txt"  # more documents than are counted at once; the last ones have another word
    corpus.write_text("\n\n".join(["w1 ."] * 300 + ["w3 w2 ."] * 40 + ["w3 ."] * 40) + "\n")
    assert trim_tokenizer(TOKENIZER, corpus, 7).vocabulary[5:] == [".", "w1"]
    assert trim_tokenizer(TOKENIZER, corpus, 8).vocabulary[5:] == [".", "w1", "w3"]


def test_word_lists_have_every_word_as_often_as_asked(tmp_path):
    tokenizer = BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "über", "word", "1st", "77", "词"]
    )
    text = write_word_lists(tokenizer, tmp_path / "words.txt", 25).read_text(encoding="utf-8")
    assert sorted(text.split()) == ["1st"] * 25 + ["word"] * 25 + ["über"] * 25
    again = write_word_lists(tokenizer, tmp_path / "again.txt", 25, seed=1).read_text(encoding="utf-8")
    assert text != again
    with pytest.raises(ValueError, match="times=0"):
        write_word_lists(tokenizer, tmp_path / "none.txt", 0)
    many = BertTokenizer(
        [*tokenizer.vocabulary[:5], *(chr(97 + a) + chr(97 + b) for a in range(26) for b in range(26))]
    )
    documents = write_word_lists(many, tmp_path / "many.txt", 2).read_text(encoding="utf-8").strip().split("\n\n")
    assert [len(document.split()) for document in documents] == [240, 240, 196] * 2


@pytest.mark.usefixtures("without_xla")
@pytest.mark.slow
def test_a_trimmed_vocabulary_meets_the_same_vectors(teacher, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("w1 w2 w2 w2 .\nw1 w3 .\n")
    trimmed = trim_tokenizer(TOKENIZER, corpus)
    assert trimmed.vocabulary == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "w1", "w2", "w3"]
    fewer = trim_tokenizer(TOKENIZER, corpus, 7)
    assert fewer.vocabulary[5:] == [".", "w2"]
    texts = ["w1 w2 .", "w3 w2 w1"]
    whole, _ = outputs_of(teacher)
    small, _ = outputs_of(teacher, trimmed)
    assert small.alignment.kind == "pieces"
    first, second = whole(rows_of(texts))[0], small(rows_of(texts, trimmed))[0]
    np.testing.assert_array_equal(first["hidden_3"], second["hidden_3"])


@pytest.mark.usefixtures("without_xla")
def test_other_vocabularies_meet_in_words(speller):
    outputs, loaded = outputs_of(speller)
    assert outputs.alignment.kind == "words"
    rows = rows_of(["w12 w3 w30 ."])
    vectors, counts = outputs(rows)
    assert counts.tolist() == [6]  # [CLS] w12 w3 w30 . [SEP]
    states = to_numpy(loaded.encoder(rows_of(["w12 w3 w30 ."], SPELLING))["hidden_states"][3])[0]
    # The teacher reads [CLS] w1 ##2 w3 w3 ##0 . [SEP].
    expected = [states[0], states[1:3].mean(axis=0), states[3], states[4:6].mean(axis=0), states[6], states[7]]
    np.testing.assert_allclose(vectors["hidden_3"], expected, atol=5e-3)
    # And the other way round the student's pieces are put together.
    back = Alignment(SPELLING, TOKENIZER)
    rows = rows_of(["w12 w3"], SPELLING)
    assert back.word_ids(rows["token_ids"], rows["padding_mask"])[0].tolist() == [0, 1, 1, 2, 3, *[-1] * 7]
    (row,) = back.teacher_rows(rows)
    assert TOKENIZER.tokens("w12 w3").numpy().tolist() == [b"w12", b"w3"]
    assert row.token_ids.tolist() == [2, *TOKENIZER("w12 w3").numpy(), 3]


def test_words_that_the_teacher_has_no_room_for_are_not_compared():
    alignment = Alignment(TOKENIZER, SPELLING, max_length=5)
    (row,) = alignment.teacher_rows(rows_of(["w12 w13 w14"]))
    assert row.units.tolist() == [0, 1, 1, 2, 2]


def test_word_means():
    vectors = np.array([[[1.0], [3.0], [5.0], [7.0]]], "float32")
    means = to_numpy(WordMeans()(vectors, np.array([[0, 1, 1, -1]])))
    assert means.ravel().tolist() == [1.0, 4.0, 0.0, 0.0]


@pytest.mark.usefixtures("without_xla")
def test_chunks_are_whole_named_and_made_again(teacher, tmp_path, monkeypatch):
    outputs, _ = outputs_of(teacher)

    def rows_from(chunk):
        return iter([rows_of([f"w{number} w{number + 1} ."] * 4) for number in range(chunk, chunk + 5)])

    cache = TeacherCache(tmp_path, outputs, rows_from, {"teacher": "a"}, progress=False)
    cache.measure()
    rows = cache.rows(range(3))
    assert len(rows) == 12
    inputs, vectors, counts = rows.take([11, 0])
    assert inputs["token_ids"][0, 1] == TOKENIZER.token_to_id("w2")
    assert vectors["hidden_3"].shape == (2, 12, 48)
    assert not vectors["hidden_3"][:, counts[0] :].any()
    cache.drop_before(2)
    assert [path.name for path in sorted(tmp_path.glob("chunk-*"))] == ["chunk-000002"]
    again = TeacherCache(tmp_path, outputs, rows_from, {"teacher": "a"}, progress=False)
    again.measure()
    np.testing.assert_array_equal(again.rows(range(3)).take([11, 0])[1]["hidden_3"], vectors["hidden_3"])
    with pytest.raises(ValueError, match="another teacher.*these differ: teacher"):
        TeacherCache(tmp_path, outputs, rows_from, {"teacher": "b"}, progress=False)

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(teacher_cache, "write_whole", full_disk)
        with pytest.raises(OSError, match="vectors.npy could not be written .*No space left.*make room"):
            teacher_cache.load_or_make(tmp_path / "vectors.npy", lambda: np.zeros(2))
    monkeypatch.setattr(teacher_cache.np, "save", full_disk)
    with pytest.raises(OSError, match="No space left.*cache_gb"):
        again.rows(range(3, 4))
    assert not list(tmp_path.glob("*chunk-000003*"))


def test_the_mask_rate_falls_and_masks_go_by_seed_and_step(singles):
    teacher = Teacher(model="m", sentence=0, mlm=1.0)
    targets = Targets.find(teacher, TEACHER_CONFIG, CONFIG)
    plan = replace(SHORT, mask_rate=0.5, final_mask_rate=0.1)
    alignment = Alignment(TOKENIZER, TOKENIZER)
    batches = StudentBatches(singles, TOKENIZER, plan, teacher, targets, alignment, next_sentence=False)
    rows = rows_of([" ".join(WORDS[:20])] * 16, length=32)
    taught = (rows, {"hidden_3": np.zeros((16, 32, 48), np.float16)}, np.full(16, 22, np.int32))

    def masks(data):
        return [(inputs["token_ids"].numpy(), weights["mlm_logits"].numpy()) for inputs, _, weights in data]

    whole = masks(batches.training(lambda: iter([taught] * 5)))
    for (tokens, _), (same, _) in zip(whole[3:], masks(batches.training(lambda: iter([taught] * 2), 3)), strict=True):
        np.testing.assert_array_equal(tokens, same)
    counts = [weights.sum(axis=1).mean() for _, weights in whole]
    np.testing.assert_allclose(counts, [10, 8, 6, 4, 2], atol=0.01)
    ((_, measured),) = masks(batches.validation(lambda: iter([taught])))
    np.testing.assert_allclose(measured.sum(axis=1).mean(), 2, atol=0.01)


def test_a_saved_task_can_teach(tmp_path):
    from keras_bert.tasks.classification.task import TextClassifier

    teacher = write_teacher(tmp_path / "model")
    task = TextClassifier.from_pretrained(teacher, labels=["no", "yes"], sequence_length=16)
    task.save(tmp_path / "task")
    loaded = load_teacher(Teacher(model=tmp_path / "task"))
    assert loaded.config.hidden_dim == TEACHER_CONFIG.hidden_dim
    assert loaded.tokenizer.vocabulary == TOKENIZER.vocabulary
    rows, (encoder, _) = rows_of(["w1 w2 ."]), load_encoder(teacher)
    ours, theirs = (to_numpy(model(rows)["sequence_output"]) for model in (loaded.encoder, encoder))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


# === The first weights ===


def test_a_student_of_the_teachers_size_begins_as_the_teacher(teacher):
    plan = Teacher(model=teacher)
    loaded = load_teacher(plan)
    student = bert_encoder(loaded.config, seed=1)
    parts = start_from_teacher(student, plan, loaded, Alignment(TOKENIZER, loaded.tokenizer), None)
    assert "blocks" in parts
    rows = rows_of(["w1 w2 ."])
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(to_numpy(student(rows)[name]), to_numpy(loaded.encoder(rows)[name]), atol=1e-5)
    shallow = bert_encoder(loaded.config.replace(num_layers=1), seed=1)
    start_from_teacher(shallow, plan, loaded, Alignment(TOKENIZER, loaded.tokenizer), None)
    ours, theirs = shallow.get_layer("block_0"), loaded.encoder.get_layer("block_2")
    np.testing.assert_array_equal(to_numpy(ours.intermediate.kernel), to_numpy(theirs.intermediate.kernel))


@pytest.mark.parametrize("width", [32, 64])
def test_the_token_table_keeps_what_is_far_apart(teacher, width):
    plan = Teacher(model=teacher, token_table="embeddings")
    loaded = load_teacher(plan)
    student = bert_encoder(CONFIG.replace(hidden_dim=width), seed=1)
    parts = start_from_teacher(student, plan, loaded, Alignment(TOKENIZER, loaded.tokenizer), None)
    assert parts == ["token table", "positions", "segments"]
    ours, theirs = (to_numpy(model.get_layer("token_embedding").embeddings) for model in (student, loaded.encoder))
    apart = [
        np.linalg.norm(table[:, None] - table[None], axis=-1)[np.triu_indices(len(table), 1)]
        for table in (ours, theirs)
    ]
    assert np.corrcoef(*apart)[0, 1] > (0.999 if width == 64 else 0.7)
    assert ours.std() == pytest.approx(CONFIG.initializer_range, rel=0.01)


def test_a_narrow_table_gives_almost_what_the_teachers_blocks_read(teacher):
    plan = Teacher(model=teacher, start="blocks")
    loaded = load_teacher(plan)
    alignment = Alignment(TOKENIZER, loaded.tokenizer)
    rows = rows_of(["w1 w2 w3 w4 .", "w9 w8 w7 w31"], length=8)
    seen, left = rows["padding_mask"] > 0, []
    theirs = to_numpy(loaded.encoder(rows)["hidden_states"][0])[seen]
    for width in (8, 32, 47):
        config = loaded.config.replace(embedding_dim=width, pooler_activation="gelu")
        student = bert_encoder(config, seed=1)
        before = to_numpy(student.get_layer("pooler").weights[0])
        start_from_teacher(student, plan, loaded, alignment, None)
        ours = to_numpy(student(rows)["hidden_states"][0])[seen]
        left.append(np.square(ours - theirs).sum() / np.square(theirs - theirs.mean(axis=0)).sum())
        # A pooler with another activation is another function, so the teacher's is not taken.
        np.testing.assert_array_equal(to_numpy(student.get_layer("pooler").weights[0]), before)
    assert left[0] > left[1] > left[2] and left[2] < 0.1, left


def test_a_student_with_the_teachers_blocks_is_compared_in_the_teachers_units(teacher):
    outputs, loaded = outputs_of(teacher)
    rows = rows_of(["w1 w2 w3 .", "w5 w6 w7 w8 ."], length=8)
    outputs.measure(rows)
    student = bert_encoder(loaded.config, seed=1)
    copy_weights(loaded.encoder, student)
    plan = Teacher(model=teacher, sentence=0)
    targets = Targets.find(plan, loaded.config, loaded.config)
    model = student_model(student, plan, targets, statistics=outputs.statistics)
    assert len(model.trainable_variables) <= len(student.trainable_variables)
    vectors, counts = outputs(rows)
    ours = to_numpy(model(rows)["hidden_3_3"])
    expected = np.concatenate([ours[row, :count] for row, count in enumerate(counts)])
    np.testing.assert_allclose(vectors["hidden_3"], expected, atol=1e-2)


# === Bad input ===


def test_bad_plans_say_what_is_wrong(teacher):
    with pytest.raises(ValueError, match="nothing is left to learn"):
        Teacher(model="m", hidden=0, sentence=0)
    with pytest.raises(ValueError, match="hidden=-1 is no weight"):
        Teacher(model="m", hidden=-1)
    with pytest.raises(ValueError, match="start='all' is unknown"):
        Teacher(model="m", start="all")
    with pytest.raises(ValueError, match="teacher has no layer 9; it has 3"):
        Targets.find(Teacher(model="m", hidden_layers=((1, 9),)), TEACHER_CONFIG, CONFIG)
    with pytest.raises(ValueError, match="relation_heads=5 must divide both widths, 48 .* and 32"):
        Targets.find(Teacher(model="m", relations=1, relation_heads=5), TEACHER_CONFIG, CONFIG)
    with pytest.raises(ValueError, match="No loss reaches the student's last layer, 2"):
        Targets.find(Teacher(model="m", hidden_layers=((1, 3),)), TEACHER_CONFIG, CONFIG.replace(num_layers=2))
    with pytest.raises(ValueError, match="packed rows hold several"):
        Targets.find(Teacher(model="m", sentence=1), TEACHER_CONFIG, CONFIG, packed=True)
    with pytest.raises(ValueError, match="in packed rows there is no sentence"):
        Targets.find(Teacher(model="m", hidden=0), TEACHER_CONFIG, CONFIG, packed=True)


@pytest.mark.usefixtures("without_xla")
def test_bad_runs_say_what_is_wrong(singles, teacher, place, tmp_path):
    with pytest.raises(ValueError, match="start='blocks': the teacher has hidden_dim=48"):
        teach(singles, teacher, tmp_path / "a", plan=SHORT, start="blocks")
    with pytest.raises(ValueError, match="has room for 0 rows"):
        teach(singles, teacher, tmp_path / "b", plan=SHORT, cache_gb=1e-9)
    with pytest.raises(ValueError, match="fewer than batch_size=100000"):
        teach(singles, teacher, tmp_path / "c", plan=replace(SHORT, batch_size=100_000))
    foreign = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "я", "##б"])
    stranger = write_teacher(place / "stranger", tokenizer=foreign)
    with pytest.raises(ValueError, match="does not know .* of this text.*too little in common"):
        teach(singles, stranger, tmp_path / "d", plan=SHORT)
    with pytest.raises(ValueError, match="alignment='pieces': the teacher has no 41"):
        teach(singles, stranger, tmp_path / "e", plan=SHORT, alignment="pieces")
    short = write_teacher(place / "short", TEACHER_CONFIG.replace(max_sequence_length=16))
    with pytest.raises(ValueError, match="Rows have 32 tokens, and the teacher reads at most 16"):
        teach(singles, short, tmp_path / "f", plan=SHORT)
    with pytest.raises(ValueError, match="growth=.*has all its blocks from the start"):
        teach(singles, teacher, tmp_path / "i", plan=replace(SHORT, growth=((1, 2),)))
    with pytest.raises(ValueError, match="config=None"):
        pretrain(singles, tmp_path / "g", None, TOKENIZER, SHORT, teacher=teacher)
    (place / "bare").mkdir()
    for file in teacher.iterdir():
        if not file.name.startswith(("vocab", "tokenizer", "special")):
            (place / "bare" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="has no vocabulary, so it cannot read text"):
        teach(singles, place / "bare", tmp_path / "h", plan=SHORT)


def test_an_empty_corpus_is_named(tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(CorpusError, match="no text to choose pieces by"):
        trim_tokenizer(TOKENIZER, tmp_path / "empty.txt")
    with pytest.raises(CorpusError, match="No example could be made"):
        write_examples(tmp_path / "empty.txt", tmp_path / "out", TOKENIZER, workers=1, progress=False)


def test_a_student_model_compares_what_the_plan_names():
    plan = Teacher(model="m", hidden=2.0, sentence=0.5, relations=3.0)
    targets = Targets.find(plan, TEACHER_CONFIG, CONFIG)
    model = student_model(bert_encoder(CONFIG, seed=0), plan, targets, words=True, seed=0)
    assert sorted(model.input) == ["padding_mask", "segment_ids", "token_ids", "word_ids", "word_texts"]
    assert student_losses(model, plan, targets)["loss_weights"] == {
        "hidden_1_3": 2.0,
        "sentence": 0.5,
        "relations_1_3": 3.0,
    }
    assert targets.heads == 16
    assert len(WORDS) == 40


def test_the_last_rows_are_as_many_as_the_steps_that_are_left_need():
    plan = replace(TAUGHT_PLAN, steps=48, save_every=4, batch_size=8)
    groups = ReadingGroups.find(plan, Teacher(model="x", passes=2, cache_gb=1e-4), available=4096, row_bytes=1e5 / 80)
    assert (groups.chunk_rows, groups.chunks, groups.steps) == (80, 1, 20)
    several = ReadingGroups(chunk_rows=16, chunks=5, steps=20)  # 5 * 16 rows, twice, in batches of 8
    assert [several.chunks_of(number, plan, 2) for number in range(3)] == [5, 5, 2]
    assert several.chunks_of(2, replace(plan, steps=44), 2) == 1
