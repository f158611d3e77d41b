"""What a student is to take from its teacher, as values: logits, vectors, hidden states, attention, relations.

Each names tensors of a model; how far two are apart is in `distillation/distances.py`. A teacher's tensors are computed
once and kept (`distillation/teacher_outputs.py`); a student's are outputs of the model that trains. A room of its own
because these are what a user writes, compares and prints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Logits:
    """The teacher's answers with all their doubts: softened logits of every head of the task."""

    temperature: float = 2.0
    weight: float = 1.0


@dataclass(frozen=True)
class Vectors:
    """The teacher's vectors of texts, for a `SentenceEmbedder`.

    Args:
        by: `"vectors"` brings the student's vectors to the teacher's, by their cosine; where widths differ, through a
            projection that is learned with the student and left out later. `"similarities"` brings the cosines between
            all texts of a batch to the teacher's, whatever the widths. `"auto"` is the first where widths are equal.
        weight: How much it counts.
    """

    by: str = "auto"
    weight: float = 1.0
    name: ClassVar[str] = "vectors"

    def __post_init__(self):
        if self.by not in ("auto", "vectors", "similarities"):
            raise ValueError(f"Vectors(by={self.by!r}): expected 'auto', 'vectors' or 'similarities'.")


@dataclass(frozen=True)
class Layers:
    """Vectors of whole layers; a row for each pair of a student's and a teacher's layer.

    Args:
        pairs: `(student, teacher)` layers: 0 is the embeddings, 1 the first block's output; `None` takes the last of
            both. Where widths differ, the student's go through a projection that is learned with it and left out later.
        weight: How much it counts.
    """

    pairs: Sequence[tuple[int, int]] | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Hidden(Layers):
    """Hidden states, as TinyBERT takes them."""

    name: ClassVar[str] = "hidden"


@dataclass(frozen=True)
class Embeddings(Hidden):
    """What the embedding layers give: `Hidden` of layer 0."""

    pairs: Sequence[tuple[int, int]] | None = ((0, 0),)


@dataclass(frozen=True)
class Relations(Layers):
    """Relations between queries, keys and values of a block, as MiniLMv2 takes them; blocks are counted from 1.

    Args:
        heads: Into how many parts vectors are cut; any number that divides both widths.
    """

    heads: int = 12
    name: ClassVar[str] = "relations"


@dataclass(frozen=True)
class Attention(Layers):
    """Attention probabilities of a block; both models must have as many heads. They travel as the queries and keys that
    they are made of, a vector for each token: a map of all pairs would be as large as the row is long.
    """

    name: ClassVar[str] = "attention"
