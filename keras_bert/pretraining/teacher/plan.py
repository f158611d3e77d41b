"""What a student takes from its teacher while pretraining, as a frozen value.

`Teacher` names the model, the losses with their weights and layers, and where the teacher's outputs are kept. It is
written beside the run as part of `plan.json`.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from keras_bert.model.config import BertConfig

STARTS = ("auto", "blocks", "random")
TABLES = ("outputs", "embeddings")
ALIGNMENTS = ("auto", "pieces", "words")
_MOST_RELATION_HEADS = 16


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """A model to learn from, and what to learn from it (TinyBERT, Jiao et al. 2020; MiniLMv2, Wang et al. 2021).

    Losses have weights; 0 leaves one out.

    Args:
        model: A directory or name that `load_encoder` opens; a saved task works too.
        hidden: Weight of the distance between hidden states, the mean over all pairs of layers. The student's go
            through a learned projection, or are compared as they are if it has the teacher's blocks.
        sentence: Weight of the cosine distance between the means of a text's states; `None` is 1 where a row holds one
            text, and 0 in packed rows.
        relations: Weight of the distance between the relations of queries, keys and values.
        mlm: Weight of the masked LM, and of the next sentence where the examples are pairs. The student then reads
            masked texts, the teacher whole ones.
        hidden_layers: `(student, teacher)` layers: 0 is the embeddings, 1 the first block's output; `None` takes the
            last of both.
        relation_layers: `(student, teacher)` blocks, counted from 1; `None` takes the last of both.
        relation_heads: Parts that queries, keys and values are cut into, whatever heads the models have; `None` takes
            the largest number up to 16 that divides both widths.
        alignment: How the student's tokens meet the teacher's. `"pieces"`: both read the same pieces, which takes a
            vocabulary with all pieces of the student's. `"words"`: each cuts words its own way, and the means over a
            word's pieces are compared. `"auto"` is the first where it works.
        start: The student's first weights. `"auto"`: a token table from the teacher, and every k-th block where all
            widths but that of the table are equal. `"blocks"` insists on the blocks. `"random"` takes nothing.
        token_table: Where widths differ, what the table is made of by PCA: `"outputs"`, what the teacher gives for
            each token as a text of its own, or `"embeddings"`, its own table, with positions and segments.
        passes: How often the student reads a text before the teacher reads new ones. More of them ask the
            teacher for less, and the student sees less text.
        cache_gb: The most gigabytes of outputs to keep on the disk; 0 keeps none, and the teacher reads every batch.
        batch_size: Rows that the teacher reads at once.
        device: Where the teacher runs, such as `"gpu:1"`; `None` is Keras's default.

    Example:
        >>> Teacher(model="all-MiniLM-L6-v2", relations=1.0).mlm
        0.0
    """

    model: str | os.PathLike[str]
    hidden: float = 1.0
    sentence: float | None = None
    relations: float = 0.0
    mlm: float = 0.0
    hidden_layers: Sequence[tuple[int, int]] | None = None
    relation_layers: tuple[int, int] | None = None
    relation_heads: int | None = None
    alignment: str = "auto"
    start: str = "auto"
    token_table: str = "outputs"
    passes: int = 4
    cache_gb: float = 4.0
    batch_size: int = 32
    device: str | None = None

    def __post_init__(self) -> None:
        weights = {name: getattr(self, name) for name in ("hidden", "sentence", "relations", "mlm")}
        for name, weight in weights.items():
            if weight is not None and not 0 <= weight < math.inf:
                raise ValueError(f"{name}={weight!r} is no weight of a loss; expected a number of at least 0.")
        if not self.hidden and not self.relations and self.sentence == 0:
            raise ValueError("hidden, sentence and relations are all 0: nothing is left to learn from the teacher.")
        choices = (("alignment", ALIGNMENTS), ("start", STARTS), ("token_table", TABLES))
        for name, known in choices:
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; choose one of {', '.join(known)}.")
        if self.passes < 1 or self.batch_size < 1 or self.cache_gb < 0:
            raise ValueError(
                f"passes={self.passes}, batch_size={self.batch_size} and cache_gb={self.cache_gb}: expected at least "
                "1, 1 and 0."
            )


@dataclass(frozen=True)
class Targets:
    """Which layers are compared, after a look at both models.

    Args:
        hidden: `(student, teacher)` layers whose states are compared.
        relations: `(student, teacher)` blocks whose relations are compared.
        sentence: Whether the means of the last pair of states are compared.
        heads: Parts of the relations.
        widths: The width of each of the teacher's outputs, by its name.
    """

    hidden: tuple[tuple[int, int], ...]
    relations: tuple[tuple[int, int], ...]
    sentence: bool
    heads: int
    widths: dict[str, int]

    @classmethod
    def find(cls, plan: Teacher, teacher: BertConfig, student: BertConfig, *, packed: bool = False) -> "Targets":
        """The targets of a plan for two models; layers that one of them does not have raise."""
        if packed and plan.sentence:
            raise ValueError(
                f"sentence={plan.sentence} compares one text a row, and packed rows hold several; set sentence=0, or "
                "do not pack."
            )
        sentence = bool(not packed if plan.sentence is None else plan.sentence)
        last = (student.num_layers, teacher.num_layers)
        wants_hidden = plan.hidden or sentence
        hidden = tuple((ours, theirs) for ours, theirs in plan.hidden_layers or [last]) if wants_hidden else ()
        relations = (plan.relation_layers or last,) if plan.relations else ()
        if not hidden and not relations:
            raise ValueError(
                "hidden and relations are 0, and in packed rows there is no sentence to compare: nothing is left to "
                "learn from the teacher."
            )
        for kind, pairs, lowest in (("hidden_layers", hidden, 0), ("relation_layers", relations, 1)):
            for pair in pairs:
                _check_pair(kind, pair, lowest, teacher, student)
        if not plan.mlm and student.num_layers not in [pair[0] for pair in (*hidden, *relations)]:
            raise ValueError(
                f"No loss reaches the student's last layer, {student.num_layers}, which would stay as it is; add it to "
                "hidden_layers or relation_layers, or give the student fewer layers."
            )
        heads = _relation_heads(plan, teacher, student) if relations else 1
        widths = {f"hidden_{layer}": teacher.hidden_dim for _, layer in hidden}
        widths |= {f"relations_{layer}": 3 * teacher.heads_dim for _, layer in relations}
        return cls(hidden, relations, sentence, heads, widths)


def _check_pair(kind: str, pair: tuple[int, int], lowest: int, teacher: BertConfig, student: BertConfig) -> None:
    for layer, config, who in zip(pair, (student, teacher), ("student", "teacher"), strict=True):
        if not lowest <= layer <= config.num_layers:
            raise ValueError(
                f"{kind}: the {who} has no layer {layer}; it has {config.num_layers}, so expected {lowest} to "
                f"{config.num_layers}."
            )


def _relation_heads(plan: Teacher, teacher: BertConfig, student: BertConfig) -> int:
    shared = math.gcd(teacher.heads_dim, student.heads_dim)
    if plan.relation_heads is None:
        return max(count for count in range(1, _MOST_RELATION_HEADS + 1) if shared % count == 0)
    if plan.relation_heads < 1 or shared % plan.relation_heads:
        raise ValueError(
            f"relation_heads={plan.relation_heads} must divide both widths, {teacher.heads_dim} of the teacher and "
            f"{student.heads_dim} of the student; their largest common divisor is {shared}."
        )
    return plan.relation_heads
