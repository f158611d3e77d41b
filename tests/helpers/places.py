"""Where things are: the project, its tests, the helpers and the golden files."""

from pathlib import Path

HELPERS = Path(__file__).resolve().parent
TESTS = HELPERS.parent
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
