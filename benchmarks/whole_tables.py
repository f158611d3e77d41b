"""Tables of results files whose parts stand beside each other: one row or column for each part."""

from collections.abc import Sequence

from result_tables import Row, Table
from results_files import Run

LEAST, MOST = min, max


def accelerators(runs: Sequence[Run]) -> list[Table]:
    """A row for each compiled step, by chip."""
    rows = []
    for row in (row for run in runs for row in run["results"]):
        step, _, chip = row["step"].partition(", ")
        size, _, batch = step.partition(" ")
        told = {"chip": chip, "model": size, "texts × tokens": batch}
        told |= {new: row.get(old) for old, new in STEP_COLUMNS.items()}
        rows.append(told | {"commit": f"`{row['commit']}`" if "commit" in row else None})
    rows.sort(key=lambda row: (row["chip"], row["model"]))
    return [Table("", rows, decimals={"GiB": 2, "% of peak": 0, "% for attention": 0})]


STEP_COLUMNS = {
    "GiB a chip": "GiB",
    "largest batch": "largest batch",
    "ms at the peak": "ms at peak",
    "ms, estimated": "ms, estimated",
    "of the peak, %": "% of peak",
    "attention, %": "% for attention",
}


def unigram_tokenizer(runs: Sequence[Run]) -> list[Table]:
    """Speeds, then how many texts differ, the languages of a detection data set taken together."""
    speeds, differences, others = [], [], []
    for run in runs:
        found = run["results"]
        model = {"model": run["part"].removesuffix(", speed").removesuffix(", differences").partition(", ids")[0]}
        for name in (name for name in found if name.startswith("megabytes per second")):
            speeds.append({**model, "text": name.rpartition(", ")[2], **found[name]})
        for name, rows in _by_kind(found.get("ids", {})).items():
            total = {new: sum(row[old] for row in rows) for old, new in DIFFERENCES.items() if old in rows[0]}
            others.append({**model, "SentencePiece": run["versions"]["sentencepiece"], "text": name, **total})
        for name, rows in _by_kind(found.get("differences", {})).items():
            total = {new: sum(row[old] for row in rows) for old, new in DIFFERENCES.items() if old in rows[0]}
            same = all(row["the device is the same"] for row in rows)
            score = max(row["score"] for row in rows)
            differences.append(
                {**model, "text": name, **total, "device is the same": same, "largest difference of scores": score}
            )
    best = dict.fromkeys(("tf.data", "tf.data, processor time", "tokenizers", "tokenizers, processor time"), MOST)
    return [
        Table("English, MB/s", speeds, best),
        Table("Texts that are split differently", differences),
        Table("Texts with other ids than in an older SentencePiece", others),
    ]


def _by_kind(found: dict[str, Row]) -> dict[str, list[Row]]:
    kinds: dict[str, list[Row]] = {}
    for name, row in found.items():
        kinds.setdefault("17 languages" if name.endswith("(langid)") else name, []).append(row)
    return kinds


DIFFERENCES = {
    "texts": "texts",
    "differ from sentencepiece": "ours ≠ SentencePiece",
    "same ids, other offsets": "same ids, other places",
    "differ from tokenizers": "ours ≠ `tokenizers`",
    "sentencepiece differs from tokenizers": "SentencePiece ≠ `tokenizers`",
}


def multilingual_trimming(runs: Sequence[Run]) -> list[Table]:
    """What each bound keeps; models before and after; other languages, which are not kept."""
    bounds, sizes, cuts = [], [], []
    languages: dict[str, Row] = {}
    for run in runs:
        found, model = run["results"], TRIMMED.get(run["part"], run["part"])
        for name, row in found.get("kept", {}).items():
            shares = {f"{key} sentences split as before, %": value for key, value in row.items() if key != "pieces"}
            name = name.replace("occur 1 times", "that occur").replace("occur ", "that occur at least ")
            bounds.append({"kept pieces": name, "pieces": row["pieces"], **shares})
        for name, unit in (
            ("pieces", 1),
            ("parameters", 1),
            ("bytes of the directory", 1e6),
            ("bytes of the .tflite", 1e6),
        ):
            if isinstance(found.get(name), list):
                before, after = (value / unit if unit > 1 else value for value in found[name])
                shown = name.replace("bytes of", "MB of")
                sizes.append(
                    {"model": model, "": shown, "before": before, "after": after, "times smaller": before / after}
                )
        for name, share in found.get("% of held-out sentences split as before", {}).items():
            vectors = found["largest difference of vectors"][name]
            cuts.append(
                {
                    "model": model,
                    "language": name,
                    "held-out sentences split as before, %": share,
                    "compared vectors": vectors["sentences"],
                    "their largest difference": vectors["most"],
                }
            )
        for name, row in found.get("texts of other languages that are cut in another way", {}).items():
            language = {"Portugeese": "Portuguese", "Sweedish": "Swedish"}.get(name, name)  # the data set's spelling
            languages.setdefault(name, {"language": language, "texts": row["texts"]})[model] = row["changed"]
    return [
        Table("Which pieces to keep", bounds, decimals={name: 1 for name in bounds[0] if name.endswith("%")}),
        Table("Two models, trimmed for English and Chinese", sizes, decimals={"times smaller": 1}),
        Table("Their sentences", cuts, decimals={"held-out sentences split as before, %": 1}),
        Table("Texts of other languages that are split differently", list(languages.values())),
    ]


def small_vectors(runs: Sequence[Run]) -> list[Table]:
    """Correlations by dimensions, with what was done in the columns; then searches."""
    scores: dict[str, Row] = {}
    recalls: dict[str, Row] = {}
    for run in runs:
        found, part = run["results"], run["part"]
        for kind, suffix in (("spearman by dimensions", ""), ("spearman of int8", ", in bytes")):
            for size, value in found.get(kind, {}).items():
                scores.setdefault(size, {"dimensions": int(size)})[SMALL_VECTORS.get(part, part) + suffix] = value
        if "recall@10" in found:
            where = f"{found.get('sentences', found.get('collection')):,} sentences"
            recalls.setdefault("float32", {"vectors": "float32"})[f"{where}, recall@10, %"] = 100
            for columns, unit in (
                ("recall@10", "recall@10, %"),
                ("milliseconds of processor time for a query", "ms a query"),
            ):
                for name, value in found.get(columns, {}).items():
                    recalls.setdefault(name, {"vectors": name})[f"{where}, {unit}"] = value
            for name, value in found["bytes"].items():
                recalls.setdefault(name, {"vectors": name})[f"{where}, MB"] = value / 1e6
    times = {name: LEAST for row in recalls.values() for name in row if name.endswith("query")}
    places = {name: 1 for row in recalls.values() for name in row if name.endswith("%")}
    return [
        Table("Spearman's correlation × 100", list(scores.values())),
        Table("Search", list(recalls.values()), times, places),
    ]


TRIMMED = {
    "vocabulary": "the vocabulary",
    "multilingual MiniLM's sizes, random": "as large as multilingual MiniLM, random weights",
    "small, trained": "small, trained",
}
SMALL_VECTORS = {"as it is": "without training", "trained": "trained", "matryoshka": "trained with matryoshka"}
