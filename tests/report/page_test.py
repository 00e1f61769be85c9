#!/usr/bin/env python3
"""The page of `tpusim report` in a real browser: no error, sort and filter work, no text beyond a phone's width.

Skipped without chromium (Debian: apt install chromium).
"""
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
  const outcome = { all: cells(0), times: cells(4).map(Number) };
  button("Op").click(); button("Op").click(); outcome.sorted = cells(0); outcome.order = heads[0].getAttribute("aria-sort");
  type("no op is called so"); outcome.none = cells(0);
  type(outcome.all[1].toUpperCase()); outcome.one = cells(0);
  outcome.sections = [...document.querySelectorAll("h2")].map(h => h.textContent);
  outcome.unlabelled = [...document.querySelectorAll("svg")].filter(s => !s.getAttribute("aria-label")).length;
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
        self.assertIn(seen["all"][1], seen["one"])
        self.assertLess(len(seen["one"]), len(seen["all"]))
        self.assertEqual(seen["unlabelled"], 0)
        self.assertEqual(seen["charts"], 1)
        for title in ("Step time by cause", "Utilisation over time", "Roofline", "Ops", "Memory", "What if",
                      "Links between chips", "Host", "Energy"):
            self.assertIn(title, seen["sections"])

    def test_in_a_narrow_dark_window(self):
        seen = self.outcome(420, 0)
        self.assertEqual(seen["problems"], [])
        self.assertLessEqual(seen["wide"], 0)

    def test_it_loads_nothing(self):
        self.assertIsNone(re.search(r'(src|href)\s*=\s*["\']', self.text))
        self.assertLess(len(self.text), 400_000)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    unittest.main()
