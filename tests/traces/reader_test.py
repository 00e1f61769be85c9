#!/usr/bin/env python3
"""traces/tpusim_run.py on a run. Skipped without h5py and pandas."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "traces"))
try:
    import tpusim_run
except ImportError as error:
    tpusim_run = None
    MISSING = f"no {error.name} here"
else:
    MISSING = ""

PROGRAM = ""


@unittest.skipIf(tpusim_run is None, MISSING)
class Reader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.h5")
            words = [PROGRAM, "run", "lenet", "--cores", "2", "--steps", "2", "-o", path, "--json", "-"]
            cls.report = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
            cls.run_ = tpusim_run.load(path)

    def test_steps_are_the_report(self):
        steps = self.run_["steps"]
        cycles = (steps.end_cycle - steps.begin_cycle).groupby(steps.step).max()
        self.assertEqual(list(cycles), [step["cycles"] for step in self.report["steps"]])
        self.assertEqual(self.run_.clock_mhz, 940)
        self.assertEqual(self.run_.attributes["workload"], "lenet")

    def test_the_configuration_runs_again(self):
        self.assertEqual(self.run_.attributes["creator"], f"tpusim {self.report['simulator']['version']}")
        with tempfile.TemporaryDirectory() as folder:
            machine = os.path.join(folder, "machine.toml")
            with open(machine, "w") as file:
                file.write(self.run_.attributes["configuration_toml"])
            words = [PROGRAM, "run", "lenet", "--cores", "2", "--steps", "2", "--config", machine, "--json", "-"]
            again = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        self.assertEqual(again["steps"], self.report["steps"])

    def test_columns_have_units_and_names(self):
        for name, table in self.run_.items():
            self.assertEqual(set(table.attrs["units"]), set(table.columns), name)
            self.assertTrue(all(table.attrs["long_name"].values()), name)
        self.assertEqual(self.run_["cores"].attrs["units"]["hbm_read_bytes"], "bytes")

    def test_numbers_have_their_names(self):
        self.assertIn("parameter", set(self.run_["buffers"].role))
        self.assertIn("HBM", set(self.run_["events/dmas"].source_space))
        self.assertIn("memory_wait", set(self.run_["events/waits"].reason))
        self.assertIn("mxu0", set(self.run_["core_units"].unit))

    def test_waits_are_those_of_the_account(self):
        waits = self.run_["events/waits"]
        waits = waits[(waits.core == 0) & (waits.reason == "memory_wait")]
        self.assertEqual((waits.end_cycle - waits.begin_cycle).sum(), self.run_["cores"].memory_wait_cycles[0])

    def test_the_memory_timeline_peaks_at_the_peak(self):
        timeline = self.run_.memory_timeline()
        memory = self.report["memory"]
        self.assertEqual(timeline.max(), memory["hbm_peak_bytes"])
        self.assertEqual(timeline.max(), self.run_["summary"].set_index("name").value["hbm_peak_bytes"])
        self.assertLessEqual(timeline.max(), memory["hbm_plan_bytes"])
        self.assertGreater(timeline.max(), 0.9 * memory["hbm_plan_bytes"])
        self.assertLess(timeline.min(), timeline.max())


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
