"""What stands on the page of each results file beside its command: a title, the setup, tables and how to read them.

`PAGES` has an entry for each file that deserves words. A file without one gets a page all the same: its name as the
title, the first words of its script as the setup, and whatever tables its data make. An entry with `tables` is a
function from the runs of the file to tables; it may add columns, such as ratios. Readings have no numbers of results:
those are in the tables, where `render.py` puts them from the data.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from page_tables import (
    EXAMPLES,
    compared,
    demo,
    distillation,
    divided,
    encoder,
    generation_export,
    inference,
    inference_wall,
    npu,
    peers,
    pretraining,
    pretraining_ablation,
    pretraining_gain,
    pruning,
    quantization,
    sampled_softmax,
    saved_model,
    serving,
    teacher_to_student,
    tflite_recipes,
)
from result_tables import Table, tables_of
from results_files import Run, data
from trust_tables import FAULTS, counted, endurance, serving_soak
from whole_tables import (
    SMALL_VECTORS,
    TRIMMED,
    accelerators,
    multilingual_trimming,
    small_vectors,
    unigram_tokenizer,
)

ROOT = Path(__file__).parents[1]
GROUPS = ("Text", "Training", "Tasks", "Small and fast", "Serving", "Writing", "Trust", "More")


@dataclass(frozen=True)
class Page:
    """The words of a page.

    Args:
        title: What was measured.
        setup: Data, sizes and how it was done; what does not follow from the command.
        reading: At most three sentences.
        group: Which part of the list of pages it belongs to.
        tables: Makes the tables of a run; by default its data become tables as they are.
        code: What the result depends on, as paths; a change there makes it older.
        charts: Names of the charts on the page.
        joined: Whether the parts share one table.
        whole: Makes the tables of all runs of the file together, instead of `tables`.
        parts: What the page calls the parts of the file, where they have other names there.
    """

    title: str
    setup: str
    reading: str = ""
    group: str = "More"
    tables: Callable[[Run], Sequence[Table]] | None = None
    code: tuple[str, ...] = ("keras_bert", "export")
    charts: tuple[str, ...] = ()
    joined: bool = False
    whole: Callable[[Sequence[Run]], Sequence[Table]] | None = None
    parts: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, part: str) -> str:
        """What a part is called; the one without a name comes first on its page."""
        return self.parts.get(part, part or "first")

    def tables_of(self, run: Run) -> Sequence[Table]:
        """The tables of one run."""
        return tables_of(data(run)) if self.tables is None else self.tables(run)


def page_of(name: str, runs: list[Run]) -> Page:
    """The page of a file; one made of its script where nobody wrote any."""
    if name in PAGES:
        return PAGES[name]
    script = re.match(r"python ([\w/]+\.py)", runs[0]["command"])
    path = ROOT / script[1] if script else None
    about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path and path.is_file() else None
    paragraphs = [" ".join(one.split()) for one in (about or "").split("\n\n")]
    first = next((one for one in paragraphs if not one.startswith("python ")), "")
    return Page(name.replace("_", " ").capitalize(), first)


# === The pages ===

MINILM = "MiniLM (6 layers, width 384)"
SST2 = "SST-2, 872 dev texts"
AGAINST = (
    "Both train from the same weights on the same examples in the same batches with the same schedule; the speed is "
    "that of the last pass, in which nothing is compiled any more."
)
TASKS = ("keras_bert/tasks", "keras_bert/finetuning", "keras_bert/training", "keras_bert/model")
PAGES = {
    "tokenizer": Page(
        "Tokenizer",
        "English Wikipedia prose through `tf.data`; contenders take turns, the best of five rounds counts. "
        "`differ` counts paragraphs whose ids are not those of `tokenizers`.",
        "keras-hub's differences are accents, which it keeps.",
        "Text",
        compared("MB/s"),
        ("keras_bert/text",),
        ("tokenizer",),
    ),
    "unigram_tokenizer": Page(
        "Unigram tokenizer",
        "Models read by the library, by SentencePiece and by `tokenizers`, on the same texts: two that the library "
        "learned from English and Chinese Wikipedia, and the one of 42 languages that the page on trimming makes. The "
        "device's tokenizer, in Python, reads at most 20,000 texts.",
        "All ids are those of SentencePiece up to 0.2.1, which tensorflow-text contains. From 0.2.2 on, SentencePiece "
        "rounds sums of scores before it compares them, so it may choose another way if two scores differ only by "
        "rounding. `tokenizers` itself differs from SentencePiece on many random strings.",
        "Text",
        code=("keras_bert/text",),
        whole=unigram_tokenizer,
        parts={
            "8,000 pieces, differences": "differences, 8,000 pieces",
            "8,000 pieces with bytes, differences": "differences, 8,000 pieces with bytes",
            "42-languages, differences": "differences, 42 languages",
            "42-languages, speed": "speed, 42 languages",
            "8,000 pieces, speed": "speed, 8,000 pieces",
            "8,000 pieces with bytes, speed": "speed, 8,000 pieces with bytes",
            "8,000 pieces, ids, SentencePiece 0.2.1": "ids, 8,000 pieces",
            "8,000 pieces with bytes, ids, SentencePiece 0.2.1": "ids, 8,000 pieces with bytes",
        },
    ),
    "multilingual_trimming": Page(
        "Trimming a multilingual vocabulary",
        "A vocabulary of 250,000 pieces in 42 languages, trimmed for English and Chinese; sentences are held out.",
        "A sentence whose pieces are all kept has the same ids and the same vector. The more pieces are left out, the "
        "fewer such sentences there are.",
        "Text",
        code=("export/compression/vocabulary.py", "keras_bert/text"),
        whole=multilingual_trimming,
        parts=TRIMMED,
    ),
    "corpus": Page(
        "Text to pretraining examples",
        "English Wikipedia prose into next-sentence examples of 128 tokens, beside the algorithm of the original "
        "`create_pretraining_data` (Python tokenizer, everything in memory).",
        "Memory does not grow with the text.",
        "Text",
        lambda run: compared("MB/s")(run) if run["part"] == "speed" else tables_of(data(run)),
        ("keras_bert/pretraining/corpus", "keras_bert/text"),
        parts={"speed": "Speed", "memory": "Memory"},
    ),
    "mediapipe_tokenizer": Page(
        "MediaPipe's tokenizer",
        "MediaPipe's `TextClassifier` and `TextEmbedder` open the exported files, but split texts with a simpler "
        "tokenizer. The table counts characters, alone and inside a word, whose ids differ from BERT's: as they are, "
        "and after the app has normalized the text (lower case, NFD, no marks or control characters, one kind of "
        "space).",
        "After normalizing, only signs of rare scripts differ. It always lowercases ASCII: for cased models use "
        "the tokenizers under `examples/android` and `examples/web`.",
        "Text",
        code=("keras_bert/text", "export/file"),
    ),
    "encoder": Page(
        "Encoder",
        f"{MINILM}, the same weights in all contenders; forward pass and training step (AdamW, dropout 0.1), the "
        "minimum of many rounds in which contenders take turns.",
        "The forward pass is a tie within noise; the lead of the training step is not. It comes from dropout by "
        "hashing.",
        "Training",
        encoder,
        ("keras_bert/model",),
        parts={
            "": "A quiet machine",
            "on a less quiet machine": "A machine that was less quiet",
            "default allocator": "The default allocator",
        },
    ),
    "pretraining": Page(
        "Pretraining step",
        f"English Wikipedia prose as next-sentence examples, {MINILM}, MLM and NSP, AdamW. Real tokens a second: "
        "padding is not counted. For `short` rows, each paragraph is a document.",
        "Packing pays on short texts. `masked positions alone` is transformers with an MLM head that was changed by "
        "hand to skip all other tokens, which `BertForPreTraining` does not do.",
        "Training",
        pretraining,
        ("keras_bert/pretraining", "keras_bert/model"),
        ("pretraining",),
        parts={"speed": "Speed", "idle": "Waiting for input"},
    ),
    "pretraining_hour": Page(
        "Pretraining on a CPU",
        "51 MB of English Wikipedia prose, a vocabulary of 8,000 learned from it, the tiny size (2 layers, width 128), "
        "measured on held-out prose. The curve of 24,000 steps has random first weights, and was fine-tuned on 2,000 "
        "reviews of SST-2.",
        "Heads that look at neighbours, the default, save most of the steps. At the rates that suit 2,000 reviews, an "
        "hour from random weights gains nothing over none.",
        "Training",
        code=("keras_bert/pretraining",),
    ),
    "pretraining_ablation": Page(
        "Parts of the pretraining recipe",
        "English Wikipedia prose, rows of 64 tokens, batches of 32; each variant changes one setting of the default "
        "recipe of `keras-bert pretrain`. Perplexities are those of held-out prose with 15 % masks.",
        "The initial weights matter most: heads that look at neighbours learn in few steps what random ones do not.",
        "Training",
        code=("keras_bert/pretraining", "keras_bert/model"),
        whole=pretraining_ablation,
    ),
    "pretraining_gain": Page(
        "What pretraining is worth",
        "Several starts, fine-tuned on one suite of tasks. Tiny ones have the rate of three that does best on held-out "
        "training data, and three seeds; small ones have one seed and the default rate of their width.",
        "`random` is the floor: the same sizes with fresh weights. `distilled` are the weights of this library, which "
        "learned from a teacher on raw text, and gain most where little is trained and for entities. `teacher` is the "
        "ceiling of `small-en`: MiniLM, with twice its blocks.",
        "Training",
        code=("keras_bert/pretraining", "keras_bert/finetuning"),
        whole=pretraining_gain,
    ),
    "sampled_softmax": Page(
        "Sampled softmax",
        "A training step of the mini size (4 layers, width 256) for each vocabulary; then the tiny size trained with "
        "each softmax from the same weights on the same batches, and measured with the full softmax on held-out text.",
        "One seed at the very beginning of training: the perplexities are equal within noise. That holds where the "
        "bias begins with the tokens' frequencies; from zero, sampling costs perplexity.",
        "Training",
        sampled_softmax,
        ("keras_bert/pretraining",),
        parts={
            "speed": "Speed",
            "quality": "Quality",
            "quality, bias from zero": "Quality, with a bias that begins at zero",
        },
    ),
    "finetuning": Page(
        "Fine-tuning on SST-2",
        f"MiniLM, {SST2}. Ours trains packed rows and the used part of the token table, compiled by XLA; PyTorch has "
        "length buckets; keras-hub's `BertTextClassifier` a fixed length of 64. The speed is that of the second pass.",
        "Accuracy after two passes over few examples says that all learn, not which learns better. Why keras-hub is "
        "slower with the others' schedule was not investigated.",
        "Training",
        EXAMPLES,
        TASKS,
        ("finetuning",),
    ),
    "training_parity": Page(
        "Step by step beside PyTorch",
        "MiniLM learns intents and slots of the bundled commands, from the same weights and heads, on the same batches "
        "of 16 at 1e-4: mean loss of ten steps, then that of 145 unseen commands.",
        "Without dropout, the losses of TensorFlow, JAX and PyTorch agree to three digits; each draws its own dropout. "
        "With an epsilon of 1e-6 ours are behind from the first steps on.",
        "Training",
        code=TASKS,
        parts={"": "Adam's epsilon of 1e-8", "epsilon 1e-06": "Adam's epsilon of 1e-6"},
    ),
    "glue_results": Page(
        "MiniLM on GLUE",
        "Each task's own metric on its dev set. For whole training sets the best measurement on dev counts, as is "
        "usual for GLUE; with few examples the last weights count and nothing is chosen.",
        "The best of several measurements on dev is better than what to expect on new texts. With few examples, "
        "`few_sample` helps single sentences and gains nothing on pairs.",
        "Tasks",
        code=TASKS,
        parts={"few": "A thousand examples"},
    ),
    "text_classification": Page(
        "Other uses of the classifier",
        "The example script on three data sets, the last weights.",
        "The same class learns languages, topics and entailment.",
        "Tasks",
        code=TASKS,
        joined=True,
    ),
    "pooling": Page(
        "What the head reads",
        "MiniLM on the bundled commands: test accuracy of heads on the first token and on the mean, the last weights.",
        "On a frozen sentence encoder the mean is better by far; fine-tuned, the difference is within noise.",
        "Tasks",
        code=TASKS,
    ),
    "question_answering": Page(
        "Questions",
        "MiniLM on SQuAD 1.1, one pass over some of its training questions; all dev questions, the last weights.",
        "One seed, and less than half of the training data.",
        "Tasks",
        code=TASKS,
    ),
    "question_answering_peers": Page(
        "Questions beside transformers",
        f"SQuAD 1.1, MiniLM beside `BertForQuestionAnswering`. {AGAINST}",
        "Training stops where a model begins to find answers, so seeds differ widely: both learn.",
        "Tasks",
        peers,
        TASKS,
        parts={"": "Quality", "speed": "Speed"},
    ),
    "intent_slots": Page(
        "Intents and slots beside transformers",
        f"SNIPS, MiniLM beside BertModel with two heads. {AGAINST}",
        "Training this short works better without dropout.",
        "Tasks",
        peers,
        TASKS,
        parts={"": "Quality", "speed": "Speed", "all of SNIPS": "All of SNIPS", "by hand": "Other weights and dropout"},
    ),
    "tagging": Page(
        "Entities beside transformers",
        f"WNUT-17 with MiniLM, Chinese résumés with m3e-small, beside `BertForTokenClassification`. {AGAINST}",
        "Ours is faster and at least as good; two seeds do not tell differences below a point apart.",
        "Tasks",
        peers,
        TASKS,
        parts={
            "wnut17": "WNUT-17",
            "ner_zh_resume": "Chinese résumés",
            "wnut17, speed": "WNUT-17, speed",
            "ner_zh_resume, speed": "Chinese résumés, speed",
        },
    ),
    "relation": Page(
        "Relations beside transformers",
        f"SemEval-2010 task 8, MiniLM beside `BertForSequenceClassification` on the same ids. {AGAINST}",
        "Ours reads the states of both markers, the peer's head that of the first token.",
        "Tasks",
        peers,
        TASKS,
        parts={"": "Quality", "speed": "Speed"},
    ),
    "aspect": Page(
        "Aspects beside transformers",
        f"SemEval-2014, terms of restaurants, MiniLM beside `BertForSequenceClassification`. {AGAINST}",
        "Differences of accuracy are within one deviation of the test set.",
        "Tasks",
        peers,
        TASKS,
        parts={"": "Quality", "speed": "Speed", "four epochs": "Four epochs, two ways of pooling"},
    ),
    "similarity": Page(
        "Sentence vectors",
        "How well the cosines of sentence vectors agree with the scores of STS-B's dev set, without tuning: "
        "all-MiniLM-L6-v2, and the weights of this library, which learned from it on English Wikipedia.",
        "Nothing was trained: the numbers are those of the weights.",
        "Tasks",
        code=("keras_bert/tasks/similarity",),
        joined=True,
    ),
    "small_vectors": Page(
        "Small vectors",
        "all-MiniLM-L6-v2's vectors, as they are and after training with `matryoshka=(128, 64)`: Spearman on STS-B's "
        "dev set by the number of dimensions, and the recall of a search among sentences of its training split. The "
        "large search is in sentences of Wikipedia, with `tiny-en`.",
        "Bytes lose nothing that matters. Bits find candidates, which bytes then rank; if the candidates are a tenth "
        "of a large collection, the search finds what bytes alone find. MiniLM's first dimensions are good as they "
        "are, so training with `matryoshka` gains little over training without it.",
        "Tasks",
        code=("keras_bert/decoding", "keras_bert/tasks/similarity"),
        whole=small_vectors,
        parts={**SMALL_VECTORS, "large": "the large search"},
    ),
    "teacher_to_student": Page(
        "Teacher to student",
        f"MiniLM fine-tuned on SST-2, beside smaller models made from it by cutting, distilling and rounding. {SST2}, "
        "each at its own length, through LiteRT, batch 1, one thread, all files in one run; the best measurement on "
        "dev.",
        "Cutting the teacher's own blocks works; neurons are removed last. TinyBERT-4's paper: 7.5× smaller, 9.4× "
        "faster, 96.8 % over BERT-base.",
        "Small and fast",
        teacher_to_student,
        ("export/compression", "export/distillation", "export/tflite"),
        ("student_size", "student_time"),
        parts={"": "Teacher and student", "without a teacher": "Without a teacher", "tried": "What else was tried"},
    ),
    "demo": Page(
        "The demo",
        "`make demo`: MiniLM learns the bundled commands to a phone assistant, and a search finds the smallest file "
        "that keeps the accuracy on validation data within 3 points. Milliseconds for one command on one thread.",
        "The library's own weights (`tiny-en`) make the smallest file that was measured.",
        "Small and fast",
        demo,
        ("examples/assistant_demo.py", "export/search", "export/deployment"),
    ),
    "distillation": Page(
        "Distillation into a narrow student",
        "Three fresh blocks of width 192; the time of an epoch with the teacher's answers kept, and how much the "
        "teacher helps.",
        "Keeping the answers makes epochs faster. A narrow student of fresh blocks gains little from the teacher; "
        "students cut out of the teacher gain more (teacher_to_student).",
        "Small and fast",
        distillation,
        ("export/distillation",),
        parts={"speed": "Speed", "quality": "Quality", "quality, 8,000 examples": "Quality with 8,000 examples"},
    ),
    "pruning": Page(
        "Pruning",
        "Zeros in the blocks' matrices, trained by `export.prune`; 128 tokens, one thread. `zip` is what a download "
        "makes of the file; `sparse` is TensorFlow's converter, which stores matrices without their zeros.",
        "Zeros make downloads smaller and nothing faster. It is better to remove neurons, heads and blocks.",
        "Small and fast",
        pruning,
        ("export/compression", "export/tflite"),
    ),
    "quantization": Page(
        "Quantization",
        "Files of any length through LiteRT: rounded after training, calibrated with 256 training texts; `mixed`, "
        "where the matrices that four bits hurt most may keep more bits; quantization-aware training (QAT), one epoch "
        "with the float model as the teacher.",
        "Rounding after training costs this model less than a point, training for it less still. On noisy "
        "entities all differences are within noise.",
        "Small and fast",
        quantization,
        ("export/quantization", "export/tflite"),
        parts={"sst2": "SST-2", "wnut17": "WNUT-17"},
    ),
    "tflite_recipes": Page(
        "TFLite recipes",
        "MiniLM on the bundled commands, 128 tokens, one thread of a CPU without VNNI, the minimum of many runs. "
        "Cosine: the mean-pooled output beside that of the float32 file.",
        "`static_int16x8` is for accelerators that compute in integers; CPUs have no fast kernels for it. "
        "`static_int8` is slower than `dynamic_int8` here: it gains on ARM and on NPUs.",
        "Small and fast",
        tflite_recipes,
        ("export/tflite", "export/quantization"),
    ),
    "inference": Page(
        "Inference",
        "MiniLM fine-tuned on SST-2 in every runtime, one row at a time. `own length`: the mean over the dev texts at "
        "their own lengths where the runtime can; `same`: texts with the answer of Keras in float32.",
        "In 8 or 4 bits, ours is the fastest at every length. OpenVINO comes nearest on long rows; on texts of "
        "changing lengths it takes about twice as long as on those of one length.",
        "Small and fast",
        inference,
        ("export/tflite", "export/runtime"),
    ),
    "inference_wall": Page(
        "Inference on quiet cores",
        "MiniLM fine-tuned on SST-2 in every runtime, one row at a time, wall time, the least of 40. `own length`: the "
        "mean over the dev texts at their own lengths where the runtime can; `same`: texts with the answer of Keras in "
        "float32.",
        "keras-hub's files have one length. OpenVINO's float32 model may compute in bfloat16 on a processor that has "
        "it, such as this one. `as without VNNI` has `session.x64quantprecision=1`, which such CPUs need.",
        "Small and fast",
        inference_wall,
        ("export/tflite", "export/runtime"),
        charts=("inference", "inference_size"),
        parts={"1 thread": "One thread", "2 threads": "Two threads"},
    ),
    "npu": Page(
        "Recipes for NPUs",
        "SST-2's dev split and WNUT-17's test split through the device's runtime, and which ops of files for 128 "
        "tokens each delegate supports by its documentation. Calibration used 256 training texts.",
        "No NPU was available: the scores are those of a CPU's kernels.",
        "Small and fast",
        npu,
        ("export/quantization", "export/tflite", "export/file"),
    ),
    "saved_model": Page(
        "SavedModel",
        f"A classifier as a SavedModel from raw strings, beside ONNX Runtime with a tokenizer; {SST2}, batches of 32.",
        "Leaving the padding out halves the work; bfloat16, on a processor that has it, saves a fifth of the rest.",
        "Serving",
        saved_model,
        ("export/serving",),
    ),
    "serving": Page(
        "Server",
        f"`keras-bert serve` beside other servers of the same model, over HTTP; {SST2}.",
        "Server and clients share the two cores. The files start in under a second, and answer about one and a half "
        "times as many requests as ONNX Runtime in int8. Alone, without a server, the models differ by about as much.",
        "Serving",
        serving,
        ("export/server",),
    ),
    "serving_soak": Page(
        "Server under a long load",
        "Well-behaved clients, broken requests and new versions of the model at the same time.",
        "Nothing was lost or wrong. The highest memory depends on how many versions are open at once; the median of a "
        "minute did not grow.",
        "Serving",
        serving_soak,
        ("export/server",),
    ),
    "accelerators": Page(
        "Accelerators, compiled for and not run on",
        "The pretraining step compiled by XLA for chips that are not there. `GiB` is the memory that a chip needs, "
        "`largest batch` what would fit; `ms at peak` is a bound, the products at the chip's peak rate; `ms, "
        "estimated` is the compiler's own estimate, for TPUs alone, and `% of peak` the ratio of the two.",
        "Nothing here ran on a chip: a TPU's time is the compiler's estimate, a GPU has only the bound of its peak. A "
        "base model is estimated at half of a v5e's peak in rows of 128 tokens. Narrow models use less of it, and so "
        "do long rows, where attention takes much of the time.",
        "Training",
        code=("keras_bert/pretraining", "keras_bert/model", "keras_bert/training"),
        whole=accelerators,
    ),
    "pretraining_input": Page(
        "The input of pretraining",
        "Rows per second of processor time, in all threads together: for examples that are parsed, packed and masked "
        "on the way, and for rows that were packed when they were written and are masked by the training step.",
        "Rows that were packed when they were written cost little: in large batches, a tenth of what examples cost. "
        "In batches of 16 rows, making the batch is most of the work.",
        "Training",
        code=("keras_bert/pretraining", "keras_bert/batching"),
    ),
    "faults": Page(
        "Killed at any moment",
        "Every long job is killed at random moments, started again, and compared with an undisturbed run.",
        "A fault is a run that ends differently from the undisturbed one, or cannot continue.",
        "Trust",
        counted,
        joined=True,
        parts=FAULTS,
    ),
    "fuzz": Page(
        "Broken files",
        "Files of every format that is read, broken at random and by known tricks. A finding would be a crash, a hang, "
        "memory without bounds, a strange error or executed code; it is fixed, and its file becomes a test.",
        "`opened` files were harmless, `refused` ones gave an error in words; what was `found` is fixed.",
        "Trust",
        counted,
        joined=True,
    ),
    "endurance": Page(
        "One process for long",
        "Memory and time of one process that does the same work again and again, after the first fifth, in which "
        "shapes are compiled and pools fill.",
        "A leak would show as memory that keeps growing after the warm-up.",
        "Trust",
        endurance,
        joined=True,
    ),
    "generation": Page(
        "Writing",
        "Small models that learn to write from few pairs. Weights are those of the best loss on development data; "
        "nothing was chosen by the test data. BLEU is sacreBLEU's, ROUGE rouge-score's (F), by characters for "
        "Chinese; distinct-2 is the share of word pairs that are not repetitions.",
        "German captions and Chinese titles work. Replies and summaries of dialogues do not, from so few pairs: "
        "copying has more BLEU.",
        "Writing",
        code=("keras_bert/tasks/generation",),
        parts={
            "multi30k": "English captions to German (Multi30k)",
            "zh_en": "Chinese to English (Tatoeba)",
            "en_zh": "English to Chinese (Tatoeba)",
            "csl": "Titles of Chinese abstracts (CSL)",
            "dailydialog": "Replies (DailyDialog)",
            "samsum": "Summaries of dialogues (SAMSum)",
        },
    ),
    "generation_cache": Page(
        "The cache of a writer",
        "MiniLM as a writer, greedy, the least of several. `recomputed` runs the whole row again for each token; both "
        "write the same tokens.",
        "A single short text gains least.",
        "Writing",
        divided("recomputed, s", "cached, s", "faster"),
        ("keras_bert/tasks/generation",),
    ),
    "generation_export": Page(
        "A file that writes",
        "SimBERT tiny, greedy, one source at a time, one thread, on Chinese sentences of Tatoeba. `same tokens`: the "
        "share of the tokens that Keras wrote which the file would have chosen in their place.",
        "Four bits without training for them are of no use for writing.",
        "Writing",
        generation_export,
        ("export/tflite", "export/runtime"),
    ),
}
