"""Draws the pictures of the guides with `keras_bert.visualize`, from the real MiniLM.

    python docs/pictures.py                # two minutes on a core; writes docs/pictures/*.png
    python docs/pictures.py --only masks   # seconds

Takes nothing, gives PNG files, which are committed: building the site needs neither TensorFlow nor weights. The
classifier whose answer is explained is trained here on the bundled commands to an assistant, its encoder frozen.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras_bert
from keras_bert import visualize

PICTURES = Path(__file__).parent / "pictures"
MODEL = "all-MiniLM-L6-v2"
PAIR = ("A cat sat.", "It purred.")
SENTENCE = "The bank by the river flooded the bank in town."
COMMAND = "could you wake me at half past six tomorrow"


def draw_inputs_and_attention():
    """What enters the encoder, one head that is worth a look, and all heads."""
    encoder, tokenizer = keras_bert.load_encoder(MODEL)
    visualize.embedding_inputs(encoder, PAIR, tokenizer=tokenizer).save(PICTURES / "embedding_inputs.png")
    visualize.attention(encoder, SENTENCE, layer=2, head=9, tokenizer=tokenizer).save(PICTURES / "attention_head.png")
    visualize.attention(encoder, SENTENCE, tokenizer=tokenizer).save(PICTURES / "attention_heads.png")


def draw_masks():
    """Who sees whom: padding, packed rows, a prefix language model."""
    _, tokenizer = keras_bert.load_encoder(MODEL)
    visualize.padding_mask(tokenizer, PAIR[0], sequence_length=10).save(PICTURES / "padding_mask.png")
    visualize.packed_mask(tokenizer, PAIR, sequence_length=14).save(PICTURES / "packed_mask.png")
    visualize.prefix_mask(tokenizer, *PAIR).save(PICTURES / "prefix_mask.png")


def draw_attributions():
    """Which words made a classifier's answer."""
    commands = keras_bert.load_assistant("train")
    texts, intents = [command.text for command in commands], [command.intent for command in commands]
    classifier = keras_bert.TextClassifier.from_pretrained(MODEL, labels=sorted(set(intents)), sequence_length=32)
    print(classifier.fit(texts, intents, recipe="frozen", epochs=4, verbose=2))
    print(classifier.predict(COMMAND)[:3])
    visualize.attributions(classifier, COMMAND, label="set_alarm").save(PICTURES / "attributions.png")


DRAWN = {"inputs": draw_inputs_and_attention, "masks": draw_masks, "attributions": draw_attributions}


def main():
    """Draw everything, or a part."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=tuple(DRAWN), help="draw this part alone")
    arguments = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        if arguments.only in (None, name):
            draw()
            print(f"drawn: {name}")


if __name__ == "__main__":
    main()
