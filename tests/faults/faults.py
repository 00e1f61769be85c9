#!/usr/bin/env python3
"""What the computer does to tpusim: kills it, has no room, no memory, no reader.

    tests/faults/faults.py build/tpusim                        a few moments of each
    tests/faults/faults.py build/tpusim --kills 1000 --memory-step 100
    tests/faults/faults.py build/tpusim --only memory,disk

For each command that writes a file, and each fault:
  kill     kill -9 at random moments: the file is the old one or the new one, whole; the next run leaves nothing else
  resume   a sweep of 120 small products, its first process or all of them killed at random moments and begun again each
           time: each point's file is the one of a sweep that nobody killed, no process outlives the first one, and
           so is the table
  disk     no room, by a limit of the file's size (and on a full tmpfs where one can be mounted)
  folder   a folder that can't be written to (as another user where this one is root)
  memory   each n-th allocation fails, once, or with all behind it (failing_allocator.c, preloaded)
  stdout   closed, a full device, a pipe that nobody reads
  writers  two processes write one file, then 64
What has to hold: one line on stderr, its exit code, the old file untouched, no other file. Prints a table; exit code 1
when something does not hold. Needs cc for `memory`.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CAPTURED = HERE.parent / "captured" / "scalars"

ASSEMBLER = "kernel first\n" + "{ %s1 = smov 7 }\n" * 2000 + "{ vdelay 1 }\n"

# Name and words; {out} is the file, {folder} holds the inputs.
COMMANDS = [
    ("run -o", ["run", "mlp", "--cores", "1", "-o", "{out}"]),
    ("run --json", ["run", "mlp", "--cores", "1", "--json", "{out}"]),
    ("run --outputs", ["run", "mlp", "--cores", "1", "--values", "on", "--outputs", "{out}"]),
    ("compile", ["compile", "mlp", "--cores", "1", "-o", "{out}"]),
    ("asm", ["asm", "{folder}/in.s", "-o", "{out}"]),
    ("export perfetto", ["export", "{folder}/in.h5", "--format", "perfetto", "-o", "{out}"]),
    ("export xplane", ["export", "{folder}/in.h5", "--format", "xplane", "-o", "{out}"]),
    ("export chrome", ["export", "{folder}/in.h5", "--format", "chrome", "-o", "{out}"]),
    ("export vcd", ["export", "{folder}/in.h5", "--format", "vcd", "-o", "{out}"]),
    ("run perfetto", ["run", "mlp", "--cores", "1", "--format", "perfetto", "--window", "0:2000", "-o", "{out}"]),
    ("run konata", ["run", "mlp", "--cores", "1", "--format", "konata", "--window", "0:2000", "-o", "{out}"]),
    ("report", ["report", "{folder}/in.h5", "-o", "{out}"]),
    ("diff --json", ["diff", "{folder}/in.h5", "{folder}/in.h5", "--json", "{out}"]),
    ("sweep", ["sweep", "{folder}/in.toml", "-j", "1", "--points", "{fresh}", "-o", "{out}"]),
    ("sweep merge", ["sweep", "merge", "{folder}/in.toml", "-o", "{out}"]),
    ("scaling --json", ["scaling", "mlp", "--configs", "v3-8,v3-32", "--json", "{out}"]),
    ("compare --json", ["compare", "mlp", "--cores", "1", "--configs", "v2-8,v3-8", "--json", "{out}"]),
]
# Those that write a folder of files; kill is the only fault of theirs here.
FOLDER_COMMANDS = [
    ("export csv", ["export", "{folder}/in.h5", "--format", "csv", "-o", "{out}"]),
    ("export xplane/", ["export", "{folder}/in.h5", "--format", "xplane", "-o", "{out}"]),
]
# Those that print; memory and stdout are the faults of theirs here.
PRINTING_COMMANDS = [
    ("disasm", ["disasm", "{folder}/in_program.h5"]),
    ("show config", ["show", "v3-8"]),
    ("show workload", ["show", "mlp", "--cores", "1"]),
    ("list", ["list"]),
    ("profile", ["profile", "{folder}/in.h5"]),
    ("metrics", ["metrics", "{folder}/in.h5"]),
    ("diff", ["diff", "{folder}/in.h5", "{folder}/in.h5"]),
    ("compare", ["compare", "mlp", "--cores", "1", "--configs", "v2-8,v3-8"]),
    ("scaling", ["scaling", "mlp", "--configs", "v3-8,v3-32"]),
    ("validate", ["validate", "{folder}/measured", "--phases", "1"]),
    ("sweep plan", ["sweep", "plan", "{folder}/in.toml"]),
    ("sweep status", ["sweep", "status", "{folder}/in.toml"]),
]
SWEEP = '''workload = "mlp"
cores = 1
[grid]
config = ["v2-8", "v3-8"]
'''
PRODUCTS = '''workload = "matmul"
cores = 1
[grid]
shape = ["128x128x128", "128x256x128", "256x128x384", "256x256x256", "384x128x256"]
core.mxu.count = [1, 2]
hbm.read_latency_ns = [16, 18, 20]
hbm.gb_per_s = [300, 600, 700, 900]
'''
# Of the allocations of a command that prints, so many at the end fail one by one.
LAST = 30
OUT_OF_MEMORY, USAGE = 4, 2
# The ending of the output where the command wants one.
ENDINGS = {"run --outputs": "npz", "export xplane": "xplane.pb", "report": "html", "sweep": "csv", "sweep merge": "csv"}


class Bench:
    """A folder with the inputs, and one command at a time in a folder of its own."""

    def __init__(self, program, folder):
        # A copy: another user may not enter the folder of the build.
        self.program, self.folder = shutil.copy2(program, folder / "tpusim"), folder
        self.failures = []
        (folder / "in.s").write_text(ASSEMBLER)
        (folder / "in.toml").write_text(SWEEP)
        shutil.copytree(CAPTURED, folder / "measured" / "row")
        (folder / "measured" / "row" / "facts.json").write_text('{"chip": "v3", "measured_cycles": 10000}')
        self.finish(["run", "mlp", "--cores", "1", "-o", str(folder / "in.h5")])
        self.finish(["compile", "mlp", "--cores", "1", "-o", str(folder / "in_program.h5")])
        self.finish(["sweep", "run", str(folder / "in.toml")])
        self.allocator = None

    def finish(self, words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"tpusim {' '.join(words)} fails with nothing in its way:\n{done.stderr}")
        return done.stdout.encode()

    def fresh(self, name):
        """An empty folder, and the name of the output in it."""
        place = self.folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place, place / ("out." + ENDINGS.get(name, "h5"))

    def words(self, words, out):
        """{fresh} is a folder that holds nothing yet."""
        shutil.rmtree(self.folder / "fresh", ignore_errors=True)
        return [word.format(out=out, folder=self.folder, fresh=self.folder / "fresh") for word in words]

    def right(self, name, words):
        """What the command writes, or prints, when nothing is in its way, and how long it takes."""
        _, out = self.fresh(name)
        begin = time.time()
        printed = self.finish(self.words(words, out))
        return out.read_bytes() if out.exists() else printed, time.time() - begin

    def run(self, words, **options):
        options.setdefault("stdout", subprocess.DEVNULL)
        return subprocess.run([self.program, *words], stderr=subprocess.PIPE, timeout=600, **options)

    def hold(self, true, fault, name, what):
        if not true:
            self.failures.append(f"{fault}: {name}: {what}")
        return bool(true)

    def one_line(self, fault, name, done, codes, case=""):
        text = done.stderr.decode(errors="replace")
        return self.hold(done.returncode in codes, fault, name, f"{case} ended with {done.returncode}: {text[:300]}") and \
            self.hold(text.startswith("tpusim: ") and text.count("\n") == 1, fault, name,
                      f"{case} said: {text[:300]!r}")

    def old_file(self, fault, name, place, out, old, case=""):
        others = sorted(p.name for p in place.iterdir() if p != out)
        self.hold(out.exists() and out.read_bytes() == old, fault, name, f"{case} changed the file that was there")
        return self.hold(not others, fault, name, f"{case} left {others}")


def equal(name, found, right):
    """Reports hold the seconds that a run took, so their bytes differ: the size tells a part from the whole."""
    if "json" in name:
        return found.rstrip().endswith(b"}") and found.lstrip().startswith(b"{")
    if name == "compare":
        found, right = (re.sub(rb"Simulated .*?MiB", b"", text, flags=re.S) for text in (found, right))
    return found == right or (name in ("run -o", "report") and abs(len(found) - len(right)) < 4096 and
                              found[:8] == right[:8] and (name != "report" or found.rstrip().endswith(b"</html>")))


def kill(bench, arguments, name, words):
    right, seconds = bench.right(name, words)
    place, out = bench.fresh(name)
    old = b"the file that was there"
    out.write_bytes(old)
    left = whole = 0
    for _ in range(arguments.kills):
        child = subprocess.Popen([bench.program, *bench.words(words, out)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        time.sleep(arguments.chance.uniform(0, seconds * 1.1))
        child.send_signal(signal.SIGKILL)
        child.wait()
        found = out.read_bytes() if out.exists() else None
        if found != old:
            whole += 1
            bench.hold(found is not None and equal(name, found, right), "kill", name, "left a file that is not whole")
            out.write_bytes(old)
        left = max(left, len(list(place.iterdir())) - 1)
    bench.finish(bench.words(words, out))
    bench.hold([p.name for p in place.iterdir()] == [out.name], "kill", name, "the next run does not clear the folder")
    return f"{arguments.kills} kills, {whole} after the end, at most {left} other files before the next run"


def files_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def kill_folder(bench, arguments, name, words):
    """Each file of the folder is the old one or the new one; the next run makes all of them."""
    out = bench.fresh(name)[0] / "out"
    words = bench.words(words, out)
    begin = time.time()
    bench.finish(words)
    seconds, right = time.time() - begin, files_of(out)
    old = b"the file that was there"
    some = all_new = left = 0
    for _ in range(arguments.kills):
        for file in right:
            (out / file).write_bytes(old)
        child = subprocess.Popen([bench.program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(arguments.chance.uniform(0, seconds * 1.1))
        child.send_signal(signal.SIGKILL)
        child.wait()
        found = files_of(out)
        new = [file for file in right if found.get(file) == right[file]]
        some += 0 < len(new) < len(right)
        all_new += len(new) == len(right)
        broken = [file for file in right if found.get(file) not in (old, right[file])]
        bench.hold(not broken, "kill", name, f"left files that are not whole: {broken}")
        left = max(left, len(found) - len(right))
    bench.finish(words)
    bench.hold(files_of(out) == right, "kill", name, "the next run does not make the folder")
    return f"{arguments.kills} kills, {some} between two of {len(right)} files, {all_new} after the end, at most {left} other files"


def alive(group):
    """Whether a process of the group runs. Those that ended and that nobody has asked yet do not."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    return True
        except OSError:
            pass
    return False


