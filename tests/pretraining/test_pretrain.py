"""From examples to a pretrained directory: resumed as if never killed, in phases, with records to look at."""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from places import HELPERS
from pretraining_run import CONFIG, PLAN, TOKENIZER, write_tiny_examples

from keras_bert.checkpoint import load_model
from keras_bert.model.config import PRESETS, BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.pretraining import records as run_records
from keras_bert.pretraining.batches import max_predictions, training_batches, validation_batches
from keras_bert.pretraining.corpus.writing import write_examples
from keras_bert.pretraining.plan import Phase, PretrainingPlan
from keras_bert.pretraining.records import read_history
from keras_bert.pretraining.report import write_report
from keras_bert.pretraining.run import pretrain, pretrain_in_phases
from keras_bert.text.tokenizer import BertTokenizer

SHORT = replace(PLAN, steps=4, save_every=2)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return write_tiny_examples(tmp_path_factory.mktemp("corpus") / "examples")


@pytest.fixture(scope="module")
def validation(tmp_path_factory):
    return write_tiny_examples(tmp_path_factory.mktemp("corpus") / "validation", documents=20, seed=1)


@pytest.fixture(scope="module")
def whole(examples, validation, tmp_path_factory):
    """A run that nobody disturbed."""
    directory = tmp_path_factory.mktemp("whole")
    pretrain(examples, directory, CONFIG, TOKENIZER, PLAN, validation=validation, verbose=0)
    return directory


@pytest.fixture
def without_xla(monkeypatch):
    """For runs of a few steps, most of whose time XLA would compile."""
    from keras_bert.training.devices import Devices

    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})


def weights_of(directory):
    model = load_model(directory)[0]
    return {variable.path: variable.numpy() for variable in model.weights}


# === One run ===


def test_it_learns_and_keeps_records(whole, examples):
    history = read_history(whole / "history.jsonl")
    assert history["step"] == list(range(6, 61, 6))
    for name in ("loss", "val_loss", "mlm_logits_perplexity", "val_mlm_logits_perplexity"):
        assert history[name][-1] < history[name][0]
    batches = training_batches(examples, CONFIG, TOKENIZER, PLAN).take(PLAN.save_every)
    assert history["tokens"][0] == sum(int(inputs["padding_mask"].numpy().sum()) for inputs, *_ in batches)
    assert min(history["tokens_per_second"]) > 0
    assert "val_tokens" not in history
    model, _ = load_model(whole / "model")
    assert sorted(model.output) == ["mlm_logits", "nsp_logits"]
    assert json.loads((whole / "plan.json").read_text())["plan"]["learning_rate"] == 3e-3


@pytest.mark.slow
def test_killed_at_any_point_it_continues_as_if_nothing_had_happened(whole, examples, validation, tmp_path):
    command = [sys.executable, HELPERS / "pretraining_run.py", examples, tmp_path, validation]
    killed = subprocess.Popen(command, cwd=HELPERS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("state/step-*")) and killed.poll() is None:
        time.sleep(0.01)
    time.sleep(random.random() * 0.4)  # anywhere: in a step, in a write, between the two
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "model").exists()
    again = subprocess.run(command, cwd=HELPERS, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr[-2000:]
    resumed, expected = (read_history(path / "history.jsonl") for path in (tmp_path, whole))
    for name in set(expected) - {"seconds", "tokens_per_second"}:
        np.testing.assert_allclose(resumed[name], expected[name], atol=1e-5, rtol=1e-5, err_msg=name)
    ours, theirs = weights_of(tmp_path / "model"), weights_of(whole / "model")
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5, err_msg=name)
    steps = [event.step for event in scalars(tmp_path / "logs")]
    assert steps == expected["step"]  # none twice, none missing


def scalars(directory):
    (path,) = directory.glob("events.out.tfevents.*")
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    assert events[0].file_version == "brain.Event:2"
    return events[1:]


