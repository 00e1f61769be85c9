#!/usr/bin/env python3
"""What anonymous namespaces declare stands once in a library, so that any of its files can be one unit.

A released build compiles eight or more files of a library as one unit, and which changes with every new file: a type, a
constant or a function with the same parameters that two files declare compiles until the two files meet. Aliases of the
same type and functions with other parameters may share a name. A function of a header of the folder has its name to
itself: one in an anonymous namespace hides it from the files behind, whatever its parameters. Without arguments the
script checks itself and the repository that it stands in.

    tests/names_in_units.py [--root FOLDER] [--shared]     --shared: names that may stand twice, too
"""

import argparse
import pathlib
import re
import sys

SOURCES = ("isa", "models", "sim", "traces", "workloads")
NAMED = re.compile(r"namespace ([\w:]+) \{")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)[^;]*$")
ALIAS = re.compile(r"using (\w+) = (.*);")
FUNCTION = re.compile(r"[\w:&*\s\[\],]+?[\s*&](\w+)\((.*?)\)")
CONSTANT = re.compile(r"(?:inline |static |constexpr |const )*[\w:&*\s\[\],]+?[\s*&](\w+)\s*(?:=|\{|\[|;)")
FURTHER = re.compile(r", (\w+) = ")
NO_NAME = re.compile(r"(?:namespace|using namespace|using [\w:]+;|template <|static_assert|friend)\b")


def without_templates(text):
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", lambda m: "[" + m[0][1:-1] + "]", text)
    return text


def parameter_types(text):
    """The types of a function's parameters, without their names and values."""
    types = []
    depth = 0
    part = ""
    for letter in text + ",":
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            part = re.sub(r"\s*=.*", "", part.strip())
            types.append(re.sub(r"(?<=[\s&*\]])\w+$", "", part).strip() if re.search(r"[\s&*\]]\w+$", part) else part)
            part = ""
        else:
            part += letter
    return tuple(types)


def spelled(text, aliases):
    """A type without its namespaces and with what aliases of headers stand for."""
    text = re.sub(r"\b(?:\w+::)+", "", without_templates(text))
    return re.sub(r"\w+", lambda word: aliases.get(word[0], word[0]), text)


def aliases_of(headers):
    found = {}
    for text in headers:
        for name, meaning in re.findall(r"^using (\w+) = ([^;]*);", text, re.MULTILINE):
            found[name] = spelled(meaning, {})
    return found


