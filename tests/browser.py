"""A headless Chromium that looks at a page: sizes, letters, contrasts, and what the console says.

A wrapper page loads the page in frames of given widths and measures them; both come from a local server, since pages
from files may not look into each other. The browser is started once for each look and never again.
"""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = f"none of {', '.join(NAMES)} is installed; on Debian: apt-get install -y --no-install-recommends chromium"
SECONDS = 60

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--enable-logging=stderr", "--v=0",
)  # fmt: skip

MEASURE = """
function luminance(color) {
  const parts = color.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
function behind(element, view) {
  for (let e = element; e; e = e.parentElement) {
    const color = view.getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(color) && color !== 'transparent') return color;
  }
  return 'rgb(255, 255, 255)';
}
function measure(frame) {
  const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
  const found = {width: frame.clientWidth, page: root.scrollWidth, letters: 99, contrast: 99, outside: [],
                 dark: luminance(behind(page.body, view)) < 0.2, text: page.body.innerText.length};
  for (const e of page.querySelectorAll('body *')) {
    const box = e.getBoundingClientRect();
    if (!e.closest('.scroll, pre') && !(e instanceof view.SVGElement) && box.right > frame.clientWidth + 0.5)
      found.outside.push(e.tagName + '.' + e.className);
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.tagName === 'title' || !box.width) continue;
    const style = view.getComputedStyle(e), drawing = e.closest('svg');
    const scale = drawing ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
    const a = luminance(style.color), b = luminance(behind(e, view));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), letters = parseFloat(style.fontSize) * scale;
    if (letters < found.letters) { found.letters = letters; found.smallest = e.textContent.slice(0, 40); }
    if (contrast < found.contrast) { found.contrast = contrast; found.faintest = e.textContent.slice(0, 40); }
  }
  found.pictures = [...page.querySelectorAll('img, svg[role=img]')].map(e => {
    const box = e.getBoundingClientRect(); return [box.width, box.height]; });
  found.scrolling = [...page.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length;
  return found;
}
window.onload = () => {
  const found = [...document.querySelectorAll('iframe')].map(measure);
  document.getElementById('measured').textContent = JSON.stringify(found);
};
"""


class Look(NamedTuple):
    """What a browser saw: one record of measures for each width, and the lines of the console."""

    measures: list[dict[str, Any]]
    console: list[str]


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def look(folder: Path, page: str, widths: tuple[int, ...], *, dark: bool = False) -> Look:
    """Open a page of a folder at some widths."""
    frames = "".join(
        f'<iframe src="{page}" style="width:{width}px;height:844px;border:0"></iframe>' for width in widths
    )
    wrapper = (
        f'<!doctype html><link rel="icon" href="data:,">{frames}<pre id="measured"></pre><script>{MEASURE}</script>'
    )
    (folder / "wrapper.html").write_text(wrapper)
    browser = find_browser()
    assert browser is not None, MISSING
    with _Server(folder) as port:
        scheme = ("--blink-settings=preferredColorScheme=0",) if dark else ()
        profile = f"--user-data-dir={folder / 'profile'}"
        address = f"http://127.0.0.1:{port}/wrapper.html"
        done = subprocess.run(
            [browser, *FLAGS, *scheme, profile, "--dump-dom", address],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    found = re.search(r'<pre id="measured">(.+?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, f"the browser ended with {done.returncode} and measured nothing: {done.stderr[-2000:]}"
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Look(json.loads(html.unescape(found[1])), console)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server:
    """Serves a folder on a free local port while the block lasts."""

    def __init__(self, folder: Path) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._server.server_address[1])

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