def test_tensorboard_gets_the_history(whole):
    history = read_history(whole / "history.jsonl")
    for index, event in enumerate(scalars(whole / "logs")):
        found = {value.tag: value.simple_value for value in event.summary.value}
        assert found == pytest.approx({name: history[name][index] for name in history if name != "step"}, rel=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_full_disk_and_interrupt_leave_the_last_good_state(examples, tmp_path, monkeypatch):
    from keras_bert.training import resume

    writes, save_file = [], resume.save_file

    def full_at_the_second(arrays, path):
        writes.append(path)
        if len(writes) == 2:
            raise OSError(28, "No space left on device")
        save_file(arrays, path)

    monkeypatch.setattr(resume, "save_file", full_at_the_second)
    with pytest.raises(OSError, match="step 4 could not be written .*No space left.* state is .*step-000000002"):
        pretrain(examples, tmp_path, CONFIG, TOKENIZER, SHORT, verbose=0)
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["step-000000002"]

    def interrupt(self, epoch, logs=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_records.RecordHistory, "on_epoch_begin", interrupt)
    with pytest.raises(KeyboardInterrupt, match="state after step 2 is in .*Start the same again"):
        pretrain(examples, tmp_path, CONFIG, TOKENIZER, SHORT, verbose=0)
    assert read_history(tmp_path / "history.jsonl")["step"] == [2]  # the line of step 4 is gone: its state is not there


def test_places_that_cannot_be_written(examples, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be written .*choose another directory"):
        pretrain(examples, tmp_path / "file" / "out", CONFIG, TOKENIZER, SHORT)
    with pytest.raises(OSError, match=r"could not be written .*the states in .*state are whole. Make room"):
        run_records.write_plan(tmp_path / "file", {"plan": {}})


# === Phases ===


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_phases_go_on_from_each_other_and_after_an_interrupt(examples, tmp_path, monkeypatch):
    still = replace(SHORT, steps=2, learning_rate=0.0)  # changes nothing: what it ends with is what it began with
    phases = [Phase(examples=examples, plan=SHORT), Phase(examples=examples, plan=still)]
    with monkeypatch.context() as patch:
        begin = run_records.RecordHistory.on_train_begin

        def interrupt(self, logs=None):
            if self.directory.name == "phase-2":
                raise KeyboardInterrupt
            begin(self, logs)

        patch.setattr(run_records.RecordHistory, "on_train_begin", interrupt)
        with pytest.raises(KeyboardInterrupt, match="no state yet"):
            pretrain_in_phases(phases, tmp_path, CONFIG, TOKENIZER, verbose=0)
    before = (tmp_path / "phase-1" / "history.jsonl").read_text()
    first, second = pretrain_in_phases(phases, tmp_path, CONFIG, TOKENIZER, verbose=0)
    assert (first["step"], second["step"]) == ([2, 4], [2])
    assert (tmp_path / "phase-1" / "history.jsonl").read_text() == before  # it was not trained again
    one, two, last = (weights_of(tmp_path / name) for name in ("phase-1/model", "phase-2/model", "model"))
    for name in one:  # the encoder and both heads
        np.testing.assert_array_equal(two[name], one[name])
        np.testing.assert_array_equal(last[name], one[name])
    page = write_report(tmp_path).read_text()
    assert "phase 2" in page and "6 steps" in page


# === Plans ===


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_accumulation_and_packing_change_no_step(examples, tmp_path):
    plan = replace(SHORT, dropout=0.0, packed=True)
    parts = pretrain(examples, tmp_path / "parts", CONFIG, TOKENIZER, replace(plan, accumulation=4), verbose=0)
    at_once = pretrain(examples, tmp_path / "once", CONFIG, TOKENIZER, plan, verbose=0)
    np.testing.assert_allclose(parts["loss"], at_once["loss"], atol=1e-5)
    assert parts["tokens"] == at_once["tokens"]
    assert min(at_once["tokens"]) > 0.9 * 2 * 16 * 32  # two steps of 16 rows of 32 tokens: next to no padding
    saved, _ = load_model(tmp_path / "once" / "model")
    assert encoder_config(saved).dropout == CONFIG.dropout  # the saved model keeps its own, for fine-tuning


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_negatives_and_half_precision(examples, tmp_path):
    plan = replace(SHORT, negatives=8, precision="mixed_float16")
    history = pretrain(examples, tmp_path, CONFIG, TOKENIZER, plan, verbose=0)
    assert np.isfinite(history["loss"]).all()
    # The optimizer does not count the steps that loss scaling skips; the place in the data must.
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["step-000000002", "step-000000004"]
    assert {array.dtype for array in weights_of(tmp_path / "model").values()} == {np.dtype("float32")}


@pytest.mark.parametrize(("packed", "unit"), [(False, "token"), (False, "word"), (True, "token"), (True, "span")])
def test_batches_from_a_later_step_are_those_of_the_whole(examples, packed, unit):
    plan = replace(PLAN, packed=packed, mask_unit=unit)

    def batches(start, count):
        data = training_batches(examples, CONFIG, TOKENIZER, plan, start=start).take(count)
        return [np.concatenate([value.numpy().ravel() for value in inputs.values()]) for inputs, _, _ in data]

    whole, later = batches(0, 100), batches(90, 10)  # over the end of an epoch
    np.testing.assert_array_equal(np.stack(whole[90:]), np.stack(later))
    assert not np.array_equal(whole[0], whole[1])


@pytest.mark.parametrize("packed", [False, True])
def test_the_mask_rate_falls_while_shapes_and_validation_stay(examples, validation, packed):
    plan = replace(PLAN, packed=packed, mask_rate=0.4, final_mask_rate=0.2)

    def share(batches):
        inputs, labels, weights = zip(*batches, strict=True)
        assert {tuple(label["mlm_logits"].shape[1:]) for label in labels} == {(13,)}  # 0.4 of 32 tokens, rounded up
        ordinary = sum(np.isin(i["token_ids"], (0, 2, 3), invert=True).sum() for i in inputs)
        return sum(w["mlm_logits"].numpy().sum() for w in weights) / ordinary

    def at(step):
        return share(training_batches(examples, CONFIG, TOKENIZER, plan, start=step).take(5))

    assert at(0) == pytest.approx(0.4, abs=0.02)
    assert at(30) == pytest.approx(0.3, abs=0.03)
    assert at(100) == pytest.approx(0.2, abs=0.02)
    assert share(validation_batches(validation, CONFIG, TOKENIZER, plan)) == pytest.approx(0.2, abs=0.02)
    constant = replace(plan, mask_rate=0.15, final_mask_rate=None)
    assert max_predictions(examples, constant) == 5 and constant.last_mask_rate == 0.15


def test_the_learning_rate_goes_by_size(examples, tmp_path):
    plan = PretrainingPlan(steps=500)
    rates = [plan.for_config(BertConfig.preset(size)).learning_rate for size in PRESETS]
    assert rates[:2] == [2e-3, 1e-3] and rates == sorted(rates, reverse=True) and rates[-1] >= 5e-5
    assert replace(plan, learning_rate=3e-4).for_config(CONFIG).learning_rate == 3e-4


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_models_that_start_from_nothing_look_at_neighbours(examples, tmp_path):
    plans = {name: replace(SHORT, learning_rate=0.0, initial=name) for name in ("neighbours", "random")}
    for name, plan in plans.items():
        pretrain(examples, tmp_path / name, CONFIG, TOKENIZER, plan, verbose=0)
    expected = bert_encoder(CONFIG, initial="neighbours", seed=PLAN.seed)
    ours, random = (weights_of(tmp_path / name / "model") for name in plans)
    for weight in expected.weights:
        np.testing.assert_array_equal(ours[weight.path], weight.numpy())
    assert not np.array_equal(ours["embeddings/position"], random["embeddings/position"])
    plan = json.loads((tmp_path / "neighbours" / "plan.json").read_text())["plan"]
    assert (plan["initial"], plan["mask_rate"], plan["final_mask_rate"]) == ("neighbours", 0.3, 0.15)
    # What a model starts from decides, not the plan.
    still = replace(SHORT, learning_rate=0.0)
    pretrain(examples, tmp_path / "on", None, TOKENIZER, still, start_from=tmp_path / "random" / "model", verbose=0)
    np.testing.assert_array_equal(
        weights_of(tmp_path / "on" / "model")["embeddings/position"], random["embeddings/position"]
    )


def test_validation_loses_nothing_on_one_device(validation):
    rows = [int(inputs["token_ids"].shape[0]) for inputs, *_ in validation_batches(validation, CONFIG, TOKENIZER, PLAN)]
    manifest = json.loads((validation / "manifest.json").read_text())
    assert sum(rows) == manifest["counts"]["examples"]


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_a_nan_leaves_its_batches(examples, tmp_path, monkeypatch):
    from keras_bert.pretraining import model as module
    from keras_bert.pretraining import plan as plans

    plan = replace(PLAN, steps=12, save_every=6)
    monkeypatch.setattr(plans, "_STEPS_PER_EXECUTION", 2)
    real = module.bert_optimizer
    monkeypatch.setattr(module, "bert_optimizer", lambda *a, **k: real(float("nan"), plan.steps, warmup=0.0))
    with pytest.raises(FloatingPointError, match="one of the steps 1 to 2 is nan; what was read .*nan-batches.npz"):
        pretrain(examples, tmp_path, CONFIG, TOKENIZER, plan, verbose=0)
    saved = np.load(tmp_path / "nan-batches.npz")
    assert saved["step"].tolist() == [1, 2]
    second = list(training_batches(examples, CONFIG, TOKENIZER, plan).take(2))[1][0]
    np.testing.assert_array_equal(saved["token_ids"][1], second["token_ids"])


# === Records ===


def test_history_survives_half_a_line(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({"step": 20, "loss": 2.0}) + '\n{"step": 40, "lo')
    assert read_history(path) == {"step": [20], "loss": [2.0]}


def test_another_plan_is_said(tmp_path):
    run_records.write_plan(tmp_path, {"plan": {"steps": 10, "seed": 0}})
    run_records.write_plan(tmp_path, {"plan": {"steps": 10, "seed": 0, "new": 1}})
    with pytest.warns(UserWarning, match="begun with another plan: steps was 10, is 20"):
        run_records.write_plan(tmp_path, {"plan": {"steps": 20, "seed": 0}})


def test_report_shows_what_the_history_has(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="has no history.jsonl with a line yet"):
        write_report(tmp_path)
    rows = [{"step": step, "loss": 8 - step / 100, "nsp_logits_accuracy": 0.6} for step in range(100, 601, 100)]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "plan.json").write_text(json.dumps({"plan": {"mask_unit": "<word>"}}))
    page = write_report(tmp_path).read_text()
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["loss.png", "nsp_accuracy.png"]
    assert page.count("data:image/png;base64,iVBOR") == 2
    assert "600 steps" in page and "&lt;word&gt;" in page and "<td>7</td>" in page
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "keras-bert-edge\[plots\]"'):
        write_report(tmp_path)


def test_a_report_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")

    def fail(source, target):
        raise OSError("No space left on device")

    def files():
        return {
            path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".html", ".png", ".partial")
        }

    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    write_report(tmp_path)
    before = files()
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_report(tmp_path)
    assert files() == before


