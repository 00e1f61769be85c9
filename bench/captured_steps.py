#!/usr/bin/env python3
"""Captures the training steps of bench/captured_steps and runs them, one row of a table for each.

    bench/captured_steps.py capture OUTPUT [NAME...]    needs the Python of a jax[tpu] environment; goes on where it stopped
                                                        (with keras, flax, optax, equinox, dm-haiku, transformers==4.52.4: 5 has no Flax)
    bench/captured_steps.py table OUTPUT [NAME...]      needs tpusim only; writes OUTPUT/table.json and OUTPUT/table.md

The table has for each step: its half; the compiled program (bundles of v3 with all its kernels); whether tpusim reads and executes
it; cycles on v2 and v3 beside the sum of XLA's own estimates; with values on, the median and the largest relative error over
the outputs, and how many outputs keep the tolerance that --check names; CPU seconds behind reading and peak memory with values off, the
larger of both chips; or what tpusim said instead. The last run is bench/captured_steps.md.

OUTPUT gets a folder for each step, `steps.json` (all steps, their files and halves) and NAME.refused.txt for a step that XLA's
compiler does not compile. Half of the steps are to learn from ("learn"), half are only counted ("count"): a hash of the name
decides, but those of files that say LOOKED_AT are all to learn from.
"""

import argparse
import hashlib
import importlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
STEPS = HERE / "captured_steps"
CAPTURE = HERE.parent / "workloads" / "capture"
CHIPS = ("v2", "v3")
SECONDS_PER_CAPTURE = 900
SECONDS_PER_RUN = 300
READ_AND_RUN, FAULTED = 0, 1
NEAR, WORST = 1e-4, 1e-2


def half_of(name):
    return "learn" if hashlib.sha1(name.encode()).digest()[0] % 2 == 0 else "count"


def halves_of(folder):
    """The half of each step that a folder's steps.json names."""
    listed = folder / "steps.json"
    return {step["name"]: step["half"] for step in json.loads(listed.read_text())} if listed.exists() else {}


