"""Write `report.html`: one page that shows how a file was chosen, and how to load it.

The page needs no scripts, fonts or pictures from elsewhere.
"""

import html
from typing import Any

from export.deployment.guides import loading_guides
from export.deployment.manifest import versions
from export.deployment.pictures import confused_pairs, confusion_table, latency_picture, pareto_picture
from export.deployment.proof import Proof
from export.deployment.result import Deployment, times_faster
from export.deployment.style import STYLE
from export.search.data import DeploymentData
from export.search.trials import Trial
from export.serving.artifact import ServingArtifact
from keras_bert.tasks.base.task import Task

_MATRIX = 30  # with more classes, only the most frequent confusions are shown
_STAGES = {
    "quantize": "the model as it is, in fewer bits",
    "trim": "smaller vocabulary",
    "layers": "fewer blocks",
    "distill": "distilled student",
    "qat": "trained for quantization",
}


def report_page(result: Deployment, task: Task, data: DeploymentData, proof: Proof, served: ServingArtifact) -> str:
    """Write the report as an HTML page.

    Args:
        result: The result of the search.
        task: The chosen model.
        data: The user's data.
        proof: The measurements of the chosen file.
        served: Its SavedModel.
    """
    name = html.escape(result.directory.resolve().name)
    sections = [
        _top(name, result, data),
        _notes(result),
        _pictures(result),
        _rows(result),
        _mistakes(proof),
        _times(result, proof),
        _audit(proof),
        _guides(task, proof, served),
        _footer(result),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body><main>\n' + (
        "\n".join(filter(None, sections)) + "\n</main></body></html>\n"
    )


# === The result ===


def _top(name: str, result: Deployment, data: DeploymentData) -> str:
    chosen, reference = result.chosen, result.reference
    cards = [
        (f"{chosen.num_bytes / 1e6:.2f} MB", f"{result.smaller:.1f}× smaller than {reference.num_bytes / 1e6:.1f} MB"),
        (f"{chosen.milliseconds:.2f} ms", f"{times_faster(chosen.speedup)}, a validation text on one thread"),
        (_percent(chosen.score), f"{_metric(result)}; the teacher has {_percent(result.teacher_score)}"),
        (f"{chosen.parameters / 1e6:.1f} M", f"parameters; the teacher has {reference.parameters / 1e6:.1f} M"),
    ]
    boxes = "".join(f'<div class="card"><b>{number}</b><span>{words}</span></div>' for number, words in cards)
    kind = "good" if result.is_kept else "bad"
    trained = "" if data.train is None else f", trained on {len(data.train.labelled):,}"
    measured = sum(trial.is_measured for trial in result.trials)
    return (
        f"<h1>{name}</h1><p>{html.escape(chosen.name)}</p>"
        f'<p class="soft">{"The smallest within the budget" if result.is_kept else "The best"} of {measured} '
        "measured files; "
        f"{len(data.validation.labelled):,} validation examples{trained}.</p>"
        f'<p class="verdict {kind}">{html.escape(result.verdict)}</p><div class="cards">{boxes}</div>'
    )


def _notes(result: Deployment) -> str:
    if not result.notes:
        return ""
    return f'<div class="notes"><ul>{"".join(f"<li>{html.escape(note)}</li>" for note in result.notes)}</ul></div>'


# === How it was chosen ===


def _pictures(result: Deployment) -> str:
    options: dict[str, Any] = {
        "least": result.teacher_score - result.budget,
        "teacher_score": result.teacher_score,
        "metric": _metric(result),
    }
    costs = (
        ("megabytes", lambda trial: trial.num_bytes / 1e6),
        ("milliseconds for a validation text, batch 1, one thread", lambda trial: trial.milliseconds),
    )
    figures = "".join(
        f"<figure>{pareto_picture(result.trials, result.chosen, of=of, x_name=name, **options)}</figure>"
        for name, of in costs
    )
    used = [stage for stage in _STAGES if any(trial.stage == stage for trial in result.trials if trial.is_measured)]
    legend = "".join(f'<span><i class="{stage}"></i>{_STAGES[stage]}</span>' for stage in used)
    ring = "the smallest one over the dashed line" if result.is_kept else "the best one; none is over the dashed line"
    return (
        "<h2>How it was chosen</h2><p>Every dot is a file, measured with LiteRT. Up is better, "
        f"left is cheaper; no file lies above the line. The ring marks {ring}.</p>"
        f'<div class="legend">{legend}</div><div class="pictures">{figures}</div>'
    )


