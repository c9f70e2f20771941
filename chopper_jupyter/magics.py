"""``%%chopper_profile``: record the cell below it, then show where the time went.

The magic does not run the cell. It turns its own line into a call that starts recording, and
IPython runs the rest as it always does: line numbers, ``await``, a trailing ``;``, the last
expression and errors are its own. Recording ends when the cell has ended. Only a cell that
cannot begin with a call (another cell magic below, ``from __future__``) is run by the magic.
"""

from __future__ import annotations

import ast
import linecache
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.core.magic import needs_local_scope, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from chopper_jupyter.collect.replay.cells import Cell
from chopper_jupyter.collect.replay.history import History
from chopper_jupyter.collect.replay.notebook import OPTIONS as REPLAY_OPTIONS
from chopper_jupyter.collect.replay.notebook import replay
from chopper_jupyter.core.errors import ChopperError, CollectError
from chopper_jupyter.core.run_folder import is_run_folder, read_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from types import FrameType

    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

    from chopper_jupyter.collect.profile import Recording

NAME = "chopper_profile"
LINE_NAME = "chopper"

_HEADER = re.compile(rf"%%{NAME}(?:[ \t]+(?P<arguments>[^\n]*))?\s*")
_OPTIONS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("-o", "--output"), {"metavar": "NAME", "help": "Bind the Trace to this variable."}),
    (
        ("--run-dir",),
        {
            "metavar": "PATH",
            "help": "Run folder to write; a run that is there is replaced. "
            "Default: ./chopper_runs/<time>-<cell>.",
        },
    ),
    (
        ("--warmup",),
        {"type": int, "default": 2, "help": "First iterations to leave out. Default: 2."},
    ),
    (
        ("--iterations",),
        {"type": int, "default": 5, "help": "Iterations to record after these. Default: 5."},
    ),
    (
        ("--tokens",),
        {"type": int, "help": "Tokens of one iteration over all ranks, for tokens/s."},
    ),
    (("--stacks",), {"action": "store_true", "help": "Record Python stacks; slower."}),
    (
        ("--memory",),
        {"action": "store_true", "help": "Record what is allocated and freed; slower."},
    ),
    (
        ("--no-telemetry",),
        {"action": "store_true", "help": "Do not sample processor use, GPU clocks and power."},
    ),
    (
        ("--no-show",),
        {"action": "store_true", "help": "Show the headline but no explorer."},
    ),
    (("-q", "--quiet"), {"action": "store_true", "help": "Show nothing."}),
    *REPLAY_OPTIONS,
]

_HISTORIES: WeakKeyDictionary[InteractiveShell, History] = WeakKeyDictionary()
_FUTURE = re.compile(r"\s*from\s+__future__\s+import\b")


def register(ipython: InteractiveShell) -> None:
    """Make ``%%chopper_profile`` known to an IPython shell; once is enough."""
    if transform not in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.append(transform)
    ipython.register_magic_function(MAGIC, magic_kind="cell", magic_name=NAME)
    ipython.register_magic_function(LINE_MAGIC, magic_kind="line", magic_name=LINE_NAME)
    if ipython not in _HISTORIES:
        _HISTORIES[ipython] = History(ipython)
        _HISTORIES[ipython].listen()


def unregister(ipython: InteractiveShell) -> None:
    """Undo ``register``."""
    if transform in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.remove(transform)
    ipython.magics_manager.magics["cell"].pop(NAME, None)
    ipython.magics_manager.magics["line"].pop(LINE_NAME, None)
    history = _HISTORIES.pop(ipython, None)
    if history is not None:
        history.stop()


def transform(lines: list[str]) -> list[str]:
    r"""Turn the magic's line into the call that starts recording.

    Nothing but text: IPython also asks it whether half a cell is complete. Cells that cannot
    begin with a call stay as they are, which hands them to the registered cell magic.

    Examples
    --------
    >>> transform(["%%chopper_profile -q\n", "train()\n"])[1:]
    ['train()\n']
    >>> transform(["%%chopper_profile\n", "%%capture\n", "train()\n"])[0]
    '%%chopper_profile\n'
    """
    at = next((i for i, x in enumerate(lines) if x.strip() and not x.lstrip().startswith("#")), 0)
    found = _HEADER.fullmatch(lines[at]) if lines else None
    if found is None or (found["arguments"] or "").rstrip().endswith("?"):
        return lines
    body = lines[at + 1 :]
    first = next((line for line in body if line.strip()), "")
    if first.startswith("%%") or any(_FUTURE.match(line) for line in body):
        return lines[at:]
    arguments = (found["arguments"] or "").strip()
    call = f"__import__({__name__!r}, fromlist=['_'])._begin({arguments!r});\n"
    return [*lines[:at], call, *body]


