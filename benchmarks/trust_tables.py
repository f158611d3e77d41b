"""Tables of what long and hostile use does, with the names of jobs, formats and measurements as readers know them."""

from result_tables import Row, Table
from results_files import Run


def counted(run: Run) -> list[Table]:
    """Counts by job or format, without the commits of each."""
    part = {"fault": FAULTS.get(run["part"], run["part"])} if "part" in run else {}
    rows: list[Row] = [{name: value for name, value in row.items() if name != "commits"} for row in run["results"]]
    for kind, words in (("job", JOBS), ("format", FORMATS)):
        for row in (row for row in rows if kind in row):
            row[kind] = words.get(row[kind], plain(row[kind]))
    if "format" in rows[0]:
        rows.sort(key=lambda row: row["format"].lower().lstrip("."))
    return [Table("", [{**part, **row} for row in rows])]


def plain(name: str) -> str:
    """A name that has no words of its own."""
    for before, file in (("tflite_", ".tflite, "), ("task_", "keras_bert_task.json, ")):
        if name.startswith(before):
            return file + name.removeprefix(before).replace("_", " ")
    return name.replace("_", " ")


FAULTS = {
    "kill": "killed",
    "term": "asked to stop",
    "full-disk": "disk full",
    "two-processes": "started twice",
    "clock": "clock set back",
    "read-only": "directory read-only",
}
JOBS = {
    "corpus": "pretraining examples",
    "pretrain_teacher": "pretrain with a teacher",
    "train_quantized": "quantization-aware training",
    "save_over": "save over an older model",
    "save_serving": "SavedModel",
}
FORMATS = {
    "safetensors": "model.safetensors",
    "safetensors_index": "index of safetensors shards",
    "config": "config.json",
    "tf1_index": "TF1 checkpoint, index",
    "tf1_data": "TF1 checkpoint, data",
    "tf1_config": "bert_config.json",
    "keras_hub_weights": "keras-hub, weights",
    "keras_hub_config": "keras-hub, config",
    "keras_hub_tokenizer": "keras-hub, tokenizer",
    "keras_archive": "Keras archive (.keras)",
    "sentence_modules": "sentence-transformers, modules",
    "sentence_pooling": "sentence-transformers, pooling",
    "tokenizer_json": "tokenizer.json",
    "tokenizer_config": "tokenizer_config.json",
    "vocab": "vocab.txt",
    "sentencepiece": "sentencepiece.bpe.model",
    "sentencepiece_map": "SentencePiece, character map",
    "unigram_json": "tokenizer.json, Unigram",
    "task": "keras_bert_task.json",
    "labels": "labels.txt",
    "ranges": "quantization.safetensors",
    "tflite": ".tflite, graph",
    "tflite_quantized": ".tflite, quantized graph",
    "tflite_writer": ".tflite, graph of a writer",
    "tflite_metadata": ".tflite, metadata",
    "request": "request to the server",
    "shard": "shard of pretraining examples",
    "manifest": "manifest of pretraining examples",
    "corpus_jsonl": "corpus, JSON lines",
    "corpus_gz": "corpus, gzip",
    "vocabulary_text": "text for a vocabulary",
    "table": "labelled texts, TSV",
    "csv": "labelled texts, CSV",
    "rows_jsonl": "labelled texts, JSON lines",
    "rows_json": "labelled texts, JSON",
    "rows_gz": "labelled texts, gzip",
    "glue": "GLUE",
    "jsonl": "pairs to write from, JSON lines",
    "parallel": "pairs to write from, two files",
    "sentences": "pairs of sentences",
    "conll": "entities, CoNLL",
    "tagged_jsonl": "entities, JSON lines",
    "squad": "SQuAD",
    "squad_jsonl": "questions, JSON lines",
    "commands": "commands, JSON lines",
    "commands_folder": "commands, SNIPS' three files",
    "relations": "relations, SemEval",
    "tacred": "relations, TACRED",
    "aspects": "aspects, SemEval's XML",
    "corpus": "corpus, text",
    "choices": "multiple choice, CSV",
}


def endurance(run: Run) -> list[Table]:
    """Memory and time of a process, in one row."""
    found = {ENDURANCE.get(name, name.replace("_", " ")): value for name, value in run["results"].items()}
    order = [name for name in ENDURANCE.values() if name in found]
    return [Table("", [{"work": run["part"], **{name: found[name] for name in order}, **found}])]


ENDURANCE = {
    "rounds": "rounds",
    "wall_seconds": "seconds in all",
    "seconds_of_a_round": "seconds of a round",
    "slowdown": "last rounds / first rounds",
    "megabytes_at_first": "memory at first, MB",
    "megabytes_after_warm_up": "after the warm-up, MB",
    "megabytes_at_last": "at the end, MB",
    "megabytes_per_1000_rounds": "growth in 1,000 rounds, MB",
}


def serving_soak(run: Run) -> list[Table]:
    """What a server did under a long load, each value in a row."""
    found = {**run["results"], **{f"end, {name}": value for name, value in run["results"].get("end", {}).items()}}
    names = dict.fromkeys([*SOAK, *(name for name, value in found.items() if not isinstance(value, dict | list))])
    return [
        Table(
            "", [{"": SOAK.get(name, name.replace("_", " ")), "value": found[name]} for name in names if name in found]
        )
    ]


SOAK = {
    "minutes": "minutes",
    "clients": "clients",
    "requests_per_second": "requests/s",
    "p50_ms": "p50, ms",
    "p95_ms": "p95, ms",
    "p99_ms": "p99, ms",
    "answers": "answers",
    "wrong": "wrong answers",
    "lost": "lost requests",
    "versions": "changes of the model",
    "garbage_taken_for_good": "broken requests that were answered",
    "early_peak_mb": "highest memory in the second quarter, MB",
    "late_peak_mb": "highest memory in the last quarter, MB",
    "early_mb": "own memory in the second quarter, MB",
    "late_mb": "own memory in the last quarter, MB",
    "end, rss_mb": "memory at the end, MB",
    "end, own_mb": "of it the server's own, MB",
    "threads": "threads at the end",
    "descriptors": "open files at the end",
}
