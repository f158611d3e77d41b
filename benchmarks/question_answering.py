"""MiniLM on SQuAD 1.1: exact match and F1 on the dev set after training on some of the training set.

    python benchmarks/question_answering.py --data DIR --examples 50000 --epochs 1 --learning-rate 1e-4  # some 90 min
    python benchmarks/question_answering.py --data DIR --examples 2000 --dev-examples 1000               # a first look

DIR holds `train-v1.1.json` and `dev-v1.1.json`. The examples are drawn by the seed; nothing is chosen on the dev set:
the last weights count. Prints a line of JSON for each seed; `--predictions` writes the answers as the official script
reads them (`evaluate-v1.1.py dev-v1.1.json predictions.json`).
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from record import add_output, write_run

import keras_bert
from keras_bert.tasks.question_answering.files import as_questions, read_squad
from keras_bert.tasks.question_answering.metrics import answer_report
from keras_bert.tasks.question_answering.task import QuestionAnswerer


def draw(questions, count, seed):
    """Some of the questions; all of them where there are no more."""
    if count is None or count >= len(questions):
        return questions
    return as_questions([questions[place] for place in np.random.default_rng(seed).permutation(len(questions))[:count]])


def run(arguments, seed):
    """One training and its numbers."""
    train = draw(read_squad(arguments.data / "train-v1.1.json"), arguments.examples, seed)
    dev = draw(read_squad(arguments.data / "dev-v1.1.json"), arguments.dev_examples, 0)
    answerer = QuestionAnswerer.from_pretrained(arguments.model, sequence_length=arguments.length, seed=seed)
    start = time.perf_counter()
    report = answerer.fit(
        train,
        epochs=arguments.epochs,
        learning_rate=arguments.learning_rate,
        batch_size=arguments.batch_size,
        seeds=(seed,),
        verbose=arguments.verbose,
    )
    trained = time.perf_counter()
    answers = answerer.predict([(question.question, question.context) for question in dev])
    answered = time.perf_counter()
    scores = answer_report([answer.text for answer in answers], [question.texts for question in dev])
    if arguments.predictions:
        texts = {question.id: answer.text for question, answer in zip(dev, answers, strict=True)}
        arguments.predictions.write_text(json.dumps(texts, ensure_ascii=False) + "\n", encoding="utf-8")
    return {
        "model": arguments.model,
        "examples": len(train),
        "epochs": arguments.epochs,
        "learning_rate": arguments.learning_rate,
        "batch_size": arguments.batch_size,
        "length": arguments.length,
        "seed": seed,
        "steps": report.best.steps,
        "dev": len(dev),
        "exact_match": round(100 * scores.exact_match, 2),
        "f1": round(100 * scores.f1, 2),
        "training_seconds": round(trained - start),
        "examples_per_second": round(len(train) * arguments.epochs / (trained - start), 1),
        "answers_per_second": round(len(dev) / (answered - trained), 1),
        "notes": report.notes,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory of the SQuAD files")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--examples", type=int, help="training examples (default: all 87,599)")
    parser.add_argument("--dev-examples", type=int, help="of the dev set (default: all 10,570)")
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=384, help="tokens of a window")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--predictions", type=Path, help="write the answers of the last seed here")
    add_output(parser, "question_answering")
    parser.add_argument("--verbose", type=int, default=0)
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    found = []
    for seed in arguments.seeds:
        found.append(run(arguments, seed))
        print(json.dumps(found[-1], ensure_ascii=False), flush=True)
        keras.backend.clear_session()
    names = {"F1": "f1", "exact match": "exact_match", "examples/s": "examples_per_second"}
    row = {"data": "SQuAD 1.1 dev", "questions": found[0]["dev"]}
    row |= {name: [one[key] for one in found] for name, key in names.items()}
    row["minutes"] = [one["training_seconds"] / 60 for one in found]
    settings = {key: found[0][key] for key in ("examples", "epochs", "learning_rate", "batch_size", "length")}
    facts = {"seeds": arguments.seeds, "settings": settings}
    write_run(arguments.output, [row], packages=("tensorflow", "keras"), **facts)


if __name__ == "__main__":
    main()
