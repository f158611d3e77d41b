"""The web application: routes, from a request to its answer, and what is counted and logged of it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from export.server.answering import join
from export.server.extra import ClientDisconnect, HTTPException, Request, Response, Route, Starlette, orjson
from export.server.limits import Limits, RequestError
from export.server.monitoring import Log, Metrics
from export.server.openai import as_openai_error, describe_as_openai, read_embeddings
from export.server.own import describe_page, read_answer
from export.server.requests import read_json
from export.server.tf_serving import Asked, describe_model, describe_status, read_predict, read_ranking
from export.server.versions import Version, Versions
from export.server.work import Job, WorkQueue

MODEL, EMBED, _VERBS = "/v1/models/{target}", "/v1/embeddings", ("predict", "classify", "regress", "answer")
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"
_QUICK = 0.1  # seconds
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_RAW_HEADERS = [
    (name.encode(), value.encode()) for name, value in {**_HEADERS, "content-type": "application/json"}.items()
]
_PAGE = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}


@dataclass
class Service:
    """A served model: its versions, its queue, and what is counted.

    Args:
        name: The name of the model in requests.
        versions: The versions of the model.
        limits: What is allowed.
        log: Where events are written.
        refresh: Seconds between two looks for new versions; 0 never looks.
    """

    name: str
    versions: Versions
    limits: Limits = field(default_factory=Limits)
    log: Log = field(default_factory=Log)
    refresh: float = 1.0

    def __post_init__(self) -> None:
        self.metrics, self.started, self.is_stopping = Metrics(), int(time.time()), False
        self.work = WorkQueue(
            self.versions.num_threads, max_waiting=self.limits.max_queue, watch=self.metrics.waits.observe
        )
        self.metrics.waiting.set_function(lambda: self.work.waiting)
        self.metrics.version.set_function(lambda: self.versions.current.number)
        self.versions.watch = self._note_version

    def _note_version(self, word: str, number: int, error: str) -> None:
        self.log.write(f"version_{word}", version=number, **({"type": error} if error else {}))
        if word == "refused":
            self.metrics.refused.inc()

    def start(self) -> None:
        """Begin to look for new versions."""
        if self.refresh:
            self.versions.start(self.refresh)

    def stop(self) -> None:
        """Finish what waits, and end all threads."""
        self.is_stopping = True
        self.versions.stop()
        self.work.close()

    # === Answers ===

    async def answer(self, version: Version, asked: Asked, request: Request) -> tuple[Any, int, int]:
        """Run a request; give the value of its answer, and how many texts and tokens it had."""
        job = self.work.submit(lambda thread, part: asked.run(version.runtimes[thread], part), asked.rows, asked.kind)
        parts = await self._result(job, request)
        joined = join(parts, version.served)
        tokens = sum(joined.tokens)
        self.metrics.texts.inc(len(asked.rows))
        self.metrics.tokens.inc(tokens)
        options = {"tokens": tokens} if asked.counts_tokens else {}
        return asked.answer(joined.columns, **options), len(asked.rows), tokens

    async def _result(self, job: Job, request: Request) -> Any:
        """Wait for a job, while the client waits and no longer than the time-out."""
        # Most answers are quick, and whether the client is still there is not asked for them: it costs as much as all
        # the rest of a request. A timer and a plain future cost a third of `asyncio.wait`.
        done = _done(job)
        timer = asyncio.get_running_loop().call_later(_QUICK, _wake, done)
        try:
            await done
            if not job.future.done():
                await self._watch(job, request)
            return job.future.result()
        finally:
            timer.cancel()
            if not job.future.done():
                self.work.drop(job)

    async def _watch(self, job: Job, request: Request) -> None:
        """Wait for an answer that takes longer; raise an error if it takes too long, or the client is gone."""
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait(
                (_done(job), gone), timeout=self.limits.timeout - _QUICK, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            gone.cancel()
        if not job.future.done():
            if gone.done() and not gone.cancelled():
                raise ClientDisconnect
            raise RequestError(504, f"The answer took more than {self.limits.timeout:g} seconds; send fewer texts.")


def _done(job: Job) -> asyncio.Future[None]:
    """A future of the running loop that ends when the job does, however it does."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    job.future.add_done_callback(lambda _: loop.call_soon_threadsafe(_wake, done))
    return done


