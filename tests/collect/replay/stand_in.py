"""Counter tools that behave as documented, written as programs for the PATH.

They run the application once, and then write what the real tool would for kernels that this
machine, which has no GPU, never ran.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

_ROCPROF = """#!{python}
import csv, os, pathlib, subprocess, sys
arguments = sys.argv[1:]
split = arguments.index("--")
options, command = arguments[:split], arguments[split + 1:]
counters = []
for option in options[options.index("--pmc") + 1:]:
    if option.startswith("--"):
        break
    counters.append(option)
folder = pathlib.Path(options[options.index("-d") + 1]) / "node1"
with open(os.environ["STAND_IN_LOG"], "a") as log:
    print(" ".join(sys.argv[1:]), file=log)
if len(counters) > 3:
    print("error 38: the counters do not fit into one pass"); sys.exit(1)
status = subprocess.run(command).returncode
if status:
    sys.exit(status)
known = [c for c in counters if not c.startswith("UNKNOWN")]
if known:  # an undefined counter gives no file and exit code 0
    folder.mkdir(parents=True)
    with open(folder / "4711_counter_collection.csv", "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id",
            "Thread_Id", "Grid_Size", "Kernel_Id", "Kernel_Name", "Workgroup_Size",
            "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count",
            "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp"])
        for dispatch in (1, 2):
            for counter in known:
                writer.writerow([dispatch, dispatch, "Agent 1", 1, 4711, 4711, 2048, 5,
                    "void gemm<float>(float*)", 256, 0, 0, 8, 0, 16, counter, 1000.0 * dispatch,
                    1000 * dispatch, 1000 * dispatch + 500])
"""
_NCU = """#!{python}
import os, subprocess, sys
arguments = sys.argv[1:]
log_file = arguments[arguments.index("--log-file") + 1]
metrics = [m for m in arguments[arguments.index("--metrics") + 1].split(",") if "regex" not in m]
command = arguments[arguments.index("--log-file") + 2:]
with open(os.environ["STAND_IN_LOG"], "a") as log:
    print(" ".join(sys.argv[1:]), file=log)
status = subprocess.run(command).returncode
with open(log_file, "w") as file:
    print("==PROF== Connected to process 4711 (python3)", file=file)
    if status:
        print("==ERROR== The application returned an error code (%d)." % status, file=file)
        sys.exit(status)
    columns = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
               "Block Size", "Grid Size", "Device", "CC", *metrics]
    row = ["0", "4711", "python3", "node1", "gemm", "1", "7", "(256, 1, 1)", "(8, 1, 1)", "0",
           "9.0", *["1,234.5" for _ in metrics]]
    for line in (columns, [""] * len(columns), row):
        print(",".join('"' + value + '"' for value in line), file=file)
"""


def install(folder: Path, name: str, monkeypatch) -> Path:
    """Put a stand-in on the PATH; returns the file in which it logs its command lines."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    text = {"rocprofv3": _ROCPROF, "ncu": _NCU}[name]
    program.write_text(text.replace("{python}", sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    log = folder / "commands.txt"
    monkeypatch.setenv("STAND_IN_LOG", str(log))
    return log