def declared_steps():
    """Every step of every file: name, file, half, and whether it runs on all cores."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("KERAS_BACKEND", "jax")
    sys.path.insert(0, str(STEPS))
    steps = []
    for path in sorted(STEPS.glob("*.py")):
        module = importlib.import_module(path.stem)
        for name in getattr(module, "STEPS", []):
            half = "learn" if getattr(module, "LOOKED_AT", False) else half_of(name)
            steps.append({"name": name, "file": path.name, "half": half, "devices": 8 if getattr(module, "SPLIT", ()) else 1})
    names = [step["name"] for step in steps]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        sys.exit(f"bench/captured_steps: expected a name of its own for each step, found {', '.join(sorted(twice))} twice")
    return steps


def capture_one(step, output):
    """Captures a step into its folder; a refusal of the compiler stays as NAME.refused.txt."""
    folder = output / step["name"]
    command = [sys.executable, "-m", "tpusim_capture", f"{STEPS / step['file']}:{step['name']}"]
    command += ["--chip", ",".join(CHIPS), "--slice", "2x2", "--values", "-o", str(folder)]
    if step["devices"] > 1:
        command.append("--data-parallel")
    environment = dict(os.environ, PYTHONPATH=str(CAPTURE), JAX_PLATFORMS="cpu", KERAS_BACKEND="jax")
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_PER_CAPTURE)
        message = "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        message = f"not done after {SECONDS_PER_CAPTURE} s"
    refused = output / f"{step['name']}.refused.txt"
    if message:
        refused.write_text(message + "\n")
    elif refused.exists():
        refused.unlink()
    return message


def capture(options):
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    steps = declared_steps()
    (output / "steps.json").write_text(json.dumps(steps, indent=1) + "\n")
    wanted = [s for s in steps if not options.names or s["name"] in options.names]
    wanted.sort(key=lambda step: step["half"] != "learn")
    for number, step in enumerate(wanted):
        if (output / step["name"]).exists():
            continue
        if (output / f"{step['name']}.refused.txt").exists() and not options.names:
            continue
        start = time.monotonic()
        message = capture_one(step, output)
        outcome = message.splitlines()[0][:160] if message else "captured"
        print(f"{number + 1}/{len(wanted)} {step['name']} ({step['half']}): {outcome}, {time.monotonic() - start:.0f} s", flush=True)


def run(tpusim, folder, chip, devices, *more):
    """The JSON report of one step, and the exit code with the first line of what was said."""
    command = [tpusim, "run", str(folder), "--config", f"{chip}-8", "--cores", str(devices), "--compiler", "xla", "--warmup", "0", "--json", "-", *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_PER_RUN)
    except subprocess.TimeoutExpired:
        return None, FAULTED, f"not done after {SECONDS_PER_RUN} s"
    said = (done.stderr.strip().splitlines() or [""])[0].replace(str(folder) + "/", "").removeprefix("tpusim: ")
    start = done.stdout.find("{")
    return (json.loads(done.stdout[start:]) if start >= 0 else None), done.returncode, said


def error_of(check):
    return check["relative_error"] if check["relative_error"] is not None else float("inf")


def outcome_of(tpusim, step, folder, chip):
    """What a program did on one chip, without values and with."""
    report, code, said = run(tpusim, folder, chip, step["devices"])
    outcome = {"read": code in (READ_AND_RUN, FAULTED), "executed": report is not None and code == READ_AND_RUN, "said": said}
    if not outcome["executed"]:
        return outcome
    outcome["cycles"] = max(s["cycles"] for s in report["steps"])
    outcome["estimate"] = sum(op["estimated_cycles"] * op["count"] for op in report["ops"])
    outcome["run_s"] = report["simulator"]["run_cpu_s"]
    outcome["read_s"] = report["simulator"]["compile_cpu_s"]
    outcome["memory"] = report["simulator"]["peak_rss_bytes"]
    report, code, said = run(tpusim, folder, chip, step["devices"], "--values", "on", "--check", str(folder / "values.npz"))
    outcome["said"] = "" if report and report.get("checks") else f"with values: {said}"
    if report and report.get("checks"):
        checks = sorted(report["checks"], key=error_of)
        outcome["errors"] = [error_of(check) for check in checks]
        outcome["worst"] = checks[-1]["name"]
        outcome["agree"] = sum(check["passed"] for check in checks)
        outcome["reasons"] = sorted({re.sub(r" by .*|: .*", "", check.get("reason", "")) for check in checks})
        outcome["value_cycles"] = max(s["cycles"] for s in report["steps"])
    return outcome


def row_of(tpusim, step, output):
    folder, refused = output / step["name"], output / f"{step['name']}.refused.txt"
    row = dict(step)
    if folder.exists():
        row["chips"] = {chip: outcome_of(tpusim, step, folder, chip) for chip in CHIPS}
    elif refused.exists():
        row["refused"] = refused.read_text().strip().splitlines()[0]
    return row


def cell(value, form="{:,.0f}"):
    return "" if value is None else form.format(value)


def line_of(row):
    """One row of the table, in Markdown."""
    if "chips" not in row:
        said = f"XLA refuses: {row['refused']}" if "refused" in row else "not captured"
        return f"| {row['name']} | {row['half']} | " + " | " * 9 + said.replace("|", "/")[:200] + " |"
    chips = row["chips"]
    both = lambda key: "yes" if all(chips[c][key] for c in CHIPS) else "no"
    most = lambda key: max((chips[c][key] for c in CHIPS if key in chips[c]), default=None)
    errors = [error for c in CHIPS for error in chips[c].get("errors", [])]
    worst = max(CHIPS, key=lambda c: max(chips[c].get("errors", [0])))
    agree = sum(chips[c].get("agree", 0) for c in CHIPS)
    said = next((chips[c]["said"] for c in CHIPS if chips[c]["said"]), "")
    if not said and errors and (agree < len(errors) or not is_near(row)):
        said = "; ".join(sorted({reason for c in CHIPS for reason in chips[c].get("reasons", [])}))
    cells = [row["name"], row["half"], both("read"), both("executed")]
    cells += [cell(chips[c].get(key)) for key in ("cycles", "estimate") for c in CHIPS]
    cells.append(f"{statistics.median(errors):.0e}" if errors else "")
    cells.append(f"{max(errors):.0e} {chips[worst]['worst']}, {agree}/{len(errors)}" if errors else "")
    cells += [cell(most("run_s"), "{:.2f}"), cell(most("memory") and most("memory") / 2**20), said.replace("|", "/")[:240]]
    return "| " + " | ".join(cells) + " |"


TITLE = """# Captured training steps

