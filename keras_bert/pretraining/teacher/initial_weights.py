"""The student's first weights, from its teacher: the token table by PCA, blocks where all widths are equal.

A small encoder that begins with vectors which know what tokens mean has only to learn how they act on each other. With
the teacher's widths it takes blocks as they are, also behind a token table that is narrower than the teacher's.
"""

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import to_numpy
from keras_bert.pretraining.teacher.alignment import Alignment
from keras_bert.pretraining.teacher.hidden_states import LoadedTeacher, TeacherOutputs
from keras_bert.pretraining.teacher.plan import Teacher

_SAME = ("hidden_dim", "intermediate_dim", "num_heads", "attention_dim", "activation")
_TOKENS_AT_ONCE = 4096
_MEAN_POSITIONS = 64  # whose mean stands for the position of a token
_SAMPLE = (1024, 16)  # tokens and positions that a projection is fitted to


def shares_blocks(teacher: BertConfig, student: BertConfig) -> bool:
    """Whether a student can take blocks of the teacher as they are."""
    return not _differences(teacher, student)


def require_blocks(plan: Teacher, teacher: BertConfig, student: BertConfig) -> None:
    """Raise where a plan insists on the teacher's blocks and the student cannot take them."""
    if plan.start != "blocks":
        return
    if different := _differences(teacher, student):
        raise ValueError(
            f"start='blocks': the teacher has {', '.join(different)}, other than the student, so its blocks do not "
            "fit; give the student these sizes, or use start='auto'."
        )
    if student.num_layers > teacher.num_layers:
        raise ValueError(
            f"start='blocks': the student has {student.num_layers} layers, and the teacher only {teacher.num_layers}; "
            "give the student as many or fewer."
        )


def start_from_teacher(
    student: keras.Model, plan: Teacher, teacher: LoadedTeacher, alignment: Alignment, token_vectors: np.ndarray | None
) -> list[str]:
    """Give a student its first weights; gives the names of the parts that came from the teacher.

    Args:
        student: A new encoder.
        plan, teacher, alignment: Whose weights, and how tokens meet.
        token_vectors: For `token_table="outputs"`: a vector for each of the student's tokens, from `token_outputs`.
    """
    if plan.start == "random":
        return []
    theirs, ours = teacher.config, encoder_config(student)
    if shares_blocks(theirs, ours):
        if ours.table_dim == theirs.table_dim:
            _copy_tables(student, teacher, alignment)
        else:
            _fit_tables(student, teacher, alignment)
        _copy_blocks(student, teacher.encoder, theirs, ours)
        return ["token table", "positions", "segments", "blocks"]
    if plan.token_table == "outputs" and token_vectors is not None:
        table, _ = _principal(token_vectors, int(_free_columns(student).sum()))
        _assign_table(student, table * (ours.initializer_range / table.std()))
        return ["token table"]
    return _project_tables(student, teacher, alignment, ours)


def token_outputs(outputs: TeacherOutputs, alignment: Alignment) -> np.ndarray:
    """What the teacher gives for each of the student's tokens as a text of its own: the mean of the text's states.

    Takes the last hidden layer among the outputs; gives float16 `[V, H]`.
    """
    name = max((name for name in outputs.targets.widths if name.startswith("hidden")), key=lambda n: int(n[7:]))
    student, size = alignment.student, alignment.student.vocabulary_size
    rows = np.zeros((size, 3), np.int32)
    rows[:, 0], rows[:, 1], rows[:, 2] = student.cls_id, np.arange(size), student.sep_id
    means = np.zeros((size, outputs.targets.widths[name]), np.float16)
    for first in range(0, size, _TOKENS_AT_ONCE):
        ids = rows[first : first + _TOKENS_AT_ONCE]
        texts = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
        vectors, counts = outputs(texts)
        ends = np.concatenate([[0], np.cumsum(counts)])[:-1]
        sums = np.add.reduceat(vectors[name].astype("float32"), ends, axis=0)
        means[first : first + len(ids)] = sums / counts[:, None]
    return means


# === Tables ===


