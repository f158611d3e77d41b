"""Recipes do what they say: what trains, from where, how fast, and what happens when a run goes wrong."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors import SafetensorError
from tiny_models import TINY, assert_same_weights, batch
from tiny_tasks import DEEP_CONFIG, VOCABULARY, pretrained_directory, reviews

from keras_bert.checkpoint import save_pretrained
from keras_bert.finetuning import best_weights
from keras_bert.finetuning.best_weights import KeepBest, Score
from keras_bert.finetuning.heads_first import train_heads
from keras_bert.finetuning.layerwise_adamw import LayerwiseAdamW, finetuning_optimizer, layer_depth
from keras_bert.finetuning.mixout import MixoutModel
from keras_bert.finetuning.recipes import RECIPES, Recipe, find_recipe
from keras_bert.finetuning.report import FinetuneReport, Run
from keras_bert.finetuning.run import finetune
from keras_bert.finetuning.run_identity import digest, loss_part
from keras_bert.finetuning.trained_parts import ParameterCount, choose_trained, reinitialize_top
from keras_bert.finetuning.weight_averaging import RunWeights, average_runs
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.similarity.losses import ContrastiveLoss
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.resume import SaveState

LOSS = {"class_logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}


def new_model(seed=1, **changes):
    return bert_model(TINY.replace(**changes), "classification", num_classes=2, seed=seed)


def values(model):
    return {weight.path: np.array(weight) for weight in model.weights}


def one_step(model, optimizer):
    model.compile(optimizer, loss=LOSS, jit_compile=False)  # one step is not worth compiling
    model.train_on_batch(batch(), {"class_logits": np.array([0, 1, 0])})


# === The optimizer ===


def test_layerwise_rates_are_a_power_of_the_decay():
    model = bert_model(TINY.replace(num_layers=3), "classification", num_classes=2)
    optimizer = LayerwiseAdamW(1e-3, layer_decay=0.5)
    optimizer.build(model.trainable_variables)
    expected = {
        "classifier": 1.0,
        "pooler": 1.0,
        "block_2": 0.5,
        "block_1": 0.25,
        "block_0": 0.125,
        "embeddings": 0.0625,
    }
    for path, factor in optimizer.rate_factors.items():
        assert factor == expected.get(path.split("/")[0], 0.0625), path


def test_without_layer_decay_it_is_adamw():
    stock, ours = new_model(), new_model()
    one_step(stock, keras.optimizers.AdamW(1e-2, weight_decay=0.1, global_clipnorm=1.0))
    one_step(ours, LayerwiseAdamW(1e-2, weight_decay=0.1, global_clipnorm=1.0))
    for path, value in values(ours).items():
        np.testing.assert_allclose(value, values(stock)[path], atol=1e-6, err_msg=path)


def test_first_step_of_each_layer_is_its_rate():
    # The first step of Adam is the rate times the sign of the gradient, whatever its size.
    model = new_model(dropout=0.0, attention_dropout=0.0)
    before = values(model)
    one_step(model, LayerwiseAdamW(1e-2, layer_decay=0.5, weight_decay=0.0, epsilon=1e-12))
    for path in ("classifier/kernel", "block_1/intermediate/kernel", "block_0/intermediate/kernel"):
        depth = layer_depth(path)
        factor = 1.0 if depth is None else 0.5 ** (3 - depth)
        moved = np.abs(values(model)[path] - before[path])
        assert np.median(moved) == pytest.approx(1e-2 * factor, rel=1e-2), path


def test_small_gradients_take_full_steps():
    """A gradient of norm 1 has elements of 1e-4 and less in a BERT of millions of weights."""
    optimizer = finetuning_optimizer(1e-3, 10, warmup=0.0, weight_decay=0.0)
    weight = keras.Variable(np.zeros(4, "float32"), name="kernel")
    optimizer.apply([tf.constant([1e-4, 1e-5, -1e-5, 3e-6])], [weight])
    np.testing.assert_allclose(np.asarray(weight), [-1e-3, -1e-3, 1e-3, -1e-3], rtol=0.1)


def test_pretrained_decay_pulls_back_to_the_start():
    model = new_model()
    optimizer = LayerwiseAdamW(0.1, weight_decay=0.0, pretrained_decay=0.5)
    optimizer.build(model.trainable_variables)
    start = values(model)
    for weight in model.trainable_variables:
        weight.assign(weight + 1.0)
    optimizer.apply([tf.zeros(weight.shape) for weight in model.trainable_variables])
    # 1 away from the start, minus rate × decay; heads have no pretrained value and stay.
    np.testing.assert_allclose(values(model)["block_0/output/kernel"] - start["block_0/output/kernel"], 0.95, atol=1e-5)
    np.testing.assert_allclose(values(model)["classifier/kernel"] - start["classifier/kernel"], 1.0, atol=1e-5)


def test_biases_and_norms_do_not_decay():
    model = new_model()
    optimizer = finetuning_optimizer(0.1, 10, warmup=0.0, weight_decay=0.5)
    optimizer.build(model.trainable_variables)
    before = values(model)
    optimizer.apply([tf.zeros(weight.shape) for weight in model.trainable_variables])
    after = values(model)
    np.testing.assert_allclose(after["block_0/output_norm/gamma"], before["block_0/output_norm/gamma"])
    np.testing.assert_allclose(after["block_0/output/kernel"], before["block_0/output/kernel"] * 0.95, rtol=1e-5)


# === What trains ===


@pytest.mark.parametrize(
    ("recipe", "trained"),
    [
        (Recipe(trains="head"), {"classifier", "pooler"}),
        (Recipe(trains="head", top_layers=1), {"classifier", "pooler", "block_1"}),
        (Recipe(), {"classifier", "pooler", "block_0", "block_1", "embeddings", "token_embedding"}),
    ],
)
def test_only_chosen_parts_move(recipe, trained):
    model = new_model()
    choose_trained(model, recipe)
    before = values(model)
    one_step(model, "adam")
    moved = {path.split("/")[0] for path, value in values(model).items() if not np.array_equal(value, before[path])}
    assert moved == trained


def test_bitfit_moves_biases_and_the_head_alone():
    model = new_model()
    count = choose_trained(model, Recipe(trains="bias"))
    before = values(model)
    one_step(model, "adam")
    for path, value in values(model).items():
        moves = layer_depth(path) is None or path.endswith(("bias", "beta"))
        # The bias of keys cancels in softmax: its gradient is zero up to rounding.
        if not path.endswith("key/bias"):
            assert np.array_equal(value, before[path]) != moves, path
    assert count.trained == sum(weight.size for path, weight in before.items() if _is_bias_or_head(path))


def _is_bias_or_head(path):
    return layer_depth(path) is None or path.endswith(("bias", "beta"))


def test_lora_trains_low_ranks_and_merges_into_plain_kernels():
    model, plain = new_model(dropout=0.0), new_model(seed=2)
    before = values(model)
    count = choose_trained(model, Recipe(trains="lora", lora_rank=2))
    assert count.trained == 2 * 2 * (16 * 2 + 2 * 16) + (16 * 16 + 16) + (16 * 2 + 2)  # layers × (query, value) …
    for _ in range(3):
        one_step(model, keras.optimizers.Adam(0.05))
    assert np.array_equal(
        np.array(model.get_layer("block_0").attention.key.kernel), before["block_0/attention/key/kernel"]
    )
    copy_weights(model, plain)
    assert not np.array_equal(values(plain)["block_0/attention/query/kernel"], before["block_0/attention/query/kernel"])
    np.testing.assert_allclose(plain(batch())["class_logits"], model(batch())["class_logits"], atol=1e-5)


def test_reinitialized_layers_are_fresh_and_others_untouched():
    model = new_model()
    for weight in model.weights:
        weight.assign(np.full(weight.shape, 0.25))
    assert reinitialize_top(model, 1, seed=4) == ["block_1", "pooler"]
    after = values(model)
    assert np.all(after["block_0/output/kernel"] == 0.25)
    assert np.all(after["block_1/output_norm/gamma"] == 1) and np.all(after["block_1/output/bias"] == 0)
    assert after["block_1/output/kernel"].std() == pytest.approx(
        0.02 * 0.88, rel=0.15
    )  # a normal cut at two deviations
    assert len({after[path].flat[0] for path in after if path.startswith("block_1") and path.endswith("kernel")}) == 6
    again = new_model()
    reinitialize_top(again, 1, seed=4)
    np.testing.assert_array_equal(values(again)["block_1/output/kernel"], after["block_1/output/kernel"])


@pytest.mark.parametrize(("pooling", "fresh"), [("cls", ["block_1", "pooler"]), ("mean", [])])
def test_how_many_layers_start_fresh_goes_by_what_the_head_sees(pooling, fresh):
    assert reinitialize_top(new_model(pooling=pooling), None, seed=0) == fresh


def test_too_many_layers_are_refused():
    with pytest.raises(ValueError, match="2 blocks"):
        reinitialize_top(new_model(), 3, seed=0)
    with pytest.raises(ValueError, match="top_layers=5"):
        choose_trained(new_model(), Recipe(trains="head", top_layers=5))
    with pytest.raises(ValueError, match="differ"):
        copy_weights(bert_encoder(TINY), new_model())


# === Mixout ===


def test_mixout_mixes_the_stated_share_and_keeps_the_mean():
    model = new_model()
    start = values(model)
    mixed = MixoutModel.from_model(model, rate=0.7, seed=5)
    mixed.compile("adam", loss=LOSS)
    for weight in model.weights:
        weight.assign(weight + 1.0)
    path = "block_0/intermediate/kernel"
    mixed_values = mixed._mixed_weights([weight.value for weight in model.trainable_variables], step=0)
    drawn = {
        weight.path: np.array(value) for weight, value in zip(model.trainable_variables, mixed_values, strict=True)
    }
    away = drawn[path] - start[path]
    # Either the pretrained weight, or one so far from it that the mean distance is 1.
    assert set(np.round(away, 3).ravel()) == {0.0, np.float32(np.round(1 / 0.3, 3))}
    assert np.mean(away == 0) == pytest.approx(0.7, abs=0.1)
    np.testing.assert_array_equal(drawn["classifier/kernel"], np.array(model.get_layer("classifier").kernel))


@pytest.mark.slow
def test_mixout_of_next_to_nothing_is_plain_training():
    plain, mixed = new_model(dropout=0.0, attention_dropout=0.0), new_model(dropout=0.0, attention_dropout=0.0)
    one_step(plain, keras.optimizers.SGD(0.1))
    one_step(MixoutModel.from_model(mixed, rate=1e-9, seed=1), keras.optimizers.SGD(0.1))
    for path, value in values(mixed).items():
        np.testing.assert_allclose(value, values(plain)[path], atol=1e-6, err_msg=path)


# === Heads first ===


def test_heads_train_alone_and_all_trains_afterwards():
    model = new_model()
    before, trained = values(model), [weight.path for weight in model.trainable_variables]
    train_heads(model, batches(0, 0, 2), steps=8, loss=LOSS, verbose=0)
    moved = {path.split("/")[0] for path, value in values(model).items() if not np.array_equal(value, before[path])}
    assert moved - {"seed_generator"} == {"classifier"}
    assert [weight.path for weight in model.trainable_variables] == trained


def test_a_model_without_heads_is_left_as_it_is():
    model = bert_encoder(TINY)
    before = values(model)
    train_heads(model, None, steps=4, loss={})
    for path, value in values(model).items():
        np.testing.assert_array_equal(value, before[path], err_msg=path)


def test_an_interrupted_head_leaves_the_rest_trainable():
    model = new_model()
    trained = [weight.path for weight in model.trainable_variables]

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_heads(model, batches(0, 0, 1), steps=4, loss={"class_logits": stop}, verbose=0)
    assert [weight.path for weight in model.trainable_variables] == trained


# === Runs ===


def batches(seed, epoch, epochs):
    inputs = {name: np.tile(value, (4, 1)) for name, value in batch().items()}
    labels = np.tile([0, 1, 0], 4)
    data = tf.data.Dataset.from_tensor_slices((inputs, {"class_logits": labels})).batch(3)
    return data.repeat(epochs)


def run(recipe, measure=None, **options):
    return finetune(
        lambda seed: new_model(seed),
        batches,
        recipe,
        loss=LOSS,
        steps_per_epoch=4,
        measure=measure,
        verbose=0,
        **options,
    )


def test_best_weights_come_back_and_training_stops():
    seen, scores = [], iter([0.5, 0.9, 0.7, 0.6, 0.8])

    def measure(model):
        seen.append(values(model))
        return Score(next(scores))

    model, report = run(Recipe(epochs=5, patience=2, learning_rate=1e-2), measure)
    assert len(seen) == 4 and report.best.score == 0.9 and report.best.steps == 16
    for path, value in values(model).items():
        np.testing.assert_array_equal(value, seen[1][path], err_msg=path)


@pytest.mark.slow
def test_degenerate_runs_start_again_with_the_next_seed():
    scores = iter([Score(0.5, degenerate=True), Score(0.8), Score(0.6), Score(0.7)])
    recipe = Recipe(epochs=1, seeds=(0, 1), restarts=1)
    _, report = run(recipe, lambda model: next(scores))
    assert [(trial.seed, trial.degenerate) for trial in report.runs] == [(0, True), (1, False), (2, False)]
    assert report.best.seed == 1 and report.mean == pytest.approx(0.7) and report.std == pytest.approx(0.1)
    assert "degenerate" in str(report) and "0.7000 ± 0.1000" in str(report) and "learned nothing" not in str(report)


@pytest.mark.parametrize(
    ("recipe", "steps", "advice"),
    [
        ("standard", 6, "nothing yet; 6 steps are few: try the recipe few_sample, which takes at least 150"),
        ("standard", 150, "nothing yet; try another learning rate"),
        ("few_sample", 100, "nothing yet; try another learning rate"),
    ],
)
def test_a_model_that_learned_nothing_comes_with_advice(recipe, steps, advice):
    runs = (Run(0, 0.5, True, steps, 1.0),)
    report = FinetuneReport(RECIPES[recipe], "accuracy", runs, ParameterCount(2, 3), ())
    assert advice in str(report) and "nothing yet" not in str(dataclasses.replace(report, interrupted=True))
    assert "nothing yet" not in str(dataclasses.replace(report, runs=(Run(0, 0.5, False, steps, 1.0),)))


def averaged_run(scores):
    """Two seeds and what is measured of their mean; gives the weights of each measurement, too."""
    seen, scores = [], iter(scores)

    def measure(model):
        seen.append(values(model))
        return next(scores)

    recipe = Recipe(epochs=1, seeds=(0, 1), learning_rate=1e-2, average=True)
    return (*run(recipe, measure), seen)


@pytest.mark.slow
def test_the_mean_of_two_runs_is_kept_where_it_is_better():
    model, report, seen = averaged_run([Score(0.6), Score(0.7), Score(0.8)])
    assert report.averaged == (1, 0) and report.score == 0.8 and report.best.score == 0.7
    assert "kept the mean of seeds 1, 0: 0.8000" in str(report)
    for path, value in values(model).items():
        expected = seen[1][path] if "seed" in path else (seen[0][path] + seen[1][path]) / 2
        np.testing.assert_allclose(value, expected, atol=1e-6, err_msg=path)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [Score(0.65), Score(0.9, degenerate=True)])
def test_a_mean_that_is_worse_is_not_kept(mean):
    model, report, seen = averaged_run([Score(0.6), Score(0.7), mean])
    assert report.averaged == (1,) and report.score == 0.7
    for path, value in values(model).items():
        np.testing.assert_array_equal(value, seen[1][path], err_msg=path)


def test_the_run_that_helps_most_joins_first():
    """The second best run alone, and the mean of all three, are worse company for the best than the third."""
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
    runs = [RunWeights(seed, score, (np.full([1, 1], seed),)) for seed, score in ((1, 0.90), (2, 0.89), (4, 0.88))]
    table = {1.5: 0.91, 2.5: 0.93, 2.333: 0.92}
    found = average_runs(model, runs, lambda model: Score(table[round(float(model.get_weights()[0][0, 0]), 3)]))
    assert found == ((1, 4), 0.93) and model.get_weights()[0] == 2.5


@pytest.mark.slow
def test_the_mean_of_one_run_is_that_run():
    _, report = run(Recipe(epochs=1, seeds=(0,), average=True), lambda model: Score(0.5))
    assert report.averaged == () and report.score == 0.5


@pytest.mark.slow
def test_without_validation_data_all_runs_are_averaged():
    recipe = Recipe(epochs=1, seeds=(0, 1), learning_rate=1e-2)
    singles = [run(dataclasses.replace(recipe, seeds=(seed,)), None)[0] for seed in (0, 1)]
    model, report = run(dataclasses.replace(recipe, average=True), None)
    assert set(report.averaged) == {0, 1} and np.isnan(report.score)
    for path, value in values(model).items():
        if path.endswith("kernel"):
            mean = np.mean([values(single)[path] for single in singles], axis=0)
            np.testing.assert_allclose(value, mean, atol=1e-5, err_msg=path)


@pytest.mark.slow
def test_runs_that_are_averaged_begin_with_the_same_fresh_block():
    recipe = Recipe(epochs=1, seeds=(0, 1), learning_rate=1e-9, reinitialize=1, weight_decay=0.0)
    mean, _ = run(dataclasses.replace(recipe, average=True))
    first, _ = run(dataclasses.replace(recipe, seeds=(0,)))
    path = "block_1/output/kernel"
    np.testing.assert_allclose(values(mean)[path], values(first)[path], atol=1e-6)


@pytest.mark.slow
def test_training_data_chooses_no_runs():
    scores = iter([Score(1.0), Score(0.9), Score(0.8), Score(0.95)])
    _, report = run(Recipe(epochs=1, seeds=(0, 1, 2), average=True), lambda model: next(scores), chooses=False)
    assert set(report.averaged) == {0, 1, 2} and report.score == 0.95  # of the mean of all, though one run had more


@pytest.mark.slow
def test_a_step_budget_beats_epochs_on_small_data():
    measured = []

    def measure(model):
        measured.append(0)
        return Score(len(measured))

    _, report = run(Recipe(epochs=1, steps=10, evaluations=5), measure)
    assert report.best.steps == 10 and len(measured) == 5


def test_interrupted_run_gives_the_best_so_far():
    scores = iter([Score(0.9)])

    def measure(model):
        try:
            return next(scores)
        except StopIteration:
            raise KeyboardInterrupt from None

    _, report = run(Recipe(epochs=3, patience=None), measure)
    assert report.interrupted and report.best.score == 0.9 and "interrupted" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("head_epochs", [0, 1.5])
def test_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, head_epochs):
    recipe = Recipe(epochs=4, patience=None, learning_rate=1e-2, head_epochs=head_epochs)

    def accuracy(model):
        logits = np.array(model(batch())["class_logits"])
        return Score(float(logits[0, 0] - logits[1, 0]))

    whole, report = run(recipe, accuracy)
    calls = []

    def dies(model):
        calls.append(0)
        if len(calls) == 3:
            raise RuntimeError("killed")
        return accuracy(model)

    with pytest.raises(RuntimeError, match="killed"):
        run(recipe, dies, directory=tmp_path)
    resumed, again = run(recipe, accuracy, directory=tmp_path)
    assert again.history["val_score"] == pytest.approx(report.history["val_score"])
    for path, value in values(resumed).items():
        np.testing.assert_allclose(value, values(whole)[path], atol=1e-5, err_msg=path)
    with pytest.raises(ValueError, match="learning_rate was 0.01, is 0.001"):
        run(dataclasses.replace(recipe, learning_rate=1e-3), accuracy, directory=tmp_path)
    finished, third = run(recipe, accuracy, directory=tmp_path)  # nothing left to train
    assert third.runs[0].score == pytest.approx(report.runs[0].score)
    assert_same_weights(finished, resumed)


# === When to stop ===


def stops_after(scores, patience=2):
    """After how many measurements a run stops, and which one's weights it keeps."""
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
    given = iter(scores)
    keeper = KeepBest(lambda model: next(given), patience=patience)
    keeper.set_model(model)
    while len(keeper.history) < len(scores) and not getattr(model, "stop_training", False):
        model.set_weights([np.full([1, 1], len(keeper.history) + 1)])
        keeper.on_epoch_end(len(keeper.history), {})
    keeper.finish(model)
    assert model.get_weights()[0] == keeper.best_epoch
    return len(keeper.history), keeper.best_epoch


