"""A real JupyterLab in a folder of its own, and one of its notebooks open in a page."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat

START_SECONDS = 90
SYNC_SECONDS = 20
WAIT_MS = 60_000


class Lab:
    """A running server; its settings, trust database and kernels live and die with ``folder``."""

    def __init__(self, folder: Path):
        self.folder = folder / "work"
        self.folder.mkdir()
        homes = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
        }  # fmt: skip
        self.env = os.environ | {name: str(folder / home) for name, home in homes.items()}
        self.env |= {"JUPYTER_PLATFORM_DIRS": "1", "OMP_NUM_THREADS": "1"}
        news = folder / "settings" / "@jupyterlab" / "apputils-extension"
        news.mkdir(parents=True)
        quiet = '{"fetchNews": "false", "checkForUpdates": false}'  # nothing pops up over a test
        (news / "notification.jupyterlab-settings").write_text(quiet, encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "lab.log"
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [
                    *self.jupyter("lab"), "--no-browser", "--expose-app-in-browser",
                    "--allow-root", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0",
                    "--ServerApp.token=", "--ServerApp.password=",
                ],
                cwd=self.folder, env=self.env, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @staticmethod
    def jupyter(command: str) -> list[str]:
        return [sys.executable, "-m", "jupyter", command]

    def wait(self) -> None:
        """Return when the server answers."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if self.answers():
                return
            time.sleep(0.2)
        msg = f"JupyterLab did not start:\n{self.log.read_text(encoding='utf-8')[-3000:]}"
        raise RuntimeError(msg)

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/api/status", timeout=5).close()  # noqa: S310
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self.process.terminate()  # the server shuts its kernels down
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def write(self, name: str, *cells: str) -> Path:
        """Write a notebook of code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata["kernelspec"] = {
            "name": "python3", "display_name": "Python 3", "language": "python",
        }  # fmt: skip
        path = self.folder / name
        nbformat.write(notebook, path)
        return path

    def execute(self, path: Path) -> Path:
        """Execute a notebook in place as a program would: no front end, nobody to talk to."""
        return self.run("execute", "--inplace", path.name, path=path)

    def trust(self, path: Path) -> Path:
        return self.run("trust", path.name, path=path)

    def run(self, *command: str, path: Path) -> Path:
        subprocess.run(
            [*self.jupyter(command[0]), *command[1:]],
            cwd=self.folder, env=self.env, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return path


class OpenNotebook:
    """One notebook in one page, driven through the page and through Lab's own commands."""

    def __init__(self, page, lab: Lab, path: Path):
        self.page, self.path = page, path
        page.goto(f"{lab.url}/lab/tree/{path.name}?reset")
        page.wait_for_function("window.jupyterapp?.restored", timeout=WAIT_MS)
        page.evaluate("window.jupyterapp.restored.then(() => null)")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=WAIT_MS)

    def command(self, name: str, args: dict | None = None) -> None:
        """Start one of Lab's commands; what it leads to is for the caller to wait for."""
        self.page.evaluate(
            "([name, args]) => { window.jupyterapp.commands.execute(name, args); }",
            [name, args or {}],
        )

    def wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status"
            " === 'idle'",
            timeout=WAIT_MS,
        )

    def run_all(self) -> None:
        self.wait_for_kernel()
        self.page.evaluate(
            "window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => null)"
        )

    def run_cell(self, index: int) -> str:
        """Run one cell and return the text it printed."""
        self.page.evaluate(
            "index => { const { commands, shell } = window.jupyterapp;"
            " shell.currentWidget.content.activeCellIndex = index;"
            " return commands.execute('notebook:run-cell').then(() => null); }",
            index,
        )
        return self.output(index).inner_text().strip()

    def run_until(self, index: int, text: str) -> None:
        """Run one cell until it prints a text: the view tells Python after a pause."""
        end = time.monotonic() + SYNC_SECONDS
        while (printed := self.run_cell(index)) != text:
            assert time.monotonic() < end, printed

    def cell(self, index: int):
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int):
        return self.cell(index).locator(".jp-OutputArea").first

    def code_cells(self) -> list[int]:
        return self.page.evaluate(
            "window.jupyterapp.shell.currentWidget.content.widgets"
            ".flatMap((cell, i) => cell.model.type === 'code' ? [i] : [])"
        )

    def index_of(self, start: str) -> int:
        """Return the index of the first cell whose source starts so."""
        return self.page.evaluate(
            "start => window.jupyterapp.shell.currentWidget.content.widgets"
            ".findIndex(cell => cell.model.sharedModel.source.startsWith(start))",
            start,
        )

    def cell_count(self) -> int:
        return self.page.evaluate(
            "window.jupyterapp.shell.currentWidget.content.model.cells.length"
        )

    def expect_cells(self, count: int) -> None:
        self.page.wait_for_function(
            "count => window.jupyterapp.shell.currentWidget.content.model.cells.length === count",
            arg=count,
        )

    def theme(self, name: str) -> None:
        self.command("apputils:change-theme", {"theme": name})
        self.page.wait_for_selector(f"[data-jp-theme-name='{name}']", state="attached")

    def save(self) -> None:
        self.command("docmanager:save")
        self.page.wait_for_function(
            "!window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=WAIT_MS
        )

    def forget_kernels(self) -> None:
        """Shut down every Jupyter kernel, so that the notebook is next opened without its own."""
        self.page.evaluate("window.jupyterapp.serviceManager.sessions.shutdownAll()")
