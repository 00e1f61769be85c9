#!/usr/bin/env python3
"""XProf's own tools on a run of tpusim: what they derive is what the report says.

Skipped without the Python package xprof (pip install xprof==2.24.2).
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    from xprof.convert import raw_to_tool_data
except ImportError:
    raw_to_tool_data = None

PROGRAM = os.environ.get("TPUSIM_PROGRAM", "")


def rows(table):
    names = [column["id"] for column in table["cols"]]
    return [{n: (c or {}).get("v") for n, c in zip(names, row["c"])} for row in table["rows"]]


@unittest.skipIf(raw_to_tool_data is None, "no Python package xprof here")
class XProf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run, log = os.path.join(cls.folder.name, "run.h5"), os.path.join(cls.folder.name, "log")
        words = [PROGRAM, "run", "mlp", "--steps", "3", "-o", run, "--json", "-"]
        cls.report = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        subprocess.run([PROGRAM, "export", run, "--format", "xplane", "-o", log], check=True)
        cls.file = os.path.join(log, "plugins", "profile", "tpusim", "host0.xplane.pb")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def tool(self, name, **options):
        data, _ = raw_to_tool_data.xspace_to_tool_data([self.file], name, {"use_saved_result": False, **options})
        self.assertIsNotNone(data, name)
        return data.decode() if isinstance(data, bytes) else data

    def test_overview_is_the_report(self):
        page = json.loads(self.tool("overview_page"))
        analysis, steps = page[0]["p"], page[1]["p"]
        number = lambda text: float(str(text).rstrip("%"))
        self.assertAlmostEqual(number(steps["steptime_ms_average"]), self.report["step_time_ms"]["mean"], delta=0.006)
        self.assertAlmostEqual(number(analysis["mxu_utilization_percent"]), 100 * self.report["utilization"]["mxu"], delta=0.06)
        self.assertAlmostEqual(number(analysis["hbm_utilization_percent"]), 100 * self.report["utilization"]["hbm"], delta=0.06)
        self.assertEqual(page[2]["p"]["device_type"], "TPU v3")
        self.assertEqual(page[2]["p"]["device_core_count"], "8")

    def test_ops_have_our_times_and_rates(self):
        stats = {row["hlo_op_name"]: row for row in rows(json.loads(self.tool("hlo_stats")))}
        for op in self.report["ops"]:
            row = stats[op["name"]]
            self.assertAlmostEqual(row["total_self_time"], 1e3 * 8 * op["time_ms"], delta=0.01)
            self.assertAlmostEqual(row["model_flop_rate"], op["flops"] / op["time_ms"] / 1e6, delta=0.001 * row["model_flop_rate"] + 1e-3)
            self.assertAlmostEqual(row["hbm_bw"] * 1.073741824, op["hbm_bytes"] / op["time_ms"] / 1e6, delta=0.001 * row["hbm_bw"] + 1e-3)

    def test_xla_accepts_the_program(self):
        self.assertIn("graph_viewer", raw_to_tool_data.xspace_to_tool_names([self.file]))
        self.tool("memory_viewer", program_id="1", memory_space="0")
        text = self.tool("graph_viewer", graph_viewer_options={"type": "long_txt", "program_id": "1"})
        self.assertTrue(text.startswith("HloModule mlp"), text[:200])

    def test_the_graph_has_its_edges(self):
        raw_to_tool_data.xspace_to_tool_names([self.file])
        self.tool("memory_viewer", program_id="1", memory_space="0")
        text = self.tool("graph_viewer", graph_viewer_options={"type": "long_txt", "program_id": "1"})
        calls = {m.group(1): m.group(2).count("%") for m in re.finditer(r"%(\S+) = .*? custom-call\((.*?)\), custom_call", text)}
        dots = [op["name"] for op in self.report["ops"] if op["category"] == "convolution fusion"]
        self.assertTrue(dots)
        self.assertTrue(all(calls[name] >= 2 for name in dots), calls)

    def test_a_program_of_xla_has_its_edges(self):
        run, log = os.path.join(self.folder.name, "c.h5"), os.path.join(self.folder.name, "captured")
        captured = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "workloads", "captured", "mlp")
        subprocess.run([PROGRAM, "run", captured, "-o", run], check=True, capture_output=True)
        subprocess.run([PROGRAM, "export", run, "--format", "xplane", "-o", log], check=True)
        file = os.path.join(log, "plugins", "profile", "tpusim", "host0.xplane.pb")
        raw_to_tool_data.xspace_to_tool_names([file])
        options = {"use_saved_result": False}
        raw_to_tool_data.xspace_to_tool_data([file], "memory_viewer", {"program_id": "1", "memory_space": "0", **options})
        data, _ = raw_to_tool_data.xspace_to_tool_data([file], "graph_viewer", {"graph_viewer_options": {"type": "long_txt", "program_id": "1"}, **options})
        text = data.decode() if isinstance(data, bytes) else data
        self.assertTrue(text.startswith("HloModule"), text[:200])
        self.assertGreaterEqual(len(re.findall(r"custom-call\([^)]*%", text)), 15)

    def test_the_infeed_is_the_reports(self):
        steps = json.loads(self.tool("input_pipeline_analyzer"))[1]["p"]
        infeed = sum(op["time_ms"] for op in self.report["ops"] if op["category"] == "infeed") / 3
        percent = 100 * infeed / self.report["step_time_ms"]["mean"]
        self.assertGreater(percent, 0.1)
        self.assertAlmostEqual(float(steps["infeed_percent_average"]), percent, delta=0.06)

    def test_the_hosts_stages_are_the_runs(self):
        """Busy time of storage, threads, copies and PCIe as input_pipeline_analyzer sorts it."""
        run, log = os.path.join(self.folder.name, "h.h5"), os.path.join(self.folder.name, "host")
        machine = os.path.join(self.folder.name, "fed.toml")
        with open(machine, "w") as file:
            file.write('base = ["v3-8", "datasets/imagenet"]\n')
        report = subprocess.run([PROGRAM, "run", "mlp", "--config", machine, "-o", run, "--json", "-"], check=True, capture_output=True)
        subprocess.run([PROGRAM, "export", run, "--format", "xplane", "-o", log], check=True)
        subprocess.run([PROGRAM, "export", run, "--format", "csv", "-o", log + ".csv"], check=True)
        parts = {}
        with open(os.path.join(log + ".csv", "parts.csv")) as file:
            for row in csv.DictReader(file):
                parts.setdefault(row["part"], {})[row["activity"]] = int(row["cycles"])
        step_us = 1e3 * json.loads(report.stdout)["step_time_ms"]["mean"]
        busy = lambda part: step_us * parts[part]["busy"] / sum(parts[part].values())
        self.assertGreater(busy("storage of host 0"), 0)
        file = os.path.join(log, "plugins", "profile", "tpusim", "host0.xplane.pb")
        data, _ = raw_to_tool_data.xspace_to_tool_data([file], "input_pipeline_analyzer", {"use_saved_result": False})
        page = {k: v for table in json.loads(data) for k, v in (table.get("p") or {}).items()}
        self.assertAlmostEqual(float(page["advanced_file_read_us"]), busy("storage of host 0"), delta=1e-5 * step_us)
        self.assertAlmostEqual(float(page["preprocessing_us"]), busy("threads of host 0") + busy("copies of host 0"), delta=1e-5 * step_us)
        enqueued = sum(busy(f"PCIe of host 0, chip {chip}, down") for chip in range(4))
        self.assertAlmostEqual(float(page["enqueue_us"]), enqueued, delta=1e-5 * step_us)
        self.assertEqual(float(page["unclassified_nonequeue_us"]), 0)

    def test_the_roofline_is_the_reports(self):
        model = json.loads(self.tool("roofline_model"))[0]
        self.assertAlmostEqual(float(model["p"]["peak_flop_rate"]), 2 * 2 * 128 * 128 * 940e6 / 1e9, delta=1)  # A core's.
        self.assertAlmostEqual(float(model["p"]["peak_hbm_bw"]) * 1.073741824, 460.8, delta=0.01)
        total = next(row for row in rows(model) if row["step"] == "Total" and row["operation"] == "Program")
        ms = 3 * self.report["step_time_ms"]["mean"]
        flops = sum(op["flops"] for op in self.report["ops"]) / ms / 1e6
        self.assertAlmostEqual(total["measured_flop_rate"], flops, delta=0.01 * flops)
        self.assertEqual(total["bound_by"], "HBM")

    def test_the_op_profile_has_the_ops(self):
        tree = json.loads(self.tool("op_profile"))
        names = set(re.findall(r'"name":\s*"([^"]+)"', json.dumps(tree["byProgram"])))
        missing = [op["name"] for op in self.report["ops"] if op["name"] not in names and op["fraction"] > 0.01]
        self.assertEqual(missing, [])

    def test_memory_is_the_plan_of_the_hbm(self):
        raw_to_tool_data.xspace_to_tool_names([self.file])
        page = json.loads(self.tool("memory_viewer", program_id="1", memory_space="0"))
        self.assertAlmostEqual(page["totalBufferAllocationMib"], self.report["memory"]["hbm_plan_bytes"] / 2**20, delta=0.01)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
