"""Tests of workloads/capture: without jax, those of the command line and of packing; with jax[tpu], a whole capture."""

import contextlib
import gzip
import importlib.util
import io
import json
import os
import pickle
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "workloads", "capture"))

from tpusim_capture import cache, command, folder, program_file, progress  # noqa: E402

EXAMPLE = os.path.join(ROOT, "workloads", "capture", "examples", "mlp.py")
os.environ["JAX_PLATFORMS"] = "cpu"
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

    def test_a_mesh_that_is_none_is_a_usage_error(self):
        for mesh in ("data", "data=0", "data=-1,model=-1", "data=2,data=4"):
            code, error = run(f"{EXAMPLE}:step", "--mesh", mesh, "-o", "x")
            self.assertEqual(code, 2)
            self.assertIn(f"found '{mesh}'", error)

    def test_several_programs_get_folders_of_their_names(self):
        options = command.parse_arguments([f"{EXAMPLE}:step,loss", os.path.join(ROOT, "README.md"), "-o", "out"])
        self.assertEqual([p["shown"] for p in command.programs_of(options)], ["out/step", "out/loss", "out/README.md"])
        alone = command.parse_arguments([f"{EXAMPLE}:step", "-o", "out"])
        self.assertEqual([p["shown"] for p in command.programs_of(alone)], ["out"])

    def test_an_unknown_version_is_said_and_tried(self):
        error = io.StringIO()
        with contextlib.redirect_stderr(error), unittest.mock.patch("importlib.metadata.version", lambda package: "9.9"):
            self.assertEqual(command.installed_versions(), {"jax": "9.9", "libtpu": "9.9"})
        self.assertIn("warning: found jax 9.9 (tried: 0.10.2)", error.getvalue())

    def test_switches_of_the_user_stay(self):
        with unittest.mock.patch.dict(os.environ, {"LIBTPU_INIT_ARGS": "--mine=1", "XLA_FLAGS": "--other"}):
            environment = command.compiler_environment("/d", 8)
        self.assertTrue(environment["LIBTPU_INIT_ARGS"].startswith("--mine=1 --xla_jf_dump_to=/d "))
        self.assertEqual(environment["XLA_FLAGS"], "--other --xla_force_host_platform_device_count=8")

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


class ModuleFiles(unittest.TestCase):
    def test_hlo_text_is_told_from_stablehlo(self):
        self.assertTrue(program_file.is_hlo_text("// a comment\n/* another */ HloModule m, x={}"))
        self.assertFalse(program_file.is_hlo_text("module @HloModule {}"))

    def test_the_module_inside_an_hlo_proto_is_found(self):
        module = b"\n\x03mod\x12\x04main"
        wrapped = b"\n" + bytes([len(module)]) + module
        self.assertEqual(program_file.innermost_module(wrapped), module)
        self.assertEqual(program_file.innermost_module(module), module)
        self.assertIsNone(program_file.first_field(b"\n\x7fshort"))

    def test_a_pickle_that_would_run_code_is_refused(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "p.pkl")
            with open(path, "wb") as file:
                pickle.dump(os.getcwd, file)
            with self.assertRaisesRegex(command.CaptureError, "posix.getcwd"):
                program_file.ModuleFile(path)