def _copy_tables(student: keras.Model, teacher: LoadedTeacher, alignment: Alignment) -> None:
    table = _teacher_table(teacher, alignment)
    _assign_table(student, table)
    ours, theirs = student.get_layer("embeddings"), teacher.encoder.get_layer("embeddings")
    _copy_rows(theirs.position, ours.position)
    if ours.segment is not None and theirs.segment is not None:
        _copy_rows(theirs.segment.embeddings, ours.segment.embeddings)
    for mine, its in zip(ours.norm.weights, theirs.norm.weights, strict=True):
        mine.assign(to_numpy(its))
    if ours.projection is not None:
        for mine, its in zip(ours.projection.weights, theirs.projection.weights, strict=True):
            mine.assign(to_numpy(its))


def _project_tables(
    student: keras.Model, teacher: LoadedTeacher, alignment: Alignment, config: BertConfig
) -> list[str]:
    """Tokens, positions and segments on the same axes and in the same unit, for the encoder adds them up."""
    free = _free_columns(student)
    table, axes = _principal(_teacher_table(teacher, alignment), int(free.sum()))
    unit = config.initializer_range / table.std()
    _assign_table(student, table * unit)
    if not free.all():  # positions have columns of their own, and what they begin with
        return ["token table"]
    ours, theirs = student.get_layer("embeddings"), teacher.encoder.get_layer("embeddings")
    tables = []
    if ours.segment is not None and theirs.segment is not None:
        tables.append((theirs.segment.embeddings, ours.segment.embeddings))
    if ours.config.position == "learned":
        tables.append((theirs.position, ours.position))
    for source, target in tables:
        values = to_numpy(source)
        # The mean of the rows is no information, and would be added to every token.
        _copy_rows((values - values.mean(axis=0)) @ axes * unit, target)
    return ["token table", "positions", "segments"]


