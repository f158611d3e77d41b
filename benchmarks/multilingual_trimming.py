"""Trims the token table of multilingual encoders for English and Chinese, and counts what changes.

    pip install wordfreq
    python benchmarks/multilingual_trimming.py --data DIR          # 10 minutes on two cores

`DIR` has `enwiki.txt.gz`, `enwiki_heldout.txt.gz`, `zhwiki.txt.gz` and `langid/language_detection.csv`. The vocabulary
has XLM-R's 250,002 pieces: words, parts of words and characters of wordfreq's lists in 42 languages, by frequency.

The pieces to keep are chosen by English and Chinese Wikipedia: those that occur at least so many times, or all that are
spelled in the letters of both. For an encoder it is the smallest count with which it becomes four times smaller. Held
out are the sentences of `enwiki_heldout.txt.gz` and of the last tenth of the Chinese text; the other languages are
those of `langid`. Two encoders: one of multilingual MiniLM's sizes with random weights, and a small one that learns
here, from pairs of neighbouring sentences of both Wikipedias. Files are directories as `save` writes them, and
`.tflite` by `dynamic_int8` of the small one. Writes `results/multilingual_trimming.json`.
"""

import argparse
import csv
import gzip
import itertools
import json
import math
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from record import add_output, write_run

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import export  # noqa: E402
from export.compression.vocabulary import spelled_in, trim_vocabulary  # noqa: E402
from keras_bert.model.config import BertConfig  # noqa: E402
from keras_bert.model.encoder import bert_encoder  # noqa: E402
from keras_bert.tasks.similarity.pooling import embedding_model  # noqa: E402
from keras_bert.tasks.similarity.task import SentenceEmbedder  # noqa: E402
from keras_bert.text.tokenized_texts import tokenize_texts  # noqa: E402
from keras_bert.text.unigram import UnigramTokenizer  # noqa: E402
from keras_bert.text.unigram_model import SPACE, UnigramModel  # noqa: E402

SIZES = {
    "multilingual MiniLM's sizes, random": {"num_layers": 12, "hidden_dim": 384, "num_heads": 12},
    "small, trained": {"num_layers": 2, "hidden_dim": 128, "num_heads": 2},
}
PARTS = ("vocabulary", *SIZES)
TIMES_SMALLER = 4
LETTERS = "".join(map(chr, range(0x21, 0x7F))) + "–—‘’“”…·、。〈〉《》「」『』【】（），：；！？"
_IS_HAN = re.compile(r"[\u3400-\u9fff]")

# === Data ===


def make_model(pieces: int = 250_002) -> UnigramModel:
    """A vocabulary of 42 languages: the words of each, parts of these, and all characters."""
    import wordfreq

    words: dict[str, float] = defaultdict(float)
    parts: dict[str, float] = defaultdict(float)
    languages = sorted(wordfreq.available_languages("best"))
    for language in languages:
        space = "" if language in ("zh", "ja") else SPACE
        for word, share in itertools.islice(wordfreq.get_frequency_dict(language, wordlist="best").items(), 8000):
            words[space + word] += share
            words[space + word.capitalize()] += share / 8
            for begin, size in itertools.product(range(len(word)), (1, 2, 3, 4)):
                parts[word[begin : begin + size]] += share / 100
    for char in LETTERS:
        parts[char] += 1e-3
    characters = {SPACE: 1e-4, **{part: share for part, share in parts.items() if len(part) == 1}}
    others = {**parts, **words}
    best = sorted((piece for piece in others if piece not in characters), key=lambda piece: -others[piece])
    chosen = [*characters, *best[: pieces - 5 - len(characters)]]
    total = sum(others.values())
    shares = {**others, **characters}
    return UnigramModel.from_pieces([(piece, math.log(shares[piece] / total)) for piece in chosen])


