"""The weights `small-en` of keras-bert-edge, in `model/`: `keras_bert.load_encoder("small-en")` finds them."""