def _fit_tables(student: keras.Model, teacher: LoadedTeacher, alignment: Alignment) -> None:
    """Narrow tables, and a projection by least squares: together they give almost what the teacher's block 0 reads."""
    ours = student.get_layer("embeddings")
    tokens, positions, segments = _teacher_tables(teacher, alignment)
    middle = positions[:_MEAN_POSITIONS].mean(axis=0)
    read = _normalized(teacher, tokens + middle + segments[0])  # of each token, at a mean position
    mean = read.mean(axis=0)
    table, axes = _principal(read, encoder_config(student).table_dim)
    rng = np.random.default_rng(0)
    sample = rng.choice(len(tokens), min(_SAMPLE[0], len(tokens)), replace=False)

    def shifts(rows: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """What positions or segments add to a token on the mean, on the axes."""
        return np.stack([_normalized(teacher, tokens[sample] + row + beside).mean(axis=0) for row in rows]) @ axes

    center = read[sample].mean(axis=0) @ axes
    unit = tokens.std() / table.std()  # the size of numbers that the teacher's table has; the norm removes it
    near = min(len(positions), ours.position.shape[0])
    table = table * unit
    _assign_table(student, table)
    by_position = (shifts(positions[:near], segments[0]) - center) * unit
    by_segment = (shifts(segments, middle) - center) * unit
    _copy_rows(by_position, ours.position)
    if ours.segment is not None:
        _copy_rows(by_segment, ours.segment.embeddings)
    places = rng.integers(0, min(near, _MEAN_POSITIONS), (len(sample), _SAMPLE[1]))
    narrow = table[sample][:, None] + by_position[places] + by_segment[0]
    narrow = (narrow - narrow.mean(axis=-1, keepdims=True)) / narrow.std(axis=-1, keepdims=True)
    wanted = _normalized(teacher, tokens[sample][:, None] + positions[places] + segments[0]) - mean
    kernel, *_ = np.linalg.lstsq(narrow.reshape(-1, table.shape[1]), wanted.reshape(-1, len(mean)), rcond=None)
    ours.projection.kernel.assign(kernel)
    ours.projection.bias.assign(mean)


def _teacher_tables(teacher: LoadedTeacher, alignment: Alignment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The teacher's vectors of the student's tokens, of positions and of segments."""
    embeddings, tokens = teacher.encoder.get_layer("embeddings"), _teacher_table(teacher, alignment)
    positions = np.asarray(to_numpy(embeddings.position))[teacher.config.position_offset :]
    segments = np.zeros((1, tokens.shape[1])) if embeddings.segment is None else to_numpy(embeddings.segment.embeddings)
    return tokens.astype("float64"), positions.astype("float64"), np.asarray(segments, "float64")


def _normalized(teacher: LoadedTeacher, sums: np.ndarray) -> np.ndarray:
    """What the teacher's first block reads, for sums of a token, a position and a segment."""
    embeddings = teacher.encoder.get_layer("embeddings")
    scale, shift = (to_numpy(weight) for weight in embeddings.norm.weights)
    variance = sums.var(axis=-1, keepdims=True) + teacher.config.layer_norm_epsilon
    normal = (sums - sums.mean(axis=-1, keepdims=True)) / np.sqrt(variance) * scale + shift
    if embeddings.projection is None:
        return normal
    kernel, bias = (to_numpy(weight) for weight in embeddings.projection.weights)
    return normal @ kernel + bias


def _free_columns(student: keras.Model) -> np.ndarray:
    """The columns that tokens use: an initializer may leave some to positions, with zeros in all tokens' rows."""
    table = to_numpy(student.get_layer("token_embedding").embeddings)
    return np.any(table != 0, axis=0)


def _teacher_table(teacher: LoadedTeacher, alignment: Alignment) -> np.ndarray:
    """The teacher's vector of each of the student's tokens: of the same piece, or the mean over its pieces."""
    table = to_numpy(teacher.encoder.get_layer("token_embedding").embeddings)
    return np.stack([table[pieces].mean(axis=0) for pieces in alignment.teacher_pieces()])


def _principal(vectors: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors on their first `width` principal axes, and the axes `[H, width]`; where there are fewer, zeros follow."""
    vectors = vectors.astype("float64")
    centered = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    axes = axes[:, ::-1][:, :width]
    signs = np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])  # the same on every machine
    axes = axes * signs
    if axes.shape[1] < width:
        axes = np.pad(axes, [(0, 0), (0, width - axes.shape[1])])
    return centered @ axes, axes


def _assign_table(student: keras.Model, table: np.ndarray) -> None:
    variable = student.get_layer("token_embedding").embeddings
    values = to_numpy(variable)
    values[:, _free_columns(student) if table.shape[1] < values.shape[1] else slice(None)] = table
    variable.assign(values)


def _copy_rows(source: np.ndarray | keras.Variable, target: keras.Variable) -> None:
    """As many rows as both have; further rows of the target stay as they are."""
    values, new = to_numpy(target), np.asarray(source if isinstance(source, np.ndarray) else to_numpy(source))
    count = min(len(values), len(new))
    values[:count] = new[:count]
    target.assign(values)


# === Blocks ===


def _copy_blocks(student: keras.Model, encoder: keras.Model, theirs: BertConfig, ours: BertConfig) -> None:
    for index in range(min(ours.num_layers, theirs.num_layers)):
        # Evenly from the teacher's, its last for the student's last.
        chosen = round((index + 1) * theirs.num_layers / ours.num_layers) - 1 if ours.num_layers else 0
        chosen = min(chosen, theirs.num_layers - 1)
        source, target = encoder.get_layer(f"block_{chosen}"), student.get_layer(f"block_{index}")
        for mine, its in zip(target.weights, source.weights, strict=True):
            mine.assign(to_numpy(its))
    if ours.pooler_activation != theirs.pooler_activation:
        return
    for mine, its in zip(student.get_layer("pooler").weights, encoder.get_layer("pooler").weights, strict=True):
        mine.assign(to_numpy(its))


def _differences(teacher: BertConfig, student: BertConfig) -> list[str]:
    names = [name for name in _SAME if getattr(teacher, name) != getattr(student, name)]
    # A narrower table is projected to what the blocks read; a wider one cannot be made of a narrow one.
    if teacher.table_dim != student.table_dim and student.table_dim == student.hidden_dim:
        names.append("table_dim")
    return [f"{name}={getattr(teacher, name)}" for name in names]