def chopper_profile(line: str, cell: str, local_ns: dict[str, Any] | None = None) -> Any:
    """Record this cell's training loop and show where the time went.

    Warm-up plus iterations are recorded from the first call of a module on; the cell then runs
    on at full speed. The cell's result, output and errors are what they are without the magic.
    """
    __tracebackhide__ = True
    shell = get_ipython()
    code, last = _compiled(shell, cell)
    arguments, recording = _start(shell, line)
    error: BaseException | None = None
    try:
        exec(code, shell.user_ns, local_ns)  # noqa: S102  running the user's cell is the job
        if last is not None:
            return eval(last, shell.user_ns, local_ns)  # noqa: S307  as above
    except BaseException as raised:
        error = raised
        raise
    finally:
        recording.cell_source = f"%%{NAME} {line}\n{cell}"
        _finish(shell, arguments, recording, error)
    return None


def chopper(line: str) -> None:
    """Add hardware counters to a run recorded before: ``%chopper counters TRACE``.

    The profiled cell is run again under the counter tool of this machine, once per pass.
    """
    __tracebackhide__ = True
    from chopper_jupyter.core.read import read_trace  # noqa: PLC0415  loading the extension
    from chopper_jupyter.core.trace import Trace  # noqa: PLC0415  must not wait for Arrow

    shell = get_ipython()
    arguments = parse_argstring(LINE_MAGIC, line)
    arguments.counters = arguments.counters or "matrix,memory"
    target = shell.user_ns.get(arguments.target)
    folder = target.info.folder if isinstance(target, Trace) else arguments.target
    if not folder or not is_run_folder(Path(folder)):
        msg = f"{arguments.target} is neither a run folder nor a Trace that was read from one"
        raise UsageError(msg)
    try:
        source = read_run(Path(folder)).get("cell_source")
        cells = _HISTORIES[shell].cells()
        again = [cell for cell in cells if cell.source == source]
        profiled = again[-1] if again else Cell(shell.execution_count, source or "")
        counted = replay(arguments, Path(folder), cells, profiled, _say)
    except ChopperError as error:
        raise UsageError(str(error)) from None
    if counted and isinstance(target, Trace):
        shell.user_ns[arguments.target] = read_trace(folder)
        _say(f"{arguments.target} now has counters")


def _with_options(function: Any, options: list[tuple[tuple[str, ...], dict[str, Any]]]) -> Any:
    """Give a magic its arguments and its help text."""
    for flags, settings in reversed(options):
        function = argument(*flags, **settings)(function)
    return magic_arguments()(function)


MAGIC = _with_options(no_var_expand(needs_local_scope(chopper_profile)), _OPTIONS)
"""The function with its arguments, as IPython wants it registered."""

LINE_MAGIC = _with_options(
    no_var_expand(chopper),
    [
        (("what",), {"choices": ["counters"], "help": "What to do."}),
        (("target",), {"metavar": "TRACE", "help": "Variable with a Trace, or a run folder."}),
        *REPLAY_OPTIONS,
    ],
)
"""``%chopper`` likewise."""


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _compiled(shell: InteractiveShell, cell: str) -> tuple[Any, Any]:
    """Compile a cell as IPython would, one line down, where the magic's line is the first."""
    padded = "\n" + cell
    text = shell.transform_cell(padded)
    text = "\n" * (_leading_lines(padded) - _leading_lines(text)) + text
    name = shell.compile.cache(text, shell.execution_count, raw_code=padded)
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not text.rstrip().endswith(";"):
        last = shell.compile(ast.Expression(tree.body.pop().value), name, "eval")
    return shell.compile(tree, name, "exec"), last


def _leading_lines(text: str) -> int:
    return len(text) - len(text.lstrip("\n"))


def _begin(line: str) -> None:
    """Start recording for the cell that is running, and finish when it ends."""
    __tracebackhide__ = True
    shell = get_ipython()
    _show_as_written(sys._getframe(1), line)  # noqa: SLF001
    arguments, recording = _start(shell, line)
    inner = 0  # cells that this cell runs itself

    def entered(_info: Any) -> None:
        nonlocal inner
        inner += 1

    def left(result: ExecutionResult | None) -> None:
        nonlocal inner
        source = result.info.raw_cell if result is not None else None
        if source is not None and not source.strip():
            return  # IPython announces the end but not the beginning of an empty cell
        if inner:
            inner -= 1
            return
        shell.events.unregister("pre_run_cell", entered)
        shell.events.unregister("post_run_cell", left)
        recording.cell_source = source
        error = (result.error_before_exec or result.error_in_exec) if result is not None else None
        _finish(shell, arguments, recording, error)

    shell.events.register("pre_run_cell", entered)
    shell.events.register("post_run_cell", left)