Made by `bench/captured_steps.py capture` (jax 0.10.2, libtpu 0.0.42.1) and `bench/captured_steps.py table`. Every step runs on v2 and
v3, with values off and on, one core or all eight. Median and largest are relative L2 errors of the outputs against JAX's values with
products rounded as the chip rounds them; "outputs that agree" are those within the tolerance that `--check` names, on both chips
together. Cycles are those of the first step. CPU s is the run behind reading, MiB the peak of the process, values off, the larger of both chips.
"""
HEADER = (
    "| step | half | read | executed | cycles v2 | cycles v3 | XLA's sum v2 | XLA's sum v3 | median error | largest error, outputs that agree "
    "| CPU s | MiB | said |\n|" + "---|" * 13
)


def is_near(row):
    errors = [error for outcome in row["chips"].values() for error in outcome.get("errors", [])]
    return bool(errors) and statistics.median(errors) <= NEAR and max(errors) <= WORST


def counts_of(rows):
    """The shares, for all steps and for each half."""
    lines = []
    for half in ("all", "learn", "count"):
        of_half = [row for row in rows if "chips" in row and half in ("all", row["half"])]
        if not of_half:
            continue
        share = lambda test: sum(all(test(o) for o in row["chips"].values()) for row in of_half)
        executed = share(lambda o: o["executed"])
        agree = share(lambda o: o.get("errors") and o["agree"] == len(o["errors"]))
        same = share(lambda o: "value_cycles" in o and o["value_cycles"] == o["cycles"])
        near = sum(is_near(row) for row in of_half)
        lines.append(
            f"- {half}: {len(of_half)} steps, read {share(lambda o: o['read'])}, executed {executed} "
            f"({100 * executed / len(of_half):.1f} %), all outputs agree {agree} (median {NEAR:g} and worst {WORST:g} over outputs: {near}), "
            f"same cycles with values on and off {same}"
        )
    most = lambda key: max(((o[key], row["name"]) for row in rows for o in row.get("chips", {}).values() if key in o), default=(0, "none"))
    seconds, slowest = most("run_s")
    memory, largest = most("memory")
    lines.append(f"- at most {seconds:.2f} CPU s behind reading ({slowest}) and {memory / 2**20:.0f} MiB ({largest}), values off")
    refused = [row["name"] for row in rows if "refused" in row]
    return "\n".join(lines + [f"- XLA refuses: {', '.join(refused) or 'none'}"])


def table(options):
    output = options.output.resolve()
    kept = output / "table.json"
    is_part = options.names or options.half != "all"
    rows = {row["name"]: row for row in json.loads(kept.read_text())} if kept.exists() and is_part else {}
    steps = json.loads((output / "steps.json").read_text())
    for step in steps:
        if options.names and step["name"] not in options.names or options.half not in ("all", step["half"]):
            continue
        rows[step["name"]] = row_of(options.tpusim, step, output)
        print(line_of(rows[step["name"]]), flush=True)
    ordered = [rows[step["name"]] for step in steps if step["name"] in rows]
    ordered = [row for row in ordered if "chips" in row or "refused" in row]
    kept.write_text(json.dumps(ordered, indent=1) + "\n")
    text = TITLE + "\n" + counts_of(ordered) + "\n\n" + HEADER + "\n" + "\n".join(map(line_of, ordered)) + "\n"
    (output / "table.md").write_text(text)
    print(counts_of(ordered))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("capture", "table"))
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="steps; default: all")
    parser.add_argument("--half", choices=("all", "learn", "count"), default="all")
    parser.add_argument("--tpusim", default=str(HERE.parent / "build" / "tpusim"))
    options = parser.parse_args()
    {"capture": capture, "table": table}[options.action](options)


if __name__ == "__main__":
    main()
