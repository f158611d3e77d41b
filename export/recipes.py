"""The recipes that make a model small, as values in one table.

The converter, the checks and the command line read the same table. It needs no TensorFlow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

# The types of stored matrices, and the inputs that their products may take.
_PRODUCTS = {
    "float32": ("float32",),
    "float16": ("float32",),
    "int8": ("dynamic", "int8", "int16"),
    "int4": ("dynamic",),
}
_TABLES, _CALIBRATION = ("float32", "int16", "int8", "int4"), ("needed", "optional", "unused")


@dataclass(frozen=True)
class Recipe:
    """What a file stores and computes with.

    Args:
        name: The name of the recipe.
        weights: How matrices are stored: `"float32"`, `"float16"`, `"int8"`, `"int4"`.
        activations: The inputs of matrix products: `"float32"`, `"dynamic"` (int8, scaled for every token at run
            time), or `"int8"` and `"int16"` with scales from calibration data.
        tables: How embedding tables are stored: as `"float32"`, or as `"int16"`, `"int8"` or `"int4"` with a scale for
            each row.
        calibration: Whether calibration data is `"needed"`, `"optional"` (it makes a better file), or `"unused"`.
        tolerance: How far outputs may be from those of the Keras model: the root mean square of the difference,
            divided by that of the Keras outputs.
        exceptions: Matrices with another recipe of the table, by the path of their layer in the Keras model, such as
            `{"block_0/output": "dynamic_int8"}`; `choose_precision` finds them.
    """

    name: str
    weights: str = "float32"
    activations: str = "float32"
    tables: str = "float32"
    calibration: str = "unused"
    tolerance: float = 1e-4
    exceptions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.activations not in _PRODUCTS.get(self.weights, ()):
            known = "; ".join(f"{weights} with {' or '.join(takes)}" for weights, takes in _PRODUCTS.items())
            raise ValueError(f"Got weights={self.weights!r} with activations={self.activations!r}; expected {known}.")
        if self.tables not in _TABLES or self.calibration not in _CALIBRATION:
            raise ValueError(
                f"Got tables={self.tables!r} and calibration={self.calibration!r}; expected one of "
                f"{', '.join(_TABLES)}, and one of {', '.join(_CALIBRATION)}."
            )
        if self.activations in ("int8", "int16") and self.calibration != "needed":
            raise ValueError(
                f"Got activations={self.activations!r}, which need calibration data; pass calibration='needed'."
            )
        self._check_exceptions()

    def _check_exceptions(self) -> None:
        for name, other in self.exceptions.items():
            if other not in RECIPES:
                raise ValueError(
                    f"Got the recipe {other!r} for {name!r} in exceptions; expected one of {', '.join(RECIPES)}."
                )
            if RECIPES[other].calibration == "needed" and self.calibration != "needed":
                raise ValueError(
                    f"Got the recipe {other!r} for {name!r} in exceptions, which needs calibration data; pass "
                    "calibration='needed'."
                )

    def of_matrix(self, name: str | None) -> "Recipe":
        """The recipe of a matrix.

        Example:
            >>> Recipe("mine", exceptions={"classifier": "float16"}).of_matrix("classifier").name
            'float16'
        """
        return self if name is None or name not in self.exceptions else RECIPES[self.exceptions[name]]


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("float32"),
        Recipe("float16", weights="float16", tables="int16", tolerance=5e-3),
        Recipe("dynamic_int8", weights="int8", activations="dynamic", tables="int8", tolerance=0.1),
        Recipe("static_int8", weights="int8", activations="int8", tables="int8", calibration="needed", tolerance=0.15),
        # Slow on CPUs; for accelerators that compute only with integers.
        Recipe(
            "static_int16x8", weights="int8", activations="int16", tables="int8", calibration="needed", tolerance=0.1
        ),
        Recipe(
            "weight_int4", weights="int4", activations="dynamic", tables="int8", calibration="optional", tolerance=0.4
        ),
        # The smallest: also the token table, which is most of a small model.
        Recipe("all_int4", weights="int4", activations="dynamic", tables="int4", calibration="optional", tolerance=0.5),
    )
}


def find_recipe(recipe: str | Recipe) -> Recipe:
    """Find a recipe by its name; give a `Recipe` as it is.

    Example:
        >>> find_recipe("static_int8").calibration
        'needed'
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise ValueError(f"Got recipe={recipe!r}; expected one of {', '.join(RECIPES)}.")
    return RECIPES[recipe]