def test_best_weights_that_find_no_room_leave_nothing_behind(tmp_path, monkeypatch):
    def fill_the_disk(arrays, path):
        path.write_bytes(b"half")
        raise SafetensorError("No space left on device")

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    keeper = KeepBest(lambda model: Score(0.5))
    keeper.set_model(model)
    keeper.keep_in(tmp_path)
    monkeypatch.setattr(best_weights, "save_file", fill_the_disk)
    with pytest.raises(OSError, match="could not be written to .*No space left.*Free some space"):
        keeper.on_epoch_end(0)
    assert list(tmp_path.iterdir()) == []


def scored(value, loss=None, degenerate=False):
    return Score(value, degenerate, {} if loss is None else {"val_loss": loss})


def test_of_equal_scores_the_lower_loss_is_a_gain():
    flat = [scored(0.07, loss) for loss in (6.4, 5.9, 5.1, 4.6, 4.4)]
    assert stops_after(flat) == (5, 5)
    assert stops_after([scored(0.9, 0.3), scored(0.9, 0.4), scored(0.9, 0.3), scored(0.9, 0.2)]) == (3, 1)
    assert stops_after([scored(0.9, 0.5), scored(0.8, 0.3), scored(0.8, 0.1), scored(1.0)]) == (3, 1)


