"""Replies: a model that answers the last turn of a dialogue and knows the turns before it.

    python examples/dialogue.py --smoke                                    # the dialogues below, a minute
    python examples/dialogue.py --data dialogues.txt --output chat/        # a dialogue a line, __eou__ between turns
    python examples/dialogue.py --talk chat/                               # talk to a trained one; an empty line ends

Every turn of the training dialogues is a target, and up to four turns before it are the source, with a [SEP] between
them; where they are too many the oldest are cut. Prints how good and how varied the replies are beside the most
frequent one, saves the model, and answers `--turns`, streaming. A small model on small data gives small talk at best.
"""

import argparse
import collections
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

from keras_bert import Seq2Seq
from keras_bert.tasks import as_generation_rows, generation_report

HISTORY = 4
DRAWN = {"sampler": "top_p", "p": 0.8, "no_repeat_ngram": 3}
MADE_UP = [
    ["Hello!", "Hello, how are you?", "I am fine, thank you.", "Glad to hear it."],
    ["Where is the station?", "It is behind the church.", "Thank you.", "You are welcome."],
    ["Do you like tea?", "Yes, I do.", "With milk?", "No, thank you."],
    ["What time is it?", "It is five o'clock.", "So late?", "Yes, we have to go."],
] * 4


def examples_of(dialogues):
    """Each turn with those before it."""
    pairs = [(turns[max(0, end - HISTORY) : end], turns[end]) for turns in dialogues for end in range(1, len(turns))]
    return as_generation_rows(pairs)


def read(path):
    """Dialogues, a line each, as lists of turns."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    dialogues = [[turn.strip() for turn in line.split("__eou__") if turn.strip()] for line in lines]
    return [turns for turns in dialogues if len(turns) > 1]


def talk(directory):
    """Answer what is typed, with what was said before."""
    writer, turns = keras_bert.load_task(directory), []
    while said := input("you: ").strip():
        turns.append(said)
        reply = ""
        print("bert: ", end="", flush=True)
        for piece in writer.stream(turns[-HISTORY:], **DRAWN):
            reply += piece
            print(piece, end="", flush=True)
        print()
        turns.append(reply or "…")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a dialogue a line, __eou__ between its turns (DailyDialog's form)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("replies"), help="where the model goes")
    parser.add_argument(
        "--turns", nargs="+", default=["Hello!", "Hello, how are you?"], help="a dialogue to go on with"
    )
    parser.add_argument("--talk", type=Path, metavar="DIRECTORY", help="talk to a trained model")
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    if arguments.talk is not None:
        return talk(arguments.talk)
    if arguments.data is None and not arguments.smoke:
        parser.error("pass --data with dialogues, or --smoke to see that it runs on four")
    keras_bert.keep_freed_memory()
    dialogues = MADE_UP if arguments.data is None else read(arguments.data)
    count = max(1, len(dialogues) // 10)  # whole dialogues are held out, so that no turn stands on both sides
    train, test = examples_of(dialogues[count:]), examples_of(dialogues[:count])
    lengths = {"sequence_length": 64, "target_length": 16} if arguments.smoke else {"sequence_length": 128}
    writer = Seq2Seq.from_pretrained(arguments.model, keeps="end", **lengths)
    changes = {"epochs": 2, "batch_size": 8} if arguments.smoke else {"epochs": arguments.epochs}
    print(writer.fit(train, validation_data=test, learning_rate=arguments.learning_rate, **changes))
    print(writer.evaluate(test, seed=0, **DRAWN))
    frequent, _ = collections.Counter(train.targets).most_common(1)[0]
    print(f"always {frequent!r}:\n{generation_report([frequent] * len(test), test.targets, lowercase=True)}")
    writer.save(arguments.output)
    print(f"» {' ⏵ '.join(arguments.turns)}\n  ", end="")
    for piece in writer.stream(arguments.turns, seed=0, **DRAWN):
        print(piece, end="", flush=True)
    print()
    return None


if __name__ == "__main__":
    main()
