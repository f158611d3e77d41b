"""List the candidates that a search tries for a task, smallest changes first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from export.recipes import RECIPES, find_recipe
from export.search.candidates import _FRESH, _STARTED, SEARCHED, Candidate, ModelPlan
from export.tasks.base.registry import find_export
from keras_bert.finetuning.recipes import Recipe as TrainingRecipe
from keras_bert.model.config import BertConfig

# Shares of the teacher's blocks, heads and neurons that lean students keep.
_LEAN = ((2 / 3, 1 / 3, 1 / 3), (1 / 2, 1 / 3, 1 / 4))


# With fewer texts than this, too many words of later inputs are missing to trim the vocabulary.
_TRIMMED_BY = 10_000


_AUGMENTED = 20_000  # up to this many texts, copies with replaced words are worth the time


def list_candidates(
    task: Any,
    *,
    examples: int,
    row_lengths: Sequence[int] = (),
    recipes: Sequence[str] | None = None,
    lengths: str | int | Sequence[int] | None = None,
    seed: int = 0,
) -> tuple[Candidate, ...]:
    """List the candidates that `deploy` tries by default, cheapest first.

    Args:
        task: The fine-tuned task.
        examples: How many training examples there are; 0 leaves out all candidates that need training.
        row_lengths: The tokens of some typical rows; they decide the lengths of files with several lengths.
        recipes: Names of recipes; `None` takes all except `static_int16x8`.
        lengths: `"dynamic"`, `"fixed"` for several that suit `row_lengths`, or one or several numbers of tokens, for
            apps whose runtime needs fixed lengths; `None` tries dynamic and fixed ones.
        seed: The seed of the training.

    Example:
        ```python
        rows = list_candidates(classifier, examples=2000, row_lengths=[12, 30], recipes=["dynamic_int8"])
        mine = [*rows, Candidate(model=replace(rows[-1].model, name="bare", trim=5), recipe="weight_int4")]
        export.deploy(classifier, "out", train=train, validation=dev, candidates=mine)
        ```
    """
    recipes = SEARCHED if recipes is None else tuple(recipes)
    if not recipes:
        raise ValueError(f"Got recipes=[]; expected at least one of {', '.join(RECIPES)}.")
    kinds = _kinds_of_lengths(lengths, spread_lengths(row_lengths, task.sequence_length))
    found = [Candidate(recipe=recipe, lengths=kind) for recipe in recipes for kind in kinds]
    if not examples:
        return tuple(found)
    plans = _plans(task, examples, seed)
    for plan in plans:
        found += [Candidate(model=plan, recipe=recipe, lengths=kinds[0]) for recipe in _smallest(recipes)]
    for plan in _quantized_plans(plans, recipes, examples, seed):
        if plan.quantized is not None:
            found.append(Candidate(model=plan, recipe=plan.quantized, lengths=kinds[0]))
    return tuple(found)


def _kinds_of_lengths(asked: Any, several: tuple[int, ...]) -> tuple[str | tuple[int, ...], ...]:
    """The lengths to try; the first is used for models that take long to make."""
    if asked is None:
        return "dynamic", several
    if isinstance(asked, str):
        if asked not in ("dynamic", "fixed"):
            raise ValueError(f"Got lengths={asked!r}; expected 'dynamic', 'fixed', or numbers of tokens.")
        return (several if asked == "fixed" else asked,)
    return (tuple(int(length) for length in np.atleast_1d(asked)),)


def spread_lengths(row_lengths: Sequence[int], longest: int) -> tuple[int, ...]:
    """Lengths that fit half of the rows, nine in ten, and all.

    Example:
        >>> spread_lengths([5, 9, 9, 30], 64)
        (16, 24, 64)
    """
    quantiles = np.quantile(list(row_lengths), (0.5, 0.9)) if len(row_lengths) else ()
    return tuple(sorted({min(longest, int(-(-value // 8) * 8)) for value in quantiles} | {longest}))


def _smallest(recipes: Sequence[str]) -> list[str]:
    """The first recipe of each kind of weights and tables; only integer ones if there are any."""
    by_kind: dict[tuple[str, str], str] = {}
    for recipe in recipes:
        by_kind.setdefault((find_recipe(recipe).weights, find_recipe(recipe).tables), recipe)
    integers = [recipe for (weights, _), recipe in by_kind.items() if weights.startswith("int")]
    return integers or list(by_kind.values())[:1]


def _plans(task: Any, examples: int, seed: int) -> list[ModelPlan]:
    """Models that are smaller than the teacher, in the order of their cost."""
    plans = [ModelPlan(name="trimmed", stage="trim", trim=1)]
    layers = task.config.num_layers
    training = _training("blocks", examples, _STARTED, 5e-5, seed)
    for keep in sorted({-(-2 * layers // 3), -(-layers // 2)} - {layers, 0}, reverse=True):
        name = f"{keep} of {layers} blocks"
        plans.append(ModelPlan(name=name, stage="layers", trim=1, layers=keep, training=training))
    trim = 1 if examples >= _TRIMMED_BY else None
    copies = min(20, _AUGMENTED // examples) if find_export(task.name).plain_rows else 0
    for cuts in lean_sizes(task.config):
        plans.append(
            ModelPlan(
                name=f"lean {cuts['layers']}×{cuts['heads']}×{cuts['neurons']}",
                stage="distill",
                trim=trim,
                layers=cuts["layers"],
                heads=cuts["heads"],
                neurons=cuts["neurons"],
                copies=copies,
                training=_training("lean", examples * (1 + copies), 2 * _STARTED, 2e-4, seed),
            )
        )
    for sizes in student_sizes(task.config):
        fresh = sizes["hidden_dim"] != task.config.hidden_dim
        total, rate = (_FRESH, 5e-4) if fresh else (2 * _STARTED, 1e-4)
        plans.append(
            ModelPlan(
                name=f"student {sizes['num_layers']}×{sizes['hidden_dim']}",
                stage="distill",
                trim=trim,
                sizes=tuple(sorted(sizes.items())),
                copies=copies,
                training=_training("student", examples * (1 + copies), total, rate, seed),
            )
        )
    return plans


def lean_sizes(config: BertConfig) -> list[dict[str, int]]:
    """Sizes of students that are made by removing the teacher's least important parts.

    They start from the teacher's weights, so they need less data than narrow students that start fresh. The token table
    keeps its width: with four bits and all directions it is better than with eight bits and half of them.

    Example:
        >>> lean_sizes(BertConfig(num_layers=6, num_heads=12, hidden_dim=384, intermediate_dim=1536))[0]
        {'layers': 4, 'heads': 4, 'neurons': 512}
    """
    found = [
        {
            "layers": max(1, round(config.num_layers * blocks)),
            "heads": max(1, round(config.num_heads * heads)),
            "neurons": max(8, round(config.intermediate_dim * neurons / 8) * 8),
        }
        for blocks, heads, neurons in _LEAN
    ]
    return [cuts for place, cuts in enumerate(found) if cuts not in found[:place]]


def student_sizes(config: BertConfig) -> list[dict[str, int]]:
    """Sizes of students of a teacher, largest first: fewer blocks, then half the width, then a third.

    Example:
        >>> [sizes["hidden_dim"] for sizes in student_sizes(BertConfig(num_layers=6, num_heads=12, hidden_dim=384))]
        [384, 192, 128]
    """
    layers, width, head = config.num_layers, config.hidden_dim, config.head_dim
    found = [{"num_layers": -(-layers // 3), "hidden_dim": width}] if layers > 2 else []
    for share, blocks in ((2, -(-layers // 2)), (3, -(-layers // 2))):
        narrow = max(head, width // share // head * head)
        found.append(
            {
                "num_layers": blocks,
                "hidden_dim": narrow,
                "num_heads": narrow // head,
                "intermediate_dim": min(2 * narrow, config.intermediate_dim),
                "embedding_dim": narrow if share == 2 else max(head, narrow // 2),
            }
        )
    return [sizes for place, sizes in enumerate(found) if sizes not in found[:place]]


def _training(name: str, examples: int, total: int, learning_rate: float, seed: int, **changes: Any) -> TrainingRecipe:
    """A training recipe that runs until `total` examples were seen, with 2 to 60 epochs."""
    return TrainingRecipe(
        name=name,
        learning_rate=learning_rate,
        epochs=float(min(60, max(2, round(total / examples)))),
        evaluations=6,
        patience=None,
        seeds=(seed,),
        **changes,
    )


def _quantized_plans(plans: list[ModelPlan], recipes: Sequence[str], examples: int, seed: int) -> list[ModelPlan]:
    """The trimmed teacher and the students, trained for recipes that lose accuracy otherwise."""
    training = _training("quantized", examples, _STARTED // 2, 2e-5, seed)
    smallest = "all_int4" if "all_int4" in recipes else "weight_int4"
    return [
        ModelPlan(
            name=f"{plan.name} QAT {find_recipe(recipe).weights}",
            stage="qat",
            start=plan,
            quantized=recipe,
            training=training
            if plan.training is None or plan.training.learning_rate is None
            else replace(training, learning_rate=plan.training.learning_rate / 5),
        )
        for plan in plans
        if plan.stage in ("trim", "distill")
        for recipe in ("static_int8", smallest)
        if recipe in recipes
    ]
