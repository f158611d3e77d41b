"""`python -m keras_bert.cli`: the same as `keras-bert`."""

import sys

from keras_bert.cli import main

if __name__ == "__main__":
    sys.exit(main())
