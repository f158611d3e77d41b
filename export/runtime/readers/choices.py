"""A context and choices → which of them it is: how a chooser reads."""

import numpy as np

from export.runtime.readers.reader import Reader
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.labels import rank_choices
from keras_bert.tasks.multiple_choice.files import as_choices, is_question
from keras_bert.text.tokenized_texts import tokenize_texts


class ChoiceReader(Reader):
    """Contexts with their choices → the choices, the likeliest first; each choice is a row."""

    task = "multiple_choice"
    outputs = ("class_logits",)
    sample = ("a", ["a", "b"])

    def inputs(self, context, choices=None):
        if isinstance(context, str):
            if choices is None or isinstance(choices, str):
                raise TypeError("There are no choices; expected (context, [choice, …]), or a list of such.")
            return [(context, list(choices))], True
        if choices is not None:
            raise TypeError("Several contexts bring their choices along: [(context, [choice, …]), …].")
        return ([context], True) if is_question(context) else (list(context), False)

    @classmethod
    def from_line(cls, line):
        context, *choices = line.split("\t")
        return context, choices

    def prepare(self, inputs):
        questions = as_choices(inputs)
        pairs = [(question.context, choice) for question in questions for choice in question.choices]
        rows, _ = tokenize_texts(self.tokenizer, *map(list, zip(*pairs, strict=True))).trimmed_first(
            self.sequence_length
        )
        owners = np.repeat(np.arange(len(questions)), [len(question.choices) for question in questions])
        return PreparedData(rows, None, None, owners)

    def answers(self, outputs, data, inputs):
        scores = outputs["class_logits"]
        if scores.shape[1:] != (1,):
            raise ValueError(f"The file gives {scores.shape[1:]} numbers for a choice, not one; export it again.")
        parts = np.split(scores[:, 0], np.cumsum(np.bincount(data.owners))[:-1])
        return [rank_choices(part, list(choices)) for part, (_, choices) in zip(parts, inputs, strict=True)]

    def agreement(self, answers, others):
        return float(np.mean([ours[0].index == theirs[0].index for ours, theirs in zip(answers, others, strict=True)]))
