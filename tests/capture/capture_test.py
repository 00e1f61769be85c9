"""Tests of workloads/capture: without jax, those of the command line and of packing; with jax[tpu], a whole capture."""

import contextlib
import importlib.util
import io
import os
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "workloads", "capture"))

from tpusim_capture import command, folder  # noqa: E402

EXAMPLE = os.path.join(ROOT, "workloads", "capture", "examples", "mlp.py")
HAS_JAX = importlib.util.find_spec("jax") is not None and importlib.util.find_spec("libtpu") is not None


def run(*arguments):
    """Exit code and standard error of the command."""
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = command.main(list(arguments))
        except SystemExit as stop:
            code = stop.code
    return code, error.getvalue()


class CommandLine(unittest.TestCase):
    def test_an_unknown_chip_is_a_usage_error_that_names_it(self):
        code, error = run(f"{EXAMPLE}:step", "--chip", "v9", "-o", "x")
        self.assertEqual(code, 2)
        self.assertIn("found 'v9'", error)

    def test_a_slice_that_is_no_grid_is_a_usage_error(self):
        code, error = run(f"{EXAMPLE}:step", "--slice", "2by2", "-o", "x")
        self.assertEqual(code, 2)
        self.assertIn("expected XxY", error)

    @unittest.skipIf(HAS_JAX, "jax[tpu] is installed")
    def test_missing_jax_says_what_to_install(self):
        code, error = run(f"{EXAMPLE}:step", "-o", "x")
        self.assertEqual(code, 4)
        self.assertIn('pip install "jax[tpu]==0.10.2"', error)


class Listings(unittest.TestCase):
    def test_only_the_files_that_tpusim_reads_are_kept(self):
        self.assertTrue(folder.is_kept("17-fusion-71-final_bundles.txt"))
        self.assertTrue(folder.is_kept("17-TLP-00-deduplication-map.txt"))
        self.assertFalse(folder.is_kept("17-fusion-80-schedule-analysis_final_bundles.txt"))
        self.assertFalse(folder.is_kept("17-fusion-02-original.txt"))

    def test_an_archive_depends_on_the_contents_alone(self):
        archives = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as work:
                dump = os.path.join(work, "dump")
                os.makedirs(dump)
                for name in ("1-a-70-final_bundles.txt", "1-TLP-hlo.txt", "1-a-02-original.txt"):
                    with open(os.path.join(dump, name), "w", encoding="utf-8") as file:
                        file.write("text of " + name)
                archive = os.path.join(work, "v3.bundles.tar.xz")
                self.assertEqual(folder.pack_listings(dump, archive, "v3.bundles"), 1)
                with tarfile.open(archive) as tar:
                    self.assertEqual(tar.getnames(), ["v3.bundles/1-TLP-hlo.txt", "v3.bundles/1-a-70-final_bundles.txt"])
                with open(archive, "rb") as file:
                    archives.append(file.read())
        self.assertEqual(archives[0], archives[1])


@unittest.skipUnless(HAS_JAX, "needs jax[tpu]")
class WholeCapture(unittest.TestCase):
    def test_the_example_becomes_a_folder(self):
        with tempfile.TemporaryDirectory() as work:
            output = os.path.join(work, "mlp")
            code, error = run(f"{EXAMPLE}:step", "--chip", "v3", "-o", output)
            self.assertEqual((code, error), (0, ""))
            self.assertLessEqual({"before.hlo.gz", "v3.scheduled.hlo.gz", "v3.bundles.tar.xz", "facts.json"}, set(os.listdir(output)))

    def test_a_function_that_is_not_there_is_named_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as work:
            code, error = run(f"{EXAMPLE}:stride", "--chip", "v3", "-o", os.path.join(work, "x"))
            self.assertEqual(code, 4)
            self.assertIn("expected a function 'stride'", error)
            self.assertEqual(os.listdir(work), [])


if __name__ == "__main__":
    unittest.main()
