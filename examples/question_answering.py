"""Answers from a text: train on SQuAD, measure, ask.

    python examples/question_answering.py --train train-v1.1.json --test dev-v1.1.json --examples 20000
    python examples/question_answering.py --train train-v2.0.json --test dev-v2.0.json --unanswerable

Any file in SQuAD's format will do, or `.jsonl` with `question`, `context` and `answers` in each line. Trains, prints
exact match and F1 on the test data, answers questions on a text of its own, and saves the model. It prints answers as

    » Where does the night train go?
      Malmö (its probability), characters 39 to 44
"""

import argparse
import sys
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

from keras_bert import QuestionAnswerer, read_squad
from keras_bert.tasks import as_questions

TEXT = (
    "The night train from Berlin goes to 🇸🇪 Malmö and leaves at 22:40. Tickets cost 59 euros, and Anna Lindström, who "
    "runs the café car, serves breakfast from six."
)
ASKED = (
    "Where does the night train go?",
    "When does the train leave?",
    "What does a ticket cost?",
    "Who runs the café car?",
)
ANSWERS = ("Malmö", "22:40", "59 euros", "Anna Lindström")


def read(arguments):
    """Training and test questions: from files, or a few for a smoke test."""
    if arguments.smoke:
        questions = as_questions([(question, TEXT) for question in ASKED] * 4, list(ANSWERS) * 4)
        return questions, questions
    if arguments.train is None:
        sys.exit("--train FILE is needed: SQuAD's train-v1.1.json, or a file like it; --smoke does without.")
    train = read_squad(arguments.train)
    print(train.report)
    order = np.random.default_rng(arguments.seed).permutation(len(train))
    if arguments.test is None:
        held_out = max(1, len(train) // 10)
        train, test = ([train[place] for place in part] for part in (order[held_out:], order[:held_out]))
        return as_questions(train[: arguments.examples]), as_questions(test)
    return as_questions([train[place] for place in order[: arguments.examples]]), read_squad(arguments.test)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a file with questions, contexts and answers")
    parser.add_argument("--test", help="another one to measure on (default: a tenth of the first)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("answers"), help="where the model goes")
    parser.add_argument("--examples", type=int, help="train on so many questions at most")
    parser.add_argument("--unanswerable", action="store_true", help="some questions have no answer (SQuAD 2.0)")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a few steps on a few questions, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    train, test = read(arguments)
    answerer = QuestionAnswerer.from_pretrained(
        arguments.model, unanswerable=arguments.unanswerable, seed=arguments.seed
    )
    changes = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate, "seeds": (arguments.seed,)}
    validation = None
    if arguments.unanswerable:  # the threshold for "no answer" is found on questions that are not trained on
        held_out = max(1, len(train) // 20)
        train, validation = as_questions(train[held_out:]), as_questions(train[:held_out])
    print(answerer.fit(train, validation_data=validation, **changes))
    print(answerer.evaluate(test))
    answerer.save(arguments.output)
    for question, answer in zip(ASKED, answerer.predict([(question, TEXT) for question in ASKED]), strict=True):
        print(f"» {question}\n  {answer}, characters {answer.start} to {answer.end}")


if __name__ == "__main__":
    main()
