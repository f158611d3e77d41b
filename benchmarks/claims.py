"""The rows of the summary: what is claimed, from which results file, and the tables of the marked blocks made of them.

A claim takes the numbers of all contenders from one run. What begins with `ours` is ours; of several, and of several
peers, the best counts. `render.py` puts the tables where `<!-- results:readme -->`, `<!-- results:summary -->` and the
other names of `BLOCKS` stand.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from page_tables import demo, runtime
from result_tables import Mean, Table, best_number, is_repetitions, is_summary, show, show_repetitions
from results_files import Run, part

Results = Mapping[str, list[Run]]


@dataclass(frozen=True)
class Claim:
    """One comparison.

    Args:
        text: What is compared, with its unit.
        file: The results file.
        values: The number of each contender, from the run.
        part: Which run of the file.
        more: Whether more is better.
        decimals: Of the numbers as they are shown.
        readme: What the README calls it; `None` where it does not stand there.
    """

    text: str
    file: str
    values: Callable[[Run], dict[str, Any]]
    part: str | None = None
    more: bool = True
    decimals: int | None = None
    readme: str | None = None

    def run(self, results: Results) -> Run:
        """The run that the claim is about."""
        return part(results[self.file], self.part)

    def numbers(self, results: Results) -> dict[str, Any]:
        """What every contender has."""
        try:
            return self.values(self.run(results))
        except (KeyError, TypeError, StopIteration) as error:
            raise ValueError(f"{self.file}.json has no numbers for {self.text!r}: {error!r}; see claims.py.") from error

    def best(self, results: Results, *, ours: bool) -> tuple[str, float]:
        """The name and the number of the best of ours, or of the others."""
        pick = max if self.more else min
        found = {name: best_number(value, pick) for name, value in self.numbers(results).items() if value is not None}
        found = {name: value for name, value in found.items() if name.startswith("ours") == ours}
        if not found:
            who = "ours" if ours else "a peer"
            raise ValueError(f"{self.file}.json has no number of {who} for {self.text!r}: measure both in one run.")
        name = pick(found, key=found.__getitem__)
        return name, found[name]

    def ratio(self, results: Results) -> float:
        """How many times as good ours is."""
        (_, ours), (_, theirs) = (self.best(results, ours=which) for which in (True, False))
        return ours / theirs if self.more else theirs / ours

    def is_tie(self, results: Results) -> bool:
        """Whether repetitions of both differ by less than their deviations together."""
        numbers = self.numbers(results)
        both = [numbers[self.best(results, ours=which)[0]] for which in (True, False)]
        if not all(isinstance(value, Mean) and len(value) > 1 for value in both):
            return False
        return abs(float(np.mean(both[0]) - np.mean(both[1]))) <= sum(float(np.std(value, ddof=1)) for value in both)

    def shown(self, results: Results, *, ours: bool) -> str:
        """The number of the best, with its spread where it is a mean, and a warning where that is large."""
        value = self.numbers(results)[self.best(results, ours=ours)[0]]
        if is_repetitions(value):
            return show_repetitions(
                value, None if isinstance(value, Mean) else max if self.more else min, self.decimals
            )
        return show(value, self.decimals)

    def count(self, results: Results) -> int:
        """How many runs our number comes from."""
        value = self.numbers(results)[self.best(results, ours=True)[0]]
        if is_summary(value):
            return int(value["runs"])
        return len(value) if is_repetitions(value) else 1


def column(name: str, *, first: str = "contender", table: str | None = None) -> Callable[[Run], dict[str, Any]]:
    """A column of the run's rows, by contender."""

    def values(run: Run) -> dict[str, Any]:
        rows = run["results"] if table is None else run["results"][table]
        return {row[first]: row.get(name) for row in rows}

    return values


def row(table: str | None, **wanted: Any) -> Callable[[Run], dict[str, Any]]:
    """The one row that has these values: its columns are the contenders."""

    def values(run: Run) -> dict[str, Any]:
        rows = run["results"] if table is None else run["results"][table]
        found = next(one for one in rows if wanted.items() <= one.items())
        return {name: value for name, value in found.items() if name not in wanted}

    return values


def best_step(run: Run) -> dict[str, Any]:
    """The faster of graph and XLA, of each."""
    rows = run["results"]["Training step, s"]
    kinds = ("graph", "XLA")
    return {row["contender"]: min(best_number(row[kind], min) for kind in kinds if kind in row) for row in rows}


