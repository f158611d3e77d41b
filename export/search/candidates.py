"""What a search may try, as values: which smaller model, stored by which recipe, for which lengths.

Takes a task and how much data there is; gives rows, cheapest first: the model as it is by every recipe, with a smaller
vocabulary, with fewer blocks, distilled students, and models that were trained to be quantized. A room of its own
because these rows are what people read, argue about and change; `search/run.py` obeys them.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from export.recipes import find_recipe
from keras_bert.finetuning.recipes import Recipe as TrainingRecipe

STAGES = ("quantize", "trim", "layers", "distill", "qat")

# `static_int16x8` has no fast kernels on CPUs: whoever has an accelerator for it asks for it.
SEARCHED = ("float32", "float16", "dynamic_int8", "static_int8", "weight_int4", "all_int4")

# Examples that a student sees in all, however few there are: what starts fresh needs more than what starts trained.
_FRESH, _STARTED = 320_000, 60_000


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """How a smaller model is made from the teacher. With nothing set it is the teacher itself.

    Args:
        name: What to call it.
        stage: Which of `STAGES` it belongs to.
        trim: How often a token must occur in the training texts to stay; `None` keeps the vocabulary.
        layers: How many of the teacher's blocks stay, those that are missed least; `None` keeps all.
        heads: How many heads every block keeps, those that matter most; `None` keeps all.
        neurons: How many neurons every block keeps, those that matter most; `None` keeps all.
        sizes: The student's sizes that differ from the teacher's, as pairs of names and numbers; with the three above
            an `embedding_dim` alone.
        copies: How many copies of each training text, with words replaced by similar ones, are trained on beside it;
            the teacher says what they mean. For classifiers.
        training: How it is trained, on the teacher's opinion and the labels; `None` leaves it as it is.
        start: Another plan, whose finished model this one begins with, instead of the teacher.
        quantized: The recipe whose rounding it is trained with (quantization-aware).

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
    copies: int = 0
    training: TrainingRecipe | None = None
    start: "ModelPlan | None" = None
    quantized: str | None = None

    def __post_init__(self):
        if self.stage not in STAGES:
            raise ValueError(f"stage={self.stage!r}: expected one of {', '.join(STAGES)}.")
        if self.cuts and set(dict(self.sizes)) - {"embedding_dim"}:
            raise ValueError(
                f"sizes and {', '.join(self.cuts)}: what is left of the teacher has its sizes, but for embedding_dim; "
                "pass one of the two."
            )
        if self.start is not None and (self.trim is not None or self.cuts or self.sizes):
            raise ValueError("start is a finished model: what is trimmed, left out or resized belongs to its own plan.")
        if (self.sizes or self.quantized) and self.training is None:
            what = "a student" if self.sizes else "training for quantization"
            raise ValueError(f"{self.name!r} is {what} and has no training; expected a Recipe that says how.")

    @property
    def cuts(self) -> dict[str, int]:
        """What stays of the teacher's blocks, heads and neurons, where some are left out."""
        found = {"layers": self.layers, "heads": self.heads, "neurons": self.neurons}
        return {name: count for name, count in found.items() if count is not None}

    @property
    def needs_training(self) -> bool:
        """Whether it takes the training data to make it."""
        return self != replace(ModelPlan(), name=self.name, stage=self.stage)

    def is_smaller(self, other: "ModelPlan") -> bool:
        """Whether both are students, or both lost blocks, and this one is no larger in anything."""
        if self == other or self.start or other.start or (self.trim or 0) < (other.trim or 0):
            return False
        mine, theirs = ({**plan.cuts, **dict(plan.sizes)} for plan in (self, other))
        return bool(mine) and mine.keys() == theirs.keys() and all(mine[name] <= theirs[name] for name in mine)

    @property
    def key(self) -> str:
        """A name for directories: other settings have another."""
        return _key(self.name, repr(self))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A file that may be tried: a model, a recipe of `export.convert`, and its lengths.

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

    def __post_init__(self):
        find_recipe(self.recipe)

    @property
    def name(self) -> str:
        """Model, recipe and lengths in words."""
        return f"{self.model.name} · {self.recipe} · {describe_lengths(self.lengths)}"

    @property
    def key(self) -> str:
        """A name for directories: other settings have another."""
        return _key(self.name, repr(self))


def describe_lengths(lengths: str | Sequence[int]) -> str:
    """Lengths in words."""
    return "any length" if isinstance(lengths, str) else "/".join(map(str, lengths))


def _key(name, content):
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{words}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


# === The usual ones ===