def names(text, anonymous=True):
    """(line, namespace, name, kind) of what anonymous namespaces (or others) declare at the left margin, as clang-format
    sets it."""
    around = []
    lines = [re.sub(r"^\[\[\w+\]\] ", "", line) for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        opened = NAMED.match(line)
        if opened or line == "namespace {":
            around.append(opened[1] if opened else "")
        elif line.startswith("}  // namespace"):
            around.pop()
        elif around and ("" in around) == anonymous and re.match(r"[A-Za-z]", line) and not NO_NAME.match(line):
            for found in declared(lines, number):
                yield number, "::".join(name for name in around if name), *found


def declared(lines, number):
    line = lines[number - 1]
    alias = ALIAS.match(line)
    if alias:
        return [(alias[1], ("alias", alias[2]))]
    kind = TYPE.match(line)
    if kind:
        return [(kind[1], ("type", None))]
    head = line
    following = number
    while "(" in head and head.count("(") > head.count(")") and following < len(lines):
        head += " " + lines[following].strip()
        following += 1
    head = without_templates(head)
    function = FUNCTION.match(head)
    constant = CONSTANT.match(head)
    if function and not (constant and constant.end() < function.end(1)):
        return [(function[1], ("function", parameter_types(function[2])))]
    if not constant:
        return []
    return [(name, ("constant", None)) for name in (constant[1], *FURTHER.findall(head, constant.end()))]


def may_meet(one, other):
    return one[0] == other[0] and (one[1] == other[1]) == (one[0] == "alias") and one[0] in ("alias", "function")


def library_of(path, root):
    """The nearest folder upwards that has a CMakeLists.txt."""
    folder = path.parent
    while folder != root and not (folder / "CMakeLists.txt").exists():
        folder = folder.parent
    return folder.relative_to(root).as_posix()


def folder_of(file):
    return file.rpartition("/")[0]


def functions_of(headers):
    """(folder, namespace, name) of the functions that headers declare: file and line."""
    return {(folder_of(file), namespace, name): f"{file}:{number}" for _, file, text in headers
            for number, namespace, name, kind in names(text, anonymous=False) if kind[0] == "function"}


def faults(sources, shared, aliases, headers=()):
    """sources, headers: (library, file, text). aliases: types that headers have other names for."""
    places = {}
    functions = functions_of(headers)
    for library, file, text in sources:
        for number, namespace, name, kind in names(text):
            if kind[0] == "function":
                kind = ("function", tuple(spelled(parameter, aliases) for parameter in kind[1]))
            places.setdefault((library, namespace, name), []).append((file, number, kind))
            if kind[0] == "function" and (folder_of(file), namespace, name) in functions:
                yield (f"{file}:{number}: expected another name than {name} in an anonymous namespace of {namespace}, found the function of "
                       f"{functions[folder_of(file), namespace, name]} hidden; give it a name of its own")
    for (library, namespace, name), found in sorted(places.items()):
        first = found[0]
        twice = [place for place in found[1:]
                 if place[0] != first[0] and (shared or any(other[0] != place[0] and not may_meet(other[2], place[2]) for other in found))]
        if twice:
            yield (f"{first[0]}:{first[1]}: expected {name} once in the anonymous namespaces of {namespace} in {library}, found it also in "
                   + ", ".join(f"{file}:{line}" for file, line, _ in twice) + "; share it, or give one a name of its own")


def check_itself():
    def pair(one, other):
        return list(faults([("l", f"{n}.cpp", "namespace tpu {\nnamespace {\n\n" + text + "\n\n}  // namespace\n}  // namespace tpu\n")
                            for n, text in (("a", one), ("b", other))], False, aliases_of(["using Order = std::vector<int>;"])))
    for one, other, found in (
            ("constexpr int kMost = 3;", "constexpr int kMost = 4;", True),
            ("constexpr int kLeast = 1, kMost = 3;", "constexpr int kMost = 4;", True),
            ("struct Run {", "struct Run {", True),
            ("using Id = int;", "using Id = long;", True),
            ("using Id = int;", "using Id = int;", False),
            ("bool is_it(const Graph& graph) {", "bool is_it(const Graph& other) {", True),
            ("bool is_it(const Graph& graph,\n           int n) {", "bool is_it(const Graph& g, int m) {", True),
            ("std::map<int, int> held(int n) {", "bool held(int) {", True),
            ("bool is_it(const Graph& graph) {", "bool is_it(const Node& node) {", False),
            ("Shape put(Shape shape, const Order& order) {", "Shape put(hlo::Shape shape, const std::vector<int>& order) {", True),
            ("Shape put(const Order& order) {", "Shape put(const std::vector<long>& order) {", False),
            ("bool is_it(const Graph& graph) {", "struct is_it {", True),
            ("int f() {\n  int kMost = 1;\n}", "int g() {\n  int kMost = 1;\n}", False)):
        if bool(pair(one, other)) != found:
            sys.exit(f"{one!r} beside {other!r}: expected {'a fault' if found else 'none'}, found {pair(one, other)}")


    header = ("l", "c.h", "namespace tpu {\n\n/// What it is.\ninline int extent_of(int dimension) {\n  return dimension;\n}\n\n}  // namespace tpu\n")
    for text, found in (("int extent_of(const Order& order) {", True), ("int extent(const Order& order) {", False)):
        source = ("l", "a.cpp", "namespace tpu {\nnamespace {\n\n" + text + "\n\n}  // namespace\n}  // namespace tpu\n")
        if bool(list(faults([source], False, {}, [header]))) != found:
            sys.exit(f"{text!r} beside a header's extent_of: expected {'a fault' if found else 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--shared", action="store_true")
    arguments = parser.parse_args()
    check_itself()
    def texts(ending):
        return [(library_of(path, arguments.root), path.relative_to(arguments.root).as_posix(), path.read_text())
                for folder in SOURCES for path in sorted((arguments.root / folder).rglob("*" + ending))]

    headers = texts(".h")
    found = list(faults(texts(".cpp"), arguments.shared, aliases_of(text for _, _, text in headers), headers))
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
