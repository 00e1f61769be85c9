#!/usr/bin/env python3
"""Includes between the rooms of the compiler go in one direction, and its functions are short.

Each room may include those that its line below names, itself and what stands directly in the folder
(target.h, cost.h, ...). No function of the compiler has more than LONGEST lines. Without arguments it
checks the repository that it stands in and itself.

    tests/includes_between_rooms.py [--root FOLDER] [--count]
"""

import argparse
import pathlib
import re
import sys
import tempfile

FOLDER = "workloads/compiler"
# ROOM: the rooms that it may include.
MAY_INCLUDE = {
    "ir": set(),
    "codegen": {"ir"},
    "kernels": {"ir", "codegen"},
    "passes": {"ir", "codegen"},
    "sharding": {"ir", "passes"},
    "program": {"ir", "codegen", "kernels", "passes"},
}
# Rooms of kernels, in the same way. All of them may include what stands in kernels/ itself (lowering.h), which
# includes all of them.
KERNELS = {
    "tiles": set(),
    "elementwise": {"tiles"},
    "contraction": {"elementwise", "tiles"},
    "relayout": {"elementwise", "tiles"},
    "pooling": {"elementwise", "tiles"},
    "sort": {"elementwise", "tiles"},
    "elimination": {"elementwise", "tiles"},
    "indexed": {"elementwise", "relayout", "tiles"},
    "collective": set(),
}
# Files directly in the folder are the door, which includes every room, but for these.
GROUND = {"target.h", "cost.h"}
LONGEST = 80  # Lines of a function, from its name to its last brace.
INCLUDE = re.compile(r'^\s*#\s*include\s+"' + FOLDER + r'/([^"]+)"')


def includes(root):
    """(file, line, its room, included file, room of that) of includes within the compiler."""
    for path in sorted((root / FOLDER).rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        inside = path.relative_to(root / FOLDER).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if found:
                yield (FOLDER + "/" + inside, number, room_of(inside), found[1], room_of(found[1]))


def room_of(inside):
    return inside.split("/")[0] if "/" in inside else ""


def inner_room(inside):
    parts = inside.split("/")
    return parts[1] if len(parts) > 2 else ""


def is_allowed(path, room, included, target):
    if room == target == "kernels":
        inner, other = inner_room(path[len(FOLDER) + 1:]), inner_room(included)
        return "" in (inner, other) or inner == other or other in KERNELS.get(inner, set())
    if room == target:
        return True
    if room == "":
        return pathlib.PurePosixPath(path).name not in GROUND
    if target == "":
        return included in GROUND or room in ("passes", "program")
    return target in MAY_INCLUDE.get(room, set())


def faults(root):
    found = []
    for path, number, room, included, target in includes(root):
        if is_allowed(path, room, included, target):
            continue
        allowed = MAY_INCLUDE.get(room, set())
        if room == target:
            room, target = (f"kernels/{inner_room(each)}" for each in (path[len(FOLDER) + 1:], included))
            allowed = KERNELS.get(room.split("/")[1], set())
        may = ", ".join(sorted(allowed)) or "no other room"
        found.append(f'{path}:{number}: "{included}": expected {room or "the ground floor"} to include {may}, '
                     f"found {target or 'the door'}; a fact that both need belongs in ir/")
    for folder in sorted((root / FOLDER).iterdir()):
        if folder.is_dir() and folder.name not in MAY_INCLUDE:
            found.append(f"{FOLDER}/{folder.name}: expected a line for the room in MAY_INCLUDE, found none")
    for folder in sorted((root / FOLDER / "kernels").glob("*/")):
        if folder.is_dir() and folder.name not in KERNELS:
            found.append(f"{FOLDER}/kernels/{folder.name}: expected a line for the room in KERNELS, found none")
    return found


def functions(text):
    """(line, lines, first line of text) of each function outside of a class, as clang-format sets them."""
    begin = None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if begin is None and re.match(r"[A-Za-z].*[({,=]$", line) and not re.match(
                r"(namespace|struct|class|enum|union|extern|constexpr|const|using|static|inline constexpr)\b", line):
            begin = number
        elif line == "}" and begin is not None:
            yield begin, number - begin + 1, lines[begin - 1]
            begin = None
        elif line == "};":
            begin = None


def long_functions(root):
    found = []
    for path in sorted((root / FOLDER).rglob("*.cpp")):
        for line, length, name in functions(path.read_text()):
            if length > LONGEST:
                found.append(f"{path.relative_to(root)}:{line}: expected at most {LONGEST} lines, found {length}: {name}")
    return found


def has_cycle(table):
    """Whether the table itself leads a room back to itself."""
    def reaches(room, goal, seen):
        return any(next_ == goal or (next_ not in seen and reaches(next_, goal, seen | {next_}))
                   for next_ in table[room])
    return any(reaches(room, room, {room}) for room in table)


def check_itself():
    """A kernel that includes a pass, a ground file that includes a room, a room without a line: each is found."""
    for name, text, expected in (
            ("kernels/k.cpp", f'#include "{FOLDER}/passes/p.h"\n', "expected kernels to include codegen, ir, found passes"),
            ("cost.h", f'#include "{FOLDER}/kernels/k.h"\n', "expected the ground floor to include"),
            ("attic/a.cpp", "", "expected a line for the room"),
            ("kernels/attic/a.cpp", "", "expected a line for the room"),
            ("kernels/tiles/t.h", f'#include "{FOLDER}/kernels/sort/s.h"\n', "expected kernels/tiles to include no other room"),
            ("kernels/sort/s.h", f'#include "{FOLDER}/kernels/tiles/t.h"\n', None),
            ("kernels/sort/s.h", f'#include "{FOLDER}/kernels/lowering.h"\n', None),
            ("passes/p.cpp", f'#include "{FOLDER}/kernels/k.h"\n', "expected passes to include codegen, ir, found kernels"),
            ("passes/p.cpp", "void f() {\n" + "  g();\n" * LONGEST + "}\n", f"found {LONGEST + 2}: void f"),
            ("passes/p.cpp", "void f() {\n" + "  g();\n" * (LONGEST - 2) + "}\n", None),
            ("program/p.cpp", f'#include "{FOLDER}/kernels/k.h"\n', None)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / FOLDER / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
            found = faults(pathlib.Path(folder)) + long_functions(pathlib.Path(folder))
            if (expected is None and found) or (expected is not None and not any(expected in f for f in found)):
                sys.exit(f"{name}: expected the fault {expected!r}, found {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", action="store_true", help="print how many includes lead from room to room")
    arguments = parser.parse_args()
    if has_cycle(MAY_INCLUDE) or has_cycle(KERNELS):
        sys.exit("MAY_INCLUDE, KERNELS: expected rooms in one direction, found a cycle")
    check_itself()
    if arguments.count:
        counts = {}
        for _, _, room, _, target in includes(arguments.root):
            if room and target and room != target:
                counts[room, target] = counts.get((room, target), 0) + 1
        for (room, target), count in sorted(counts.items()):
            print(f"{room} -> {target}: {count}")
        print("longest function:", max(length for path in (arguments.root / FOLDER).rglob("*.cpp")
                                       for _, length, _ in functions(path.read_text())))
    found = faults(arguments.root) + long_functions(arguments.root)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
