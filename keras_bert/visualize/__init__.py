"""Views of a model: its attention, the attributions of its answers, its inputs, and attention masks.

Each function takes a task (or an encoder with its tokenizer) and a text, and gives a view. `.html()` is a
self-contained page, `.save("x.html")` and `.save("x.png")` write it, and notebooks display it.

Example:
    ```python
    from keras_bert import visualize

    visualize.attention(classifier, "What a lovely film!", layer=-1)
    visualize.attributions(classifier, "What a lovely film!", label="positive").save("why.html")
    ```
"""

from keras_bert.visualize.attention_heads import Attention, attention
from keras_bert.visualize.embedding_vectors import EmbeddingInputs, embedding_inputs
from keras_bert.visualize.mask_patterns import MaskPattern, packed_mask, padding_mask, prefix_mask
from keras_bert.visualize.token_attributions import Attributions, attributions

__all__ = [
    "Attention",
    "Attributions",
    "EmbeddingInputs",
    "MaskPattern",
    "attention",
    "attributions",
    "embedding_inputs",
    "packed_mask",
    "padding_mask",
    "prefix_mask",
]