def test_bad_input_is_named(examples, tmp_path):
    with pytest.raises(ValueError, match="steps=50 must be a multiple of save_every=20"):
        PretrainingPlan(steps=50, save_every=20)
    with pytest.raises(ValueError, match="batch_size=32 must be a multiple of accumulation=5"):
        PretrainingPlan(steps=500, accumulation=5)
    with pytest.raises(ValueError, match=r"vocabulary_size=99, but the tokenizer has 46 tokens"):
        pretrain(examples, tmp_path, CONFIG.replace(vocabulary_size=99), TOKENIZER, PLAN)
    with pytest.raises(ValueError, match="expected a BertConfig, or a model to start_from"):
        pretrain(examples, tmp_path, None, TOKENIZER, PLAN)
    with pytest.raises(ValueError, match="expected at least one Phase"):
        pretrain_in_phases([], tmp_path, CONFIG, TOKENIZER)
    with pytest.raises(ValueError, match="rows of 32 tokens, over max_sequence_length=16"):
        training_batches(examples, CONFIG.replace(max_sequence_length=16), TOKENIZER, PLAN)
    with pytest.raises(ValueError, match="mask_rate=1.5 is not a share of the tokens"):
        PretrainingPlan(steps=500, mask_rate=1.5)
    with pytest.raises(ValueError, match="final_mask_rate=0 is not a share of the tokens"):
        PretrainingPlan(steps=500, final_mask_rate=0)
    with pytest.raises(ValueError, match="initial='zeros' is unknown"):
        PretrainingPlan(steps=500, initial="zeros")
    with pytest.raises(ValueError, match="fewer than batch_size=100000; take a smaller batch"):
        training_batches(examples, CONFIG, TOKENIZER, replace(PLAN, batch_size=100_000))


