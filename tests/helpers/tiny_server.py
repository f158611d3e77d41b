"""A server in the test's own process, on the tiny files of `tests/compat/`."""

import contextlib
import io
import json
from pathlib import Path

from places import ROOT
from starlette.testclient import TestClient

from export.server.app import Service, make_app
from export.server.limits import Limits
from export.server.monitoring import Log
from export.server.source import open_source
from export.server.versions import Versions

CORPUS = min((ROOT / "tests" / "compat").glob("*/tflite")).parent
FILES = CORPUS / "tflite"


class Server(TestClient):
    """A client of a server that was started; `service` is all that is behind it."""

    service: Service
    output: io.StringIO

    @property
    def log(self) -> list[dict]:
        """The lines of the log."""
        return [json.loads(line) for line in self.output.getvalue().splitlines()]

    def ask(self, verb: str, body):
        """Post to a method of the model; give the status and the JSON value."""
        content = {"json": body} if isinstance(body, dict | list) else {"content": body}
        answer = self.post(f"/v1/models/{self.service.name}:{verb}", **content)
        return answer.status_code, answer.json()


@contextlib.contextmanager
def serving(path: Path | str, *, num_threads: int = 2, refresh: float = 0, **limits):
    """Serve a file of the corpus by its name, or any path, as the model `tiny`."""
    path = FILES / f"{path}.tflite" if isinstance(path, str) else path
    versions, output = Versions(open_source(path, name="tiny"), num_threads), io.StringIO()
    service = Service("tiny", versions, Limits(**limits), Log(output), refresh)
    with Server(make_app(service)) as server:
        server.service, server.output = service, output
        yield server
