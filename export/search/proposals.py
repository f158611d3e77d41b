"""The candidates that a search tries for a task, smallest changes first."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from export.recipes import RECIPES, find_recipe
from export.search.candidates import _FRESH, _STARTED, SEARCHED, Candidate, ModelPlan
from export.tasks.base.registry import find_export
from keras_bert.finetuning.recipes import Recipe as TrainingRecipe

# Shares of the teacher's blocks, heads and neurons that lean students keep.
_LEAN = ((2 / 3, 1 / 3, 1 / 3), (1 / 2, 1 / 3, 1 / 4))


# Fewer texts do not have the words that will be asked: by 743 of them a trimmed model lost 9 points, by 67,000 0.7.
_TRIMMED_BY = 10_000


_AUGMENTED = 20_000  # up to so many texts, copies with replaced words are worth their teacher's time


def list_candidates(
    task,
    *,
    examples: int,
    row_lengths: Sequence[int] = (),
    recipes: Sequence[str] | None = None,
    lengths: str | int | Sequence[int] | None = None,
    seed: int = 0,
) -> tuple[Candidate, ...]:
    """The candidates that `deploy` tries unless it is given others, cheapest first.

    Args:
        task: The fine-tuned task.
        examples: How many training examples there are; 0 leaves all out that has to be trained.
        row_lengths: The tokens of some rows like those that the file will see: files for several lengths go by them.
        recipes: Names of recipes; `None` takes all but `static_int16x8`.
        lengths: `"dynamic"`, `"fixed"` for several that suit `row_lengths`, or one or several numbers of tokens, for
            apps whose runtime takes no other; `None` tries dynamic and fixed ones.
        seed: Of the training.

    Example:
        ```python
        rows = list_candidates(classifier, examples=2000, row_lengths=[12, 30], recipes=["dynamic_int8"])
        mine = [*rows, Candidate(model=replace(rows[-1].model, name="bare", trim=5), recipe="weight_int4")]
        export.deploy(classifier, "out", train=train, validation=dev, candidates=mine)
        ```
    """
    recipes = SEARCHED if recipes is None else tuple(recipes)
    if not recipes:
        raise ValueError(f"recipes=[] leaves nothing to try; expected some of {', '.join(RECIPES)}.")
    kinds = _kinds_of_lengths(lengths, spread_lengths(row_lengths, task.sequence_length))
    found = [Candidate(recipe=recipe, lengths=kind) for recipe in recipes for kind in kinds]
    if not examples:
        return tuple(found)
    plans = _plans(task, examples, seed)
    for plan in plans:
        found += [Candidate(model=plan, recipe=recipe, lengths=kinds[0]) for recipe in _smallest(recipes)]
    for plan in _quantized_plans(plans, recipes, examples, seed):
        found.append(Candidate(model=plan, recipe=plan.quantized, lengths=kinds[0]))
    return tuple(found)


def _kinds_of_lengths(asked, several):
    """What a search is to try of lengths; the first is for models that take long to make."""
    if asked is None:
        return "dynamic", several
    if isinstance(asked, str):
        if asked not in ("dynamic", "fixed"):
            raise ValueError(f"lengths={asked!r}: expected 'dynamic', 'fixed', or numbers of tokens.")
        return (several if asked == "fixed" else asked,)
    return (tuple(int(length) for length in np.atleast_1d(asked)),)


def spread_lengths(row_lengths: Sequence[int], longest: int) -> tuple[int, ...]:
    """Lengths that half of the rows fit, nine in ten, and all.

    Example:
        >>> spread_lengths([5, 9, 9, 30], 64)
        (16, 24, 64)
    """
    quantiles = np.quantile(list(row_lengths), (0.5, 0.9)) if len(row_lengths) else ()
    return tuple(sorted({min(longest, int(-(-value // 8) * 8)) for value in quantiles} | {longest}))


def _smallest(recipes):
    """Of each kind of weights and tables the first recipe; integers alone, where there are such."""
    by_kind = {}
    for recipe in recipes:
        by_kind.setdefault((find_recipe(recipe).weights, find_recipe(recipe).tables), recipe)
    integers = [recipe for (weights, _), recipe in by_kind.items() if weights.startswith("int")]
    return integers or list(by_kind.values())[:1]


def _plans(task, examples, seed):
    """Models that are smaller than the teacher, in the order of what they cost."""
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
                **cuts,
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


def lean_sizes(config) -> list[dict[str, int]]:
    """What stays of a teacher in students that are made by leaving out what matters least. They start from its weights,
    so they need less data than narrow ones that start fresh. The token table stays as wide as it is: four bits of all
    its directions are worth more than eight bits of half of them.

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


def student_sizes(config) -> list[dict[str, int]]:
    """Sizes of students of a teacher, largest first: fewer blocks, half the width, a third of it.

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


def _training(name, examples, total, learning_rate, seed, **changes):
    """A recipe that passes over the data until `total` examples were seen, but 2 to 60 times."""
    return TrainingRecipe(
        name=name,
        learning_rate=learning_rate,
        epochs=float(min(60, max(2, round(total / examples)))),
        evaluations=6,
        patience=None,
        seeds=(seed,),
        **changes,
    )


def _quantized_plans(plans, recipes, examples, seed):
    """The trimmed teacher and the students, trained for recipes that cost accuracy otherwise."""
    training = _training("quantized", examples, _STARTED // 2, 2e-5, seed)
    smallest = "all_int4" if "all_int4" in recipes else "weight_int4"
    return [
        ModelPlan(
            name=f"{plan.name} QAT {find_recipe(recipe).weights}",
            stage="qat",
            start=plan,
            quantized=recipe,
            training=training
            if plan.training is None
            else replace(training, learning_rate=plan.training.learning_rate / 5),
        )
        for plan in plans
        if plan.stage in ("trim", "distill")
        for recipe in ("static_int8", smallest)
        if recipe in recipes
    ]
