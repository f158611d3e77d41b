"""Serve a `.tflite` file over HTTP without TensorFlow: TF Serving's REST API, OpenAI's embeddings, metrics and a page.

`source.py` finds the file, `versions.py` opens it and its successors, `work.py` runs it in threads, and `answering.py`
turns rows into answers. `tf_serving.py`, `openai.py` and `own.py` are the interfaces; `app.py` joins them, `running.py`
serves. `keras-bert serve` is the command. Needs the extra `serve`.
"""
