"""Recipes for fine-tuning: all settings of a run as one value.

A `Recipe` can be printed, compared and changed with `dataclasses.replace`. `RECIPES` has the recipes by name;
`finetuning/run.py` trains by them.
"""

from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to fine-tune a pretrained model.

    Args:
        name: The name of the recipe.
        learning_rate: The peak of the schedule, for the heads; `None` depends on the model's width (`rate_for_width`).
        epochs: The number of passes over the data.
        steps: The smallest number of steps: a small data set, for which `epochs` give fewer, trains for this many.
        batch_size: The number of examples in a step.
        warmup: The share of the steps in which the rate rises.
        weight_decay: The decay of kernels towards zero.
        clip_norm: The largest global norm of the gradients.
        evaluations: How often a run measures the validation data; `None` measures after every epoch.
        patience: How many measurements without improvement to wait before training stops; `None` never stops early.
        trains: Which weights train: `"all"`, `"head"` (the heads and the pooler; see `top_layers`), `"bias"` (BitFit:
            all biases and the heads) or `"lora"` (low-rank updates of queries and values, and the heads).
        top_layers: With `trains="head"`: how many of the top blocks train, too.
        lora_rank: With `trains="lora"`: the rank.
        layer_decay: The learning rate of a layer divided by that of the layer above it.
        reinitialize: How many of the top blocks start from random weights, together with the pooler. `None` is 1 if the
            head uses the first token, and 0 if it uses the mean, as sentence encoders do.
        head_epochs: The number of passes over the data in which only the heads train, before the main training.
        mixout: The share of weights that a step takes from the pretrained model (Lee et al. 2020).
        pretrained_decay: The decay of weights towards their pretrained values.
        dropout: The rate in the encoder for this run; `None` keeps the model's.
        attention_dropout: The rate for attention probabilities; `None` keeps the model's.
        classifier_dropout: The rate before the heads; `None` keeps the model's.
        seeds: One run for each seed; the model with the best validation score is kept.
        average: Whether to keep the mean of several runs' weights instead of the best run's: of the best run and those
            that do not lower its validation score (Wortsman et al. 2022), or of all runs if there is no validation
            data.
        restarts: How many more seeds may be tried for degenerate runs (the same class for every text).
    """

    name: str = "standard"
    learning_rate: float | None = None
    epochs: float = 3
    steps: int | None = None
    batch_size: int = 32
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    evaluations: int | None = None
    patience: int | None = 2
    trains: str = "all"
    top_layers: int = 0
    lora_rank: int = 8
    layer_decay: float = 1.0
    reinitialize: int | None = 0
    head_epochs: float = 0
    mixout: float = 0.0
    pretrained_decay: float = 0.0
    dropout: float | None = None
    attention_dropout: float | None = None
    classifier_dropout: float | None = None
    seeds: tuple[int, ...] = (0,)
    average: bool = False
    restarts: int = 0

    def __post_init__(self) -> None:
        if self.trains not in TRAINED_PARTS:
            raise ValueError(f"trains={self.trains!r}: expected one of {', '.join(map(repr, TRAINED_PARTS))}.")
        if not self.seeds:
            raise ValueError("seeds=(): expected at least one number, one for each run.")
        for name in ("epochs", "batch_size", "learning_rate"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected a number over 0.")
        if not self.head_epochs >= 0:
            raise ValueError(f"head_epochs={self.head_epochs!r}: expected 0 (off) or a positive number.")
        for name in ("mixout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected a share from 0 to below 1.")
        for name in ("dropout", "attention_dropout", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name}={rate!r}: expected None or a rate from 0 to below 1.")

    def for_width(self, hidden_dim: int) -> "Recipe":
        """Return the recipe with a number as its learning rate."""
        return self if self.learning_rate is not None else replace(self, learning_rate=rate_for_width(hidden_dim))

    def __str__(self) -> str:
        """Return the settings that differ from the standard recipe, one per line."""
        standard = Recipe()
        changed = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "name" and getattr(self, field.name) != getattr(standard, field.name)
        }
        always = {key: getattr(self, key) for key in ("learning_rate", "batch_size", "epochs")}
        rows = {**always, **changed}
        if self.learning_rate is None:
            rows["learning_rate"] = "by the model's width: 2e-05 for 768, 8e-05 for 384"
        if self.reinitialize is None:
            rows["reinitialize"] = "1 if the head uses the first token, 0 if it uses the mean"
        return f"recipe {self.name}\n" + "\n".join(f"  {name:<20}{value}" for name, value in rows.items())


def rate_for_width(hidden_dim: int) -> float:
    """Return a learning rate for a model: 2e-5 for BERT-base's width of 768, more for narrower models.

    It is a rule of thumb: narrow models need larger rates, and the square of the ratio of widths is close to the usual
    rates for widths of 128, 384 and 768. With a lot of data, half of it may be better.

    Example:
        >>> rate_for_width(384)
        8e-05
    """
    return round(min(1e-3, max(1e-5, 2e-5 * (768 / hidden_dim) ** 2)), 7)


TRAINED_PARTS = ("all", "head", "bias", "lora")

# The recipes with a name, for `fit(recipe="…")`: a dictionary of `Recipe`.
RECIPES = {
    "standard": Recipe(),
    # Zhang et al. 2020 (arXiv 2006.05987): bias correction (Keras' Adam has it), new top layers, more steps. Kumar
    # et al. 2022: the heads first. Wortsman et al. 2022: the mean of the weights of several seeds.
    "few_sample": Recipe(
        name="few_sample",
        epochs=3,
        steps=150,
        evaluations=5,
        patience=None,
        layer_decay=0.95,
        reinitialize=None,
        head_epochs=3,
        seeds=(0, 1, 2),
        average=True,
        restarts=2,
    ),
    "frozen": Recipe(name="frozen", trains="head", learning_rate=1e-3, epochs=10, dropout=0.0, attention_dropout=0.0),
    "lora": Recipe(name="lora", trains="lora", learning_rate=5e-4, epochs=5),
    "bitfit": Recipe(name="bitfit", trains="bias", learning_rate=1e-3, epochs=5),
}


def find_recipe(recipe: str | Recipe, **changes: Any) -> Recipe:
    """Return a recipe by name, or the one given, with changes.

    Example:
        >>> find_recipe("standard", learning_rate=5e-5).learning_rate
        5e-05
    """
    if isinstance(recipe, str):
        if recipe not in RECIPES:
            raise ValueError(f"recipe={recipe!r} is unknown; choose one of {', '.join(map(repr, RECIPES))}.")
        recipe = RECIPES[recipe]
    return replace(recipe, **changes) if changes else recipe
