"""The packages of the extra `serve`. Other modules take them from here: one error names the `pip install` line."""

try:
    import orjson as orjson
    import prometheus_client as prometheus_client
    import uvicorn as uvicorn
    from prometheus_client.process_collector import ProcessCollector as ProcessCollector
    from starlette.applications import Starlette as Starlette
    from starlette.exceptions import HTTPException as HTTPException
    from starlette.requests import ClientDisconnect as ClientDisconnect
    from starlette.requests import Request as Request
    from starlette.responses import Response as Response
    from starlette.routing import Route as Route
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as HttpToolsProtocol
except ImportError as error:
    raise ImportError("Serving over HTTP needs more packages: pip install 'keras-bert-edge[serve]'") from error