def means(name: str) -> Callable[[Run], dict[str, Any]]:
    """The mean over the seeds, of each contender."""

    def values(run: Run) -> dict[str, Any]:
        found = column(name)(run)
        return {who: Mean(value) if is_repetitions(value) else value for who, value in found.items()}

    return values


def saved_models(run: Run) -> dict[str, Any]:
    rows = run["results"]
    return {"ours": rows["unpadded"]["cpu_s_per_1000"], "ONNX Runtime": rows["ort"]["cpu_s_per_1000"]}


def runtimes(run: Run) -> dict[str, Any]:
    """Milliseconds of the runtimes on one thread, at the texts' own lengths."""
    return {runtime(row["name"]): row["dev_ms"] for row in run["results"] if row["threads"] == 1}


def servers(run: Run) -> dict[str, Any]:
    names = {"all_int4": "ours, all_int4", "dynamic_int8": "ours, dynamic_int8"}
    names |= {"ort_int8": "ONNX Runtime, int8", "ort_int8_fused": "ONNX Runtime, int8, fused"}
    return {names[name]: row["cpu_s_per_1000_in_32s"] for name, row in run["results"].items() if name in names}


def peers_of(text: str, file: str, name: str | None = "speed") -> Claim:
    """The speed of a fine-tuning beside transformers."""
    return Claim(f"fine-tuning, {text}, examples/s", file, column("examples/s"), name, decimals=1)


CLAIMS = (
    Claim("tokenizing English, MB/s", "tokenizer", column("MB/s"), readme="Tokenizing English, MB/s"),
    Claim("text to pretraining examples, one core, MB/s", "corpus", column("MB/s"), "speed"),
    Claim("forward pass, batch 1 × 128 tokens, ms", "encoder", row("Forward, ms", batch=1), more=False),
    Claim("forward pass, batch 8 × 128 tokens, ms", "encoder", row("Forward, ms", batch=8), more=False),
    Claim("training step, 16 × 128 tokens, s", "encoder", best_step, more=False, decimals=2),
    Claim("pretraining, full rows, tokens/s", "pretraining", row(None, rows="full"), "speed"),
    Claim(
        "pretraining, short texts, tokens/s",
        "pretraining",
        row(None, rows="short"),
        "speed",
        readme="Pretraining on short texts, tokens/s",
    ),
    Claim(
        "fine-tuning, SST-2, examples/s",
        "finetuning",
        column("examples/s"),
        decimals=1,
        readme="Fine-tuning on SST-2, texts/s",
    ),
    peers_of("entities (WNUT-17)", "tagging", "wnut17, speed"),
    peers_of("entities (résumés)", "tagging", "ner_zh_resume, speed"),
    peers_of("aspects (restaurants)", "aspect"),
    peers_of("intents and slots (SNIPS)", "intent_slots"),
    peers_of("relations (SemEval-2010)", "relation"),
    peers_of("questions (SQuAD)", "question_answering_peers"),
    Claim("entities, WNUT-17, F1", "tagging", means("F1, best legal sequence"), "wnut17", decimals=1),
    Claim("relations, SemEval-2010, macro F1", "relation", means("macro F1"), decimals=1),
    Claim("aspects, restaurants, accuracy, %", "aspect", means("accuracy"), decimals=1),
    Claim("intents and slots, SNIPS, whole sentences, %", "intent_slots", means("whole sentences"), decimals=1),
    Claim("distillation, an epoch, s", "distillation", column("s an epoch"), "speed", more=False, decimals=1),
    Claim(
        "a text of SST-2 at its own length, one thread, ms",
        "inference_wall",
        column("own length, ms"),
        "1 thread",
        more=False,
        decimals=2,
    ),
    Claim(
        "a text of SST-2 at its own length, one thread, processor ms",
        "inference",
        runtimes,
        more=False,
        decimals=2,
        readme="Classifying a text on one CPU thread, ms",
    ),
    Claim("128 tokens, one thread, ms", "inference_wall", column("128 tokens, ms"), "1 thread", more=False, decimals=2),
    Claim(
        "SavedModel, processor s for 1,000 texts",
        "saved_model",
        saved_models,
        more=False,
        decimals=2,
        readme="SavedModel, processor seconds for 1,000 texts",
    ),
    Claim("server, processor s for 1,000 texts", "serving", servers, more=False, decimals=2),
)