def test_scores_without_a_loss_gain_by_themselves_alone():
    assert stops_after([scored(0.5), scored(0.5), scored(0.5), scored(0.9)]) == (3, 1)
    assert stops_after([scored(0.5, np.nan), scored(0.5, np.nan), scored(0.5, 1.0), scored(0.9)], 3) == (4, 4)
    assert stops_after([scored(np.nan), scored(0.1), scored(0.05)]) == (3, 2)


def test_patience_waits_for_a_model_to_begin():
    lame = [scored(0.5, degenerate=True)] * 3
    assert stops_after([*lame, scored(0.7), scored(0.6), scored(0.6), scored(0.9)]) == (6, 4)
    assert stops_after([scored(0.7), scored(0.6), *lame, scored(0.6), scored(0.9)]) == (6, 1)
    # As good a score of a model that answers is worth more, whatever its loss.
    assert stops_after([scored(0.5, 0.6, degenerate=True), scored(0.5, 0.7), scored(0.5, 0.1, degenerate=True)])[1] == 2


def test_a_run_that_stops_early_says_so_and_does_not_go_on_after_a_kill(tmp_path, monkeypatch):
    recipe = Recipe(epochs=6, patience=2, learning_rate=1e-2)
    scores = iter([Score(0.9), Score(0.8), Score(0.8)])

    def killed(path, value):
        raise MemoryError

    with monkeypatch.context() as context:
        context.setattr("keras_bert.finetuning.run._write_json", killed)
        with pytest.raises(MemoryError):
            run(recipe, lambda model: next(scores), directory=tmp_path)
    assert not (tmp_path / "seed-0" / "result.json").exists()
    _, report = run(recipe, lambda model: pytest.fail("trains on"), directory=tmp_path)
    assert report.best.steps == 12 and report.score == 0.9
    assert "stopped early after 3 of 6 epochs" in str(report) and "2 measurements without improvement" in str(report)
    assert "patience=None trains to the end" in str(report)
    for noted in (dataclasses.asdict(report)["runs"][0], json.loads((tmp_path / "seed-0/result.json").read_text())):
        assert (noted["stopped_early"], noted["epochs"], noted["planned_epochs"]) == (True, 3, 6)
    assert "early" not in str(dataclasses.replace(report, runs=(Run(0, 0.9, False, 24, 1.0),)))


