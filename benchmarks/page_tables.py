"""Tables that pages make of a run: columns with ratios, and rows from data of another form."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from result_tables import Mean, Row, Table, best_number, tables_of
from results_files import Run, data

LEAST, MOST = min, max
RECIPES = ("float32", "float16", "dynamic_int8", "static_int8", "static_int16x8", "weight_int4", "all_int4")
RUNTIMES = {
    "hub": "keras-hub → LiteRT, float32",
    "hub_int8": "keras-hub → LiteRT, dynamic int8",
    "ort": "ONNX Runtime, float32",
    "ort_int8": "ONNX Runtime, int8 as without VNNI",
    "ort_int8_plain": "ONNX Runtime, dynamic int8",
    "ort_int8_fused": "ONNX Runtime, dynamic int8, fused",
    "openvino": "OpenVINO, float32 as it comes",
    "openvino_int8": "OpenVINO, int8",
    "ctranslate2_int8": "CTranslate2, int8",
    "llama_q8_0": "llama.cpp, Q8_0",
    "llama_q4_0": "llama.cpp, Q4_0",
    "torch": "PyTorch, float32",
}


def compared(column: str, *, ours: str = "ours", more: bool = True) -> Callable[[Run], list[Table]]:
    """Rows of contenders, with how many times as good as each the row `ours` is in one column."""

    def make(run: Run) -> list[Table]:
        rows: list[Row] = run["results"]
        first = next(iter(rows[0]))
        best = MOST if more else LEAST
        numbers = {row[first]: best_number(row[column], best) for row in rows if row.get(column) is not None}
        own, found = numbers.get(ours), []
        for row in rows:
            theirs, told = numbers.get(row[first]), None
            if own and theirs and row[first] != ours:
                told = f"{own / theirs if more else theirs / own:.2f}×"
            found.append({**row, "ours is better by": told})
        return [Table("", found, {column: best})]

    return make


def divided(upper: str, lower: str, name: str) -> Callable[[Run], list[Table]]:
    """Rows with the quotient of two columns."""

    def make(run: Run) -> list[Table]:
        rows = []
        for row in run["results"]:
            above, below = (best_number(row[key], LEAST) for key in (upper, lower))
            rows.append({**row, name: f"{above / below:.1f}×"})
        return [Table("", rows, dict.fromkeys(rows[0], LEAST))]

    return make


def encoder(run: Run) -> list[Table]:
    found = tables_of(data(run))
    step = next(table for table in found if table.caption == "Training step, s")
    ours, hub = (min(best_number(row[how], LEAST) for how in ("graph", "XLA") if how in row) for row in step.rows)
    found = [replace(table, best=dict.fromkeys(table.columns, LEAST)) for table in found]
    return [*found, Table("Training step", [{"keras-hub's best / ours": f"{hub / ours:.2f}×"}])]


def pretraining(run: Run) -> list[Table]:
    if run.get("part") != "speed":
        return tables_of(data(run))
    rows = []
    for row in run["results"]:
        ours = max(value for name, value in row.items() if name.startswith("ours"))
        peers = {name: value for name, value in row.items() if name != "rows" and not name.startswith("ours")}
        rows += [
            {"rows": row["rows"], "contender": name, "tokens/s": value} for name, value in row.items() if name[0] == "o"
        ]
        rows += [
            {"rows": row["rows"], "contender": name, "tokens/s": value, "ours is better by": f"{ours / value:.2f}×"}
            for name, value in peers.items()
        ]
    return [Table("", rows)]


def sampled_softmax(run: Run) -> list[Table]:
    if run.get("part") == "speed":
        rows = []
        for row in run["results"]:
            faster = {
                name.replace(
                    ", ms", " faster"
                ): f"{best_number(row['full, ms'], LEAST) / best_number(value, LEAST):.2f}×"
                for name, value in row.items()
                if "negatives" in name
            }
            rows.append({**row, **faster})
        return [Table("", rows, dict.fromkeys(rows[0], LEAST))]
    full = run["results"][0]["perplexity"]
    return [Table("", [{**row, "to full": f"{row['perplexity'] / full - 1:+.1%}"} for row in run["results"]])]


def quantization(run: Run) -> list[Table]:
    base = run["results"][0]["score, %"]
    rows = [{**row, "points to float": f"{row['score, %'] - base:+.1f}"} for row in run["results"]]
    rows[0]["points to float"] = ""
    return [Table("", rows, decimals={"score, %": 1})]


def teacher_to_student(run: Run) -> list[Table]:
    if run.get("part"):
        return tables_of(data(run))
    teacher, rows = run["results"][0], []
    for row in run["results"]:
        ratios = {
            "smaller": f"{teacher['MB'] / row['MB']:.1f}×",
            "faster": f"{teacher['ms'] / row['ms']:.1f}×",
            "of the teacher's accuracy": f"{row['accuracy, %'] / teacher['accuracy, %']:.1%}",
        }
        rows.append({**row, **(ratios if row is not teacher else {})})
    return [Table("", rows, decimals={"MB": 2, "ms": 2, "accuracy, %": 2})]


def distillation(run: Run) -> list[Table]:
    return compared("s an epoch", more=False)(run) if run["part"] == "speed" else tables_of(data(run))


def tflite_recipes(run: Run) -> list[Table]:
    return [Table("", run["results"], {"ms": LEAST}, {"cosine": 4})]


def pruning(run: Run) -> list[Table]:
    return [Table("", run["results"], {"ms": LEAST})]


def generation_export(run: Run) -> list[Table]:
    keras = best_number(run["results"][0]["tokens/s"], MOST)
    times = [best_number(row["tokens/s"], MOST) / keras for row in run["results"]]
    rows = [{**row, "times Keras": f"{one:.1f}×"} for row, one in zip(run["results"], times, strict=True)]
    return [Table("", rows, {"tokens/s": MOST})]


def demo(run: Run) -> list[Table]:
    """The files that were measured, and the one that was chosen in bold."""
    rows = []
    for one in run["files"]:
        if one["status"] == "measured":
            name = one["name"].removesuffix(" · any length")
            rows.append(
                {
                    "file": f"**{name}**, chosen" if one["name"] == run["chosen"] else name,
                    "accuracy, %": 100 * one["score"],
                    "MB": one["num_bytes"] / 1e6,
                    "ms": one["milliseconds"],
                }
            )
    return [Table("", rows, decimals={"accuracy, %": 1, "MB": 1, "ms": 2})]


def runtime(name: str) -> str:
    """What a contender of inference.py is called; recipes are ours."""
    return f"ours, {name}" if name in RECIPES else RUNTIMES.get(name, name)


def npu(run: Run) -> list[Table]:
    """Scores of each recipe, and how many ops each delegate takes."""
    found = []
    for name, one in run["results"].items():
        if name == "audit":
            continue
        rows = [
            {
                "recipe": recipe,
                f"{one['metric'].replace('f1', 'F1')}, %": 100 * row["score"],
                "points to Keras": f"{100 * (row['score'] - one['keras']):+.1f}",
                "same, %": 100 * row["agreement"],
                "MB": row["bytes"] / 1e6,
            }
            for recipe, row in one["recipes"].items()
        ]
        shown = {"sst2": "SST-2", "wnut17": "WNUT-17"}.get(name, name)
        decimals = {"MB": 1, "same, %": 1, next(column for column in rows[0] if column.endswith(", %")): 1}
        found.append(Table(f"{shown}, {one['texts']:,} texts", rows, decimals=decimals))
    audits = run["results"].get("audit", {})
    delegates = [
        {
            "recipe": recipe,
            "delegate": one["delegate"],
            "ops taken": sum(one["taken"].values()),
            "left to the CPU": ", ".join(f"{op} {count}" for op, count in one["left"].items()) or "none",
            "problems": " ".join(one["problems"]),
        }
        for recipe, audit in audits.items()
        for one in audit["delegates"]
    ]
    compiled = [
        {
            "recipe": recipe,
            "chip": chip,
            "ops taken": one.get("ops_taken"),
            "of": one.get("ops"),
            "parts": one.get("partitions"),
            "MB": one["bytes"] / 1e6 if "bytes" in one else None,
        }
        for recipe, audit in audits.items()
        for chip, one in audit.get("compiled", {}).items()
    ]
    more = {"What delegates take, by their documentation": delegates, "What LiteRT compiles for Qualcomm": compiled}
    return [*found, *(Table(caption, rows, decimals={"MB": 1}) for caption, rows in more.items() if rows)]


def inference(run: Run) -> list[Table]:
    """Rows of the script: milliseconds at each length, and on the dev texts at their own lengths."""
    rows = [
        {
            "contender": runtime(row["name"]),
            "threads": row["threads"],
            **{f"{length} tokens": value for length, value in zip(run["lengths"], row["ms"], strict=True)},
            "own length": row["dev_ms"],
            "accuracy, %": 100 * row["accuracy"],
            "same, %": 100 * row["agreement"],
            "cosine": row["cosine"],
            "MB": row["bytes"] / 1e6,
            "partitions": row.get("partitions"),
        }
        for row in run["results"]
    ]
    if len({row["threads"] for row in rows}) == 1:
        rows = [{name: value for name, value in row.items() if name != "threads"} for row in rows]
    places = {name: 2 for name in rows[0] if name.endswith(("tokens", "length"))}
    places |= {"accuracy, %": 2, "same, %": 1, "cosine": 4, "MB": 1}
    return [Table("Times in milliseconds", rows, decimals=places)]


def inference_wall(run: Run) -> list[Table]:
    """The same from rows that have the names of columns already."""
    rows = [{name.removesuffix(", ms"): value for name, value in row.items()} for row in run["results"]]
    return [Table("Times in milliseconds", rows)]


def saved_model(run: Run) -> list[Table]:
    rows = [
        {
            "contender": {"ort": "ONNX Runtime"}.get(name, f"SavedModel, {name}"),
            "processor s for 1,000 texts": row["cpu_s_per_1000"],
            "accuracy, %": 100 * row["accuracy"],
            "same, %": 100 * row["same"],
            "largest difference": row["largest_difference"],
        }
        for name, row in run["results"].items()
    ]
    return [Table("", rows, decimals={"processor s for 1,000 texts": 2, "accuracy, %": 2, "same, %": 1})]


def serving(run: Run) -> list[Table]:
    about, loads, steady = [], [], []
    for name, row in run["results"].items():
        for key, arrivals in (("at_80", "at random times"), ("at_80_evenly", "evenly")):
            if (load := row.get(key)) is None:
                continue
            steady.append(
                {
                    "server": name,
                    "requests come": arrivals,
                    "requests/s": load["requests_per_second"],
                    "p50, ms": load["p50_ms"],
                    "p99, ms": load["p99_ms"],
                    "p99 / p50": load["p99_ms"] / load["p50_ms"],
                }
            )
        about.append(
            {
                "server": name,
                "first answer, s": row["first_answer_s"],
                "memory at the start, MB": row["start"]["rss_mb"],
                "after the load, MB": row["after"]["rss_mb"],
                "accuracy, %": 100 * row["accuracy"],
                "processor s for 1,000 texts in batches of 32": row["cpu_s_per_1000_in_32s"],
            }
        )
        loads += [
            {
                "server": name,
                "clients": load["clients"],
                "requests/s": load["requests_per_second"],
                "p50, ms": load["p50_ms"],
                "p99, ms": load["p99_ms"],
                "wrong or lost": load["wrong"] + load["lost"],
                "processor s for 1,000 texts": load["cpu_s_per_1000"],
            }
            for load in row["load"]
        ]
    return [
        Table("", about, decimals={"accuracy, %": 1}),
        Table("Under load", loads),
        Table("At 80 % of the highest rate", steady, decimals={"p99 / p50": 1}),
    ]


def pretraining_ablation(runs: Sequence[Run]) -> list[Table]:
    """A row for each variant, the best first; several seeds are means."""
    found: dict[tuple[str, int], dict[str, list[Run]]] = {}
    for run in runs:
        found.setdefault((run["size"], run["steps"]), {}).setdefault(run["variant"], []).append(run)
    tables = []
    for (size, steps), variants in found.items():
        rows = []
        for variant, some in variants.items():
            losses = [run["curve"]["validation_mlm_loss"][-1] for run in some]
            rows.append(
                {
                    "variant": variant,
                    "seeds": len(some),
                    "loss on held-out text": losses,
                    "perplexity": math.exp(np.mean(losses)),
                    "next sentence right, %": [100 * run["curve"]["validation_nsp_accuracy"][-1] for run in some],
                    "processor s": np.mean([run["processor_seconds"] for run in some]),
                }
            )
        rows.sort(key=lambda row: row["perplexity"])
        decimals = {"loss on held-out text": 3, "perplexity": 1, "next sentence right, %": 1, "processor s": 0}
        tables.append(Table(f"{size}, {steps:,} steps", rows, decimals=decimals))
    return tables


def pretraining_gain(runs: Sequence[Run]) -> list[Table]:
    """A table for each language and size: starts beside each other, on each task with the rate that suits them."""
    found: dict[tuple[str, str], dict[str, dict[str, list[Run]]]] = {}
    for run in runs:
        starts = found.setdefault((run["language"], run["size"]), {})
        starts.setdefault(run["start"], {}).setdefault(run["task"], []).append(run)
    tables = []
    for (language, size), starts in found.items():
        names = list(dict.fromkeys(task for tasks in starts.values() for task in tasks))
        rows = []
        for start, tasks in starts.items():
            scores = {name: Mean(best_tests(tasks[name])) for name in names if name in tasks}
            means = [float(np.mean(one)) for one in scores.values()]
            whole = {"mean": float(np.mean(means))} if len(scores) == len(names) else {}
            rows.append({"start": start, **scores, **whole})
        tables.append(Table(f"{LANGUAGES[language]}, {size}", rows, decimals=dict.fromkeys([*names, "mean"], 1)))
    return tables


LANGUAGES = {"en": "English", "zh": "Chinese"}


def best_tests(runs: Sequence[Run]) -> list[float]:
    """The test scores, in percent, of the rate that did best on held-out data with the first seed."""
    first = min(run["seed"] for run in runs)
    best = max((run for run in runs if run["seed"] == first), key=lambda run: run["held_out"])
    return [100 * run["test"] for run in runs if run["factor"] == best["factor"]]


def merged(tables: Sequence[Table]) -> list[Table]:
    """Tables with the same caption and columns become one: of files whose runs are rows."""
    found: dict[tuple[str, ...], Table] = {}
    for table in tables:
        key = (table.caption, *table.columns)
        if key in found:
            first = found[key]
            table = Table(first.caption, [*first.rows, *table.rows], first.best, first.decimals)
        found[key] = table
    return list(found.values())


EXAMPLES = compared("examples/s")


def peers(run: Run) -> list[Table]:
    """A comparison of trainings: with a ratio where the speed was measured beside a peer."""
    rows = run["results"]
    fast = len(rows) > 1 and all("examples/s" in row and "contender" in row for row in rows)
    return EXAMPLES(run) if fast else tables_of(data(run))