# === Tables ===


def summary(results: Results) -> str:
    """Every claim, with its ratio, its script, its commit and its runs."""
    rows = []
    for claim in CLAIMS:
        run = claim.run(results)
        peer, _ = claim.best(results, ours=False)
        script = run["command"].split()[1].removeprefix("benchmarks/")
        rows.append(
            {
                "claim": claim.text,
                "ours": claim.shown(results, ours=True),
                "best peer": claim.shown(results, ours=False),
                "which": peer,
                "ratio": f"{claim.ratio(results):.2f}{' ≈' * claim.is_tie(results)}",
                "command": f"[`{script}`](results/{claim.file}.md)",
                "commit": f"`{run['commit'][:8]}`",
                "runs": claim.count(results),
            }
        )
    return Table("", rows).markdown()


def readme(results: Results, words: Mapping[str, str] | None = None) -> str:
    """The rows of the README, one number a cell; `words` are those of another language."""
    words = words or {}
    rows = []
    for claim in CLAIMS:
        if claim.readme is not None:
            (_, ours), (peer, theirs) = (claim.best(results, ours=which) for which in (True, False))
            decimals = 1 if ours < 1000 else 0
            numbers = (f"**{show(ours, decimals)}**", show(theirs, decimals), peer.split(",")[0].split(" + ")[0])
            heads = (words.get(head, head) for head in ("ours", "best other", "which"))
            rows.append({"": words.get(claim.readme, claim.readme), **dict(zip(heads, numbers, strict=True))})
    return Table("", rows).markdown()


CHINESE = {
    "ours": "本库",
    "best other": "其他最佳",
    "which": "对比对象",
    "Tokenizing English, MB/s": "英文分词，MB/秒",
    "Pretraining on short texts, tokens/s": "短文本预训练，词元/秒",
    "Fine-tuning on SST-2, texts/s": "在 SST-2 上微调，文本/秒",
    "Classifying a text on one CPU thread, ms": "单个 CPU 线程分类一条文本，毫秒",
    "SavedModel, processor seconds for 1,000 texts": "SavedModel 处理 1,000 条文本，CPU 秒",
}


def readme_chinese(results: Results) -> str:
    """The rows of the README in Chinese."""
    return readme(results, CHINESE)


def demo_chinese(results: Results) -> str:
    """The table of the demo in Chinese."""
    (table,) = demo(part(results["demo"], None))
    words = {"file": "文件", "accuracy, %": "准确率，%", "ms": "毫秒"}
    rows = [{words.get(name, name): value for name, value in row.items()} for row in table.rows]
    for row in rows:
        row["文件"] = row["文件"].replace(", chosen", "（选中）")
    return Table(
        "", rows, decimals={words.get(name, name): places for name, places in table.decimals.items()}
    ).markdown()


def beside_keras_hub(results: Results) -> str:
    """What keras-hub was measured at, beside ours."""
    rows = []
    for claim in CLAIMS:
        numbers = claim.numbers(results)
        theirs = [value for name, value in numbers.items() if name.startswith("keras-hub") and value is not None]
        if theirs:
            pick = max if claim.more else min
            ours = claim.best(results, ours=True)[1]
            best = pick(best_number(value, pick) for value in theirs)
            rows.append({"": claim.text, "here": show(ours, claim.decimals), "keras-hub": show(best, claim.decimals)})
    return Table("", rows).markdown()


def student(results: Results) -> str:
    """The teacher and the smallest student."""
    rows = part(results["teacher_to_student"], None)["results"]
    chosen = [row for row in rows if row["file"] != "student dynamic_int8"]
    table = [
        {
            "file": row["file"],
            "accuracy, %": show(row["accuracy, %"], 1),
            "MB": show(row["MB"], 1),
            "ms": show(row["ms"], 1),
        }
        for row in chosen
    ]
    return Table("", table).markdown()


BLOCKS: dict[str, Callable[[Results], str]] = {
    "readme": readme,
    "readme-zh": readme_chinese,
    "demo-zh": demo_chinese,
    "summary": summary,
    "keras-hub": beside_keras_hub,
    "student": student,
}
