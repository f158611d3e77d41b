"""GLUE: the official files of all nine tasks in small, their metrics by hand and by scikit-learn, submissions."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from keras_bert.data.glue import GLUE, glue_metrics, glue_score, glue_task, read_glue, write_submission
from keras_bert.data.labelled_texts import Example

MNLI_TRAIN = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
MNLI_TRAIN += " sentence1 sentence2 label1 gold_label"
MNLI_DEV = MNLI_TRAIN.replace("label1", "label1 label2 label3 label4 label5")
STSB = "index genre filename year old_index source1 source2 sentence1 sentence2 score"
MRPC = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
PAIR = ["index", "sentence1", "sentence2", "label"]

# Task, split, file, header, row, and the text, pair and label that it holds.
FILES = [
    ("CoLA", "train", "train.tsv", None, ["gj04", "1", "", 'He "ran.'], ('He "ran.', None, "1")),
    ("CoLA", "dev", "dev.tsv", None, ["gj04", "0", "*", "Ran he."], ("Ran he.", None, "0")),
    ("CoLA", "test", "test.tsv", ["index", "sentence"], ["0", "He ran."], ("He ran.", None, None)),
    ("SST-2", "train", "train.tsv", ["sentence", "label"], ["a fine film ", "1"], ("a fine film ", None, "1")),
    ("SST-2", "dev", "dev.tsv", ["sentence", "label"], ["dull", "0"], ("dull", None, "0")),
    ("SST-2", "test", "test.tsv", ["index", "sentence"], ["0", "dull"], ("dull", None, None)),
    ("MRPC", "train", "train.tsv", MRPC, ["1", "7", "8", 'a "', "b"], ('a "', "b", "1")),
    ("MRPC", "train", "train_full.tsv", MRPC, ["1", "7", "8", "a", "b"], ("a", "b", "1")),
    ("MRPC", "dev", "dev.tsv", MRPC, ["0", "7", "8", "a", "b"], ("a", "b", "0")),
    ("MRPC", "test", "test.tsv", ["index", *MRPC[1:]], ["0", "7", "8", "a", "b"], ("a", "b", None)),
    ("MRPC", "test", "msr_paraphrase_test.txt", MRPC, ["0", "7", "8", "a", "b"], ("a", "b", None)),
    ("MRPC", "test_labelled", "msr_paraphrase_test.txt", MRPC, ["0", "7", "8", "a", "b"], ("a", "b", "0")),
    ("STS-B", "train", "train.tsv", STSB.split(), [*"0123456", "a", "b", "3.800"], ("a", "b", 3.8)),
    ("STS-B", "dev", "dev.tsv", STSB.split(), [*"0123456", "a", "b", "0.000"], ("a", "b", 0.0)),
    ("STS-B", "test", "test.tsv", STSB.split()[:-1], [*"0123456", "a", "b"], ("a", "b", None)),
    (
        "QQP",
        "train",
        "train.tsv",
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ["1", "2", "3", "a?", "b?", "1"],
        ("a?", "b?", "1"),
    ),
    ("QQP", "test", "test.tsv", ["id", "question1", "question2"], ["0", "a?", ""], ("a?", "", None)),
    ("MNLI", "train", "train.tsv", MNLI_TRAIN.split(), [*"01234567", "a", "b", "-", "neutral"], ("a", "b", "neutral")),
    ("MNLI", "dev", "dev_matched.tsv", MNLI_DEV.split(), [*"01234567ab-----", "neutral"], ("a", "b", "neutral")),
    (
        "MNLI",
        "dev_mismatched",
        "dev_mismatched.tsv",
        MNLI_DEV.split(),
        [*"01234567ab-----", "neutral"],
        ("a", "b", "neutral"),
    ),
    ("MNLI", "test", "test_matched.tsv", MNLI_TRAIN.split()[:10], [*"01234567ab"], ("a", "b", None)),
    ("MNLI", "test_mismatched", "test_mismatched.tsv", MNLI_TRAIN.split()[:10], [*"01234567ab"], ("a", "b", None)),
    ("MNLI", "diagnostic", "../AX/AX.tsv", PAIR[:3], ["0", "a", "b"], ("a", "b", None)),
    (
        "QNLI",
        "dev",
        "dev.tsv",
        ["index", "question", "sentence", "label"],
        ["0", "a?", "b", "entailment"],
        ("a?", "b", "entailment"),
    ),
    ("QNLI", "test", "test.tsv", ["index", "question", "sentence"], ["0", "a?", "b"], ("a?", "b", None)),
    ("RTE", "train", "train.tsv", PAIR, ["0", "a", "b", "not_entailment"], ("a", "b", "not_entailment")),
    ("RTE", "test", "test.tsv", PAIR[:3], ["0", "a", "b"], ("a", "b", None)),
    ("WNLI", "dev", "dev.tsv", PAIR, ["0", "a", "b", "1"], ("a", "b", "1")),
    ("WNLI", "test", "test.tsv", PAIR[:3], ["0", "a", "b"], ("a", "b", None)),
]


def write_table(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows if row), encoding="utf-8")


@pytest.mark.parametrize(("task", "split", "file", "header", "row", "expected"), FILES)
def test_reads_the_official_columns(tmp_path, task, split, file, header, row, expected):
    (tmp_path / task).mkdir()
    write_table(tmp_path / task / file, header, row)
    for directory in (tmp_path, tmp_path / task):
        (example,) = read_glue(task, directory, split)
        assert example == Example(*expected, row=2 if header else 1)
        assert GLUE[task].pair == (expected[1] is not None)


def test_nine_tasks_and_their_names():
    assert list(GLUE) == ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"]
    assert {split.submission for task in GLUE.values() for split in task.splits if split.submission} == {
        *(f"{name}.tsv" for name in ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "QNLI", "RTE", "WNLI")),
        *("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"),
    }
    assert glue_task("sst_2") is glue_task("SST2") is glue_task(GLUE["SST-2"]) is GLUE["SST-2"]
    with pytest.raises(ValueError, match="'SQuAD' is not a task of GLUE; choose one of CoLA"):
        glue_task("SQuAD")
    with pytest.raises(ValueError, match="RTE has no split 'validation'; it has train, dev, test"):
        read_glue("RTE", ".", "validation")


def test_microsofts_file_is_parted_by_the_list_of_dev(tmp_path):
    rows = [
        ["1", "11", "12", "a", "b"],
        ["0", "21", "22", "c", "d"],
        ["1", "31", "32", "", "f"],
        ["0", "41", "42", "g", "h"],
    ]
    write_table(tmp_path / "msr_paraphrase_train.txt", MRPC, *rows)
    with pytest.raises(FileNotFoundError, match="dev_ids"):
        read_glue("MRPC", tmp_path, "train")
    write_table(tmp_path / "dev_ids.tsv", ["21", "22"], ["31", "32"])
    train, dev = read_glue("MRPC", tmp_path, "train"), read_glue("MRPC", tmp_path, "dev")
    assert train.texts == ["a", "g"] and dev.texts == ["c"]
    assert (train.report.read, dev.report.read, dev.report.reasons) == (2, 2, {"empty text": 1})


def test_bad_rows_of_train_are_named_and_of_test_refused(tmp_path):
    write_table(tmp_path / "train.tsv", PAIR, ["0", "a", "b", "entailment"], ["1", "a", "b", "-"], ["2", "a"])
    assert read_glue("RTE", tmp_path, "train").report.reasons == {"unknown label": 1, "too few columns": 1}
    write_table(tmp_path / "test.tsv", PAIR[:3], ["0", "a", "b"], ["1", "a"])
    with pytest.raises(ValueError, match="line 3: too few columns"):
        read_glue("RTE", tmp_path, "test")
    with pytest.raises(FileNotFoundError, match=r"RTE dev: none of dev\.tsv"):
        read_glue("RTE", tmp_path, "dev")


# === Metrics ===


def test_metrics_by_hand():
    labels, found = ["1", "1", "1", "0", "0", "0"], ["1", "1", "0", "1", "0", "0"]
    # 2 true positives, 1 false positive, 1 false negative, 2 true negatives.
    assert glue_metrics("MRPC", found, labels) == pytest.approx({"accuracy": 4 / 6, "f1": 2 * 2 / (2 * 2 + 1 + 1)})
    assert glue_metrics("CoLA", found, labels) == pytest.approx({"matthews": (2 * 2 - 1 * 1) / 9})
    assert glue_metrics("WNLI", [1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0]) == pytest.approx({"accuracy": 4 / 6})
    assert glue_metrics("MNLI", ["neutral", "entailment"], [1, 2]) == {"accuracy": 0.5}
    assert glue_metrics("STS-B", [1.0, 2.0, 9.0], [1.0, 2.0, 3.0])["spearman"] == pytest.approx(1.0)
    assert glue_score({"pearson": 0.9, "spearman": 0.88}) == pytest.approx(89.0)


@pytest.mark.parametrize("seed", range(4))
def test_metrics_are_the_libraries(seed):
    generator = np.random.default_rng(seed)
    labels, found = generator.integers(0, 2, 80), generator.integers(0, 2, 80)
    for task in ("MRPC", "QQP"):
        expected = {
            "accuracy": sklearn_metrics.accuracy_score(labels, found),
            "f1": sklearn_metrics.f1_score(labels, found),
        }
        assert glue_metrics(task, found, labels) == pytest.approx(expected, abs=1e-12)
    expected = {"matthews": sklearn_metrics.matthews_corrcoef(labels, found)}
    assert glue_metrics("CoLA", found, labels) == pytest.approx(expected, abs=1e-12)
    scores, guesses = generator.normal(size=50), generator.normal(size=50)
    expected = {"pearson": stats.pearsonr(scores, guesses)[0], "spearman": stats.spearmanr(scores, guesses)[0]}
    assert glue_metrics("STS-B", guesses, scores) == pytest.approx(expected, abs=1e-12)


def test_scores_of_classes_are_taken_by_the_highest():
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]])
    assert glue_metrics("MNLI", logits, ["entailment", "contradiction"]) == {"accuracy": 1.0}
    assert np.isnan(glue_metrics("STS-B", [1.0, 1.0], [0.0, 5.0])["pearson"])


# === Submissions ===


@pytest.mark.parametrize(
    ("task", "split", "predictions", "file", "words"),
    [
        ("SST-2", "test", [1, 0], "SST-2.tsv", ["1", "0"]),
        ("RTE", "test", np.array([1, 0]), "RTE.tsv", ["not_entailment", "entailment"]),
        ("QNLI", "test", ["entailment", "not_entailment"], "QNLI.tsv", ["entailment", "not_entailment"]),
        ("MNLI", "test", [0, 2], "MNLI-m.tsv", ["entailment", "contradiction"]),
        ("MNLI", "test_mismatched", [1, 2], "MNLI-mm.tsv", ["neutral", "contradiction"]),
        ("MNLI", "diagnostic", [1, 2], "AX.tsv", ["neutral", "contradiction"]),
        ("STS-B", "test", np.array([[5.7], [-0.2]]), "STS-B.tsv", ["5.000", "0.000"]),
        ("STS-B", "test", [2.34567, 5], "STS-B.tsv", ["2.346", "5.000"]),
    ],
)
def test_submission_files(tmp_path, task, split, predictions, file, words):
    path = write_submission(task, predictions, tmp_path / "out", split=split, check_size=False)
    assert path == tmp_path / "out" / file
    assert path.read_bytes().decode() == "index\tprediction\n" + "".join(
        f"{i}\t{word}\n" for i, word in enumerate(words)
    )


def test_submissions_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="2 predictions, but RTE test has 3,000 examples"):
        write_submission("RTE", [0, 1], tmp_path)
    with pytest.raises(ValueError, match="RTE dev is not submitted; choose one of test"):
        write_submission("RTE", [0, 1], tmp_path, split="dev")
    with pytest.raises(ValueError, match=r"predictions\[1\] is 'neutral', which is not among the names"):
        write_submission("RTE", ["entailment", "neutral"], tmp_path, check_size=False)
    with pytest.raises(ValueError, match="NaN or infinite, the first at 1"):
        write_submission("STS-B", [0.0, float("nan")], tmp_path, check_size=False)
    assert not list(tmp_path.iterdir())
