#!/usr/bin/env python3
"""The page of `tpusim report` in a real browser: no error, sort and filter work, no text beyond a phone's width.

Skipped without chromium (Debian: apt install chromium).
"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LISTEN = """<script>window.problems = [];
addEventListener("error", e => problems.push(String(e.message)));
console.error = (...words) => problems.push(words.join(" "));</script>"""
DRIVE = """<script>addEventListener("load", () => setTimeout(() => {
  const cells = column => [...document.querySelectorAll("#ops0 tbody tr")].map(row => row.children[column].textContent);
  const heads = [...document.querySelectorAll("#ops0 th")], button = label => heads.find(h => h.textContent === label).querySelector("button");
  const type = word => { const box = document.getElementById("filter0"); box.value = word; box.dispatchEvent(new Event("input")); };
  const press = id => document.getElementById(id).click(), group = name => { const box = document.getElementById("group0"); box.value = name; box.dispatchEvent(new Event("change")); };
  const outcome = {};
  group("each op"); outcome.few = cells(0); outcome.more = document.getElementById("all0").textContent; group("ops alike");
  if (!document.getElementById("all0").hidden) press("all0");
  outcome.alike = [cells(0), cells(1).map(Number)];
  group("each op"); outcome.all = cells(0); outcome.times = cells(1).map(Number);
  group("scope, 2 names"); outcome.scopes = [cells(0), cells(1).map(Number)]; group("each op");
  button("Op").click(); button("Op").click(); outcome.sorted = cells(0); outcome.order = heads[0].getAttribute("aria-sort");
  type("no op is called so"); outcome.none = cells(0);
  type(outcome.all[1].toUpperCase()); outcome.one = cells(0);
  outcome.sections = [...document.querySelectorAll("h2")].map(h => h.textContent);
  const head = [...document.querySelectorAll("h2")].find(h => h.textContent === "What if"), rows = head ? [...head.parentNode.querySelector("tbody").rows] : [];
  outcome.whatIf = Object.fromEntries(rows.map(row => [row.children[0].textContent, [...row.children].slice(1).map(c => c.textContent)]));
  outcome.unlabelled = [...document.querySelectorAll("svg")].filter(s => !s.getAttribute("aria-label")).length;
  const behind = s => { let at = s; while (at.parentNode.tagName !== "SECTION") at = at.parentNode; do at = at.nextElementSibling; while (at && at.matches(".paper, p")); return at; };
  outcome.without = [...document.querySelectorAll("svg, .screen")].filter(s => !behind(s)?.matches("details")).map(s => s.getAttribute("aria-label"));
  outcome.charts = document.querySelectorAll("canvas").length;
  outcome.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  outcome.problems = problems;
  const place = document.createElement("pre"); place.id = "outcome"; place.textContent = JSON.stringify(outcome); document.body.append(place);
}, 300));</script>"""


@unittest.skipIf(BROWSER is None, "no chromium here")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        run, page = (os.path.join(cls.folder.name, name) for name in ("run.h5", "page.html"))
        subprocess.run([PROGRAM, "run", "lenet", "--what-if", "-o", run], check=True, capture_output=True)
        subprocess.run([PROGRAM, "report", run, "-o", page], check=True)
        with open(page, encoding="utf-8") as file:
            cls.text = file.read()
        cls.page = os.path.join(cls.folder.name, "driven.html")
        with open(cls.page, "w", encoding="utf-8") as file:
            file.write(cls.text.replace("<head>", "<head>" + LISTEN, 1).replace("</body>", DRIVE + "</body>", 1))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def outcome(self, width, scheme):
        words = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={self.folder.name}/profile", f"--window-size={width},900",
                 f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=5000", "--dump-dom",
                 "file://" + self.page]
        dom = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout
        found = re.search(r'<pre id="outcome">(.*?)</pre>', dom, re.S)
        self.assertIsNotNone(found, "the page did not come to its end")
        text = found.group(1).replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
        return json.loads(text)

    def test_in_a_wide_light_window(self):
        seen = self.outcome(1200, 1)
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["times"], sorted(seen["times"], reverse=True))
        self.assertGreater(len(seen["all"]), 10)
        self.assertEqual(sorted(seen["all"]), sorted(seen["sorted"]))
        self.assertNotEqual(seen["all"], seen["sorted"])
        self.assertEqual(seen["order"], "ascending")
        self.assertEqual(seen["none"], [])
        self.assertEqual(seen["few"], seen["all"][:30])
        self.assertEqual(seen["more"], f"All {len(seen['all'])} rows")
        # Ops of a scope are one row, with their time.
        scopes, times = seen["scopes"]
        self.assertEqual(len(scopes), len(set(scopes)))
        self.assertLess(len(scopes), len(seen["all"]))
        self.assertTrue(all(scope.count("/") <= 1 for scope in scopes), scopes)
        self.assertAlmostEqual(sum(times), sum(seen["times"]), delta=1e-3 * sum(seen["times"]))
        # A table behind or beside each chart.
        self.assertEqual(seen["without"], [])
        self.assertIn(seen["all"][1], seen["one"])
        self.assertLess(len(seen["one"]), len(seen["all"]))
        self.assertEqual(seen["unlabelled"], 0)
        self.assertEqual(seen["charts"], 1)
        # Both columns of gains: simulated again, and of the same program.
        self.assertEqual(len(seen["whatIf"]["HBM free"]), 3)
        gains = [float(cells[1].rstrip(" %")) for cells in seen["whatIf"].values() if cells[1]]
        self.assertEqual(gains, sorted(gains, reverse=True))  # Most gain first, as on the terminal.
        for gain in seen["whatIf"]["HBM free"][1:3]:
            self.assertRegex(gain, r"^[1-9][\d.]* %$")
        for title in ("Step time by cause", "Time by category", "What the cores do", "Utilisation over time", "Roofline", "Ops", "Memory", "What if",
                      "Links between chips", "Host", "Energy"):
            self.assertIn(title, seen["sections"])

    def test_a_run_that_nobody_simulated_again_has_what_ifs_too(self):
        run, page = (os.path.join(self.folder.name, name) for name in ("once.h5", "once.html"))
        words = ["run", "mlp", "--cores", "1", "--shape", "64x1024x1024x1024x1024x10", "-o", run, "--json", "-"]
        said = subprocess.run([PROGRAM, *words], check=True, capture_output=True, text=True).stdout
        subprocess.run([PROGRAM, "report", run, "--no-what-if", "-o", page], check=True)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        driven = self.page
        type(self).page = os.path.join(self.folder.name, "driven_once.html")
        with open(self.page, "w", encoding="utf-8") as file:
            file.write(text.replace("<head>", "<head>" + LISTEN, 1).replace("</body>", DRIVE + "</body>", 1))
        seen = self.outcome(1200, 1)
        type(self).page = driven
        self.assertEqual(seen["problems"], [])
        # Layers of one shape are one row, with their time.
        alike, times = seen["alike"]
        self.assertLess(len(alike), len(seen["all"]))
        self.assertAlmostEqual(sum(times), sum(seen["times"]), delta=1e-3 * sum(seen["times"]))
        self.assertTrue(any(re.search(r" and \d+ alike$", name) for name in alike), alike)
        report = json.loads(said)
        step = report["step_time_ms"]["mean"]
        same = {row["name"]: row["gain_ms"] for row in report["what_if"]["same_program"]}
        self.assertIn("HBM and infeed free", same)
        self.assertEqual({name: cells[1] for name, cells in seen["whatIf"].items()},
                         {name: f"{100 * gain / step:.1f} %" for name, gain in same.items()})

    def test_two_runs_are_held_against_each_other(self):
        runs = [os.path.join(self.folder.name, name) for name in ("v2.h5", "v3.h5")]
        page = os.path.join(self.folder.name, "two.html")
        for run, config in zip(runs, ("v2-8", "v3-8")):
            subprocess.run([PROGRAM, "run", "lenet", "--cores", "1", "--config", config, "-o", run], check=True, capture_output=True)
        subprocess.run([PROGRAM, "report", *runs, "-o", page], check=True)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        drive = """<script>addEventListener("load", () => setTimeout(() => {
          const numbers = table => [...table.querySelectorAll("tbody tr")].map(row => [...row.children].slice(1).map(c => Number(c.textContent)));
          const head = [...document.querySelectorAll("h2")].find(h => h.textContent.startsWith("Where the steps differ"));
          const outcome = { problems, wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            sections: [...document.querySelectorAll("h2")].map(h => h.textContent), tables: [...head.parentNode.querySelectorAll("table")].map(numbers) };
          const place = document.createElement("pre"); place.id = "outcome"; place.textContent = JSON.stringify(outcome); document.body.append(place);
        }, 300));</script>"""
        driven = self.page
        type(self).page = os.path.join(self.folder.name, "driven_two.html")
        with open(self.page, "w", encoding="utf-8") as file:
            file.write(text.replace("<head>", "<head>" + LISTEN, 1).replace("</body>", drive + "</body>", 1))
        seen = self.outcome(420, 1)
        type(self).page = driven
        self.assertEqual(seen["problems"], [])
        self.assertLessEqual(seen["wide"], 0)
        self.assertEqual(seen["sections"][:4], ["Comparison", "Parameters that differ", "Where the steps differ, v2-8 and v3-8", "Bounds of GPUs"])
        causes, categories, ops = seen["tables"]
        for column, step in enumerate(causes[-1]):
            for rows in (causes[:-1], categories, ops):
                self.assertAlmostEqual(sum(row[column] for row in rows), step, delta=2e-3 * abs(causes[-1][0]))
        for first, second, change in causes + categories + ops:
            self.assertAlmostEqual(second - first, change, delta=2e-3 * causes[-1][0])

    def test_on_paper_words_stay_whole(self):
        # Paper as a window: as wide as A4 between its margins, with the rules of print.
        drive = """<script>addEventListener("load", () => setTimeout(() => {
          const lines = (node, from, to) => { const range = document.createRange(); range.setStart(node, from); range.setEnd(node, to); return new Set([...range.getClientRects()].map(r => Math.round(r.top))).size; };
          const heads = [...document.querySelectorAll("#ops0 th")].map(h => h.textContent), whole = ["Bound by", "Category"].map(h => heads.indexOf(h));
          document.querySelectorAll("#ops0 td:nth-child(5)").forEach(td => { td.textContent = "transpose(a)/long/scope/of/many/names/".repeat(9); });
          const broken = [], texts = [];
          document.querySelectorAll("#ops0 tbody tr").forEach(row => whole.forEach(column => {
            const walk = document.createTreeWalker(row.children[column], NodeFilter.SHOW_TEXT);
            for (let node = walk.nextNode(); node; node = walk.nextNode()) for (const word of node.data.matchAll(/[^\\s-]+/g)) {
              texts.push(word[0]);
              if (lines(node, word.index, word.index + word[0].length) > 1) broken.push(word[0]);
            } }));
          const outcome = { problems, broken, words: texts.length };
          const place = document.createElement("pre"); place.id = "outcome"; place.textContent = JSON.stringify(outcome); document.body.append(place);
        }, 300));</script>"""
        driven = self.page
        type(self).page = os.path.join(self.folder.name, "driven_paper.html")
        with open(self.page, "w", encoding="utf-8") as file:
            page = self.text.replace("@media print", "@media all").replace("<head>", "<head>" + LISTEN, 1)
            file.write(page.replace("</body>", drive + "</body>", 1))
        seen = self.outcome(720, 1)
        type(self).page = driven
        self.assertEqual(seen["problems"], [])
        self.assertGreater(seen["words"], 30)
        self.assertEqual(seen["broken"], [])

    def test_in_a_narrow_dark_window(self):
        seen = self.outcome(420, 0)
        self.assertEqual(seen["problems"], [])
        self.assertLessEqual(seen["wide"], 0)

    def test_the_page_of_a_sweep_has_the_front(self):
        names = ("sweep.toml", "sweep.html", "sweep.csv")
        sweep, page, table = (os.path.join(self.folder.name, name) for name in names)
        with open(sweep, "w", encoding="utf-8") as file:
            file.write('workload = "matmul"\ncores = 1\nshape = "512x512x512"\n[grid]\ncore.mxu.count = [1, 2, 9]\n'
                       "hbm.gb_per_s = [300, 900]\n")
        for output in (page, table):
            subprocess.run([PROGRAM, "sweep", sweep, "-o", output], check=True, capture_output=True)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        drive = """<script>addEventListener("load", () => setTimeout(() => {
          const choose = (id, value) => { const box = document.getElementById(id); box.value = value; box.dispatchEvent(new Event("change")); };
          const points = () => [...document.querySelectorAll("#points tbody tr")].map(row => row.children[0].textContent);
          const axes = ["x", "y"].map(id => document.getElementById(id).value), heads = [...document.querySelectorAll("#points th")].map(h => h.textContent);
          choose("x", "step_time_ms"); choose("y", "mxu");
          const outcome = { problems, axes, heads, same: document.getElementById("same").textContent, ticks: [...document.querySelectorAll("svg text")].map(t => t.textContent), all: points(), front: document.getElementById("said").textContent, dots: document.querySelectorAll("circle").length };
          const box = document.getElementById("filter"); box.value = "failed"; box.dispatchEvent(new Event("input")); outcome.failed = points();
          const place = document.createElement("pre"); place.id = "outcome"; place.textContent = JSON.stringify(outcome); document.body.append(place);
        }, 100));</script>"""
        driven = self.page
        type(self).page = os.path.join(self.folder.name, "driven_sweep.html")
        with open(self.page, "w", encoding="utf-8") as file:
            file.write(text.replace("<head>", "<head>" + LISTEN, 1).replace("</body>", drive + "</body>", 1))
        seen = self.outcome(900, 1)
        type(self).page = driven
        self.assertEqual(seen["problems"], [])
        self.assertEqual((len(seen["all"]), seen["dots"]), (6, 4))  # Two points ask for nine MXUs.
        self.assertEqual(seen["failed"], ["5", "6"])
        self.assertEqual(seen["axes"], ["examples_per_joule", "examples_per_s"])
        # What all points have is said once, and is no column.
        self.assertTrue(seen["same"].startswith("All points: workload matmul, cores 1, shape 512x512x512"), seen["same"])
        self.assertNotIn("shape", seen["heads"])
        self.assertEqual(seen["heads"][:3], ["point", "core.mxu.count", "hbm.gb_per_s"])
        numbers = [text for text in seen["ticks"] if re.fullmatch(r"[-\d.e]+", text)]
        self.assertGreaterEqual(len(numbers), 6)
        for text in numbers:  # Round: a multiple of 1, 2, 2.5 or 5 of some power of ten.
            self.assertLessEqual(len(text.replace(".", "").strip("0")), 3, numbers)
        with open(table, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        done = [row for row in rows if row["state"] == "done"]
        beats = lambda a, b: float(a["step_time_ms"]) <= float(b["step_time_ms"]) and float(a["mxu"]) >= float(b["mxu"]) and (
            a["step_time_ms"], a["mxu"]) != (b["step_time_ms"], b["mxu"])
        front = [row["point"] for row in done if not any(beats(other, row) for other in done)]
        self.assertEqual(seen["front"], f"On the Pareto front: point {', '.join(front)}.")

    def test_it_loads_nothing(self):
        self.assertIsNone(re.search(r'(src|href)\s*=\s*["\']', self.text))
        self.assertLess(len(self.text), 400_000)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
