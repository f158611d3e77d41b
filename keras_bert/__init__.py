"""BERT for TensorFlow and Keras 3, from raw text to a phone.

Names resolve when they are first used (PEP 562): importing the package loads neither TensorFlow nor Keras, so that the
device runtime can share its NumPy parts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "AspectClassifier": "tasks.classification.aspect",
    "BertConfig": "model.config",
    "BertTokenizer": "text.tokenizer",
    "Devices": "training.devices",
    "EntityTagger": "tasks.tagging.task",
    "HashDropout": "model.dropout",
    "IntentSlots": "tasks.intent_slots.task",
    "MarkedText": "tasks.relation.marked_text",
    "Masking": "pretraining.masking",
    "MultipleChoice": "tasks.multiple_choice.task",
    "Phase": "pretraining.plan",
    "PretrainingPlan": "pretraining.plan",
    "QuestionAnswerer": "tasks.question_answering.task",
    "RECIPES": "finetuning.recipes",
    "Recipe": "finetuning.recipes",
    "RelationClassifier": "tasks.relation.task",
    "SentenceEmbedder": "tasks.similarity.task",
    "Seq2Seq": "tasks.generation.task",
    "Teacher": "pretraining.teacher.plan",
    "TextClassifier": "tasks.classification.task",
    "TrainingModel": "training.training_model",
    "ZeroShotClassifier": "tasks.zero_shot",
    "augment": "data.augmentation",
    "bert_encoder": "model.encoder",
    "bert_model": "model.heads",
    "bert_optimizer": "training.optimizers",
    "choose_devices": "training.devices",
    "keep_freed_memory": "system.allocator",
    "learn_vocabulary": "text.vocabulary",
    "load_assistant": "data.assistant",
    "load_encoder": "checkpoint",
    "load_model": "checkpoint",
    "load_task": "tasks.base.saved_tasks",
    "pack": "text.packing",
    "pretrain": "pretraining.run",
    "pretrain_in_phases": "pretraining.run",
    "pretraining_model": "pretraining.model",
    "quiet_tensorflow": "system.quiet_tensorflow",
    "read_aspects": "tasks.classification.aspect_files",
    "read_choices": "tasks.multiple_choice.files",
    "read_commands": "tasks.intent_slots.files",
    "read_examples": "pretraining.corpus.writing",
    "read_generation": "tasks.generation.files",
    "read_glue": "data.glue",
    "read_parallel": "tasks.generation.files",
    "read_relations": "tasks.relation.files",
    "read_rows": "data.labelled_texts",
    "read_sentences": "tasks.similarity.files",
    "read_squad": "tasks.question_answering.files",
    "read_tagged": "tasks.tagging.files",
    "save_pretrained": "checkpoint",
    "write_examples": "pretraining.corpus.writing",
    "write_report": "pretraining.report",
}
__all__ = [
    "RECIPES",
    "AspectClassifier",
    "BertConfig",
    "BertTokenizer",
    "Devices",
    "EntityTagger",
    "HashDropout",
    "IntentSlots",
    "MarkedText",
    "Masking",
    "MultipleChoice",
    "Phase",
    "PretrainingPlan",
    "QuestionAnswerer",
    "Recipe",
    "RelationClassifier",
    "SentenceEmbedder",
    "Seq2Seq",
    "Teacher",
    "TextClassifier",
    "TrainingModel",
    "ZeroShotClassifier",
    "__version__",
    "augment",
    "bert_encoder",
    "bert_model",
    "bert_optimizer",
    "choose_devices",
    "keep_freed_memory",
    "learn_vocabulary",
    "load_assistant",
    "load_encoder",
    "load_model",
    "load_task",
    "pack",
    "pretrain",
    "pretrain_in_phases",
    "pretraining_model",
    "quiet_tensorflow",
    "read_aspects",
    "read_choices",
    "read_commands",
    "read_examples",
    "read_generation",
    "read_glue",
    "read_parallel",
    "read_relations",
    "read_rows",
    "read_sentences",
    "read_squad",
    "read_tagged",
    "save_pretrained",
    "write_examples",
    "write_report",
]

if TYPE_CHECKING:
    from keras_bert.checkpoint import load_encoder, load_model, save_pretrained
    from keras_bert.data.assistant import load_assistant
    from keras_bert.data.augmentation import augment
    from keras_bert.data.glue import read_glue
    from keras_bert.data.labelled_texts import read_rows
    from keras_bert.finetuning.recipes import RECIPES, Recipe
    from keras_bert.model.config import BertConfig
    from keras_bert.model.dropout import HashDropout
    from keras_bert.model.encoder import bert_encoder
    from keras_bert.model.heads import bert_model
    from keras_bert.pretraining.corpus.writing import read_examples, write_examples
    from keras_bert.pretraining.masking import Masking
    from keras_bert.pretraining.model import pretraining_model
    from keras_bert.pretraining.plan import Phase, PretrainingPlan
    from keras_bert.pretraining.report import write_report
    from keras_bert.pretraining.run import pretrain, pretrain_in_phases
    from keras_bert.pretraining.teacher.plan import Teacher
    from keras_bert.system.allocator import keep_freed_memory
    from keras_bert.system.quiet_tensorflow import quiet_tensorflow
    from keras_bert.tasks.base.saved_tasks import load_task
    from keras_bert.tasks.classification.aspect import AspectClassifier
    from keras_bert.tasks.classification.aspect_files import read_aspects
    from keras_bert.tasks.classification.task import TextClassifier
    from keras_bert.tasks.generation.files import read_generation, read_parallel
    from keras_bert.tasks.generation.task import Seq2Seq
    from keras_bert.tasks.intent_slots.files import read_commands
    from keras_bert.tasks.intent_slots.task import IntentSlots
    from keras_bert.tasks.multiple_choice.files import read_choices
    from keras_bert.tasks.multiple_choice.task import MultipleChoice
    from keras_bert.tasks.question_answering.files import read_squad
    from keras_bert.tasks.question_answering.task import QuestionAnswerer
    from keras_bert.tasks.relation.files import read_relations
    from keras_bert.tasks.relation.marked_text import MarkedText
    from keras_bert.tasks.relation.task import RelationClassifier
    from keras_bert.tasks.similarity.files import read_sentences
    from keras_bert.tasks.similarity.task import SentenceEmbedder
    from keras_bert.tasks.tagging.files import read_tagged
    from keras_bert.tasks.tagging.task import EntityTagger
    from keras_bert.tasks.zero_shot import ZeroShotClassifier
    from keras_bert.text.packing import pack
    from keras_bert.text.tokenizer import BertTokenizer
    from keras_bert.text.vocabulary import learn_vocabulary
    from keras_bert.training.devices import Devices, choose_devices
    from keras_bert.training.optimizers import bert_optimizer
    from keras_bert.training.training_model import TrainingModel


def __getattr__(name: str):
    if name == "visualize":  # a room whose functions are called by its name: keras_bert.visualize.attention(…)
        return import_module("keras_bert.visualize")
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"keras_bert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "visualize"})