def _rows(result: Deployment) -> str:
    front = {trial.key for trial in result.front}
    columns = ("candidate", _metric(result), "MB", "smaller", "ms", "faster", "tried in", "")
    head = "".join(f"<th{_number(place)}>{name}</th>" for place, name in enumerate(columns))
    lines = [f"<tr>{head}</tr>"]
    for trial in result.trials:
        label = f'<i class="{trial.stage}"></i>{html.escape(trial.name)}'
        if not trial.is_measured:
            words = f"{trial.status}: {html.escape(trial.note)}"
            lines.append(f'<tr class="off"><td>{label}</td><td colspan="7" class="{trial.status}">{words}</td></tr>')
            continue
        cells = (
            label,
            _percent(trial.score),
            f"{trial.num_bytes / 1e6:.2f}",
            f"{result.reference.num_bytes / trial.num_bytes:.1f}×",
            f"{trial.milliseconds:.2f}",
            f"{trial.speedup:.1f}×",
            f"{trial.seconds:.0f} s",
            _mark(trial, result, front),
        )
        row = "".join(f"<td{_number(place)}>{cell}</td>" for place, cell in enumerate(cells))
        lines.append(f"<tr{' class=chosen' if trial.key == result.chosen.key else ''}>{row}</tr>")
    return f'<h2>All candidates</h2><div class="scroll"><table class="rows">{"".join(lines)}</table></div>'


def _number(place: int) -> str:
    return ' class="number"' if 0 < place < 7 else ""


def _mark(trial: Trial, result: Deployment, front: set[str]) -> str:
    if trial.key == result.chosen.key:
        return '<span class="front-mark">chosen</span>'
    return '<span class="front-mark">on the line</span>' if trial.key in front else ""


# === Measurements ===


def _mistakes(proof: Proof) -> str:
    if proof.confusion is None:
        return ""
    labels = proof.confusion.labels
    words = (
        ": a row for each true class, a column for each answer"
        if len(labels) <= _MATRIX
        else ", the most frequent first"
    )
    draw = confusion_table if len(labels) <= _MATRIX else confused_pairs
    tables = [
        draw(labels, counts, caption)
        for caption, counts in (("teacher", proof.confusion.teacher), ("model.tflite", proof.confusion.file))
    ]
    return (
        f"<h2>Which classes are confused</h2><p>On the validation data{words}.</p>"
        f'<div class="tables scroll">{"".join(tables)}</div>'
    )


def _times(result: Deployment, proof: Proof) -> str:
    names = ("tokens", "teacher, ms", "chosen, ms", "faster")
    head = "".join(f"<th class=number>{name}</th>" for name in names)
    rows = "".join(
        f"<tr><td class=number>{tokens}</td><td class=number>{before:.2f}</td><td class=number>{now:.2f}</td>"
        f"<td class=number>{before / now:.1f}×</td></tr>"
        for tokens, before, now in proof.latency
    )
    legend = '<span><i class="quantize"></i>teacher, float32</span><span><i class="distill"></i>model.tflite</span>'
    return (
        "<h2>Time by length</h2><p>Validation texts with their own lengths, through both files in turn, one thread, "
        "batch 1; the fastest of five rounds. In a fresh process the first answer comes after "
        f"{proof.cold.start_ms:.0f} ms, Python and its imports included, with at most {proof.cold.peak_mb:.0f} MB of "
        "memory.</p>"
        f'<div class="legend">{legend}</div><div class="pictures"><figure>{latency_picture(proof.latency)}</figure>'
        f'<div class="scroll"><table class="rows"><tr>{head}</tr>{rows}</table></div></div>'
    )


def _audit(proof: Proof) -> str:
    parity, ops = proof.parity, proof.parity.ops
    partitions = ", ".join(f"{name}: {count}" for name, count in ops.partitions.items())
    foreign = f"Needs {', '.join(ops.custom_ops)}" if ops.custom_ops else "Only built-in ops, which every LiteRT has"
    counts = "".join(
        f"<span>{html.escape(name)} <b>{count}</b></span>"
        for name, count in sorted(ops.ops.items(), key=lambda pair: -pair[1])
    )
    return (
        f"<h2>What is in the file</h2><p>{foreign}. XNNPACK partitions by signature: {html.escape(partitions)}. "
        f"Compared with its Keras model on {parity.examples:,} inputs, {parity.agreement_words}; "
        f"the largest difference of an output is {parity.max_error:.2g}.</p>"
        f'<div class="ops">{counts}</div>'
    )


# === How to use it ===


def _guides(task: Task, proof: Proof, served: ServingArtifact) -> str:
    lengths = [row.length for row in proof.cold.latencies] if "dynamic" not in proof.parity.ops.partitions else []
    parts = [
        f"<h3>{html.escape(title)}</h3><pre>{html.escape(code)}</pre>"
        for title, code in loading_guides(task, lengths, served)
    ]
    return f"<h2>How to load it</h2>{''.join(parts)}"


def _footer(result: Deployment) -> str:
    words = ", ".join(f"{name} {number}" for name, number in versions().items())
    return (
        f"<footer>{html.escape(words)}. The file was chosen by these validation examples; on others it may do a little "
        "worse. The hashes of all files are in manifest.json.</footer>"
    )


def _metric(result: Deployment) -> str:
    return html.escape(result.metric.replace("_", " "))


def _percent(value: float) -> str:
    return f"{100 * value:.2f}%"
