"""How a model becomes small: each recipe is a value in one table.

A room of its own because the converter, the checks and the command line read the same rows. Plain values, no
TensorFlow.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """What a file stores and computes with.

    Args:
        name: What the file is called by. weights: How matrices are stored: `"float32"`, `"float16"`, `"int8"`,
        `"int4"`. activations: What the matrix products take: `"float32"`, `"dynamic"` (int8, scaled anew for every
        token while the
            model runs), or `"int8"` and `"int16"` with scales that were measured on calibration data.
        tables: How embedding tables are stored: as `"float32"`, or as `"int16"` or `"int8"` with a scale for each row.
        calibration: Whether data is `"needed"`, `"optional"` (a better file with it), or `"unused"`.
        tolerance: How far outputs may be from those of the Keras model: the root mean square of the difference over
            that of the Keras outputs.
    """

    name: str
    weights: str = "float32"
    activations: str = "float32"
    tables: str = "float32"
    calibration: str = "unused"
    tolerance: float = 1e-4


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("float32"),
        Recipe("float16", weights="float16", tables="int16", tolerance=5e-3),
        Recipe("dynamic_int8", weights="int8", activations="dynamic", tables="int8", tolerance=0.1),
        Recipe("static_int8", weights="int8", activations="int8", tables="int8", calibration="needed", tolerance=0.15),
        # No CPU kernels worth the name: for accelerators that compute in integers alone.
        Recipe(
            "static_int16x8", weights="int8", activations="int16", tables="int8", calibration="needed", tolerance=0.1
        ),
        Recipe(
            "weight_int4", weights="int4", activations="dynamic", tables="int8", calibration="optional", tolerance=0.4
        ),
    )
}


def find_recipe(recipe: str | Recipe) -> Recipe:
    """A recipe by its name, or the recipe itself.

    Example:
        >>> find_recipe("static_int8").calibration
        'needed'
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise ValueError(f"recipe={recipe!r} is unknown; choose one of {', '.join(RECIPES)}.")
    return RECIPES[recipe]
