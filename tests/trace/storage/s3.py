"""A real S3 API on the loopback, and a way to it that can fail."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
from moto.server import ThreadedMotoServer

REFUSAL = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'


@dataclass
class Store:
    """The store behind a way that can fail.

    Args:
        endpoint: The address of the way.
        requests: Method, path and range of each request.
        is_denied: Whether each request is refused.
        cut_at: How many bytes of an object are sent at most before the connection is cut; None for
            all.
        cuts_left: How many answers are cut; None for each.
    """

    endpoint: str
    backend: str
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    is_denied: bool = False
    cut_at: int | None = None
    cuts_left: int | None = None
    only: str = ""

    def put(self, bucket, **objects):
        client = boto3.client(
            "s3",
            endpoint_url=self.backend,
            aws_access_key_id="a",
            aws_secret_access_key="b",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=bucket)
        for key, content in objects.items():
            client.put_object(Bucket=bucket, Key=key, Body=content)

    def heal(self):
        self.requests.clear()
        self.is_denied = False
        self.cut_at = None
        self.cuts_left = None
        self.only = ""

    def cut_for(self, path):
        """How much of the next answer is sent."""
        if self.cut_at is None or self.cuts_left == 0 or self.only not in path:
            return None
        if self.cuts_left is not None:
            self.cuts_left -= 1
        return self.cut_at


@contextmanager
def store():
    """The store, until the block ends."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    served = Store("", f"http://{host}:{port}")

    class Way(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self):
            served.requests.append((self.command, self.path, self.headers.get("Range")))
            if served.is_denied:
                self._answer(403, {}, b"" if self.command == "HEAD" else REFUSAL)
                return
            backend = http.client.HTTPConnection(host, port)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            backend.request(self.command, self.path, body, dict(self.headers))
            answer = backend.getresponse()
            self._answer(answer.status, dict(answer.getheaders()), answer.read())
            backend.close()

        do_GET = do_HEAD = do_POST = do_PUT = _pass

        def _answer(self, status, headers, body):
            self.send_response_only(status)
            headers = {
                name: value
                for name, value in headers.items()
                if name.lower() != "transfer-encoding"
            }
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            cut = (
                served.cut_for(self.path)
                if self.command == "GET" and "list-type" not in self.path
                else None
            )
            self.wfile.write(body[:cut])
            if cut is not None:
                self.close_connection = True

        def log_message(self, *_): ...

    way = ThreadingHTTPServer(("127.0.0.1", 0), Way)
    threading.Thread(target=way.serve_forever, daemon=True).start()
    served.endpoint = f"http://127.0.0.1:{way.server_port}"
    try:
        yield served
    finally:
        way.shutdown()
        way.server_close()
        moto.stop()
