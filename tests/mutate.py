#!/usr/bin/env python3
"""Deliberate mistakes ("mutants") in the machine, and which of them no test notices.

    tests/mutate.py                            300 mutants of all rooms, seed 1
    tests/mutate.py --count 60 --rooms isa     60 mutants of isa/
    tests/mutate.py --seed 2 --list            only what would be mutated
    tests/mutate.py --by-name                  the mistakes of tests/mutants_by_name.txt, and which tests notice each

A mutant changes an operator, an integer constant, a condition, or leaves a statement out. All mutants of a run are
compiled into one copy of the sources, each behind a switch that an environment variable turns; so a mutant costs no
build, and only those of its room's tests that reach it are run, the quick ones first. What does not compile that way is
dropped and another one taken. A mutant is killed when a test fails, crashes or takes more than four times its CPU time;
it survives when all pass. Survivors that compute the
same as the original stand in tests/mutants_explained.txt with the reason and count apart.

Neither mull (no Debian package; its plug-in has to match the compiler) nor universalmutator (a build for each mutant:
300 times a minute here) does that.

Needs what the tests need, and libclang for Python (Debian: python3-clang-14). Exit code 1 when fewer than --threshold
of the mutants that are not explained are killed.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent

# Room: folders or files (as prefixes; "!" leaves out) that are mutated, the tests that belong (program and filter), and
# the files of tests that the program is built from where it need not be all.
ROOMS = {
    "isa": (["isa/", "!isa/listing/", "!isa/schedule_survey", "!isa/manual"], [("isa_tests", "*")]),
    "listing": (["isa/listing/"], [("xla_tests", "*")]),
    "hlo": (["workloads/hlo/"], [("hlo_tests", "*")]),
    "models": (["models/"], [("models_tests", "*")]),
    "traces": (["traces/"], [("traces_tests", "*")]),
    "report": (["sim/report/"], [("report_tests", "*")]),
    "codegen": (["workloads/compiler/codegen/"], [("compiler_tests", "KernelBuilder*:KeptPrograms*:Dot*")],
                ["kernel_builder_test", "kept_programs_test", "dot_test"]),
    "tiling": (["workloads/compiler/kernels/contraction/dot_tiling", "workloads/compiler/kernels/contraction/convolution_tiling",
                "workloads/compiler/kernels/contraction/convolution_lanes_tiling", "workloads/compiler/kernels/tiles/tile_grid"],
               [("compiler_tests", "KeptTilings*:KeptPrograms*:Dot*:Cost*:Convolution*")],
               ["kept_tilings_test", "kept_programs_test", "dot_test", "block_sizes_test", "cost_test", "convolution_test", "convolution_epilogue_test"]),
}

SWITCH_HEADER = """#pragma once
// Written by tests/mutate.py.
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wtype-limits"
namespace tpu_mutation {
extern int chosen;
void reach(int number);
inline bool on_at_run_time(int number) {
  if (chosen < 0) reach(number);
  return chosen == number;
}
constexpr bool on(int number) {
  return !__builtin_is_constant_evaluated() && on_at_run_time(number);
}
}  // namespace tpu_mutation
"""
SWITCH_SOURCE = """#include "sim/base/mutation.h"
#include <cstdio>
#include <cstdlib>
#include <set>
namespace tpu_mutation {
// TPUSIM_MUTANT: the number of the mutant; -1 notes the mutants that are reached in the file TPUSIM_REACHED.
int chosen = std::getenv("TPUSIM_MUTANT") != nullptr ? std::atoi(std::getenv("TPUSIM_MUTANT")) : 0;
void reach(int number) {
  static std::set<int> seen;
  if (!seen.insert(number).second) return;
  if (std::FILE* out = std::fopen(std::getenv("TPUSIM_REACHED"), "a")) {
    std::fprintf(out, "%d\\n", number);
    std::fclose(out);
  }
}
}  // namespace tpu_mutation
"""

OPERATORS = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "+", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=",
             "!=": "==", "&&": "||", "||": "&&", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}

Mutant = collections.namedtuple("Mutant", "file line begin end kind before replacement after text")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="of " + ", ".join(ROOMS))
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build-mutants")
    parser.add_argument("--files", type=int, default=0, help="at most so many files of a room (all)")
    parser.add_argument("--sources-only", action="store_true", help="leave headers alone: far less to compile")
    parser.add_argument("--jobs", default=str(os.cpu_count()))
    parser.add_argument("--as-built", action="store_true", help="judge what stands in --folder, build nothing")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="judge the K-th of N parts of what is built: a later part is as fresh as another "
                        "seed and costs no build")
    parser.add_argument("--threshold", type=float, default=0.9)
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--by-name", action="store_true", help="the mistakes of tests/mutants_by_name.txt in place of seeded ones")
    return parser.parse_args()


def unneeded_tests(rooms):
    """A test that says whether a file is one of a program that the rooms build from fewer files."""
    wanted, folders = set(), set()
    for room in rooms:
        if len(ROOMS[room]) == 3:
            wanted.update(ROOMS[room][2])
            folders.update(program.replace("_tests", "") for program, _ in ROOMS[room][1])
    return lambda name: any(name.startswith(f"tests/{folder}/") and name.endswith("_test.cpp") and
                            pathlib.Path(name).stem not in wanted for folder in folders)


def copy_sources(folder, unneeded):
    # With the build inside, as people have it: then ccache knows the files without a mutant.
    tree = folder / "source"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    names = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=SOURCE, check=True, capture_output=True).stdout
    for name in names.decode().split("\0"):
        if not name or not (SOURCE / name).is_file() or unneeded(name):
            continue
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SOURCE / name, tree / name)
    return tree


def configure(tree, build, units):
    """File by file for who asks how each is compiled; as units to be built: half of the time, and in the same folder
    those that hold no mutant come out of the cache. With -O1: half of what -O3 takes, and most tests are short; it makes
    gcc 12 take a set std::optional of a file beside mutated ones for unset, which is no error then."""
    command = ["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
               "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG -Wno-error=maybe-uninitialized",
               "-DTPUSIM_TESTS=ON", "-DTPUSIM_BENCH=OFF", "-DTPUSIM_FEWER_UNITS=" + ("ON" if units else "OFF")]
    if shutil.which("mold"):
        command.append("-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def belongs(file, prefixes):
    wanted = [p for p in prefixes if not p.startswith("!")]
    unwanted = [p[1:] for p in prefixes if p.startswith("!")]
    return any(file.startswith(p) for p in wanted) and not any(file.startswith(p) for p in unwanted)


class Finder:
    """Finds what can be mutated in the files of a room."""

    def __init__(self, tree, build, sources_only):
        self.sources_only = sources_only
        self.kept = tree.parent / "places"
        import clang.cindex as cindex
        self.cindex = cindex
        self.tree = tree
        self.index = cindex.Index.create()
        self.commands = {entry["file"]: entry["command"] for entry in
                         json.loads((build / "compile_commands.json").read_text())}
        self.texts = {}
        self.found = {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = pathlib.Path(path).read_bytes().decode("latin-1")
        return self.texts[path]

    def candidates(self, prefixes, most_files, chance):
        """Mutants by file, of every .cpp that the prefixes name and the headers beside it."""
        sources = sorted(f for f in self.commands if belongs(os.path.relpath(f, self.tree), prefixes))
        chance.shuffle(sources)
        self.prefixes = prefixes
        places = {}
        for source in sources[:most_files or None]:
            places.update(self.places(source))
        return list(places.values())

    def places(self, source):
        """What can be mutated in a source and the headers beside it; kept as long as its text is the same, for parsing takes longest."""
        text = self.text(source) + str(self.sources_only) + str(self.prefixes)
        kept = self.kept / (hashlib.sha256(text.encode("latin-1")).hexdigest() + ".json")
        if self.sources_only and kept.exists():
            return {tuple(key): Mutant(*mutant) for key, mutant in json.loads(kept.read_text())}
        self.found = {}
        arguments = [word for word in self.commands[source].split()[1:] if word[:2] in ("-I", "-D", "-s", "-i")]
        unit = self.index.parse(source, args=arguments + ["-Wno-everything"])
        for cursor in unit.cursor.get_children():
            if self.is_ours(cursor):
                self.visit(cursor, [])
        if self.sources_only:
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(list(self.found.items())))
        return self.found

    def is_ours(self, cursor):
        file = cursor.location.file
        if file is None or (self.sources_only and file.name.endswith(".h")):
            return False
        return belongs(os.path.relpath(file.name, self.tree), self.prefixes)

    def visit(self, cursor, parents):
        kinds = self.cindex.CursorKind
        if cursor.kind in (kinds.ENUM_DECL, kinds.STATIC_ASSERT, kinds.TEMPLATE_REF, kinds.TYPE_ALIAS_DECL):
            return
        if cursor.kind == kinds.VAR_DECL and "constexpr" in [t.spelling for t in
                                                              list(cursor.get_tokens())[:4]]:
            return
        self.consider(cursor, parents)
        children = list(cursor.get_children())
        if cursor.kind == kinds.CASE_STMT:
            children = children[1:]
        for child in children:
            self.visit(child, parents + [cursor])

    def consider(self, cursor, parents):
        kinds = self.cindex.CursorKind
        if not any(p.kind == kinds.COMPOUND_STMT for p in parents):
            return
        if cursor.kind == kinds.BINARY_OPERATOR:
            self.add_operator(cursor)
        elif cursor.kind == kinds.INTEGER_LITERAL:
            self.add_constant(cursor)
        elif cursor.kind in (kinds.IF_STMT, kinds.WHILE_STMT):
            self.add_condition(cursor)
        elif parents and parents[-1].kind == kinds.COMPOUND_STMT and cursor.kind in (
                kinds.CALL_EXPR, kinds.COMPOUND_ASSIGNMENT_OPERATOR, kinds.UNARY_OPERATOR, kinds.BINARY_OPERATOR):
            self.add_removal(cursor)

    def span(self, cursor):
        begin, end = cursor.extent.start, cursor.extent.end
        if begin.file is None or end.file is None or begin.file.name != end.file.name:
            return None
        text = self.text(begin.file.name)
        # Out of a macro, or beside one: the extent is that of the use, not of what is written.
        line = text[text.rfind("\n", 0, begin.offset) + 1:end.offset]
        if "TPU_CHECK" in line or "TPU_OPCODE" in line or end.offset <= begin.offset or "//" in line:
            return None
        return begin.file.name, begin.line, begin.offset, end.offset, text[begin.offset:end.offset]

    def add(self, span, kind, replacement, after):
        file, line, begin, end, before = span
        if len(before) > 300 or "#" in before or "static_assert" in before:
            return
        flat = " ".join(before.split())
        key = (file, begin, end, kind)
        text = self.text(file).splitlines()[line - 1].strip()
        self.found[key] = Mutant(os.path.relpath(file, self.tree), line, begin, end, kind, flat, replacement, after, text)

    def add_operator(self, cursor):
        children = list(cursor.get_children())
        span = self.span(cursor)
        if span is None or len(children) != 2:
            return
        left, right = self.span(children[0]), self.span(children[1])
        if left is None or right is None or left[3] > right[2]:
            return
        operator = self.text(span[0])[left[3]:right[2]].strip(" \n()")
        if operator not in OPERATORS:
            if operator == "=":
                self.add_removal(cursor)
            return
        other = OPERATORS[operator]
        one_line = [" ".join(part[4].split()) for part in (left, right)]
        after = f"{one_line[0]} {other} {one_line[1]}"
        self.add(span, "operator", f"(ON ? ({one_line[0]}) {other} ({one_line[1]}) : ({span[4]}))", after)

    def add_constant(self, cursor):
        span = self.span(cursor)
        if span is None or not re.fullmatch(r"[0-9'xa-fA-FuUlL]+", span[4]):
            return
        self.add(span, "constant", f"({span[4]} + (ON ? 1 : 0))", f"{span[4]} + 1")

    def add_condition(self, cursor):
        kinds = self.cindex.CursorKind
        children = list(cursor.get_children())
        if not children or children[0].kind in (kinds.DECL_STMT, kinds.VAR_DECL) or len(children) > 3:
            return
        span = self.span(children[0])
        if span is None or "constexpr" in self.text(span[0])[span[2] - 14:span[2]]:
            return
        flat = " ".join(span[4].split())
        if flat == "true":  # Behind a loop that ends by return alone nothing is defined.
            return
        self.add(span, "condition", f"(ON ? !({flat}) : bool({span[4]}))", f"!({flat})")

    def add_removal(self, cursor):
        span = self.span(cursor)
        if span is None or "<<" in span[4]:
            return
        rest = self.text(span[0])[span[3]:]
        if not rest.lstrip().startswith(";"):
            return
        before = self.text(span[0])[:span[2]].rstrip()
        if not before or before[-1] not in ";{}":  # "else x;", "case 1: x;"
            return
        self.add(span, "removal", f"if (!ON) {span[4]}", "")


def choose(candidates, count, chance):
    """Of all candidates so many that do not overlap, evenly over the files."""
    by_file = collections.defaultdict(list)
    for mutant in sorted(candidates):
        by_file[mutant.file].append(mutant)
    for mutants in by_file.values():
        chance.shuffle(mutants)
    chosen, taken = [], collections.defaultdict(list)
    weights = {file: len(mutants) for file, mutants in by_file.items()}
    while len(chosen) < count and any(by_file.values()):
        file = chance.choices(list(by_file), [weights[f] if by_file[f] else 0 for f in by_file])[0]
        mutant = by_file[file].pop()
        if any(mutant.begin < end and begin < mutant.end for begin, end in taken[file]):
            continue
        taken[file].append((mutant.begin, mutant.end))
        chosen.append(mutant)
    return chosen


def include_switches(tree, file):
    text = (tree / file).read_bytes().decode("latin-1")
    if file.endswith(".h"):
        text = text.replace("#pragma once", '#pragma once\n#include "sim/base/mutation.h"\n#line 2', 1)
    else:
        text = '#include "sim/base/mutation.h"\n#line 1\n' + text
    (tree / file).write_bytes(text.encode("latin-1"))


def write_mutants(tree, original, numbered):
    """Puts the mutants into their files; `numbered` holds number and mutant."""
    by_file = collections.defaultdict(list)
    for number, mutant in numbered.items():
        by_file[mutant.file].append((mutant.begin, mutant.end, number, mutant))
    for file, mutants in by_file.items():
        text = original[file]
        for begin, end, number, mutant in sorted(mutants, reverse=True):
            text = text[:begin] + mutant.replacement.replace("ON", f"tpu_mutation::on({number})", 1) + text[end:]
        (tree / file).write_bytes(text.encode("latin-1"))
        include_switches(tree, file)


def build_all(tree, build, targets, original, numbered, jobs):
    """Builds; drops the mutants that do not compile until all does."""
    for attempt in range(30):
        write_mutants(tree, original, numbered)
        result = subprocess.run(["ninja", "-C", str(build), "-k", "0", "-j", jobs, *targets], capture_output=True,
                                text=True)
        if result.returncode == 0:
            return
        bad = set()
        for file, line in re.findall(r"^(?:In file included from )?(\S+?):(\d+)[:,]", result.stdout, re.M):
            name = os.path.relpath(build / file, tree) if not file.startswith("/") else os.path.relpath(file, tree)
            near = [(abs(m.line - int(line)), n) for n, m in numbered.items() if m.file == name]
            bad.update(n for distance, n in near if distance == 0)
            errors = [n for distance, n in near if distance <= 2]
            if not any(distance == 0 for distance, _ in near):
                bad.update(errors)
        if not bad:
            sys.exit("the copy does not build, and no mutant is near the errors:\n" + result.stdout[-3000:])
        files = {numbered[n].file for n in bad}
        for number in bad:
            del numbered[number]
        for file in files:
            (tree / file).write_bytes(original[file].encode("latin-1"))
        print(f"  {len(bad)} mutants do not compile, {len(numbered)} are left", flush=True)
    sys.exit("the copy does not build")


class Tests:
    """The tests of a room: which of them reach a mutant, and what each takes."""

    CHEAP = 0.3  # CPU seconds

    def __init__(self, build, programs):
        self.build = build
        self.programs = programs
        self.seconds = {}
        self.reaching = collections.defaultdict(list)

    def run(self, program, tests, environment, cpu_seconds, fail_fast=True):
        """Its result and CPU seconds; the limit is of CPU seconds, for the machine may have more to do."""
        begin = os.times()
        command = [str(self.build / program), "--gtest_brief=1", "--gtest_filter=" + ":".join(tests)] + ["--gtest_fail_fast"] * fail_fast
        limit = max(1, round(cpu_seconds))
        result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, cwd=self.build, text=True,
                                errors="replace", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)))
        end = os.times()
        return result, end.children_user + end.children_system - begin.children_user - begin.children_system

    def noticing(self, number):
        """The tests that fail with a mutant: of the cheap ones, and of the others where those only keep what once was."""
        found = []
        for cheap in (True, False):
            for program, _ in self.programs:
                tests = [test for of, test in self.reaching[number] if of == program and (self.seconds[test] <= self.CHEAP) == cheap]
                found += self.failing(program, tests, number) if tests else []
            if any(not test.startswith("Kept") for test in found):
                break
        return found

    def failing(self, program, tests, number):
        """Of these tests those that fail: all in one process, and each in one of its own where that ends early."""
        limit = 3 + 4 * sum(self.seconds[test] for test in tests)
        result, _ = self.run(program, tests, {"TPUSIM_MUTANT": str(number)}, limit, fail_fast=False)
        failed = [name.rstrip(",") for name in re.findall(r"^\[  FAILED  \] (\S+?)(?:,| \()", result.stdout, re.M)]
        if result.returncode == 0 or failed or len(tests) == 1:
            return failed or ([] if result.returncode == 0 else tests)
        return [test for test in tests if self.failing(program, [test], number)]

    def names(self, program, tests):
        listed = subprocess.run([str(self.build / program), "--gtest_list_tests", "--gtest_filter=" + tests],
                                capture_output=True, text=True, check=True, cwd=self.build).stdout
        suite = ""
        for line in listed.splitlines():
            if not line.startswith(" "):
                suite = line.split()[0]
            else:
                yield suite + line.split()[0]

    def measure(self, reached):
        """Runs each test by itself with no mutant on: its time and the mutants that it reaches."""
        for program, tests in self.programs:
            for test in self.names(program, tests):
                reached.unlink(missing_ok=True)
                environment = {"TPUSIM_MUTANT": "-1", "TPUSIM_REACHED": str(reached)}
                result, seconds = self.run(program, [test], environment, 600)
                if result.returncode != 0:
                    print(f"{test} fails without a mutant and is left out:\n" + result.stdout[-2000:], flush=True)
                    continue
                self.seconds[test] = seconds
                if reached.exists():
                    for number in map(int, reached.read_text().split()):
                        self.reaching[number].append((program, test))

    def killer(self, number):
        """The test that notices a mutant, or nothing: the cheap ones together first, then each by itself."""
        by_time = sorted(self.reaching[number], key=lambda each: self.seconds[each[1]])
        for program, _ in self.programs:
            tests = [test for of, test in by_time if of == program]
            cheap = [test for test in tests if self.seconds[test] <= self.CHEAP]
            for group in ([cheap] if cheap else []) + [[test] for test in tests if test not in cheap]:
                limit = 3 + 4 * sum(self.seconds[test] for test in group)
                result, _ = self.run(program, group, {"TPUSIM_MUTANT": str(number)}, limit)
                if result.returncode == 0:
                    continue
                failed = re.findall(r"^\[  FAILED  \] (\S+?)[ ,]", result.stdout, re.M)
                if failed:
                    return failed[0].rstrip(",")
                return f"{group[0] if len(group) == 1 else program}: " + (
                    "time" if result.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else f"ends with {result.returncode}")
        return ""


def explained():
    """File, line, text before and after of the survivors that are no mistakes."""
    known = {}
    for line in (SOURCE / "tests/mutants_explained.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            file, text, before, after, reason = [part.strip().replace("\\|", "|") for part in line.split(" | ")]
            known[(file, text, before, after)] = reason
    return known


def by_name():
    """The mistakes that have a name: number and mutant, number and room, number and name."""
    numbered, room_of, name_of = {}, {}, {}
    for line in (SOURCE / "tests/mutants_by_name.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, room, file, before, after = [part.strip() for part in line.split(" | ")]
        text = (SOURCE / file).read_bytes().decode("latin-1")
        if text.count(before) != 1:
            sys.exit(f"tests/mutants_by_name.txt, {name}: expected {before!r} once in {file}, found it {text.count(before)} times")
        number, begin = len(numbered) + 1, text.index(before)
        numbered[number] = Mutant(file, text.count("\n", 0, begin) + 1, begin, begin + len(before), "by name", before, "", after, "")
        room_of[number], name_of[number] = room, name
    return numbered, room_of, name_of


def write_by_name(tree, numbered):
    """Puts the mistakes into their files; several may be of one place."""
    of_place = collections.defaultdict(list)
    for number, mutant in numbered.items():
        of_place[mutant.file, mutant.begin, mutant.before].append((number, mutant.after))
    for (file, begin, before), mistakes in sorted(of_place.items(), reverse=True):
        mutated = before
        for number, after in mistakes:
            on = f"tpu_mutation::on({number})"
            mutated = f"if ({on}) {{ {after} }} else {{ {mutated} }}" if before.endswith(";") else f"({on} ? ({after}) : ({mutated}))"
        text = (tree / file).read_bytes().decode("latin-1")
        (tree / file).write_bytes((text[:begin] + mutated + text[begin + len(before):]).encode("latin-1"))
    for file in {mutant.file for mutant in numbered.values()}:
        include_switches(tree, file)


def judge_by_name(rooms, build, numbered, room_of, name_of):
    """Prints of each mistake the tests that notice it; 1 where none does but those that keep what once was."""
    missed = 0
    for room in [room for room in rooms if room in room_of.values()]:
        tests = Tests(build, ROOMS[room][1])
        tests.measure(build / f"reached_{room}.txt")
        for number in (n for n in numbered if room_of[n] == room):
            found = tests.noticing(number)
            said = [test for test in found if not test.startswith("Kept")]
            missed += not said
            place = f"{numbered[number].file}:{numbered[number].line}"
            print(f"{name_of[number]} | {place} | {len(found)} | " + ", ".join((said or found or ["none"])[:6]), flush=True)
    return 1 if missed else 0


def main():
    arguments = parse_arguments()
    rooms = arguments.rooms.split(",")
    for room in rooms:
        if room not in ROOMS:
            sys.exit(f"--rooms: no {room}; there are {', '.join(ROOMS)}")
    chance = random.Random(arguments.seed)
    folder = arguments.folder.resolve()
    if arguments.by_name:
        named = by_name()
    if arguments.by_name and arguments.as_built:
        sys.exit(judge_by_name(rooms, folder / "source/build", *named))
    if arguments.as_built:
        kept = json.loads((folder / "mutants.json").read_text())
        numbered = {int(n): Mutant(*mutant) for n, (_, mutant) in kept.items()}
        room_of = {int(n): room for n, (room, _) in kept.items()}
        sys.exit(judge(arguments, [r for r in rooms if r in room_of.values()], folder / "source/build", numbered, room_of))
    tree, build = copy_sources(folder, unneeded_tests(rooms)), folder / "source/build"
    if arguments.by_name:
        write_by_name(tree, named[0])
        write_switches(tree)
        configure(tree, build, units=True)
        if subprocess.run(["ninja", "-C", str(build), "-j", arguments.jobs, *targets(rooms)]).returncode != 0:
            sys.exit("the copy does not build")
        sys.exit(judge_by_name(rooms, build, *named))
    configure(tree, build, units=False)
    try:
        finder = Finder(tree, build, arguments.sources_only)
    except ImportError:
        sys.exit("expected libclang for Python (Debian: python3-clang-14), found none")
    numbered, room_of = {}, {}
    candidates = {room: finder.candidates(ROOMS[room][0], arguments.files, chance) for room in rooms}
    total = sum(len(found) for found in candidates.values())
    for room in rooms:
        share = round(arguments.count * len(candidates[room]) / max(total, 1))
        # A few more than asked for: some will not compile.
        for mutant in choose(candidates[room], max(share, 1) * 5 // 4, chance):
            number = len(numbered) + 1
            numbered[number], room_of[number] = mutant, room
    print(f"{total} places to mutate, seed {arguments.seed}", flush=True)
    if arguments.list:
        for mutant in numbered.values():
            print(f"{mutant.file}:{mutant.line}: {mutant.kind}: {mutant.before} -> {mutant.after}")
        return
    original = {m.file: (tree / m.file).read_bytes().decode("latin-1") for m in numbered.values()}
    write_switches(tree)
    configure(tree, build, units=True)
    build_all(tree, build, targets(rooms), original, numbered, arguments.jobs)
    (folder / "mutants.json").write_text(json.dumps({n: (room_of[n], mutant) for n, mutant in numbered.items()}))
    sys.exit(judge(arguments, rooms, build, numbered, room_of))


def write_switches(tree):
    (tree / "sim/base/mutation.h").write_text(SWITCH_HEADER)
    (tree / "sim/base/mutation.cpp").write_text(SWITCH_SOURCE)


def targets(rooms):
    return sorted({program for room in rooms for program, _ in ROOMS[room][1]})


def judge(arguments, rooms, build, numbered, room_of):
    known = explained()
    table, survivors, killed_all, counted = [], [], 0, 0
    left = arguments.count
    part, parts = map(int, arguments.part.split("/"))
    for room in rooms:
        tests = Tests(build, ROOMS[room][1])
        tests.measure(build / f"reached_{room}.txt")
        reached = set(tests.reaching)
        mine = [n for n in numbered if room_of[n] == room]
        mine = mine[:max(1, min(left, round(len(mine) * 4 / 5)))]
        left -= len(mine)
        mine = mine[part - 1::parts]
        counts = collections.Counter()
        for number in mine:
            mutant = numbered[number]
            killer = tests.killer(number) if number in reached else ""
            reason = known.get((mutant.file, mutant.text, mutant.before, mutant.after))
            fate = "killed" if killer else "explained" if reason else "survived" if number in reached else "not run"
            counts[fate] += 1
            place = f"{mutant.file}:{mutant.line}: {mutant.kind}: {mutant.before} -> {mutant.after or 'left out'}"
            print(f"  {fate:9} {place}" + (f"  [{killer or reason}]" if killer or reason else ""), flush=True)
            if fate in ("survived", "not run"):
                survivors.append(f"{fate:9} {place}")
        table.append((room, len(mine), counts))
        killed_all += counts["killed"]
        counted += len(mine) - counts["explained"]
    print("\nroom      mutants  killed  survived  not run by its tests  explained")
    for room, count, counts in table:
        print(f"{room:9} {count:7} {counts['killed']:7} {counts['survived']:9} {counts['not run']:21} "
              f"{counts['explained']:10}")
    share = killed_all / max(counted, 1)
    print(f"{'all':9} {sum(row[1] for row in table):7} {killed_all:7}   {100 * share:.1f} % of what is not explained")
    if survivors:
        print("\nSurvivors")
        print("\n".join(survivors))
    return 0 if share >= arguments.threshold else 1


if __name__ == "__main__":
    main()
