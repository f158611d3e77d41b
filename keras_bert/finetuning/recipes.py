"""How to fine-tune, as values: a `Recipe` can be printed, compared and changed with `dataclasses.replace`.

Takes nothing, gives the table `RECIPES`. A room of its own because these numbers are what people read, argue about and
change; the code that obeys them is in `finetune.py`.
"""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to fine-tune a pretrained model.

    Args:
        name: What to call it.
        learning_rate: The peak of the schedule, for the heads; `None` goes by the model's width (`rate_for_width`).
        epochs: Times through the data.
        steps: A budget of steps; where the data is so small that `epochs` give fewer, it is trained for these.
        batch_size: Examples of a step.
        warmup: The share of the steps in which the rate climbs.
        weight_decay: Decay of kernels towards zero.
        clip_norm: The largest norm of all gradients together.
        evaluations: How often the validation data is measured in a run; `None` is after every epoch.
        patience: Measurements without a gain before training stops; `None` never stops early.
        trains: What is trained: `"all"`, `"head"` (the heads and the pooler; see `top_layers`), `"bias"` (BitFit: all
            biases and the heads) or `"lora"` (low-rank updates of queries and values, and the heads).
        top_layers: With `trains="head"`: how many top blocks train too.
        lora_rank: With `trains="lora"`: the rank.
        layer_decay: The learning rate of a layer over that of the layer above it.
        reinitialize: How many top blocks start from random weights, and with them the pooler; `None` is one where the
            head sees the first token, none where it sees the mean: sentence encoders know what to do with their top.
        head_epochs: Times through the data in which the heads alone train, before all that `trains` says does.
        mixout: The share of weights that a step takes from the pretrained model (Lee et al. 2020).
        pretrained_decay: Decay of weights towards their pretrained values.
        dropout: Rate in the encoder for this run; `None` keeps the model's.
        attention_dropout: Rate on attention probabilities; `None` keeps the model's.
        classifier_dropout: Rate before the heads; `None` keeps the model's.
        seeds: One run each; the model with the best validation score is kept.
        average: Whether the mean of the runs' weights is kept instead of the best run's: that of the best run and those
            that raise its validation score or keep it (Wortsman et al. 2022); without validation data, of all. The mean
            of one run is that run.
        restarts: How many more seeds may be tried for runs that degenerate (one class for every text).
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

    def __post_init__(self):
        if self.trains not in TRAINED_PARTS:
            raise ValueError(f"trains={self.trains!r}: expected one of {', '.join(map(repr, TRAINED_PARTS))}.")
        if not self.seeds:
            raise ValueError("seeds=() gives no run; expected at least one number.")
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
        """The recipe with a number for its learning rate."""
        return self if self.learning_rate is not None else replace(self, learning_rate=rate_for_width(hidden_dim))

    def __str__(self) -> str:
        """The settings that differ from the standard recipe, one a line."""
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
            rows["reinitialize"] = "1 where the head sees the first token, 0 where it sees the mean"
        return f"recipe {self.name}\n" + "\n".join(f"  {name:<20}{value}" for name, value in rows.items())


def rate_for_width(hidden_dim: int) -> float:
    """The learning rate that suits a model: 2e-5 for BERT-base's width of 768, more for narrower ones.

    A rule of thumb: narrow models take, and need, larger rates (tiny ones of width 128 learn best around 1e-3), and the
    square of the ratio of widths is near what is usual for 128, 384 and 768. On much data, such as the 67,000 examples
    of SST-2, half of it may be better; few epochs on little data want all of it.

    Example:
        >>> rate_for_width(384)
        8e-05
    """
    return round(min(1e-3, max(1e-5, 2e-5 * (768 / hidden_dim) ** 2)), 7)


TRAINED_PARTS = ("all", "head", "bias", "lora")

RECIPES = {
    "standard": Recipe(),
    # Zhang et al. 2020 (arXiv 2006.05987): bias correction (Keras's Adam has it), fresh top layers, more steps. Kumar
    # et al. 2022: the heads first. Wortsman et al. 2022: the mean of the seeds' weights instead of one of them.
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


def find_recipe(recipe: "str | Recipe", **changes) -> Recipe:
    """A recipe by name, or the one given, with changes.

    Example:
        >>> find_recipe("standard", learning_rate=5e-5).learning_rate
        5e-05
    """
    if isinstance(recipe, str):
        if recipe not in RECIPES:
            raise ValueError(f"recipe={recipe!r} is unknown; choose one of {', '.join(map(repr, RECIPES))}.")
        recipe = RECIPES[recipe]
    return replace(recipe, **changes) if changes else recipe
