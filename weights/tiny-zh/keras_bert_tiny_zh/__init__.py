"""The weights `tiny-zh` of keras-bert-edge, in `model/`: `keras_bert.load_encoder("tiny-zh")` finds them."""
