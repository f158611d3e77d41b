"""BERT for TensorFlow and Keras 3, from raw text to a phone.

Names resolve when they are first used (PEP 562): importing the package loads neither TensorFlow nor Keras, so that the
device runtime can share its NumPy parts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "AspectClassifier": "tasks.aspect",
    "BertConfig": "config",
    "BertTokenizer": "tokenizer",
    "Devices": "training.strategy",
    "EntityTagger": "tasks.tagging",
    "HashDropout": "dropout",
    "IntentSlots": "tasks.intent_slots",
    "MarkedText": "tasks.marked_texts",
    "Masking": "pretraining.masking",
    "MultipleChoice": "tasks.multiple_choice",
    "Phase": "training.pretraining_plan",
    "PretrainingPlan": "training.pretraining_plan",
    "QuestionAnswerer": "tasks.question_answering",
    "RECIPES": "training.recipes",
    "Recipe": "training.recipes",
    "RelationClassifier": "tasks.relation",
    "SentenceEmbedder": "tasks.similarity",
    "Seq2Seq": "tasks.generation",
    "TextClassifier": "tasks.classification",
    "TrainingModel": "training.training_model",
    "ZeroShotClassifier": "tasks.zero_shot",
    "augment": "tasks.augmentation",
    "bert_encoder": "encoder",
    "bert_model": "heads",
    "bert_optimizer": "training.optimizers",
    "choose_devices": "training.strategy",
    "keep_freed_memory": "training.memory",
    "learn_vocabulary": "vocabulary",
    "load_assistant": "datasets",
    "load_encoder": "checkpoint",
    "load_model": "checkpoint",
    "load_task": "tasks.saved_tasks",
    "pack": "packing",
    "pretrain": "training.pretrain",
    "pretrain_in_phases": "training.pretrain",
    "pretraining_model": "pretraining.model",
    "quiet_tensorflow": "tensorflow_greetings",
    "read_aspects": "tasks.aspect_rows",
    "read_choices": "tasks.choice_rows",
    "read_commands": "tasks.command_rows",
    "read_examples": "pretraining.corpus",
    "read_generation": "tasks.generation_rows",
    "read_glue": "tasks.glue",
    "read_parallel": "tasks.generation_rows",
    "read_relations": "tasks.relation_rows",
    "read_rows": "tasks.rows",
    "read_sentences": "tasks.sentence_groups",
    "read_squad": "tasks.squad",
    "read_tagged": "tasks.tagged_rows",
    "save_pretrained": "checkpoint",
    "write_examples": "pretraining.corpus",
    "write_report": "training.pretraining_report",
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
    from keras_bert.config import BertConfig
    from keras_bert.datasets import load_assistant
    from keras_bert.dropout import HashDropout
    from keras_bert.encoder import bert_encoder
    from keras_bert.heads import bert_model
    from keras_bert.packing import pack
    from keras_bert.pretraining.corpus import read_examples, write_examples
    from keras_bert.pretraining.masking import Masking
    from keras_bert.pretraining.model import pretraining_model
    from keras_bert.tasks.aspect import AspectClassifier
    from keras_bert.tasks.aspect_rows import read_aspects
    from keras_bert.tasks.augmentation import augment
    from keras_bert.tasks.choice_rows import read_choices
    from keras_bert.tasks.classification import TextClassifier
    from keras_bert.tasks.command_rows import read_commands
    from keras_bert.tasks.generation import Seq2Seq
    from keras_bert.tasks.generation_rows import read_generation, read_parallel
    from keras_bert.tasks.glue import read_glue
    from keras_bert.tasks.intent_slots import IntentSlots
    from keras_bert.tasks.marked_texts import MarkedText
    from keras_bert.tasks.multiple_choice import MultipleChoice
    from keras_bert.tasks.question_answering import QuestionAnswerer
    from keras_bert.tasks.relation import RelationClassifier
    from keras_bert.tasks.relation_rows import read_relations
    from keras_bert.tasks.rows import read_rows
    from keras_bert.tasks.saved_tasks import load_task
    from keras_bert.tasks.sentence_groups import read_sentences
    from keras_bert.tasks.similarity import SentenceEmbedder
    from keras_bert.tasks.squad import read_squad
    from keras_bert.tasks.tagged_rows import read_tagged
    from keras_bert.tasks.tagging import EntityTagger
    from keras_bert.tasks.zero_shot import ZeroShotClassifier
    from keras_bert.tensorflow_greetings import quiet_tensorflow
    from keras_bert.tokenizer import BertTokenizer
    from keras_bert.training.memory import keep_freed_memory
    from keras_bert.training.optimizers import bert_optimizer
    from keras_bert.training.pretrain import pretrain, pretrain_in_phases
    from keras_bert.training.pretraining_plan import Phase, PretrainingPlan
    from keras_bert.training.pretraining_report import write_report
    from keras_bert.training.recipes import RECIPES, Recipe
    from keras_bert.training.strategy import Devices, choose_devices
    from keras_bert.training.training_model import TrainingModel
    from keras_bert.vocabulary import learn_vocabulary


def __getattr__(name: str):
    if name == "visualize":  # a room whose functions are called by its name: keras_bert.visualize.attention(…)
        return import_module("keras_bert.visualize")
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"keras_bert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "visualize"})