def _wake(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# === Routes ===


def make_app(service: Service) -> "App":
    """Make the ASGI application of a service.

    Example:
        >>> app = make_app(Service("sentiment", versions))  # doctest: +SKIP
    """

    def model(suffix: str, answer: Any, methods: list[str]) -> list[Route]:
        places = (MODEL, "/v1/models/{name}/versions/{target}")
        return [_route(service, f"{place}{suffix}", answer, methods) for place in places]

    routes = [  # those that are asked most come first
        *model("", _post_model, ["POST"]),
        _route(service, EMBED, _embed, ["POST"]),
        _route(service, "/healthz", _health, ["GET"]),
        _route(service, "/metrics", _metrics, ["GET"]),
        _route(service, "/v1/models", _list_models, ["GET"]),
        *model("/metadata", _metadata, ["GET"]),
        *model("", _status, ["GET"]),
        _route(service, "/about.json", _about, ["GET"]),
        *(_route(service, f"/{path}", _page_file(*what), ["GET"]) for path, what in _PAGE.items()),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _no_route})
    app.router.redirect_slashes = False
    return App(app, service)


class App:
    """Takes requests for answers past Starlette's middleware and routes, which cost as much as reading the request."""

    def __init__(self, app: Starlette, service: Service):
        self._app = app
        post, embed = (_endpoint(service, path, answer) for path, answer in ((MODEL, _post_model), (EMBED, _embed)))
        self._posts = {f"/v1/models/{service.name}:{verb}": (post, f"{service.name}:{verb}") for verb in _VERBS}
        self._posts[EMBED] = (embed, "")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = self._posts.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            return await self._app(scope, receive, send)
        endpoint, target = found
        response = await endpoint(Request({**scope, "path_params": {"target": target}}, receive))
        await response(scope, receive, send)
        return None


@dataclass
class Call:
    """A request on its way: what is counted and logged of it. `method` is one of a few words."""

    method: str = "other"
    texts: int = 0
    tokens: int = 0


Endpoint = Callable[[Service, Request, Call], Awaitable[Response]]


def _route(service: Service, path: str, answer: Endpoint, methods: list[str]) -> Route:
    return Route(path, _endpoint(service, path, answer), methods=methods)