def test_a_corpus_smaller_than_the_vocabulary(tmp_path):
    tokenizer = BertTokenizer([*TOKENIZER.vocabulary, *(f"x{number}" for number in range(9000))])
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n\n".join("w1 w2 w3 .\nw4 w5 ." for _ in range(50)))
    write_examples(corpus, tmp_path / "examples", tokenizer, sequence_length=32, workers=1, progress=False)
    config = CONFIG.replace(vocabulary_size=tokenizer.vocabulary_size)
    with pytest.raises(
        ValueError, match=r"tokens, fewer than the vocabulary has entries \(9,046\).*more text, .*smaller"
    ):
        pretrain(tmp_path / "examples", tmp_path / "run", config, tokenizer, PLAN)


@pytest.mark.slow
def test_the_history_has_the_same_names_without_next_sentences(tmp_path, without_xla):
    write_tiny_examples(tmp_path / "examples", documents=40, pairs="single")
    history = pretrain(tmp_path / "examples", tmp_path / "run", CONFIG, TOKENIZER, SHORT, verbose=0)
    assert {"mlm_logits_accuracy", "mlm_logits_perplexity"} <= set(history)
    assert "nsp_logits_accuracy" not in history


@pytest.mark.slow
def test_a_service_reads_for_a_run(examples, tmp_path, without_xla):
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    plan = replace(SHORT, service=dispatcher.target)
    seen = next(iter(training_batches(examples, CONFIG, TOKENIZER, plan)))
    assert seen[0]["token_ids"].shape == (PLAN.batch_size, 32)
    history = pretrain(examples, tmp_path, CONFIG, TOKENIZER, plan, verbose=0)
    assert history["step"] == [2, 4] and np.all(np.isfinite(history["loss"]))
    del worker, dispatcher
