"""What the commands do for tasks that compare sentences: similarity, multiple choice, zero-shot.

Functions for the rows of `cli/tasks.py`. A room of its own because these tasks ask in forms of their own: vectors and
cosines, a context with choices, labels that come with the question.
"""

import numpy as np

from keras_bert.cli.data_flags import read_columns, read_labelled


def open_task(arguments):
    """The task of a directory; with `--labels`, a classifier by these labels on whichever model it is."""
    from keras_bert.tasks.base.saved_tasks import load_task

    if arguments.labels is None:
        if arguments.template is not None:
            raise ValueError("--template says what is made of --labels; pass both, or none.")
        return load_task(arguments.model)
    from keras_bert.tasks.zero_shot import ZeroShotClassifier

    labels = [label.strip() for label in arguments.labels.split(",") if label.strip()]
    return ZeroShotClassifier.from_pretrained(arguments.model, labels=labels, template=arguments.template)


def add_label_arguments(group) -> None:
    """The flags for labels that come with the question."""
    group.add_argument("--labels", metavar="A,B,C", help="choose from these labels, which the model was not trained on")
    group.add_argument("--template", help="what is made of a label (default: This text is about {}.)")


# === Similarity ===


def read_pairs(arguments, path, split, kind=None):
    """Pairs or triplets of sentences."""
    from keras_bert.tasks.similarity.files import as_sentence_groups, read_sentences

    if arguments.glue:
        return as_sentence_groups(read_labelled(arguments, path, split, numeric=True))
    return read_sentences(path, **read_columns(arguments, "text", "pair", "label"))


def make_embedder(arguments, train):
    """An embedder that knows the scale of the scores."""
    from keras_bert.tasks.similarity.task import SentenceEmbedder

    scale = arguments.score_range
    if scale is None and arguments.glue and train.has_scores and train.scores.max() > 1:
        scale = (0.0, 5.0)  # STS-B
    return SentenceEmbedder.from_pretrained(
        arguments.model, score_range=scale, sequence_length=arguments.sequence_length or 128
    )


def embed(task, texts):
    """The vectors of texts, or the cosines of pairs."""
    if isinstance(texts[0], str):
        return list(task.predict(texts))
    first, second = (task.predict(list(side)) for side in zip(*texts, strict=True))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return [float(cosine) for cosine in np.sum(first * second, axis=1) / lengths]


def plain_vector(answer):
    """A vector as a list, a cosine as it is."""
    return round(answer, 6) if isinstance(answer, float) else [round(float(number), 6) for number in answer]


def vector_words(answer):
    """A cosine, or the beginning of a vector."""
    if isinstance(answer, float):
        return f"{answer:.3f}"
    return f"{' '.join(f'{number:.3f}' for number in answer[:4])} … ({len(answer)} numbers)"


# === Multiple choice ===


def read_choice_rows(arguments, path, split, kind=None):
    """Contexts with their choices."""
    from keras_bert.tasks.multiple_choice.files import read_choices

    columns = read_columns(arguments, "text", "label")
    return read_choices(path, **({"context": columns.pop("text")} if "text" in columns else {}), **columns)


def make_chooser(arguments, train):
    """An untrained chooser."""
    from keras_bert.tasks.multiple_choice.task import MultipleChoice

    return MultipleChoice.from_pretrained(arguments.model, sequence_length=arguments.sequence_length or 128)


def choose(task, texts):
    """A line is a context and its choices, with tabs between them."""
    if any(isinstance(text, str) for text in texts):
        raise ValueError("A line has no choices; expected --input FILE with a context and its choices, tabs between.")
    return task.predict([(context, choices.split("\t")) for context, choices in texts])


def plain_choices(answer):
    """Choices for JSON."""
    return [
        {"text": choice.text, "index": choice.index, "probability": round(choice.probability, 4)} for choice in answer
    ]


def choice_words(answer):
    """The likeliest choices."""
    return ", ".join(f"{choice['text']} ({choice['probability']:.0%})" for choice in answer[:3])


# === Zero-shot ===


def make_zero_shot(arguments, train):
    """A classifier for entailment, to be trained on pairs, that will answer with any labels."""
    from keras_bert.data.labelled_texts import describe_labels
    from keras_bert.tasks.classification.task import TextClassifier
    from keras_bert.tasks.zero_shot import ZeroShotClassifier

    labels = sorted(name for name, _ in describe_labels(train).counts)
    options = {"labels": labels, "sequence_length": arguments.sequence_length or 128}
    return ZeroShotClassifier(TextClassifier.from_pretrained(arguments.model, **options))
