"""Relations in two steps: a tagger finds the entities of a text, a second model names the relation between each two.

    python examples/relations.py --smoke                                             # eight sentences below, a minute
    python examples/relations.py --data TRAIN_FILE.TXT --test TEST_FILE_FULL.TXT     # SemEval-2010: some 20 minutes

Trains both models on one file of marked texts (its marked entities are what the tagger learns to find), prints the
report of the relations on the test data (a tenth of the training data where none is given), saves both models, and
answers raw texts. The end of `--smoke`:

    » The keyboard of this laptop is broken, said the student.
      keyboard → laptop: Component-Whole(e1,e2) (22%)
      keyboard → student: Other (27%)
      laptop → student: Other (31%)
"""

import argparse
import itertools
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

from keras_bert import EntityTagger, MarkedText, RelationClassifier, read_relations
from keras_bert.tasks import as_relation_rows, as_tagged_rows

KIND = "ENTITY"
TEXTS = (
    "The burst has been caused by water hammer pressure.",
    "The keyboard of this laptop is broken, said the student.",
)
MADE_UP = (
    ("The <e1>engine</e1> of the old <e2>car</e2> made a noise.", "Component-Whole(e1,e2)"),
    ("This <e1>house</e1> has a blue <e2>door</e2>.", "Component-Whole(e2,e1)"),
    ("The <e1>fire</e1> was caused by a <e2>cigarette</e2>.", "Cause-Effect(e2,e1)"),
    ("Heavy <e1>rain</e1> led to a <e2>flood</e2> in town.", "Cause-Effect(e1,e2)"),
    ("The <e1>apples</e1> are in the <e2>basket</e2>.", "Content-Container(e1,e2)"),
    ("A <e1>bottle</e1> full of <e2>milk</e2> fell down.", "Content-Container(e2,e1)"),
    ("The <e1>teacher</e1> met a <e2>dog</e2> on Monday.", "Other"),
    ("A <e1>cat</e1> slept while the <e2>radio</e2> played.", "Other"),
)


def read(arguments):
    """Training and test rows."""
    if arguments.data is None:
        texts, labels = zip(*MADE_UP, strict=True)
        rows = as_relation_rows(texts, labels)
        return rows, rows
    rows = read_relations(arguments.data)
    print(rows.report)
    if arguments.test is not None:
        return rows, read_relations(arguments.test)
    order = np.random.default_rng(arguments.seed).permutation(len(rows))
    tenth = max(1, len(rows) // 10)
    return [as_relation_rows([rows[index] for index in part]) for part in (order[tenth:], order[:tenth])]


def as_entities(rows):
    """The marked entities as what a tagger learns from."""
    spans = [[(*text.first, KIND), (*text.second, KIND)] for text in rows.texts]
    return as_tagged_rows([text.text for text in rows.texts], spans)


def find_relations(text, tagger, classifier):
    """Each two entities of a text, and the relation between them."""
    entities = tagger.predict(text)
    pairs = list(itertools.combinations(entities, 2))
    marked = [MarkedText(text, (one.start, one.end), (other.start, other.end)) for one, other in pairs]
    for (one, other), labels in zip(pairs, classifier.predict(marked), strict=True):
        yield f"{one.text} → {other.text}: {labels[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="SemEval's file, or TSV or JSONL with text and label")
    parser.add_argument("--test", help="another one to measure on")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("relations"), help="where the models go")
    parser.add_argument("--text", nargs="+", default=TEXTS, help="texts to find relations in")
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    if arguments.data is None and not arguments.smoke:
        parser.error("pass --data with marked texts, or --smoke to see that it runs on eight sentences")
    keras_bert.keep_freed_memory()
    train, test = read(arguments)
    # The test data is for the report alone: nothing is chosen by it.
    changes = {"steps": 30, "batch_size": 8} if arguments.smoke else {"epochs": arguments.epochs}
    changes |= {"learning_rate": arguments.learning_rate, "seeds": (arguments.seed,), "restarts": 0}
    tagger = EntityTagger.from_pretrained(arguments.model, labels=[KIND], sequence_length=128)
    print(tagger.fit(as_entities(train), **changes))
    labels = sorted({*train.label_names, *test.label_names})
    classifier = RelationClassifier.from_pretrained(arguments.model, labels=labels, sequence_length=128)
    print(classifier.fit(train, **changes))
    print(classifier.evaluate(test))
    tagger.save(arguments.output / "entities")
    classifier.save(arguments.output / "relations")
    for text in arguments.text:
        found = list(find_relations(text, tagger, classifier))
        print(f"» {text}\n  " + ("\n  ".join(found) or "fewer than two entities found"))


if __name__ == "__main__":
    main()