def resume(bench, arguments, name, words):
    """A sweep that is killed again and again."""
    plan, points, table = bench.folder / "products.toml", bench.folder / "products", bench.folder / "products.csv"
    plan.write_text(PRODUCTS)
    words = ["sweep", str(plan), "-j", "2", "--points", str(points), "-o", str(table)]
    begin = time.time()
    bench.finish(words)
    seconds, right, right_table = time.time() - begin, files_of(points), table.read_bytes()
    shutil.rmtree(points)
    ended = tables = most_left = 0
    orphans = []
    for number in range(arguments.kills):
        table.unlink(missing_ok=True)
        child = subprocess.Popen([bench.program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 start_new_session=True)
        # Half of them early, where it reads itself and begins processes.
        time.sleep(arguments.chance.uniform(0, seconds * arguments.chance.choice([0.4, 1.1])))
        (os.kill if number % 2 else os.killpg)(child.pid, signal.SIGKILL)
        ended += child.wait() == 0
        deadline = time.time() + 5
        while alive(child.pid) and time.time() < deadline:
            time.sleep(0.005)
        if alive(child.pid):
            orphans.append(number)
            os.killpg(child.pid, signal.SIGKILL)
        child.stderr.close()
        found = files_of(points) if points.exists() else {}
        broken = [file for file, bytes_ in found.items() if file.endswith(".json") and right.get(file) != bytes_]
        bench.hold(not broken, "resume", name, f"kill {number}: points that differ: {broken}")
        bench.hold(not table.exists() or table.read_bytes() == right_table, "resume", name, f"kill {number}: half a table")
        most_left = max(most_left, sum(not file.endswith(".json") for file in found))
        if sum(file.endswith(".json") for file in found) > len(right) * 0.9 or number + 1 == arguments.kills:
            bench.finish(words)
            tables += 1
            bench.hold(table.read_bytes() == right_table, "resume", name, f"kill {number}: the table differs")
            bench.hold(files_of(points) == right, "resume", name, f"kill {number}: the folder of points differs")
            shutil.rmtree(points)
    bench.hold(not orphans, "resume", name, f"processes that went on behind kills {orphans[:20]}")
    return f"{arguments.kills} kills, {ended} after the end, {tables} tables, at most {most_left} other files before the next run"


def disk(bench, arguments, name, words):
    right, _ = bench.right(name, words)
    old, cases = b"old", 0
    for limit in sorted({0, 1, 4096, len(right) // 2 // 512 * 512, len(right) - 1}):
        if limit >= len(right):
            continue
        place, out = bench.fresh(name)
        out.write_bytes(old)
        limited = ["sh", "-c", f'ulimit -f {limit // 512}; exec "$0" "$@"', bench.program, *bench.words(words, out)]
        done = subprocess.run(limited, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        bench.one_line("disk", name, done, [USAGE], f"limit {limit // 512 * 512}")
        bench.old_file("disk", name, place, out, old, f"limit {limit // 512 * 512}")
        cases += 1
    return f"{cases} limits{full_tmpfs(bench, name, words, len(right))}"


def full_tmpfs(bench, name, words, size):
    """The same on a file system that is full, where this user may mount one."""
    place, out = bench.fresh(name)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
                                           capture_output=True).returncode != 0:
        return ""
    try:
        out.write_bytes(b"old")
        with open(place / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        (place / "filler").rename(place / "full")
        done = bench.run(bench.words(words, out))
        bench.one_line("disk", name, done, [USAGE], "tmpfs")
        bench.hold(out.read_bytes() == b"old" and len(list(place.iterdir())) == 2, "disk", name, "tmpfs: not as before")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return " and a full tmpfs"


def folder(bench, arguments, name, words):
    place, out = bench.fresh(name)
    bench.folder.chmod(0o755)
    place.chmod(0o555)
    as_nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        done = bench.run(bench.words(words, out), **as_nobody)
    finally:
        place.chmod(0o755)
    bench.one_line("folder", name, done, [USAGE])
    bench.hold(not list(place.iterdir()), "folder", name, "left a file")
    return "as another user" if as_nobody else "as this user"


def compiled_allocator(bench):
    if bench.allocator is None:
        bench.allocator = bench.folder / "failing_allocator.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(bench.allocator), str(HERE / "failing_allocator.c"),
                        "-ldl"], check=True)
    return str(bench.allocator)


def memory(bench, arguments, name, words):
    right, _ = bench.right(name, words)
    prints, printed = "{out}" not in words, bench.folder / "printed"
    allocator = compiled_allocator(bench)
    place, out = bench.fresh(name)
    count_file = bench.folder / "count"
    subprocess.run([bench.program, *bench.words(words, out)], stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, "LD_PRELOAD": allocator, "TPUSIM_COUNT": str(count_file)})
    count, large = map(int, count_file.read_text().split())
    step = arguments.memory_step or max(1, count // arguments.moments)
    cases = [{"TPUSIM_FAIL_AT": str(at), "TPUSIM_FAIL_FOR": str(span)}
             for at in range(1 + arguments.shift, count + 1, step) for span in arguments.spans]
    if prints:  # Where texts are put together, of which nothing may be lost.
        cases += [{"TPUSIM_FAIL_AT": str(at)} for at in range(max(1, count - LAST), count + 1)]
    step = arguments.memory_step or max(1, large // arguments.moments)
    cases += [{"TPUSIM_FAIL_LARGE": str(at)} for at in range(1 + arguments.shift, large + 1, step)]
    survived = 0
    for case in cases:
        place, out = bench.fresh(name)
        out.write_bytes(b"old")
        with open(printed, "wb") as output:
            done = bench.run(bench.words(words, out), stdout=output, env={**os.environ, "LD_PRELOAD": allocator, **case})
        if done.returncode == 0:
            # An allocation that is only a cache's, or of the system's.
            survived += 1
            bench.hold(not prints or equal(name, printed.read_bytes(), right), "memory", name, f"{case} printed something else")
            continue
        bench.one_line("memory", name, done, [OUT_OF_MEMORY], str(case))
        if not equal(name, out.read_bytes(), right):  # Whole before memory ended.
            bench.old_file("memory", name, place, out, b"old", str(case))
    return f"{len(cases)} of {count} allocations failed, {survived} not missed"


def stdout(bench, arguments, name, words):
    place, out = bench.fresh(name)
    prints = (name, words) in PRINTING_COMMANDS
    words = bench.words(words, out)
    closed = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', bench.program, *words], stderr=subprocess.PIPE)
    with open("/dev/full", "wb") as full:
        device = bench.run(words, stdout=full)
    reader, writer = os.pipe()
    os.close(reader)
    pipe = bench.run(words, stdout=writer)
    os.close(writer)
    # A command that prints nothing has nothing to lose.
    for case, done in (("closed", closed), ("full", device), ("pipe", pipe)):
        quiet = done.returncode in ([] if prints else [0]) + [-signal.SIGPIPE] and not done.stderr
        if not quiet:
            bench.one_line("stdout", name, done, [USAGE], case)
    others = [p.name for p in place.iterdir() if p != out]
    bench.hold(not others, "stdout", name, f"left {others}")
    return "closed, full, broken pipe: " + ", ".join(str(d.returncode) for d in (closed, device, pipe))


def writers(bench, arguments, name, words):
    right, _ = bench.right(name, words)
    counts = [2, arguments.writers] if arguments.writers > 2 else [2]
    for count in counts:
        place, out = bench.fresh(name)
        same = bench.words(words, out)
        children = [subprocess.Popen([bench.program, *same], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                    for _ in range(count)]
        for child in children:
            said = child.communicate()[1]
            bench.hold(child.returncode == 0, "writers", name, f"one of {count}: {child.returncode}: {said[:200]}")
        bench.hold([p.name for p in place.iterdir()] == [out.name] and equal(name, out.read_bytes(), right), "writers",
                   name, f"{count} at once: the folder holds something else")
    return "one whole file of " + " and of ".join(map(str, counts)) + " at once"


OF_PRINTING = ("memory", "stdout")
FAULTS = {"kill": kill, "resume": resume, "disk": disk, "folder": folder, "memory": memory, "stdout": stdout, "writers": writers}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(FAULTS))
    parser.add_argument("--commands", default="", help="only those whose name has one of these in it")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--moments", type=int, default=3, help="allocations that fail, without --memory-step")
    parser.add_argument("--memory-step", type=int, help="each so-many-th allocation fails")
    parser.add_argument("--spans", type=lambda text: [int(n) for n in text.split(",")], default=[1, 1000000000],
                        help="how many allocations fail, from the one on (1,1000000000)")
    parser.add_argument("--shift", type=int, default=0, help="the first allocation that fails is so many behind the first one")
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.chance = random.Random(arguments.seed)
    table = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(arguments.program.resolve(), pathlib.Path(name))
        for fault in arguments.only.split(","):
            for command, words in [c for c in COMMANDS if fault != "resume" or c[0] == "sweep"] + (FOLDER_COMMANDS if fault == "kill" else PRINTING_COMMANDS if fault in OF_PRINTING else []):
                if any(part in command for part in arguments.commands.split(",")):
                    before = len(bench.failures)
                    one = kill_folder if (command, words) in FOLDER_COMMANDS else FAULTS[fault]
                    told = one(bench, arguments, command, words)
                    word = "holds" if len(bench.failures) == before else "DOES NOT HOLD"
                    print(f"{fault:8} {command:16} {word:14} {told}", flush=True)
    for failure in bench.failures[:40]:
        print(failure)
    print(f"{len(bench.failures)} do not hold")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