def read_sentences(path: Path, most: int) -> list[str]:
    """Sentences of at least ten characters, Chinese or English."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = file.read(most).split("\n")
    parts = (part for line in lines for part in re.split(r"(?<=[.!?]) (?=[A-Z])|(?<=[。！？])", line.strip()))
    return [part for part in parts if len(part) >= 10]


def read_others(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["Language"] not in ("", "English"):
                found[row["Language"]].append(row["Text"])
    return dict(sorted(found.items()))


# === Which texts are cut as before ===


def share_same(tokenizer: UnigramTokenizer, texts: list[str], kept: np.ndarray) -> float:
    """The share of texts that consist of pieces that are kept: these are cut as before, and no others are."""
    tokenized = tokenize_texts(tokenizer, texts)
    lost = np.add.reduceat(np.append(~kept[tokenized.first_ids], False), tokenized.first_splits[:-1])
    lost[np.diff(tokenized.first_splits) == 0] = 0
    return 100 * float(np.mean(lost == 0))


def curve(
    tokenizer: UnigramTokenizer, counts: np.ndarray, alphabet: str, held_out: dict[str, list[str]]
) -> dict[str, dict[str, float]]:
    """By how the pieces are chosen: how many are kept, and the percentage of held-out sentences cut as before."""
    choices = {f"occur {least} times": counts >= least for least in (1, 3, 10, 30, 100)}
    letters = spelled_in(tokenizer.vocabulary, alphabet)
    choices["all in the letters of both"] = np.array([token in letters for token in tokenizer.vocabulary])
    choices["all in the letters of both, or occur"] = choices["all in the letters of both"] | (counts > 0)
    found = {}
    for name, kept in choices.items():
        kept = kept | (tokenizer.model.kinds != 1)
        shares = {language: share_same(tokenizer, texts, kept) for language, texts in held_out.items()}
        found[name] = {"pieces": int(kept.sum()), **shares}
    return found


# === Models ===


def make_embedder(tokenizer: UnigramTokenizer, sizes: dict[str, int]) -> SentenceEmbedder:
    config = BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        intermediate_dim=4 * sizes["hidden_dim"],
        max_sequence_length=512,
        **sizes,
    )
    return SentenceEmbedder(embedding_model(bert_encoder(config, seed=0)), tokenizer, sequence_length=64)


def neighbours(sentences: list[str]) -> list[tuple[str, str]]:
    return list(zip(sentences[::2], sentences[1::2], strict=False))


def train(embedder: SentenceEmbedder, chosen: dict[str, list[str]], count: int) -> None:
    """Learn to find the next sentence among those of the batch, in both languages."""
    pairs = [
        pair for parts in zip(*(neighbours(texts)[:count] for texts in chosen.values()), strict=True) for pair in parts
    ]
    print(embedder.fit(pairs, epochs=1, batch_size=64, learning_rate=1e-3), flush=True)


def measure(
    embedder: SentenceEmbedder, trimmed: SentenceEmbedder, held_out: dict[str, list[str]], tflite: bool
) -> dict[str, Any]:
    """Sizes before and after, and whether the vectors of held-out sentences are the same."""
    found: dict[str, Any] = {
        "parameters": [task.model.count_params() for task in (embedder, trimmed)],
        "largest difference of vectors": {},
    }
    for language, texts in held_out.items():
        ids = [tokenize_texts(task.tokenizer, texts) for task in (embedder, trimmed)]
        tokens = [
            np.array(task.tokenizer.vocabulary)[part.first_ids]
            for task, part in zip((embedder, trimmed), ids, strict=True)
        ]
        rows = [np.split(part, one.first_splits[1:-1]) for part, one in zip(tokens, ids, strict=True)]
        same = [text for text, *pair in zip(texts, *rows, strict=True) if np.array_equal(*pair)]
        gap = np.abs(embedder.predict(same) - trimmed.predict(same)).max()
        found["largest difference of vectors"][language] = {
            "sentences": len(same),
            "of": len(texts),
            "most": float(gap),
        }
    with tempfile.TemporaryDirectory() as place:
        for name, task in (("before", embedder), ("after", trimmed)):
            task.save(Path(place) / name)
        directories = [
            sum(file.stat().st_size for file in (Path(place) / name).rglob("*")) for name in ("before", "after")
        ]
        found["bytes of the directory"] = directories
        if tflite:
            files = [
                export.convert(
                    task, Path(place) / f"{name}.tflite", recipe="dynamic_int8", lengths=(64,), check=False
                ).path
                for name, task in (("before", embedder), ("after", trimmed))
            ]
            found["bytes of the .tflite"] = [file.stat().st_size for file in files]
            texts = [text for part in held_out.values() for text in part[:20]]
            answers = [np.asarray(export.load(file)(texts)) for file in files]
            found["largest difference of the .tflite files' vectors"] = float(np.abs(answers[0] - answers[1]).max())
    found["times smaller"] = {key: values[0] / values[1] for key, values in found.items() if isinstance(values, list)}
    return found


def least_count(embedder: SentenceEmbedder, counts: np.ndarray) -> int:
    """How often a piece must occur to be kept, so that the encoder becomes four times smaller."""
    width, total = embedder.config.hidden_dim, embedder.model.count_params()
    rest = total - len(counts) * width
    room = (total / TIMES_SMALLER - rest) / width - 600  # for special tokens and letters
    return next(least for least in itertools.count(1) if np.sum(counts >= least) <= room)


def count_changed(
    tokenizer: UnigramTokenizer, kept: np.ndarray, others: dict[str, list[str]]
) -> dict[str, dict[str, int]]:
    """How many texts of other languages are cut in another way."""
    return {
        language: {"texts": len(texts), "changed": round(len(texts) * (1 - share_same(tokenizer, texts, kept) / 100))}
        for language, texts in others.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; others stay")
    parser.add_argument("--characters", type=int, default=10_000_000, help="of each Wikipedia to choose by")
    parser.add_argument("--pairs", type=int, default=3000, help="of each language that the small encoder learns from")
    parser.add_argument("--sentences", type=int, default=100, help="of each language whose vectors are compared")
    add_output(parser, "multilingual_trimming")
    arguments = parser.parse_args()
    tokenizer = UnigramTokenizer(make_model())
    english, chinese = (
        read_sentences(arguments.data / f"{name}.txt.gz", arguments.characters) for name in ("enwiki", "zhwiki")
    )
    tenth = len(chinese) // 10
    chosen = {"English": english, "Chinese": chinese[:-tenth]}
    held_out = {
        "English": read_sentences(arguments.data / "enwiki_heldout.txt.gz", 3_000_000),
        "Chinese": chinese[-tenth:],
    }
    texts = [text for part in chosen.values() for text in part]
    counts = np.bincount(tokenize_texts(tokenizer, texts).first_ids, minlength=tokenizer.vocabulary_size)
    for part in arguments.parts:
        found: dict[str, Any]
        if part == "vocabulary":
            alphabet = LETTERS + "".join(sorted({char for text in chosen["Chinese"] for char in _IS_HAN.findall(text)}))
            found = {
                "pieces": tokenizer.vocabulary_size,
                "sentences to choose by": {language: len(one) for language, one in chosen.items()},
                "held-out sentences": {language: len(one) for language, one in held_out.items()},
                "kept": curve(tokenizer, counts, alphabet, held_out),
            }
        else:
            embedder = make_embedder(tokenizer, SIZES[part])
            if "trained" in part:
                train(embedder, chosen, arguments.pairs)
            least = least_count(embedder, counts)
            trimmed, report = trim_vocabulary(embedder, texts, min_count=least)
            kept = np.isin(tokenizer.vocabulary, trimmed.tokenizer.vocabulary)
            few = {language: one[:: max(1, len(one) // arguments.sentences)] for language, one in held_out.items()}
            others = read_others(arguments.data / "langid" / "language_detection.csv")
            found = {
                "pieces": [report.before, report.after],
                "least count": least,
                "% of held-out sentences cut as before": {
                    language: share_same(tokenizer, one, kept) for language, one in held_out.items()
                },
                "texts of other languages that are cut in another way": count_changed(tokenizer, kept, others),
                **measure(embedder, trimmed, few, tflite="trained" in part),
            }
            if "trained" in part:
                pairs = [pair for one in held_out.values() for pair in neighbours(one)[: arguments.sentences]]
                scores = [task.evaluate(pairs).accuracy_at_1 for task in (embedder, trimmed)]
                found["accuracy@1 of the next sentence"] = scores
        packages = ("tensorflow", "keras", "tensorflow-text")
        print(json.dumps(write_run(arguments.output, found, packages=packages, part=part), indent=1), flush=True)


if __name__ == "__main__":
    main()
