"""Describe what a search may try: which smaller model, with which recipe, for which lengths.

`ModelPlan` says how a model is made from the teacher, `Candidate` which file is made from it. `search/proposals.py`
lists the usual ones.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from export.recipes import find_recipe
from keras_bert.finetuning.recipes import Recipe as TrainingRecipe

STAGES = ("quantize", "trim", "layers", "distill", "qat")

# `static_int16x8` has no fast kernels on CPUs, so it is tried only if it is asked for.
SEARCHED = ("float32", "float16", "dynamic_int8", "static_int8", "weight_int4", "all_int4")

# How many examples a student sees in total; fresh weights need more than trained ones.
_FRESH, _STARTED = 320_000, 60_000


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """How a smaller model is made from the teacher. With nothing set, it is the teacher itself.

    Args:
        name: The name of the model.
        stage: One of `STAGES`.
        trim: How often a token must occur in the training texts to stay; `None` keeps the vocabulary.
        layers: How many of the teacher's blocks to keep, the most important ones; `None` keeps all.
        heads: How many heads every block keeps, the most important ones; `None` keeps all.
        neurons: How many neurons every block keeps, the most important ones; `None` keeps all.
        sizes: The student's sizes that differ from the teacher's, as pairs of names and numbers; together with the
            three above only `embedding_dim`.
        encoder: Instead of all these, a pretrained model whose encoder and vocabulary the student has, such as
            `"tiny-en"`.
        copies: How many copies of each training text, with words replaced by similar ones, to train on as well,
            labelled by the teacher. For classifiers.
        training: How it is trained on the teacher's outputs and the labels; `None` does not train it.
        start: Another plan, whose finished model to begin with instead of the teacher.
        quantized: The recipe for quantization-aware training.

    Example:
        >>> ModelPlan(name="2 × 64", stage="distill", sizes=(("num_layers", 2), ("hidden_dim", 64))).needs_training
        True
    """

    name: str = "teacher"
    stage: str = "quantize"
    trim: int | None = None
    layers: int | None = None
    heads: int | None = None
    neurons: int | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    encoder: str | None = None
    copies: int = 0
    training: TrainingRecipe | None = None
    start: "ModelPlan | None" = None
    quantized: str | None = None

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise ValueError(f"Got stage={self.stage!r}; expected one of {', '.join(STAGES)}.")
        if self.cuts and set(dict(self.sizes)) - {"embedding_dim"}:
            raise ValueError(
                f"Got sizes and {', '.join(self.cuts)}, but a teacher with parts removed keeps its sizes, except "
                "embedding_dim; pass one of the two."
            )
        if self.encoder is not None and (self.trim is not None or self.cuts or self.sizes or self.start is not None):
            raise ValueError(
                f"Got encoder={self.encoder!r}, which has its own vocabulary and sizes, with changes of the teacher's; "
                "pass one of the two."
            )
        if self.start is not None and (self.trim is not None or self.cuts or self.sizes):
            raise ValueError(
                "Got start, which is a finished model, with changes of its size; put those into the plan of start."
            )
        if (self.sizes or self.encoder or self.quantized) and self.training is None:
            what = "a student" if self.sizes or self.encoder else "training for quantization"
            raise ValueError(f"The plan {self.name!r} is {what} and has no training; pass training=, a Recipe.")

    @property
    def cuts(self) -> dict[str, int]:
        """How many of the teacher's blocks, heads and neurons stay, where some are removed."""
        found = {"layers": self.layers, "heads": self.heads, "neurons": self.neurons}
        return {name: count for name, count in found.items() if count is not None}

    @property
    def needs_training(self) -> bool:
        """Whether the training data is needed to make it."""
        return self != replace(ModelPlan(), name=self.name, stage=self.stage)

    def is_smaller(self, other: "ModelPlan") -> bool:
        """Whether both are students, or both have parts removed, and this one is not larger in any size."""
        if self == other or self.start or other.start or (self.trim or 0) < (other.trim or 0):
            return False
        mine, theirs = ({**plan.cuts, **dict(plan.sizes)} for plan in (self, other))
        return bool(mine) and mine.keys() == theirs.keys() and all(mine[name] <= theirs[name] for name in mine)

    @property
    def key(self) -> str:
        """A name for directories, unique to the settings."""
        return _key(self.name, repr(self))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A file to try: a model, a recipe of `export.convert`, and its lengths.

    Args:
        model: The model.
        recipe: The name of a recipe.
        lengths: As for `convert`: `"dynamic"`, or one or several numbers of tokens.

    Example:
        >>> Candidate(recipe="dynamic_int8").name
        'teacher · dynamic_int8 · any length'
    """

    model: ModelPlan = ModelPlan()
    recipe: str
    lengths: str | tuple[int, ...] = "dynamic"

    def __post_init__(self) -> None:
        find_recipe(self.recipe)

    @property
    def name(self) -> str:
        """The model, recipe and lengths as text."""
        return f"{self.model.name} · {self.recipe} · {describe_lengths(self.lengths)}"

    @property
    def key(self) -> str:
        """A name for directories, unique to the settings."""
        return _key(self.name, repr(self))


def describe_lengths(lengths: str | Sequence[int]) -> str:
    """The lengths as text."""
    return "any length" if isinstance(lengths, str) else "/".join(map(str, lengths))


def _key(name: str, content: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{words}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
