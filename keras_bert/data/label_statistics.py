"""Label counts, class weights and stratified splits.

Takes examples or plain labels. The split does not use scikit-learn, whose stratified split rejects classes with one
example and parts smaller than the number of classes: both are common in small data.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_SHOWN = 20
_NUMBER_BINS = 10


@dataclass(frozen=True)
class LabelSummary:
    """A summary of labels; prints as a small table."""

    kind: str  # "classes", "multi-label", "numbers" or "none"
    total: int
    unlabelled: int
    counts: tuple[tuple[str, int], ...] = ()  # the most frequent first
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None

    @property
    def single(self) -> tuple[str, ...]:
        """The classes with one example, which cannot be both learned and tested."""
        return tuple(name for name, count in self.counts if count == 1)

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, for JSON."""
        return asdict(self) | {"counts": dict(self.counts)}

    def __str__(self) -> str:
        lines = [f"{self.total:,} examples, labels: {self.kind}" + (f" ({len(self.counts)})" if self.counts else "")]
        width = max((len(name) for name, _ in self.counts[:_SHOWN]), default=0)
        labelled = max(self.total - self.unlabelled, 1)
        lines += [f"  {name:<{width}}  {count:>8,}  {count / labelled:6.1%}" for name, count in self.counts[:_SHOWN]]
        if len(self.counts) > _SHOWN:
            lines.append(f"  and {len(self.counts) - _SHOWN} more")
        if self.mean is not None:
            lines.append(f"  from {self.minimum:g} to {self.maximum:g}, mean {self.mean:.3f}")
        if self.single:
            lines.append(f"  {_one_example_each(self.single)}")
        if self.unlabelled:
            lines.append(f"  {self.unlabelled:,} without a label")
        return "\n".join(lines)


def describe_labels(examples: Iterable[Any]) -> LabelSummary:
    """Count the labels of examples, or plain labels.

    Args:
        examples: `Example`s, `TextRows`, or labels: classes, numbers, tuples of classes, None.

    Example:
        >>> print(describe_labels(["good", "bad", "good", "good"]))
        4 examples, labels: classes (2)
          good         3   75.0%
          bad          1   25.0%
          one example: bad
    """
    labels = [_label_of(example) for example in examples]
    present = [label for label in labels if label is not None]
    unlabelled = len(labels) - len(present)
    kind = _kind(present)
    if kind == "none":
        return LabelSummary(kind, len(labels), unlabelled)
    if kind == "numbers":
        return LabelSummary(
            kind, len(labels), unlabelled, (), float(min(present)), float(np.mean(present)), float(max(present))
        )
    counts = Counter(name for label in present for name in (label if kind == "multi-label" else (label,)))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return LabelSummary(kind, len(labels), unlabelled, tuple((str(name), count) for name, count in ordered))


def class_weights(labels: Iterable[Any]) -> dict[str, float]:
    """Compute class weights that balance a loss: `n / (classes * count)`, as scikit-learn's "balanced".

    Args:
        labels: The labels of the training examples, or the examples.

    Example:
        >>> class_weights(["good", "good", "good", "bad"])
        {'bad': 2.0, 'good': 0.6666666666666666}
    """
    labels = [_label_of(label) for label in labels]
    if not labels or any(label is None for label in labels) or _kind(labels) in ("numbers", "multi-label"):
        raise ValueError(
            "class_weights got no labels, numbers, or lists of classes; expected one class for every example."
        )
    counts = Counter(labels)
    return {name: len(labels) / (len(counts) * counts[name]) for name in sorted(counts)}


def stratified_split(
    examples: Sequence[T], share: float, *, seed: int, by: Callable[[T], Hashable] | None = None
) -> tuple[list[T], list[T]]:
    """Split examples in two parts that keep the shares of the classes.

    A class with one example stays in the first part, with a warning that names it. Numbers are stratified by the tenths
    of their ranks; examples with several labels by the rarest one.

    Args:
        examples: What to split, for example `Rows`; it is not changed.
        share: The share of the second part, between 0 and 1.
        seed: The same seed gives the same split.
        by: A function from an example to what to stratify by; the default is its label.

    Returns:
        The part to train on and the held-out part, both in the original order.

    Example:
        >>> train, held_out = stratified_split(["a", "a", "b", "b"], 0.5, seed=1)
        >>> train, held_out
        (['a', 'b'], ['a', 'b'])
    """
    if not 0 < share < 1:
        raise ValueError(f"share={share}: expected a number between 0 and 1; 0.1 holds out a tenth.")
    examples = list(examples)
    wanted = round(len(examples) * share)
    if wanted == 0 or wanted == len(examples):
        raise ValueError(f"share={share} of {len(examples)} examples leaves one part empty; pass more examples.")
    keys = [by(example) for example in examples] if by else _strata([_label_of(example) for example in examples])
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    single = [str(key) for key, indices in members.items() if len(indices) == 1]
    if single:
        warnings.warn(f"{_one_example_each(single)}; kept for training, so they are not tested.", stacklevel=2)
    generator = np.random.default_rng(seed)
    held_out: set[int] = set()
    quotas = _quotas([len(indices) for indices in members.values()], share, wanted, generator)
    for indices, quota in zip(members.values(), quotas, strict=True):
        held_out.update(generator.permutation(indices)[:quota].tolist())
    train = [example for index, example in enumerate(examples) if index not in held_out]
    return train, [examples[index] for index in sorted(held_out)]


def _quotas(sizes: list[int], share: float, wanted: int, generator: np.random.Generator) -> np.ndarray:
    """How many examples of each class to hold out: its share rounded down; the largest remainders get the rest."""
    sizes = np.asarray(sizes)
    exact = sizes * share
    quotas = np.minimum(np.floor(exact).astype(int), sizes - 1)  # every class keeps one for training
    order = np.lexsort((generator.random(len(sizes)), quotas - exact))
    for index in order:
        if quotas.sum() < wanted and quotas[index] < sizes[index] - 1:
            quotas[index] += 1
    return quotas


def _strata(labels: list[Any]) -> list[Hashable]:
    kind = _kind([label for label in labels if label is not None])
    if kind == "numbers" and None not in labels:
        ranks = np.argsort(np.argsort(labels, kind="stable"), kind="stable")
        bins = min(_NUMBER_BINS, max(len(labels) // 2, 1))
        return (ranks * bins // len(labels)).tolist()
    if kind == "multi-label":
        counts = Counter(name for label in labels for name in label or ())
        return [min(label, key=lambda name: (counts[name], name)) if label else None for label in labels]
    return labels


def _label_of(example: Any) -> Any:
    return example.label if hasattr(example, "label") else example


def _kind(present: list[Any]) -> str:
    if not present:
        return "none"
    if any(isinstance(label, tuple) for label in present):
        return "multi-label"
    return "numbers" if all(isinstance(label, float | np.floating) for label in present) else "classes"


def _one_example_each(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"one example: {shown}" if len(names) == 1 else f"one example each: {shown}"
