"""BERT for TensorFlow and Keras 3, from raw text to a phone.

Names resolve when they are first used (PEP 562): importing the package loads neither TensorFlow nor Keras, so that the
device runtime can share its NumPy parts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Every public name and the module that it lives in. A new one also gets a line below, which type checkers read; a test
# compares the two.
_HOMES = {
    # === Text ===
    "BertTokenizer": "text.tokenizer",
    "UnigramModel": "text.unigram_model",
    "UnigramTokenizer": "text.unigram",
    "learn_vocabulary": "text.vocabulary",
    "pack": "text.packing",
    # === Model ===
    "BertConfig": "model.config",
    "HashDropout": "model.dropout",
    "NeighbourHeads": "model.neighbour_heads",
    "bert_encoder": "model.encoder",
    "bert_model": "model.heads",
    # === Checkpoint ===
    "load_encoder": "checkpoint",
    "load_model": "checkpoint",
    "save_pretrained": "checkpoint",
    # === Pretraining ===
    "Masking": "pretraining.masking",
    "Phase": "pretraining.plan",
    "PretrainingPlan": "pretraining.plan",
    "Teacher": "pretraining.teacher.plan",
    "fit_to_budget": "pretraining.budget",
    "pretrain": "pretraining.run",
    "pretrain_in_phases": "pretraining.run",
    "pretraining_model": "pretraining.model",
    "read_examples": "pretraining.corpus.writing",
    "write_examples": "pretraining.corpus.writing",
    "write_report": "pretraining.report",
    # === Fine-tuning ===
    "RECIPES": "finetuning.recipes",
    "Recipe": "finetuning.recipes",
    "TrainingModel": "training.training_model",
    "bert_optimizer": "training.optimizers",
    # === Tasks ===
    "AspectClassifier": "tasks.classification.aspect",
    "EntityTagger": "tasks.tagging.task",
    "IntentSlots": "tasks.intent_slots.task",
    "MarkedText": "tasks.relation.marked_text",
    "MultipleChoice": "tasks.multiple_choice.task",
    "QuestionAnswerer": "tasks.question_answering.task",
    "RelationClassifier": "tasks.relation.task",
    "SentenceEmbedder": "tasks.similarity.task",
    "Seq2Seq": "tasks.generation.task",
    "TextClassifier": "tasks.classification.task",
    "ZeroShotClassifier": "tasks.zero_shot.task",
    "load_task": "tasks.base.saved_tasks",
    "SmallVectors": "decoding.small_vectors",
    "quantize_vectors": "decoding.small_vectors",
    # === A task of your own ===
    "PreparedData": "batching.prepared_data",
    "Score": "finetuning.best_weights",
    "Task": "tasks.base.task",
    "TaskEntry": "tasks.base.registry",
    "TaskFlag": "tasks.base.task_flags",
    "TokenLabels": "text.token_labels",
    "as_rows": "data.inputs",
    "register_task": "tasks.base.registry",
    # === Data ===
    "augment": "data.augmentation",
    "load_assistant": "data.assistant",
    "read_aspects": "tasks.classification.aspect_files",
    "read_choices": "tasks.multiple_choice.files",
    "read_commands": "tasks.intent_slots.files",
    "read_generation": "tasks.generation.files",
    "read_glue": "data.glue",
    "read_parallel": "tasks.generation.files",
    "read_relations": "tasks.relation.files",
    "read_rows": "data.labelled_texts",
    "read_sentences": "tasks.similarity.files",
    "read_squad": "tasks.question_answering.files",
    "read_tagged": "tasks.tagging.files",
    # === Devices ===
    "Devices": "training.devices",
    "choose_devices": "training.devices",
    "keep_freed_memory": "system.allocator",
    "quiet_tensorflow": "system.quiet_tensorflow",
}
__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from keras_bert.batching.prepared_data import PreparedData as PreparedData
    from keras_bert.checkpoint import load_encoder as load_encoder
    from keras_bert.checkpoint import load_model as load_model
    from keras_bert.checkpoint import save_pretrained as save_pretrained
    from keras_bert.data.assistant import load_assistant as load_assistant
    from keras_bert.data.augmentation import augment as augment
    from keras_bert.data.glue import read_glue as read_glue
    from keras_bert.data.inputs import as_rows as as_rows
    from keras_bert.data.labelled_texts import read_rows as read_rows
    from keras_bert.decoding.small_vectors import SmallVectors as SmallVectors
    from keras_bert.decoding.small_vectors import quantize_vectors as quantize_vectors
    from keras_bert.finetuning.best_weights import Score as Score
    from keras_bert.finetuning.recipes import RECIPES as RECIPES
    from keras_bert.finetuning.recipes import Recipe as Recipe
    from keras_bert.model.config import BertConfig as BertConfig
    from keras_bert.model.dropout import HashDropout as HashDropout
    from keras_bert.model.encoder import bert_encoder as bert_encoder
    from keras_bert.model.heads import bert_model as bert_model
    from keras_bert.model.neighbour_heads import NeighbourHeads as NeighbourHeads
    from keras_bert.pretraining.budget import fit_to_budget as fit_to_budget
    from keras_bert.pretraining.corpus.writing import read_examples as read_examples
    from keras_bert.pretraining.corpus.writing import write_examples as write_examples
    from keras_bert.pretraining.masking import Masking as Masking
    from keras_bert.pretraining.model import pretraining_model as pretraining_model
    from keras_bert.pretraining.plan import Phase as Phase
    from keras_bert.pretraining.plan import PretrainingPlan as PretrainingPlan
    from keras_bert.pretraining.report import write_report as write_report
    from keras_bert.pretraining.run import pretrain as pretrain
    from keras_bert.pretraining.run import pretrain_in_phases as pretrain_in_phases
    from keras_bert.pretraining.teacher.plan import Teacher as Teacher
    from keras_bert.system.allocator import keep_freed_memory as keep_freed_memory
    from keras_bert.system.quiet_tensorflow import quiet_tensorflow as quiet_tensorflow
    from keras_bert.tasks.base.registry import TaskEntry as TaskEntry
    from keras_bert.tasks.base.registry import register_task as register_task
    from keras_bert.tasks.base.saved_tasks import load_task as load_task
    from keras_bert.tasks.base.task import Task as Task
    from keras_bert.tasks.base.task_flags import TaskFlag as TaskFlag
    from keras_bert.tasks.classification.aspect import AspectClassifier as AspectClassifier
    from keras_bert.tasks.classification.aspect_files import read_aspects as read_aspects
    from keras_bert.tasks.classification.task import TextClassifier as TextClassifier
    from keras_bert.tasks.generation.files import read_generation as read_generation
    from keras_bert.tasks.generation.files import read_parallel as read_parallel
    from keras_bert.tasks.generation.task import Seq2Seq as Seq2Seq
    from keras_bert.tasks.intent_slots.files import read_commands as read_commands
    from keras_bert.tasks.intent_slots.task import IntentSlots as IntentSlots
    from keras_bert.tasks.multiple_choice.files import read_choices as read_choices
    from keras_bert.tasks.multiple_choice.task import MultipleChoice as MultipleChoice
    from keras_bert.tasks.question_answering.files import read_squad as read_squad
    from keras_bert.tasks.question_answering.task import QuestionAnswerer as QuestionAnswerer
    from keras_bert.tasks.relation.files import read_relations as read_relations
    from keras_bert.tasks.relation.marked_text import MarkedText as MarkedText
    from keras_bert.tasks.relation.task import RelationClassifier as RelationClassifier
    from keras_bert.tasks.similarity.files import read_sentences as read_sentences
    from keras_bert.tasks.similarity.task import SentenceEmbedder as SentenceEmbedder
    from keras_bert.tasks.tagging.files import read_tagged as read_tagged
    from keras_bert.tasks.tagging.task import EntityTagger as EntityTagger
    from keras_bert.tasks.zero_shot.task import ZeroShotClassifier as ZeroShotClassifier
    from keras_bert.text.packing import pack as pack
    from keras_bert.text.token_labels import TokenLabels as TokenLabels
    from keras_bert.text.tokenizer import BertTokenizer as BertTokenizer
    from keras_bert.text.unigram import UnigramTokenizer as UnigramTokenizer
    from keras_bert.text.unigram_model import UnigramModel as UnigramModel
    from keras_bert.text.vocabulary import learn_vocabulary as learn_vocabulary
    from keras_bert.training.devices import Devices as Devices
    from keras_bert.training.devices import choose_devices as choose_devices
    from keras_bert.training.optimizers import bert_optimizer as bert_optimizer
    from keras_bert.training.training_model import TrainingModel as TrainingModel


def __getattr__(name: str) -> Any:
    if name == "visualize":  # a package whose functions are called by its name: keras_bert.visualize.attention(…)
        return import_module("keras_bert.visualize")
    if name not in _HOMES:
        raise AttributeError(f"Module 'keras_bert' has no attribute {name!r}; it has: {', '.join(sorted(__all__))}")
    return getattr(import_module(f"keras_bert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "visualize"})