class CacheOfResults(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name
        self.cache = cache.Cache(os.path.join(self.work, "cache"))
        self.path = os.path.join(self.work, "result")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("text")

    def fetched(self, key):
        with tempfile.TemporaryDirectory(dir=self.work) as folder_:
            found = self.cache.fetch(key, folder_)
            return found, os.listdir(folder_)

    def test_what_was_stored_comes_back_under_its_key_alone(self):
        key, other = cache.key_of("a", "bc"), cache.key_of("ab", "c")
        self.assertNotEqual(key, other)
        self.cache.store(key, [self.path])
        self.assertEqual(self.fetched(key), (True, ["result"]))
        self.assertEqual(self.fetched(other), (False, []))

    def test_without_a_folder_nothing_is_kept(self):
        self.cache = cache.Cache(None)
        self.cache.store("key", [self.path])
        self.assertEqual(self.fetched("key"), (False, []))

    def test_what_was_used_longest_ago_goes_first(self):
        with unittest.mock.patch.object(cache, "LARGEST_BYTES", 9):
            for age, key in ((30, "a"), (20, "b")):
                self.cache.store(key, [self.path])
                then = time.time() - age
                os.utime(os.path.join(self.cache.folder, key), (then, then))
            self.assertTrue(self.fetched("a")[0])  # and so it was used last
            self.cache.store("c", [self.path])
        self.assertEqual([self.fetched(key)[0] for key in "abc"], [True, False, True])


class ProgressLine(unittest.TestCase):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def told(self, stream, *seconds):
        now = [0.0]
        line = progress.Progress(stream, lambda: now[0])
        line.stage("v3 compiling")
        for now[0] in seconds:
            line.tick()
        line.clear()
        return stream.getvalue()

    def test_a_terminal_sees_one_line_that_goes_away(self):
        self.assertEqual(self.told(self.Terminal(), 0.5), "")
        self.assertEqual(self.told(self.Terminal(), 0.5, 2), "\r\033[Kv3 compiling, 2 s\r\033[K")

    def test_a_file_sees_a_line_now_and_then(self):
        self.assertEqual(self.told(io.StringIO(), 30, 59), "")
        self.assertEqual(self.told(io.StringIO(), 30, 61, 70, 125), "v3 compiling, 61 s\nv3 compiling, 125 s\n")


@unittest.skipUnless(HAS_JAX, "needs jax[tpu]")
class WholeCapture(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def write(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def facts(self, folder_):
        with open(os.path.join(self.work, folder_, "facts.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_the_example_becomes_a_folder_and_compiles_once(self):
        texts = []
        for number in range(2):
            output = os.path.join(self.work, f"mlp{number}")
            code, error = run(f"{EXAMPLE}:step", "--chip", "v3", "--values", "-o", output, "--cache", os.path.join(self.work, "cache"))
            self.assertEqual((code, error), (0, ""))
            names = {"before.hlo.gz", "v3.scheduled.hlo.gz", "v3.bundles.tar.xz", "facts.json", "values.npz"}
            self.assertEqual(names, set(os.listdir(output)))
            with open(os.path.join(output, "v3.bundles.tar.xz"), "rb") as file:
                texts.append(file.read())
        self.assertEqual(texts[0], texts[1])  # The names of the listings differ from compilation to compilation.
        with gzip.open(os.path.join(output, "before.hlo.gz"), "rt") as file:
            before = file.read()
        self.assertIn('1 "mlp.py"', before)
        self.assertIn('op_name="jit(step)', before)
        self.assertNotIn("tpusim_capture", before)
        self.assertEqual(self.facts("mlp0")["batch"], 24)

    def test_failures_leave_the_other_programs_alone(self):
        text = """
import os, jax
def right(x): return x * 2
def wrong(x): return x @ x
def ends(x): os._exit(7)
def large(x): return x @ x.T, x + 1
def example_arguments(): return (jax.ShapeDtypeStruct((2, 3), "float32"),)
def large_arguments(): return (jax.ShapeDtypeStruct((60000, 60000), "float32"),)
"""
        path = self.write("several.py", text)
        output = os.path.join(self.work, "out")
        code, error = run(f"{path}:wrong,ends,large,stride,right", "--chip", "v3", "--no-cache", "-o", output)
        self.assertEqual(code, 4)
        self.assertEqual(os.listdir(output), ["right"])
        self.assertIn("wrong: the program failed:", error)
        self.assertIn("several.py", error)
        self.assertIn("ends: the process ended with code 7", error)
        self.assertIn("large: v3: the program does not fit:\nRESOURCE_EXHAUSTED: Ran out of memory", error)
        self.assertIn("expected a function 'stride'", error)

    def test_module_files_become_folders(self):
        import jax

        lowered = jax.jit(lambda x, w: jax.numpy.tanh(x @ w)).lower(jax.numpy.ones((8, 64)), jax.numpy.ones((64, 32)))
        proto = lowered.compiler_ir("hlo").as_hlo_module().as_serialized_hlo_module_proto()
        paths = [self.write("text.mlir", lowered.as_text()), self.write("hlo.txt", lowered.as_text(dialect="hlo"))]
        for name, data in (("proto.pb", proto), ("zipped.pb.gz", gzip.compress(proto))):
            paths.append(os.path.join(self.work, name))
            with open(paths[-1], "wb") as file:
                file.write(data)
        output = os.path.join(self.work, "out")
        cached = os.path.join(self.work, "cache")
        code, error = run(*paths, "--chip", "v3", "--values", "-o", output, "--cache", cached)
        self.assertEqual((code, error), (0, ""))
        for name in ("text", "hlo", "proto", "zipped"):
            self.assertLessEqual({"before.hlo.gz", "v3.bundles.tar.xz", "values.npz"}, set(os.listdir(os.path.join(output, name))))
            self.assertEqual(self.facts(f"out/{name}")["reference"]["rounded_to_bf16"], 1)

    def test_hlo_text_with_a_mesh_is_for_its_devices(self):
        import jax
        from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

        mesh = AbstractMesh((4, 2), ("data", "model"))
        placed = jax.ShapeDtypeStruct((16, 64), "float32", sharding=NamedSharding(mesh, PartitionSpec("data", "model")))
        product = jax.shard_map(lambda x: jax.lax.psum(x @ x.T, "model"), mesh=mesh, in_specs=placed.sharding.spec, out_specs=PartitionSpec("data"))
        path = self.write("hlo.txt", jax.jit(product).trace(placed).lower(lowering_platforms=("tpu",)).as_text(dialect="hlo"))
        output = os.path.join(self.work, "out")
        code, error = run(path, "--chip", "v3", "--no-cache", "-o", output)
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(self.facts("out")["v3"]["devices"], 8)
        with gzip.open(os.path.join(output, "v3.scheduled.hlo.gz"), "rt") as file:
            self.assertIn("all-reduce", file.read())

    def test_a_mesh_and_shardings_reach_the_compiler(self):
        text = """
import jax, numpy as np
from jax.sharding import PartitionSpec as P
MESH = {"data": 4, "model": 2}
def step(x, w): return jax.numpy.sum((x @ w) ** 2)
def step_arguments(): return np.ones((16, 64), np.float32), np.ones((64, 32), np.float32)
def step_shardings(mesh): return P("data"), P(None, "model")
"""
        path = self.write("parallel.py", text)
        output = os.path.join(self.work, "out")
        code, error = run(f"{path}:step", "--chip", "v3", "--values", "--no-cache", "-o", output)
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(self.facts("out")["v3"]["devices"], 8)
        with gzip.open(os.path.join(output, "v3.scheduled.hlo.gz"), "rt") as file:
            scheduled = file.read()
        self.assertIn("f32[4,64]", scheduled)
        self.assertIn("f32[64,16]", scheduled)
        code, error = run(f"{path}:step", "--chip", "v3", "--mesh", "data=3", "-o", output + "3")
        self.assertEqual(code, 4)
        self.assertIn("mesh data=3: expected 8 devices", error)


if __name__ == "__main__":
    unittest.main()
