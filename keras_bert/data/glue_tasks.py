"""The table of the nine GLUE tasks: files, columns, labels, metrics, sizes of the test sets.

`GLUE` is a dictionary of frozen values, which `data/glue.py` uses to read, to measure and to submit.
"""

from dataclasses import dataclass, replace

Column = str | int


@dataclass(frozen=True)
class GlueSplit:
    """A file of a task: where it may be, its columns, and for a test set its size and its submission file."""

    name: str
    files: tuple[str, ...]  # the first one that exists is read
    text: Column
    pair: Column | None
    label: Column | None
    header: bool = True
    submission: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class GlueTask:
    """A task of GLUE. Class numbers are positions in `labels`, which are spelled as in its files and submissions."""

    name: str
    kind: str  # "classification" or "regression"
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    splits: tuple[GlueSplit, ...]

    @property
    def pair(self) -> bool:
        """Whether its examples are pairs of texts."""
        return self.splits[0].pair is not None

    def split(self, name: str) -> GlueSplit:
        """One of its splits by name; MNLI's plain `"dev"` and `"test"` are the matched ones."""
        found = {split.name: split for split in self.splits}
        if name not in found and f"{name}_matched" in found:
            name = f"{name}_matched"
        if name not in found:
            raise ValueError(f"{self.name} has no split {name!r}; it has {', '.join(found)}.")
        return found[name]


def _splits(
    text: Column, pair: Column | None, label: Column, *, test_size: int, submission: str
) -> tuple[GlueSplit, ...]:
    train = GlueSplit("train", ("train.tsv",), text, pair, label)
    test = GlueSplit("test", ("test.tsv",), text, pair, None, submission=submission, size=test_size)
    return train, replace(train, name="dev", files=("dev.tsv",)), test


def _cola() -> tuple[GlueSplit, ...]:
    train, dev, test = _splits("sentence", None, "label", test_size=1063, submission="CoLA.tsv")
    # Source, label, the author's own mark, sentence; the files with labels have no header.
    return *(replace(split, text=3, label=1, header=False) for split in (train, dev)), test


def _mrpc() -> tuple[GlueSplit, ...]:
    columns = "#1 String", "#2 String", "Quality"
    train, dev, test = _splits(*columns, test_size=1725, submission="MRPC.tsv")
    # Microsoft's own file has train and dev in one; `_mrpc_part` separates them.
    train = replace(train, files=("train_full.tsv", "train.tsv", "msr_paraphrase_train.txt"))
    dev = replace(dev, files=("dev.tsv", "msr_paraphrase_train.txt"))
    test = replace(test, files=("test.tsv", "msr_paraphrase_test.txt"))
    labelled = GlueSplit("test_labelled", ("msr_paraphrase_test.txt",), *columns)
    return train, dev, test, labelled


def _mnli() -> tuple[GlueSplit, ...]:
    train, _, test = _splits("sentence1", "sentence2", "gold_label", test_size=9796, submission="MNLI-m.tsv")
    dev = [replace(train, name=f"dev_{half}", files=(f"dev_{half}.tsv",)) for half in ("matched", "mismatched")]
    matched = replace(test, name="test_matched", files=("test_matched.tsv",))
    mismatched = replace(
        test, name="test_mismatched", files=("test_mismatched.tsv",), submission="MNLI-mm.tsv", size=9847
    )
    diagnostic = ("diagnostic/diagnostic.tsv", "AX/AX.tsv", "../diagnostic/diagnostic.tsv", "../AX/AX.tsv")
    return (
        train,
        *dev,
        matched,
        mismatched,
        replace(test, name="diagnostic", files=diagnostic, submission="AX.tsv", size=1104),
    )


_YES_NO, _ENTAILED = ("0", "1"), ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")
_TASKS = (
    GlueTask("CoLA", "classification", _YES_NO, ("matthews",), _cola()),
    GlueTask(
        "SST-2",
        "classification",
        _YES_NO,
        ("accuracy",),
        _splits("sentence", None, "label", test_size=1821, submission="SST-2.tsv"),
    ),
    GlueTask("MRPC", "classification", _YES_NO, ("accuracy", "f1"), _mrpc()),
    GlueTask(
        "STS-B",
        "regression",
        (),
        ("pearson", "spearman"),
        _splits(*_SENTENCES, "score", test_size=1379, submission="STS-B.tsv"),
    ),
    GlueTask(
        "QQP",
        "classification",
        _YES_NO,
        ("accuracy", "f1"),
        _splits("question1", "question2", "is_duplicate", test_size=390_965, submission="QQP.tsv"),
    ),
    GlueTask("MNLI", "classification", ("entailment", "neutral", "contradiction"), ("accuracy",), _mnli()),
    GlueTask(
        "QNLI",
        "classification",
        _ENTAILED,
        ("accuracy",),
        _splits("question", "sentence", "label", test_size=5463, submission="QNLI.tsv"),
    ),
    GlueTask(
        "RTE",
        "classification",
        _ENTAILED,
        ("accuracy",),
        _splits(*_SENTENCES, "label", test_size=3000, submission="RTE.tsv"),
    ),
    GlueTask(
        "WNLI",
        "classification",
        _YES_NO,
        ("accuracy",),
        _splits(*_SENTENCES, "label", test_size=146, submission="WNLI.tsv"),
    ),
)
GLUE: dict[str, GlueTask] = {task.name: task for task in _TASKS}


def glue_task(name: str | GlueTask) -> GlueTask:
    """Find a task by name, in any spelling.

    Args:
        name: `"SST-2"`, `"sst2"`, `"STSB"` and the like, or a task.

    Example:
        >>> glue_task("stsb").metrics
        ('pearson', 'spearman')
    """
    if isinstance(name, GlueTask):
        return name
    spelt = {task.lower().replace("-", ""): task for task in GLUE}
    key = name.lower().replace("-", "").replace("_", "")
    if key not in spelt:
        raise ValueError(f"task={name!r} is not a task of GLUE; choose one of {', '.join(GLUE)}.")
    return GLUE[spelt[key]]
