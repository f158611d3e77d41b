"""A tiny teacher and its student, for tests and, as `helpers/taught_run.py EXAMPLES TEACHER OUTPUT`, for those that
kill it.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from dataclasses import replace

from pretraining_run import CONFIG, PLAN, TOKENIZER

from keras_bert.checkpoint import save_pretrained
from keras_bert.model.encoder import bert_encoder
from keras_bert.pretraining.run import pretrain
from keras_bert.pretraining.teacher import cache
from keras_bert.pretraining.teacher.plan import Teacher

TEACHER_CONFIG = CONFIG.replace(num_layers=3, hidden_dim=48, intermediate_dim=96, num_heads=4, initializer_range=0.2)
TAUGHT_PLAN = replace(PLAN, steps=24, save_every=4, learning_rate=1e-3, dropout=0.1)


def write_teacher(directory, config=TEACHER_CONFIG, tokenizer=TOKENIZER):
    """A teacher with random weights that are large enough to say something about each text."""
    config = config.replace(vocabulary_size=tokenizer.vocabulary_size)
    save_pretrained(bert_encoder(config, seed=7), directory, tokenizer=tokenizer)
    return directory


def teach(examples, teacher, output, plan=TAUGHT_PLAN, config=CONFIG, tokenizer=TOKENIZER, validation=None, **options):
    """A student's run; gives its history."""
    options = {"passes": 2, **options}
    taught = Teacher(model=teacher, **options)
    return pretrain(examples, output, config, tokenizer, plan, teacher=taught, validation=validation, verbose=0)


if __name__ == "__main__":
    cache.CHUNK_ROWS = 32
    teach(*sys.argv[1:4], relations=1.0, mlm=0.5, cache_gb=0.002)
