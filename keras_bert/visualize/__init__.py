"""Looking instead of reading: what a model attends to, which tokens made an answer, what enters it, what masks hide.

Takes a task (or an encoder with its tokenizer) and a text, gives a value that shows itself: `.html()` is a page that
needs nothing from outside, `.save("x.html")` and `.save("x.png")` write it, and notebooks show it as it is.

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
