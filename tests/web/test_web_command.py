"""``holdfast web`` as a process, what is shipped with it, and the pictures of the documentation."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.apps.cli import cli, front_ends

ROOT = Path(__file__).parents[2]
MAIN = "from holdfast.apps.cli import main; main()"


@pytest.fixture
def started(hf, trip, store_root):
    """The command on a store, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "web", "--no-open", "--store", str(store_root)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = re.search(r"http://\S+", process.stderr.readline())[0]
        yield process, url
    finally:
        process.kill()
        process.communicate()


def test_from_its_start_to_its_end(started):
    """It prints an address that lets one browser in, serves it, and ends at a signal."""
    process, url = started
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(url, timeout=120) as response:
        assert "Trip to Lisbon" in response.read().decode()
        assert "token" not in response.url
    origin = url.partition("/in?")[0]
    with opener.open(f"{origin}/store", timeout=120) as response:
        assert "are whole, to the last byte" in response.read().decode()
    with opener.open(f"{origin}/s/trip-planner/live", timeout=120) as stream:
        assert stream.readline() == b"retry: 1000\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org", "192.168.0.4"])
def test_only_this_machine(host):
    """It is never served to others."""
    result = CliRunner().invoke(cli, ["web", "--host", host])
    assert "is not a loopback address" in result.stderr


def test_a_browser_opens_where_there_is_a_display(hf, store_root, monkeypatch):
    """The address is opened when there is a screen, and only if that was not refused."""
    opened = []
    monkeypatch.setattr("holdfast.apps.web.app.run", lambda app, ready, **_: ready("http://x"))
    monkeypatch.setattr(front_ends, "open_browser", opened.append)
    for display, options in ((None, []), (":0", []), (":0", ["--no-open"])):
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setenv("DISPLAY", display or "")
        if sys.platform == "darwin":
            monkeypatch.setattr(front_ends, "has_display", lambda display=display: bool(display))
        done = CliRunner().invoke(cli, ["web", "--store", str(store_root), *options])
        assert done.exit_code == 0, done.output
    assert len(opened) == 1
    assert opened[0].startswith("http://x/in?token=")


def test_the_browser_is_not_waited_for(monkeypatch):
    """Opening it never keeps the pages from being served."""
    import threading

    came = threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda url: came.set())
    front_ends.open_browser("http://127.0.0.1:1")
    assert came.wait(120)


def test_without_the_packages():
    """It says what to install."""
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['jinja2'] = None; {MAIN}", "web"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "this command needs the package jinja2, which is not installed" in result.stderr
    assert "pip install 'holdfast[web]'" in result.stderr


def test_everything_is_ours():
    """No script or style of somebody else lies in the package."""
    static = files("holdfast.apps.web").joinpath("static")
    found = sorted(one.name for one in static.iterdir())
    assert found == ["app.css", "app.js", "icon.svg", "theme.js"]


def test_pages_name_no_other_host():
    """Templates, scripts and styles of ours load nothing from elsewhere and hold nothing inline."""
    place = ROOT / "src/holdfast/apps/web"
    for path in [*place.glob("templates/**/*.html"), *place.glob("static/*")]:
        if path.is_dir():
            continue
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path
        assert "https://" not in text, path
        assert not re.search(r"<script(?! src=)|<style|\sstyle=|\son\w+=", text), path
        assert "|safe" not in text, path


def test_everything_is_in_the_wheel(tmp_path):
    """What pages and shells need is installed with the package."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    import zipfile

    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    place = ROOT / "src/holdfast/apps/web"
    scripts = [ROOT / f"src/holdfast/apps/cli/completion.{shell}" for shell in ("bash", "fish")]
    for path in [*place.glob("templates/**/*"), *place.glob("static/**/*"), *scripts]:
        if path.is_file():
            assert path.relative_to(ROOT / "src").as_posix() in names


def test_the_pictures_of_the_documentation(tmp_path, shooting, chromium, monkeypatch):
    """The script makes them, from sessions of its own making; each that is shown has its shot."""
    monkeypatch.setattr(shooting, "browser", lambda: _given(chromium))
    shooting.main([str(tmp_path), "list", "activity-dark", "phone"])
    made = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(made) == {f"web-app-{name}.png" for name in ("list", "activity-dark", "phone")}
    assert min(made.values()) > 10_000
    shown = re.findall(r"pictures/(web-app-[\w-]+)\.png", (ROOT / "docs/howto/web-app.md").read_text())
    assert shown
    assert set(shown) <= {f"web-app-{shot.name}" for shot in shooting.SHOTS}
    assert all((ROOT / f"docs/howto/pictures/{name}.png").exists() for name in shown)


class _given:  # noqa: N801 - stands for a function
    """A browser that is there already."""

    def __init__(self, browser):
        self._browser = browser

    def __enter__(self):
        return self._browser

    def __exit__(self, *_):
        pass
