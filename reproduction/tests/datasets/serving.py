"""A web server on this machine that behaves as well or as badly as a test wants."""

import contextlib
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is served, how, and what was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    etag: str | None = '"one"'
    date: str | None = None
    ranges: bool = True  # whether Range is honored
    checks_if_range: bool = True
    shift: int = 0  # begin a partial answer that many bytes too early
    cuts: list[int] = field(default_factory=list)  # close after so many bytes, one entry for each request
    statuses: list[int] = field(default_factory=list)  # answer with these first
    silence: float = 0.0  # seconds to wait in the middle of the body
    length: int | None = None  # a Content-Length other than the truth
    chunked: bool = False
    redirect: str | None = None
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def bytes_asked(self) -> list[str | None]:
        return [request.get("Range") for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site: Site = self.server.site
        site.requests.append(dict(self.headers))
        self.close_connection = True
        body = site.files.get(self.path.rpartition("/")[2])
        if site.statuses:
            self._answer_with_nothing(site.statuses.pop(0))
        elif body is None:
            self._answer_with_nothing(404)
        elif site.redirect is not None:
            target, site.redirect = site.redirect, None
            self._answer_with_nothing(302, Location=target)
        else:
            self._answer(site, body)

    def _answer_with_nothing(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, site, body):
        start = self._start(site)
        if start is not None and start >= len(body):
            self._answer_with_nothing(416)
            return
        self.send_response(200 if start is None else 206)
        if start is not None:
            start -= site.shift
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        body = body[start or 0 :]
        for name, value in (("ETag", site.etag), ("Last-Modified", site.date)):
            if value is not None:
                self.send_header(name, value)
        if site.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body) if site.length is None else site.length))
        self.end_headers()
        self._send(site, body)

    def _start(self, site):
        """Where the answer begins, or None for all of the file."""
        asked = self.headers.get("Range")
        if asked is None or not site.ranges:
            return None
        same = self.headers.get("If-Range") in (None, site.etag, site.date)
        return int(asked.removeprefix("bytes=").rstrip("-")) if same or not site.checks_if_range else None

    def _send(self, site, body):
        cut = site.cuts.pop(0) if site.cuts else None
        sent = body if cut is None else body[:cut]
        with contextlib.suppress(OSError):  # the other side may have gone
            if site.chunked:
                self.wfile.write(f"{len(body):x}\r\n".encode() + sent)
                self.wfile.write(b"\r\n0\r\n\r\n" if cut is None else b"")
                return
            half = len(sent) // 2
            self.wfile.write(sent[:half])
            self.wfile.flush()
            time.sleep(site.silence)
            self.wfile.write(sent[half:])

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serving(**settings):
    """A `Site` that is served while the block runs."""
    site = Site(**settings)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.site = site
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
