"""The values that say what a student learns from its teacher: logits, vectors, hidden states, attention, relations.

Each names tensors of a model; `distillation/distances.py` has the Keras losses that compare them. The teacher's tensors
are computed once and kept (`distillation/teacher_outputs.py`); the student's are outputs of its training model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Logits:
    """Softened logits of every head of the task."""

    temperature: float = 2.0
    weight: float = 1.0


@dataclass(frozen=True)
class Vectors:
    """The teacher's vectors of texts, for a `SentenceEmbedder`.

    Args:
        by: `"vectors"` compares the student's vectors with the teacher's, by their cosine; if widths differ, through a
            projection that is trained with the student and removed afterwards. `"similarities"` compares the cosines
            between all texts of a batch, whatever the widths. `"auto"` takes `"vectors"` if the widths are equal, else
            `"similarities"`.
        weight: The weight of this loss.
    """

    by: str = "auto"
    weight: float = 1.0
    name: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        if self.by not in ("auto", "vectors", "similarities"):
            raise ValueError(f"Vectors has by={self.by!r}; expected 'auto', 'vectors' or 'similarities'.")


@dataclass(frozen=True)
class Layers:
    """Vectors of whole layers, compared for each pair of a student's and a teacher's layer.

    Args:
        pairs: `(student, teacher)` layers: 0 is the embeddings, 1 the first block's output; `None` takes the last of
            both. If widths differ, the student's vectors go through a projection that is trained with the student and
            removed afterwards.
        weight: The weight of this loss.
    """

    name: ClassVar[str]
    pairs: Sequence[tuple[int, int]] | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Hidden(Layers):
    """Hidden states, as in TinyBERT."""

    name: ClassVar[str] = "hidden"


@dataclass(frozen=True)
class Embeddings(Hidden):
    """The output of the embedding layers: `Hidden` of layer 0."""

    pairs: Sequence[tuple[int, int]] | None = ((0, 0),)


@dataclass(frozen=True)
class Relations(Layers):
    """Relations between queries, keys and values of a block, as in MiniLMv2; blocks are counted from 1.

    Args:
        heads: The number of parts that vectors are cut into; it must divide both widths.
    """

    heads: int = 12
    name: ClassVar[str] = "relations"


@dataclass(frozen=True)
class Attention(Layers):
    """Attention probabilities of a block; both models must have the same number of heads.

    They are kept as queries and keys, with a vector for each token, which takes less space than a map of all pairs.
    """

    name: ClassVar[str] = "attention"


DistillationLoss = Logits | Vectors | Layers
