"""Zero-shot: sort texts by labels that no model was trained on.

    python examples/zero_shot.py                                                   # 2 cores: seconds
    python examples/zero_shot.py --labels weather,music,alarm --text "wake me at six" "will it rain tomorrow?"
    python examples/zero_shot.py --model my-mnli-classifier/                       # by entailment instead of similarity
    python examples/zero_shot.py --labels Sport,Politik --template "In diesem Text geht es um {}." --model german/

A model that was fine-tuned on pairs with an entailment class (MNLI, RTE) is asked whether a text says what the template
makes of a label; any other model, how near the two are. On the bundled commands to an assistant it also measures how
often the intent is right without a single training example. It prints

    » The striker scored twice in the second half.
      sport (63%), politics (20%), music (17%)
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

from keras_bert import ZeroShotClassifier
from keras_bert.tasks import TEMPLATE

TEXTS = (
    "The striker scored twice in the second half.",
    "Parliament voted for the budget after a long night.",
    "The new album has twelve songs and one of them is a waltz.",
)
LABELS = "sport,politics,music"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", default=TEXTS, help="texts to sort")
    parser.add_argument("--labels", default=LABELS, help="labels to choose from, commas between them")
    parser.add_argument("--template", default=TEMPLATE, help="what is made of a label (default: %(default)s)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--method", choices=("auto", "entailment", "similarity"), default="auto")
    parser.add_argument("--multi-label", action="store_true", help="several labels may hold for a text")
    parser.add_argument("--output", type=Path, help="save the classifier here")
    parser.add_argument("--smoke", action="store_true", help="measure on a few commands only")
    arguments = parser.parse_args()
    labels = [label.strip() for label in arguments.labels.split(",")]
    classifier = ZeroShotClassifier.from_pretrained(
        arguments.model, method=arguments.method, labels=labels, template=arguments.template
    )
    for text, answer in zip(
        arguments.text, classifier.predict(arguments.text, multi_label=arguments.multi_label), strict=True
    ):
        print(f"» {text}\n  {', '.join(map(str, answer))}")
    commands = keras_bert.load_assistant("test")[: 40 if arguments.smoke else None]
    intents = sorted({command.intent for command in commands})
    words = {intent: intent.replace("_", " ") for intent in intents}
    report = classifier.evaluate(
        [command.text for command in commands],
        [command.intent for command in commands],
        labels=words,
        template="a command to {}" if classifier.method == "similarity" else None,
    )
    print(
        f"intents of {report.count} commands, never trained on: accuracy {report.accuracy:.2f}, {len(intents)} intents"
    )
    if arguments.output is not None:
        classifier.save(arguments.output)


if __name__ == "__main__":
    main()
