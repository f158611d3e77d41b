"""Translation: a small model from scratch, with a vocabulary that it learns from the pairs themselves.

    python examples/translation.py --smoke                                      # the sentences below, a minute
    python examples/translation.py --source train.en --target train.de         # Multi30k: some 2 hours on 2 cores
    python examples/translation.py --data cmn.txt --columns 0 1 --steps 8000   # a table, by the numbers of its columns

Learns one vocabulary for both languages, trains a prefix language model on the pairs (a tenth of them, at most 1,000,
is held out to measure on), prints BLEU beside that of copying the source, saves the model and translates with beams.
With `--model` it begins with pretrained weights and their vocabulary instead. Of the end of `--smoke`:

    » a dog runs
      ein hund läuft
"""

import argparse
import tempfile
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

from keras_bert import BertConfig, BertTokenizer, Seq2Seq
from keras_bert.tasks import as_generation_rows, bleu_score

SUBJECTS = {"a dog": "ein hund", "a cat": "eine katze", "the man": "der mann", "the woman": "die frau"}
VERBS = {"runs": "läuft", "sleeps": "schläft", "laughs": "lacht", "sings": "singt"}
MADE_UP = [(f"{a} {b}", f"{c} {d}") for a, c in SUBJECTS.items() for b, d in VERBS.items()]


def read(arguments):
    """All pairs."""
    if arguments.source is not None:
        return keras_bert.read_parallel(arguments.source, arguments.target)
    if arguments.data is not None:
        source, target = arguments.columns
        return keras_bert.read_generation(arguments.data, source=source, target=target)
    return as_generation_rows(MADE_UP)


def make_translator(arguments, train):
    """An untrained translator, with a vocabulary for both languages."""
    lengths = {"sequence_length": 128, "target_length": 64}
    if arguments.model is not None:
        return Seq2Seq.from_pretrained(arguments.model, **lengths)
    with tempfile.TemporaryDirectory() as place:
        texts = Path(place) / "texts.txt"
        texts.write_text("".join(f"{row.source}\n{row.target}\n" for row in train), encoding="utf-8")
        options = {"lowercase": False, "limit_alphabet": 4000, "min_frequency": 1 if arguments.smoke else 2}
        vocabulary = keras_bert.learn_vocabulary(texts, arguments.vocabulary, progress=False, **options)
    sizes = {"num_layers": 4, "num_heads": 4, "hidden_dim": 256, "intermediate_dim": 1024, "max_sequence_length": 128}
    if arguments.smoke:
        sizes |= {"num_layers": 2, "hidden_dim": 64, "intermediate_dim": 128}
    config = BertConfig(vocabulary_size=len(vocabulary), initializer_range=0.05, **sizes)
    return Seq2Seq.from_scratch(config, BertTokenizer(vocabulary, lowercase=False), **lengths)


def column(name):
    return int(name) if name.isdigit() else name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", help="a text a line, in the language to translate from; also .gz")
    parser.add_argument("--target", help="the same lines in the other language")
    parser.add_argument("--data", help="or one table or JSONL with both")
    parser.add_argument("--columns", nargs=2, type=column, default=("source", "target"), help="its columns")
    parser.add_argument("--model", help="pretrained weights to begin with")
    parser.add_argument("--vocabulary", type=int, default=8000, help="tokens to learn")
    parser.add_argument("--steps", type=int, default=9000)
    parser.add_argument("--text", nargs="+", default=["a dog runs", "the woman sings"], help="texts to translate")
    parser.add_argument("--output", type=Path, default=Path("translator"), help="where the model goes")
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    if arguments.source is None and arguments.data is None and not arguments.smoke:
        parser.error("pass --source and --target, or --data, or --smoke to see that it runs on 16 sentences")
    keras_bert.keep_freed_memory()
    rows = read(arguments)
    print(rows.report)
    order = np.random.default_rng(0).permutation(len(rows))
    count = min(1000, max(1, len(rows) // 10))
    train, test = (as_generation_rows([rows[int(i)] for i in part]) for part in (order[count:], order[:count]))
    translator = make_translator(arguments, train)
    batch, steps, rate = (8, 100, 3e-3) if arguments.smoke else (64, arguments.steps, 7e-4)
    changes = {"learning_rate": rate, "batch_size": batch, "epochs": steps / -(-len(train) // batch)}
    print(translator.fit(train, validation_data=test, evaluations=4, patience=None, label_smoothing=0.1, **changes))
    print(translator.evaluate(test, sampler="beam"))
    print(f"copying the source: BLEU {bleu_score(test.sources, test.targets):.2f}")
    translator.save(arguments.output)
    for text in arguments.text:
        print(f"» {text}\n  {translator.generate(text, sampler='beam')}")


if __name__ == "__main__":
    main()
