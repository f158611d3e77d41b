"""How much of the text a teacher reads before its student learns from it, and for how many steps.

Takes the plan, the teacher's limits and the number of rows; gives the rows of a chunk, the chunks of a group and the
steps on them.
"""

import math
import os
from dataclasses import dataclass

from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.teacher import cache as teacher_cache
from keras_bert.pretraining.teacher.plan import Teacher


@dataclass(frozen=True)
class ReadingGroups:
    """How many rows the teacher reads before the student does, and how many steps the student then takes."""

    chunk_rows: int
    chunks: int
    steps: int

    @classmethod
    def find(cls, plan: PretrainingPlan, teacher: Teacher, available: int, row_bytes: float) -> "ReadingGroups":
        wanted = math.ceil(plan.steps * plan.batch_size / teacher.passes)
        room = int(teacher.cache_gb * 1e9 // row_bytes)
        rows = min(max(wanted, plan.batch_size), available, room)
        if rows < plan.batch_size:
            raise ValueError(
                f"cache_gb={teacher.cache_gb} has room for {room:,} rows of the teacher's outputs, fewer than "
                f"batch_size={plan.batch_size}; allow {plan.batch_size * row_bytes / 1e9:.3g} or more, or 0 to keep "
                "none."
            )
        chunk_rows = min(teacher_cache.CHUNK_ROWS, rows)
        chunks = rows // chunk_rows
        if rows < wanted and rows == room:  # more text than room: the teacher reads on when the student is through
            steps = teacher.passes * chunks * chunk_rows // plan.batch_size // plan.save_every * plan.save_every
            return cls(chunk_rows, chunks, max(steps, plan.save_every))
        chunks = min(-(-rows // chunk_rows), available // chunk_rows)
        return cls(chunk_rows, chunks, plan.steps)

    def chunks_of(self, number: int, plan: PretrainingPlan, passes: int) -> int:
        """How many chunks a group needs: the last one, for the steps that are left, often fewer than the others."""
        left = plan.steps - number * self.steps
        if left >= self.steps:
            return self.chunks
        rows = max(math.ceil(left * plan.batch_size / passes), plan.batch_size)
        return min(self.chunks, math.ceil(rows / self.chunk_rows))


def count_rows(examples: str | os.PathLike[str], plan: PretrainingPlan) -> int:
    """The rows that the examples of a directory fill."""
    manifest = load_manifest(os.fspath(examples))
    return manifest.tokens // manifest.settings.sequence_length if plan.packed else manifest.examples