@pytest.mark.slow
def test_patience_is_counted_through_a_kill(tmp_path):
    """The best measurement is on the disk before the state of its step is, and is measured again after a kill there."""
    recipe = Recipe(epochs=6, patience=2, learning_rate=1e-2)
    scores = [scored(0.5), scored(0.5), scored(0.7), scored(0.6), scored(0.6), scored(0.6)]
    states = []

    class Dies(SaveState):
        def on_epoch_end(self, epoch, logs=None):
            states.append(epoch)
            if len(states) == 3:
                raise MemoryError
            super().on_epoch_end(epoch, logs)

    first, second = iter(scores), iter(scores[2:])
    with pytest.MonkeyPatch.context() as context:
        context.setattr("keras_bert.finetuning.run.SaveState", Dies)
        with pytest.raises(MemoryError):
            run(recipe, lambda model: next(first), directory=tmp_path)
    _, report = run(recipe, lambda model: next(second), directory=tmp_path)
    assert report.best.best_epoch == 3 and report.best.steps == 20 and len(report.measurements) == 5


# === Which run a directory holds ===

FAST = {"epochs": 2, "learning_rate": 3e-3, "verbose": 0}
TRAIN, CHECK = reviews(48, seed=0), reviews(24, seed=1)
FLIPPED = {"good": "bad", "bad": "good"}


