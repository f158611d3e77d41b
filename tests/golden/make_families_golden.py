"""Writes what PyTorch transformers computes with small random XLM-R, DistilBERT and ELECTRA models, for each head, with
the files that it saves: the oracle of the model families.

    pip install torch transformers
    python tests/golden/make_families_golden.py        # 20 seconds; writes tests/golden/families.npz

It prints the classes that it wrote.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

SIZES = {"vocab_size": 40, "initializer_range": 0.3}
HUGGING = {"num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24}
FAMILIES = {
    "XLMRoberta": (
        transformers.XLMRobertaConfig,
        {**HUGGING, "max_position_embeddings": 14, "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5},
    ),
    "DistilBert": (
        transformers.DistilBertConfig,
        {"n_heads": 2, "dim": 16, "hidden_dim": 24, "max_position_embeddings": 12},
    ),
    "Electra": (transformers.ElectraConfig, {**HUGGING, "max_position_embeddings": 12, "embedding_size": 8}),
}
HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
OTHERS = {"Electra": ("ForPreTraining",)}
OUTPUTS = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits")


def make_inputs() -> dict[str, np.ndarray]:
    """A padded batch of pairs without XLM-R's padding token."""
    random = np.random.default_rng(3)
    mask = (np.arange(9) < np.array([[9], [6], [4]])).astype("int32")
    return {
        "token_ids": np.where(mask, random.integers(4, 40, mask.shape), 1).astype("int32"),
        "segment_ids": ((np.arange(9) >= 3) * mask).astype("int32"),
        "padding_mask": mask,
    }


def run(model: torch.nn.Module, name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    named = {"input_ids": inputs["token_ids"], "attention_mask": inputs["padding_mask"]}
    if name.startswith("Electra"):
        named["token_type_ids"] = inputs["segment_ids"]
    with torch.no_grad():
        outputs = model(**{key: torch.tensor(value).long() for key, value in named.items()})
    return {key: outputs[key].numpy() for key in OUTPUTS if outputs.get(key) is not None}


def main() -> None:
    inputs, arrays = make_inputs(), {}
    arrays.update({f"inputs/{key}": value for key, value in inputs.items()})
    for family, (make_config, sizes) in FAMILIES.items():
        for head in (*HEADS, *OTHERS.get(family, ())):
            name = family + head
            layers = {"n_layers" if family == "DistilBert" else "num_hidden_layers": 2 if head == "Model" else 1}
            labels = {"num_labels": 3} if "Classification" in head else {}
            generator = torch.Generator().manual_seed(len(arrays))
            model = getattr(transformers, name)(make_config(**SIZES, **sizes, **layers, **labels)).eval()
            with torch.no_grad():
                for weight in model.parameters():
                    # Few bits, so that the file stays small.
                    weight.copy_((torch.randn(weight.shape, generator=generator) * 0.3 + 0.1).bfloat16().float())
            with tempfile.TemporaryDirectory() as directory:
                model.save_pretrained(directory)
                arrays[f"{name}/config"] = np.array((Path(directory) / "config.json").read_text())
                for key, value in load_file(Path(directory) / "model.safetensors").items():
                    arrays[f"{name}/weights/{key}"] = value
            for key, value in run(model, name, inputs).items():
                arrays[f"{name}/outputs/{key}"] = value
            print(name, *(key.rpartition("/")[2] for key in arrays if key.startswith(f"{name}/outputs")))
    path = Path(__file__).parent / "families.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path.name}: {len(arrays)} arrays, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
