"""The sizes and options of a BERT model as one frozen dataclass.

A `BertConfig` is created from keyword arguments, a preset's name or a JSON object; an unknown key raises an error.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACTIVATIONS = ("gelu", "gelu_tanh", "relu")
POOLINGS = ("cls", "mean")
POSITIONS = ("learned", "sinusoidal")
POOLER_ACTIVATIONS = ("tanh", "relu", "gelu")

# Sizes of the published BERT models (Devlin et al. 2018; Turc et al. 2019 for those below base).
PRESETS: dict[str, dict[str, int]] = {
    "tiny": {"num_layers": 2, "num_heads": 2, "hidden_dim": 128, "intermediate_dim": 512},
    "mini": {"num_layers": 4, "num_heads": 4, "hidden_dim": 256, "intermediate_dim": 1024},
    "small": {"num_layers": 4, "num_heads": 8, "hidden_dim": 512, "intermediate_dim": 2048},
    "medium": {"num_layers": 8, "num_heads": 8, "hidden_dim": 512, "intermediate_dim": 2048},
    "base": {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "intermediate_dim": 3072},
    "large": {"num_layers": 24, "num_heads": 16, "hidden_dim": 1024, "intermediate_dim": 4096},
}


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The sizes and options of a BERT model. The defaults are those of BERT-base.

    Example:
        >>> config = BertConfig.preset("tiny", vocabulary_size=8000)
        >>> config.num_layers, config.hidden_dim
        (2, 128)
        >>> config.replace(num_layers=3).num_layers
        3

    Args:
        vocabulary_size: The number of tokens.
        num_layers: The number of encoder blocks.
        num_heads: The number of attention heads; must divide `attention_dim`.
        hidden_dim: The width of the encoder.
        intermediate_dim: The width inside the feed-forward part of a block.
        max_sequence_length: The number of positions, so the longest input.
        num_segments: The number of segments. With 1, every token has the same segment vector, whatever `segment_ids`
            says, as in XLM-R; with 0 there are no segment vectors, as in DistilBERT.
        embedding_dim: The width of the embedding tables; `None` means `hidden_dim`. A narrower table is projected to
            `hidden_dim`.
        attention_dim: The width of all heads together; `None` means `hidden_dim`. Removing heads makes it smaller.
        pooling: What `pooled_output` is computed from, by a dense layer with tanh: `"cls"`, the first token's state, as
            in BERT, or `"mean"`, the mean of all tokens' states, which suits models trained as sentence encoders.
        position: `"learned"`, or `"sinusoidal"` for a fixed table.
        position_offset: The row of the position table that the first token takes; XLM-R begins at row 2. The table has
            that many rows more than `max_sequence_length`.
        pooler_activation: The activation of the pooler's dense layer: `"tanh"`, as in BERT, `"relu"`, as in
            DistilBERT's classifier, or `"gelu"`, as in ELECTRA's.
        activation: `"gelu"` (exact, as BERT), `"gelu_tanh"` or `"relu"`.
        dropout: The rate for embeddings and for the outputs of attention and feed-forward.
        attention_dropout: The rate for attention probabilities.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: The standard deviation of the initial weights.
    """

    vocabulary_size: int = 30522
    num_layers: int = 12
    num_heads: int = 12
    hidden_dim: int = 768
    intermediate_dim: int = 3072
    max_sequence_length: int = 512
    num_segments: int = 2
    embedding_dim: int | None = None
    attention_dim: int | None = None
    pooling: str = "cls"
    position: str = "learned"
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_epsilon: float = 1e-12
    initializer_range: float = 0.02
    position_offset: int = 0
    pooler_activation: str = "tanh"

    def __post_init__(self) -> None:
        for name in _SIZES:
            _require_positive_int(name, getattr(self, name))
        for name in ("num_segments", "position_offset"):
            _require_positive_int(name, getattr(self, name), least=0)
        for name in ("embedding_dim", "attention_dim"):
            if getattr(self, name) is not None:
                _require_positive_int(name, getattr(self, name))
        if self.heads_dim % self.num_heads:
            name = "hidden_dim" if self.attention_dim is None else "attention_dim"
            raise ValueError(
                f"{name}={self.heads_dim} is not a multiple of num_heads={self.num_heads}; "
                "all heads have the same width, so choose sizes that divide."
            )
        _require_choice("activation", self.activation, ACTIVATIONS)
        _require_choice("position", self.position, POSITIONS)
        _require_choice("pooling", self.pooling, POOLINGS)
        _require_choice("pooler_activation", self.pooler_activation, POOLER_ACTIVATIONS)
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            if not _is_number(rate) or not 0 <= rate < 1:
                raise ValueError(f"{name}={rate!r} is not a rate; expected a number from 0 up to, not including, 1.")
        for name in ("layer_norm_epsilon", "initializer_range"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value < float("inf"):
                raise ValueError(f"{name}={value!r} is out of range; expected a finite number above 0.")

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.heads_dim // self.num_heads

    @property
    def heads_dim(self) -> int:
        """Width of all attention heads together: `attention_dim`, or `hidden_dim` if that is not set."""
        return self.attention_dim or self.hidden_dim

    @property
    def table_dim(self) -> int:
        """Width of the embedding tables: `embedding_dim`, or `hidden_dim` if that is not set."""
        return self.embedding_dim or self.hidden_dim

    @property
    def num_positions(self) -> int:
        """Rows of the position table: `max_sequence_length`, and those before `position_offset`."""
        return self.max_sequence_length + self.position_offset

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "BertConfig":
        """Return a size by name, with changes.

        The name is that of a published size (`tiny`, `mini`, `small`, `medium`, `base`, `large`), or the blocks and
        the width, such as `4x320`: heads of 64, and four times the width inside the feed-forward part.
        """
        sizes = PRESETS.get(name) or _sizes_by_numbers(name)
        return cls.from_dict({**sizes, **changes})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "BertConfig":
        """Return the config that `to_dict` gave; raise an error for a key that is not a field."""
        if not isinstance(values, dict):
            raise TypeError(f"Expected a config as a dictionary of names and values; got {type(values).__name__}.")
        fields = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(fields))
        if unknown:
            raise ValueError(f"Unknown config keys: {', '.join(unknown)}. The keys are: {', '.join(fields)}.")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON.

        A field that earlier versions did not have is left out while it has its default, so that what they saved, such
        as a run to resume, still compares equal.
        """
        later = {name for name, default in _ADDED.items() if getattr(self, name) == default}
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in later}

    @classmethod
    def from_json(cls, path: str | Path) -> "BertConfig":
        """Read a file that `to_json` wrote. For configs of Google or Hugging Face use `keras_bert.load_encoder`."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{path} is not JSON ({error}); expected an object with the fields of a BertConfig."
            ) from error
        return cls.from_dict(values)

    def to_json(self, path: str | Path) -> None:
        """Write all fields to a JSON file."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    def replace(self, **changes: Any) -> "BertConfig":
        """Return a copy with some fields changed."""
        return self.from_dict({**self.to_dict(), **changes})


def _sizes_by_numbers(name: str) -> dict[str, int]:
    """Return the sizes that a name such as `4x320` stands for."""
    blocks, _, width = str(name).partition("x")
    # Nine digits are far above any size; more could take long to convert.
    if not (blocks.isdecimal() and width.isdecimal() and len(name) < 10 and int(blocks) and int(width)):
        raise ValueError(
            f"No preset is called {name!r}; choose one of {', '.join(PRESETS)}, or blocks and width such as 4x320."
        )
    if int(width) % 64:
        raise ValueError(f"The width of {name!r} is {int(width)}; expected a multiple of 64, for heads of 64 each.")
    sizes = {"num_layers": int(blocks), "hidden_dim": int(width)}
    return {**sizes, "num_heads": int(width) // 64, "intermediate_dim": 4 * int(width)}


_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "max_sequence_length",
)
# Fields that the first versions did not have, with their defaults.
_ADDED = {"position_offset": 0, "pooler_activation": "tanh"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require_positive_int(name: str, value: Any, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is not a size; expected an integer of at least {least}.")


def _require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, choices))}.")