def _endpoint(service: Service, path: str, answer: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose errors become answers, and whose requests are counted and logged."""

    async def endpoint(request: Request) -> Response:
        start, call = time.perf_counter(), Call()
        try:
            response = await answer(service, request, call)
        except RequestError as error:
            response = _error(error, openai=path == EMBED)
        except ClientDisconnect:
            service.metrics.dropped.inc()
            response = Response(status_code=499)  # nobody gets it
        except Exception as error:
            service.log.write_error(error)
            failure = RequestError(500, "The server failed on this request; its log says where.")
            response = _error(failure, openai=path == EMBED)
        seconds = time.perf_counter() - start
        service.metrics.count(call.method, response.status_code, seconds)
        if service.log.requests and call.method != "other":
            facts = {"texts": call.texts, "tokens": call.tokens} if call.texts else {}
            version = service.versions.current.number
            service.log.write(
                "request",
                method=call.method,
                status=response.status_code,
                seconds=round(seconds, 6),
                version=version,
                **facts,
            )
        return response

    return endpoint


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    content = orjson.dumps(value, default=_plain_array, option=orjson.OPT_SERIALIZE_NUMPY)
    if headers is None and status == 200:
        return _Answer(content)
    return Response(content, status, {**_HEADERS, **(headers or {})}, "application/json")


class _Answer(Response):
    """A response with status 200 and JSON, whose headers are known but for the length."""

    def init_headers(self, headers: Any = None) -> None:
        """Set the headers."""
        self.raw_headers = [*_RAW_HEADERS, (b"content-length", b"%d" % len(self.body))]


def _plain_array(value: Any) -> Any:
    """Arrays that are not in one piece."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"Got {type(value).__name__} in an answer; expected plain values, arrays and dataclasses.")


def _error(error: RequestError, *, openai: bool = False) -> Response:
    value = as_openai_error(error.status, error.sentence) if openai else {"error": error.sentence}
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if error.status in (408, 413):
        headers["connection"] = "close"  # the rest of the body is not read
    return _json(value, error.status, headers)


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    words = {404: "There is nothing at this address; GET / shows what there is.", 405: "Use another HTTP method here."}
    return _error(RequestError(status, words.get(status, "The request cannot be answered.")))


# === TF Serving ===


def _target(service: Service, request: Request) -> tuple[Version, str]:
    """The version that a request names, and the verb after the colon."""
    target, _, verb = request.path_params["target"].partition(":")
    name, version = request.path_params.get("name"), service.versions.current
    if (target if name is None else name) != service.name:
        raise RequestError(404, f"There is no model of that name; this server has {service.name}.")
    if name is not None and target != str(version.number):
        raise RequestError(404, f"There is no such version; this server has {version.number}.")
    return version, verb


async def _post_model(service: Service, request: Request, call: Call) -> Response:
    _, verb = _target(service, request)
    if verb not in _VERBS:
        raise RequestError(404, "There is no such method; use :predict, :classify, :regress or :answer.")
    call.method = verb
    body = await read_json(request, service.limits)
    version, _ = _target(service, request)  # only now: a slow client would keep an old one open
    if verb == "predict":
        asked = read_predict(version, body, service.limits)
    elif verb == "answer":
        asked = read_answer(version, body, service.limits)
    else:
        asked = read_ranking(version, body, service.limits, verb)
    value, call.texts, call.tokens = await service.answer(version, asked, request)
    return _json(value)


async def _status(service: Service, request: Request, call: Call) -> Response:
    _, verb = _target(service, request)
    if verb:
        raise RequestError(405, "Use POST for this method.")
    return _json({**describe_status(service.versions), **describe_as_openai(service.name, service.started)})


async def _metadata(service: Service, request: Request, call: Call) -> Response:
    version, _ = _target(service, request)
    return _json(describe_model(version, service.name))


# === OpenAI ===


async def _embed(service: Service, request: Request, call: Call) -> Response:
    call.method = "embeddings"
    body = await read_json(request, service.limits)
    version = service.versions.current
    asked = read_embeddings(version, body, service.limits, service.name)
    value, call.texts, call.tokens = await service.answer(version, asked, request)
    return _json(value)


async def _list_models(service: Service, request: Request, call: Call) -> Response:
    return _json({"object": "list", "data": [describe_as_openai(service.name, service.started)]})


# === The server itself ===


async def _health(service: Service, request: Request, call: Call) -> Response:
    state = {"status": "stopping" if service.is_stopping else "ok", "version": service.versions.current.number}
    return _json(state, 503 if service.is_stopping else 200)


async def _metrics(service: Service, request: Request, call: Call) -> Response:
    return Response(service.metrics.text(), 200, _HEADERS, "text/plain; version=0.0.4; charset=utf-8")


async def _about(service: Service, request: Request, call: Call) -> Response:
    return _json(describe_page(service.versions.current, service.name))


def _page_file(name: str, media_type: str) -> Endpoint:
    content = files("export.server").joinpath("page", name).read_bytes()

    async def answer(service: Service, request: Request, call: Call) -> Response:
        return Response(content, 200, {**_HEADERS, "content-security-policy": _POLICY}, media_type)

    return answer