def classifier(directory=None, **options):
    directory = pretrained_directory(DEEP_CONFIG) if directory is None else directory
    return TextClassifier.from_pretrained(directory, **{"labels": ["bad", "good"], "sequence_length": 16, **options})


def fit(state, task=None, train=TRAIN, check=CHECK, **options):
    task = classifier() if task is None else task
    return task, task.fit(*train, validation_data=check, directory=state, **FAST | options)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The state of a run that has ended, and its report."""
    state = tmp_path_factory.mktemp("ended") / "state"
    return state, fit(state)[1]


def flipped(data):
    return data[0], [FLIPPED[label] for label in data[1]]


def other_weights(tmp_path):
    encoder = bert_encoder(DEEP_CONFIG.replace(initializer_range=0.1), seed=4)
    save_pretrained(encoder, tmp_path / "model", tokenizer=BertTokenizer(VOCABULARY))
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": reviews(48, seed=2)}, "another run: training texts changed; training labels changed. Delete"),
        ({"train": flipped(TRAIN)}, "another run: training labels changed. Delete"),
        ({"class_weight": {"good": 2.0, "bad": 1.0}}, "another run: training class weights changed. Delete"),
        ({"check": flipped(CHECK)}, "another run: validation labels changed. Delete"),
        ({"metric": "matthews"}, "another run: metric was 'accuracy', is 'matthews'. Delete"),
        ({"task": {"sequence_length": 24}}, "another run: sequence_length was 16, is 24. Delete"),
        ({"task": {"pooling": "mean"}}, "another run: model changed"),
        ({"task": other_weights}, "another run: starting weights changed. Delete"),
    ],
)
def test_the_state_of_another_run_is_refused(ended, tmp_path, changes, words):
    task = changes.get("task", {})
    task = classifier(task(tmp_path)) if callable(task) else classifier(**task)
    with pytest.raises(ValueError, match=words):
        fit(ended[0], **changes | {"task": task})


@pytest.mark.slow
def test_other_batches_are_refused(tmp_path):
    run(Recipe(epochs=1), directory=tmp_path)
    with pytest.raises(ValueError, match="another run: batches changed. Delete"):
        finetune(
            new_model,
            lambda *seeds: batches(*seeds).map(lambda x, y: (x, {"class_logits": 1 - y["class_logits"]})),
            Recipe(epochs=1),
            loss=LOSS,
            steps_per_epoch=4,
            directory=tmp_path,
            verbose=0,
        )


def test_losses_are_compared_by_their_settings():
    loss, again, other = ({"pairs": ContrastiveLoss(rate, name=None)} for rate in (0.05, 0.05, 0.1))
    assert loss["pairs"].name != again["pairs"].name  # Keras counts
    assert digest(loss_part(loss)) == digest(loss_part(again)) != digest(loss_part(other))
    assert loss_part(keras.losses.mean_squared_error) == "mean_squared_error"


def test_a_run_that_has_ended_is_not_trained_again_and_says_so(ended, capsys):
    state, report = ended
    first, again = fit(state, verbose=2)
    assert again.best == report.best and again.best.reused and not report.best.reused
    assert "is finished: it is not trained again" in capsys.readouterr().out and "finished before" in str(again)
    fit(state, task=first)  # the model that the run made is no other one
    with pytest.raises(ValueError, match="starting weights changed .the model has been trained since: load it again"):
        fit(state, task=first, seeds=(1,))


@pytest.mark.slow
def test_ctrl_c_and_the_same_call_again_is_the_whole_run(tmp_path, monkeypatch):
    options = {"seeds": (0, 1), "average": True, "evaluations": 3, "epochs": 3, "head_epochs": 1, "dropout": 0.1}
    whole, report = fit(tmp_path / "whole", **options)
    original, calls = TextClassifier.score, []

    def stops(self, *args):
        calls.append(1)
        if len(calls) in (3, 6):  # in the third measurement of either seed
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(TextClassifier, "score", stops)
    task, first = fit(tmp_path / "cut", **options)
    assert first.interrupted
    with pytest.raises(ValueError, match="seed-1 .*load it again"):  # where to begin with seed 1 is not known here
        fit(tmp_path / "cut", task=task, **options)
    task, second = fit(tmp_path / "cut", **options)
    assert second.interrupted and len(second.runs) == 2
    task, third = fit(tmp_path / "cut", task=task, **options)  # both seeds have a state
    assert third.score == report.score and [run.steps for run in third.runs] == [run.steps for run in report.runs]
    for path, value in values(task.model).items():
        np.testing.assert_allclose(value, values(whole.model)[path], atol=1e-5, err_msg=path)


@pytest.mark.slow
def test_a_state_that_says_nothing_of_its_data_is_refused(tmp_path):
    run(Recipe(epochs=1), directory=tmp_path)
    path = tmp_path / "seed-0" / "recipe.json"
    noted = json.loads(path.read_text())
    del noted["depends_on"]
    path.write_text(json.dumps(noted))
    with pytest.raises(ValueError, match="a run of an older version"):
        run(Recipe(epochs=1), directory=tmp_path)


@pytest.mark.slow
def test_runs_that_are_averaged_are_not_those_that_are_not(tmp_path):
    recipe = Recipe(epochs=1, seeds=(0, 1), reinitialize=1, average=True)
    run(recipe, directory=tmp_path)
    with pytest.raises(ValueError, match="reinitialize_seed was 0, is 1"):
        run(dataclasses.replace(recipe, average=False), directory=tmp_path)


def test_digests_are_the_same_in_every_process_and_differ_by_what_is_in_them():
    array = np.arange(6, dtype=np.int32)
    assert digest({"b": [array, None], "a": 0.5}) == "051f4530a55ae1bd68823070c076603b"
    assert digest({"b": [array, None], "a": 0.5}) == digest({"a": 0.5, "b": (array.copy(), None)})
    others = [array, array[::-1], array.reshape(2, 3), array.astype("int64"), array.tolist(), np.array(["a"], object)]
    others += [array[:0], "0", 0, None, {"0": 0}, ["ab", "c"], ["a", "bc"], object(), array.astype("bfloat16")]
    assert len({digest(value) for value in others}) == len(others)
    assert digest(keras.Variable(array)) == digest(array) == digest(tf.constant(array))


def test_keep_best_without_a_measure_keeps_the_last():
    keeper = KeepBest(None)
    assert np.isnan(keeper.finish(new_model()).value)


def test_recipes_print_and_refuse_nonsense():
    assert "reinitialize" in str(RECIPES["few_sample"]) and "layer_decay" in str(RECIPES["few_sample"])
    assert find_recipe("lora", lora_rank=4).lora_rank == 4
    with pytest.raises(ValueError, match="'standard', 'few_sample'"):
        find_recipe("standart")
    for wrong in (
        {"trains": "nothing"},
        {"epochs": 0},
        {"mixout": 1.0},
        {"dropout": 1.5},
        {"seeds": ()},
        {"head_epochs": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dataclasses.replace(Recipe(), **wrong)


@pytest.mark.parametrize(("width", "rate"), [(768, 2e-5), (384, 8e-5), (128, 7.2e-4), (32, 1e-3), (4096, 1e-5)])
def test_rate_goes_by_the_width_unless_it_is_given(width, rate):
    assert Recipe().for_width(width).learning_rate == pytest.approx(rate)
    assert Recipe(learning_rate=3e-5).for_width(width).learning_rate == 3e-5
