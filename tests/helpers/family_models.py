"""What makes a tiny model one of another family, and the outputs that transformers' classes give."""

TWISTS = {
    "xlm-roberta": {"position_offset": 2, "num_segments": 1, "layer_norm_epsilon": 1e-5},
    "distilbert": {"num_segments": 0, "pooler_activation": "relu"},
    "electra": {"pooler_activation": "gelu", "embedding_dim": 8},
}
# Their outputs by ours, and the class's name without the family.
OUTPUTS = {
    "ForMaskedLM": {"mlm_logits": ("logits",)},
    "ForPreTraining": {"replaced_logits": ("logits",)},
    "ForSequenceClassification": {"class_logits": ("logits",)},
    "ForTokenClassification": {"token_logits": ("logits",)},
    "ForQuestionAnswering": {"span_logits": ("start_logits", "end_logits")},
    "XLMRobertaModel": {"sequence_output": ("last_hidden_state",), "pooled_output": ("pooler_output",)},
    "DistilBertModel": {"sequence_output": ("last_hidden_state",)},
    "ElectraModel": {"sequence_output": ("last_hidden_state",)},
}
