"""Sentence embeddings on the command line."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import GLUE, LABEL, PAIR, TEXT, TaskFlag, read_columns, read_labelled

SCORE_RANGE = TaskFlag(
    "--score-range", type=float, nargs=2, metavar=("LOW", "HIGH"), help="lowest and highest score, such as 0 5"
)


DIMENSIONS = TaskFlag("--dimensions", type=int, metavar="N", help="how many of the first numbers of a vector to keep")
MATRYOSHKA = TaskFlag(
    "--matryoshka",
    type=int,
    nargs="+",
    metavar="N",
    help="dimensions at which beginnings of vectors learn to be vectors, such as 64 128",
)


def read_sentence_groups(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read pairs or triplets of sentences."""
    from keras_bert.tasks.similarity.files import as_sentence_groups, read_sentences

    if arguments.glue:
        return as_sentence_groups(read_labelled(arguments, path, split))
    return read_sentences(path, **read_columns(arguments, "text", "pair", "label"))


def make_embedder(arguments: Namespace, train: Any) -> Any:
    """Make an embedder with the scale of the scores."""
    from keras_bert.tasks.similarity.task import SentenceEmbedder

    scale = arguments.score_range
    if scale is None and arguments.glue and train.has_scores and train.scores.max() > 1:
        scale = (0.0, 5.0)  # STS-B
    options = {"score_range": scale, "sequence_length": arguments.sequence_length, "dimensions": arguments.dimensions}
    return SentenceEmbedder.from_pretrained(arguments.model, **options)


def embed(task: Any, texts: list[Any]) -> list[Any]:
    """Compute the vectors of texts, or the cosines of pairs."""
    import numpy as np

    if isinstance(texts[0], str):
        return list(task.predict(texts))
    first, second = (task.predict(list(side)) for side in zip(*texts, strict=True))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return [float(cosine) for cosine in np.sum(first * second, axis=1) / lengths]


def plain_vector(answer: Any) -> Any:
    """Turn an answer into JSON values: a list for a vector, a number for a cosine."""
    return round(answer, 6) if isinstance(answer, float) else [round(float(number), 6) for number in answer]


def vector_words(answer: Any) -> str:
    """Format an answer: a cosine, or the beginning of a vector."""
    if isinstance(answer, float):
        return f"{answer:.3f}"
    return f"{' '.join(f'{number:.3f}' for number in answer[:4])} … ({len(answer)} numbers)"


register_task(
    TaskEntry(
        "similarity",
        "keras_bert.tasks.similarity.task:SentenceEmbedder",
        read=read_sentence_groups,
        make=make_embedder,
        hold_out=hold_out_tenth,
        ask=embed,
        plain=plain_vector,
        words=vector_words,
        data_flags=(TEXT, PAIR, LABEL, GLUE),
        flags=(SCORE_RANGE, DIMENSIONS),
        fit_flags=(MATRYOSHKA,),
    )
)