def _show_as_written(cell: FrameType, line: str) -> None:
    """Let tracebacks show the magic instead of the call that stands in its place.

    As a comment, because what displays tracebacks parses the source.
    """
    entry = linecache.cache.get(cell.f_code.co_filename)
    if entry is not None and len(entry) > 1 and entry[2]:
        entry[2][cell.f_lineno - 1] = f"# %%{NAME} {line}".rstrip() + "\n"


def _start(shell: InteractiveShell, line: str) -> tuple[Namespace, Recording]:
    """Parse the arguments and start; what the user can mend is shown as one line."""
    __tracebackhide__ = True
    from chopper_jupyter.collect.options import ProfileOptions  # noqa: PLC0415
    from chopper_jupyter.collect.profile import Recording  # noqa: PLC0415

    arguments = parse_argstring(MAGIC, line)
    if arguments.output is not None and not arguments.output.isidentifier():
        msg = f"-o {shlex.quote(arguments.output)}: not a name of a variable"
        raise UsageError(msg)
    try:
        options = ProfileOptions(
            arguments.warmup,
            arguments.iterations,
            arguments.tokens,
            stacks=arguments.stacks,
            telemetry=not arguments.no_telemetry,
            memory=arguments.memory,
        )
        recording = Recording(options, arguments.run_dir, label=str(shell.execution_count))
        recording.__enter__()
    except (CollectError, ValueError) as error:
        raise UsageError(str(error)) from None
    return arguments, recording


def _finish(
    shell: InteractiveShell, arguments: Namespace, recording: Recording, error: BaseException | None
) -> None:
    try:
        recording.__exit__(None if error is None else type(error), error, None)
    except CollectError as failure:
        sys.stderr.write(f"{NAME}: {failure}\n")
        return
    if recording.failure is not None:
        sys.stderr.write(f"{NAME}: the recording is lost: {recording.failure}\n")
        return
    try:
        _report(shell, arguments, recording)
    except Exception as problem:  # noqa: BLE001  the cell itself went well; so does the recording
        sys.stderr.write(
            f"{NAME}: the recording is safe in {_where(recording)}, but showing it failed: "
            f"{type(problem).__name__}: {problem}\n"
        )


def _report(shell: InteractiveShell, arguments: Namespace, recording: Recording) -> None:
    if arguments.counters is not None:
        _count(shell, arguments, recording)
    if arguments.quiet and arguments.output is None:
        return
    trace = recording.trace
    if arguments.output is not None:
        shell.user_ns[arguments.output] = trace
    if arguments.quiet:
        return
    if not trace.kernels.num_rows:
        sys.stderr.write(f"{NAME}: nothing was recorded: the cell ran no torch operator\n")
        return
    display(trace.headline())
    lines = [f"Recording: {_where(recording)}", *recording.notes()]
    display({"text/plain": "\n".join(lines)}, raw=True)
    if not arguments.no_show:
        from chopper_jupyter.widgets.explorer import Explorer  # noqa: PLC0415

        display(Explorer(trace))


def _count(shell: InteractiveShell, arguments: Namespace, recording: Recording) -> None:
    """Run the cell again for counters; if that fails, the recording is what it was."""
    profiled = Cell(shell.execution_count, recording.cell_source or "")
    say: Callable[[str], None] = (lambda _: None) if arguments.quiet else _say
    try:
        replay(arguments, recording.run_dir, _HISTORIES[shell].cells(), profiled, say)
    except ChopperError as error:
        sys.stderr.write(f"{NAME}: no counters: {error}\n")


def _where(recording: Recording) -> str:
    from chopper_jupyter.collect.run_writer import shown_path  # noqa: PLC0415  needs torch

    return f"{shown_path(recording.run_dir)} ({_size(recording.size_bytes)})"


def _size(count: int) -> str:
    """Say a number of bytes.

    Examples
    --------
    >>> _size(1_234), _size(5_600_000)
    ('1 kB', '5.6 MB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{max(round(count / 1e3), 1)} kB"
