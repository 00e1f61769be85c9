#include "workloads/hlo/hlo_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <unordered_map>

#include "workloads/hlo/attribute_reader.h"
#include "workloads/hlo/literal_reader.h"
#include "workloads/hlo/text_cursor.h"

namespace tpu::hlo {

namespace {

/// A name that is used before what it names is known, and where.
struct Reference {
  std::string_view name;
  std::size_t position = 0;
};

/// What an instruction refers to by name.
struct InstructionReferences {
  std::vector<Reference> operands;
  std::vector<std::string_view> predecessors;
  std::vector<NamedCall> calls;
};

struct ComputationText {
  Computation computation;
  std::vector<InstructionReferences> references;
  std::unordered_map<std::string_view, InstructionId> by_name;
  bool is_entry = false;
};

class ModuleReader {
 public:
  ModuleReader(std::string_view file, std::string_view text) : cursor_(file, text) {}

  Module read() {
    header();
    while (!cursor_.at_end()) {
      if (!tables()) computation();
    }
    return link();
  }

 private:
  void header() {
    cursor_.expect("HloModule");
    module_.name = cursor_.name("the name of the module");
    while (cursor_.take(',')) {
      const std::string_view name = cursor_.name("the name of an attribute of the module");
      cursor_.expect('=');
      if (name == "input_output_alias") {
        aliases();
      } else if (name == "num_partitions" || name == "replica_count") {
        module_.replicas *= std::max<std::int64_t>(cursor_.integer(name), 1);
      } else if (name == "frontend_attributes") {
        frontend_attributes(cursor_.balanced("the frontend's attributes"));
      } else {
        cursor_.balanced("the value of " + std::string(name));
      }
    }
  }

  /// What our own writer notes: {examples_per_step="128",infeed_parameters="12,13"}. Attributes of
  /// other frontends are passed over.
  void frontend_attributes(std::string_view text) {
    const std::vector<std::int64_t> examples = numbers_of(text, "examples_per_step=\"");
    if (!examples.empty()) module_.examples_per_step = examples.front();
    module_.infeed_parameters = numbers_of(text, "infeed_parameters=\"");
  }

  /// The whole numbers between `key` and the next quotation mark.
  std::vector<std::int64_t> numbers_of(std::string_view text, std::string_view key) {
    std::vector<std::int64_t> numbers;
    const std::size_t found = text.find(key);
    if (found == std::string_view::npos) return numbers;
    const std::string_view list =
        text.substr(found + key.size(), text.find('"', found + key.size()) - found - key.size());
    const char* at = list.data();
    const char* const end = at + list.size();
    while (at != end) {
      std::int64_t number = 0;
      const std::from_chars_result result = std::from_chars(at, end, number);
      if (result.ec != std::errc() || number < 0 || (result.ptr != end && *result.ptr != ',')) {
        cursor_.fail_in(list, "whole numbers with commas between them");
      }
      numbers.push_back(number);
      at = result.ptr == end ? end : result.ptr + 1;
    }
    return numbers;
  }

  /// { {0}: (3, {}, may-alias), ... }
  void aliases() {
    cursor_.expect('{');
    while (!cursor_.take('}')) {
      Alias alias;
      cursor_.expect('{');
      if (cursor_.peek() != '}') alias.output_index = cursor_.integer("the number of an output");
      cursor_.expect('}');
      cursor_.expect(':');
      cursor_.expect('(');
      alias.parameter_number = cursor_.integer("the number of a parameter");
      while (cursor_.take(',')) cursor_.balanced("the alias");
      cursor_.expect(')');
      cursor_.take(',');
      module_.aliases.push_back(alias);
    }
  }

  bool tables() {
    if (cursor_.take_word("FileNames")) {
      while (is_number()) {
        cursor_.integer("the number of a file");
        frames_.files.emplace_back(cursor_.quoted("the name of a file"));
      }
    } else if (cursor_.take_word("FunctionNames")) {
      while (is_number()) {
        cursor_.integer("the number of a function");
        cursor_.quoted("the name of a function");
      }
    } else if (cursor_.take_word("FileLocations")) {
      while (is_number()) {
        StackFrameTables::Location location;
        table_row([&](std::string_view key, std::int64_t value) {
          if (key == "file_name_id") location.file = static_cast<int>(value);
          if (key == "line") location.line = static_cast<int>(value);
        });
        frames_.locations.push_back(location);
      }
    } else if (cursor_.take_word("StackFrames")) {
      while (is_number()) {
        int location = 0;
        table_row([&](std::string_view key, std::int64_t value) {
          if (key == "file_location_id") location = static_cast<int>(value);
        });
        frames_.frame_locations.push_back(location);
      }
    } else {
      return false;
    }
    return true;
  }

  bool is_number() { return cursor_.peek() >= '0' && cursor_.peek() <= '9'; }

  template <class Visit>
  void table_row(Visit visit) {
    cursor_.integer("the number of a row");
    cursor_.expect('{');
    while (!cursor_.take('}')) {
      const std::string_view key = cursor_.name("a column");
      cursor_.expect('=');
      visit(key, cursor_.integer(key));
    }
  }

  void computation() {
    ComputationText text;
    text.is_entry = cursor_.take_word("ENTRY");
    cursor_.take('%');
    const std::size_t at = cursor_.position();
    const std::string_view name =
        cursor_.name("a computation, as in `%name (parameters) -> shape {`");
    text.computation.name = name;
    if (cursor_.take('(')) {
      cursor_.skip_list(')', "a parameter");
      cursor_.expect("->");
      shape_text();
    }
    cursor_.expect('{');
    while (!cursor_.take('}')) instruction(text);
    while (cursor_.take(',')) cursor_.balanced("an attribute of the computation");
    if (text.computation.instructions.empty())
      cursor_.fail_at(at, "a computation with instructions");
    if (text.computation.root < 0) text.computation.root = text.computation.instructions.back().id;
    if (text.is_entry) {
      if (module_.entry >= 0) cursor_.fail_at(at, "one ENTRY computation");
      module_.entry = static_cast<ComputationId>(computations_.size());
    }
    if (!by_name_.emplace(name, static_cast<ComputationId>(computations_.size())).second) {
      cursor_.fail_at(at, "a name that no computation has yet");
    }
    computations_.push_back(std::move(text));
  }

  /// The text of a shape, from here to its end.
  std::string_view shape_text() {
    cursor_.peek();
    const std::size_t begin = cursor_.position();
    if (cursor_.take('(')) {
      cursor_.skip_list(')', "a tuple shape");
    } else {
      cursor_.name("a shape");
      if (cursor_.take('[')) {
        cursor_.skip_list(']', "the dimensions of the shape");
      }
      // A layout follows without a blank; a computation's body with one.
      if (cursor_.text().compare(cursor_.position(), 1, "{") == 0) {
        cursor_.expect('{');
        cursor_.skip_list('}', "the layout of the shape");
      }
    }
    return cursor_.text().substr(begin, cursor_.position() - begin);
  }

  Shape shape() {
    const std::string_view text = shape_text();
    try {
      return parse_shape(text);
    } catch (const WorkloadError& error) {
      cursor_.fail_in(text, std::string("a shape (") + error.what() + ")");
    }
  }

  void instruction(ComputationText& text) {
    HloInstruction made;
    InstructionReferences references;
    const bool is_root = cursor_.take_word("ROOT");
    cursor_.take('%');
    const std::size_t at = cursor_.position();
    const std::string_view name =
        cursor_.name("an instruction, as in `%name = shape opcode(operands)`, or '}'");
    made.name = name;
    made.id = static_cast<InstructionId>(text.computation.instructions.size());
    cursor_.expect('=');
    made.shape = shape();
    cursor_.peek();
    const std::size_t opcode_at = cursor_.position();
    const std::string_view opcode = cursor_.name("an opcode");
    made.opcode = hlo_opcode(opcode);
    if (made.opcode == HloOpcode::kCount) cursor_.fail_at(opcode_at, "an opcode of HLO");
    cursor_.expect('(');
    operands(made, references);
    references.calls = AttributeReader(cursor_, frames_).read(made, references.predecessors);
    if (!text.by_name.emplace(name, made.id).second) {
      cursor_.fail_at(at, "a name that no instruction of this computation has yet");
    }
    if (is_root) text.computation.root = made.id;
    text.computation.instructions.push_back(std::move(made));
    text.references.push_back(std::move(references));
  }

  void operands(HloInstruction& made, InstructionReferences& references) {
    if (made.opcode == HloOpcode::kConstant && byte_size(made.shape.type) == 0) {
      cursor_.skip_list(')', "the literal");
      return;
    }
    if (made.opcode == HloOpcode::kConstant) {
      made.literal = read_literal(cursor_, made.shape);
    } else if (made.opcode == HloOpcode::kParameter) {
      made.parameter_number = cursor_.integer("the number of the parameter");
    } else {
      while (cursor_.peek() != ')') {
        operand(references);
        if (!cursor_.take(',') && cursor_.peek() != ')') cursor_.fail("',' or ')'");
      }
    }
    cursor_.expect(')');
  }

  /// `%name`, `name`, or the old style with the operand's shape in front.
  void operand(InstructionReferences& references) {
    if (cursor_.peek() != '%') {
      const std::size_t begin = cursor_.position();
      if (cursor_.peek() == '(') {
        shape_text();
      } else {
        cursor_.name("an operand");
        const char next = cursor_.peek();
        cursor_.move_to(begin);
        if (next == '[' || next == '%') shape_text();
      }
    }
    cursor_.take('%');
    cursor_.peek();
    const std::size_t at = cursor_.position();
    references.operands.push_back({cursor_.name("an operand"), at});
  }

  Module link() {
    if (module_.entry < 0) cursor_.fail("an ENTRY computation");
    for (ComputationText& text : computations_) resolve(text);
    for (ComputationText& text : computations_) {
      if (!in_order(text.computation)) sort(text.computation);
      module_.computations.push_back(std::move(text.computation));
    }
    refuse_recursion();
    return std::move(module_);
  }

  void resolve(ComputationText& text) {
    for (HloInstruction& made : text.computation.instructions) {
      const InstructionReferences& references = text.references[static_cast<std::size_t>(made.id)];
      for (const Reference& operand : references.operands) {
        const auto found = text.by_name.find(operand.name);
        if (found == text.by_name.end())
          cursor_.fail_at(operand.position, "an instruction of this computation");
        made.operands.push_back(found->second);
      }
      for (std::string_view name : references.predecessors) {
        const auto found = text.by_name.find(name);
        if (found == text.by_name.end())
          cursor_.fail_in(name, "an instruction of this computation");
        made.control_predecessors.push_back(found->second);
      }
      for (const NamedCall& call : references.calls) {
        const auto found = by_name_.find(call.name);
        if (found == by_name_.end()) cursor_.fail_in(call.name, "a computation of this module");
        made.called.push_back(found->second);
      }
    }
  }

  static bool in_order(const Computation& computation) {
    for (const HloInstruction& made : computation.instructions) {
      for (InstructionId operand : made.operands) {
        if (operand >= made.id) return false;
      }
    }
    return true;
  }

  /// Puts operands before their users; refuses cycles.
  void sort(Computation& computation) {
    const std::size_t count = computation.instructions.size();
    std::vector<std::vector<InstructionId>> users(count);
    std::vector<std::size_t> missing(count);
    for (const HloInstruction& made : computation.instructions) {
      missing[static_cast<std::size_t>(made.id)] = made.operands.size();
      for (InstructionId operand : made.operands)
        users[static_cast<std::size_t>(operand)].push_back(made.id);
    }
    std::vector<InstructionId> order;
    for (std::size_t i = 0; i < count; ++i) {
      if (missing[i] == 0) order.push_back(static_cast<InstructionId>(i));
    }
    for (std::size_t next = 0; next < order.size(); ++next) {
      for (InstructionId user : users[static_cast<std::size_t>(order[next])]) {
        if (--missing[static_cast<std::size_t>(user)] == 0) order.push_back(user);
      }
    }
    if (order.size() != count) {
      for (std::size_t i = 0; i < count; ++i) {
        if (missing[i] != 0) {
          throw WorkloadError("computation " + computation.name + ": instruction " +
                              computation.instructions[i].name +
                              " is among its own operands: expected a graph without cycles");
        }
      }
    }
    std::vector<InstructionId> place(count);
    for (std::size_t i = 0; i < count; ++i)
      place[static_cast<std::size_t>(order[i])] = static_cast<InstructionId>(i);
    std::vector<HloInstruction> sorted;
    for (InstructionId old : order) {
      sorted.push_back(std::move(computation.at(old)));
      HloInstruction& made = sorted.back();
      made.id = place[static_cast<std::size_t>(old)];
      for (InstructionId& operand : made.operands)
        operand = place[static_cast<std::size_t>(operand)];
      for (InstructionId& id : made.control_predecessors) id = place[static_cast<std::size_t>(id)];
    }
    computation.instructions = std::move(sorted);
    computation.root = place[static_cast<std::size_t>(computation.root)];
  }

  /// A computation must not call itself, not even through others.
  void refuse_recursion() const {
    enum class Mark : std::uint8_t { kNew, kOpen, kDone };
    std::vector<Mark> marks(module_.computations.size(), Mark::kNew);
    std::vector<std::pair<ComputationId, std::vector<ComputationId>>> stack;
    const auto callees = [&](ComputationId id) {
      std::vector<ComputationId> found;
      for (const HloInstruction& made : module_.computation(id).instructions) {
        found.insert(found.end(), made.called.begin(), made.called.end());
      }
      return found;
    };
    for (std::size_t first = 0; first < marks.size(); ++first) {
      if (marks[first] != Mark::kNew) continue;
      marks[first] = Mark::kOpen;
      stack.emplace_back(static_cast<ComputationId>(first),
                         callees(static_cast<ComputationId>(first)));
      while (!stack.empty()) {
        auto& [id, rest] = stack.back();
        if (rest.empty()) {
          marks[static_cast<std::size_t>(id)] = Mark::kDone;
          stack.pop_back();
          continue;
        }
        const ComputationId next = rest.back();
        rest.pop_back();
        Mark& mark = marks[static_cast<std::size_t>(next)];
        if (mark == Mark::kOpen) {
          throw WorkloadError("computation " + module_.computation(next).name +
                              " calls itself: expected computations without recursion");
        }
        if (mark == Mark::kNew) {
          mark = Mark::kOpen;
          stack.emplace_back(next, callees(next));
        }
      }
    }
  }

  TextCursor cursor_;
  Module module_;
  StackFrameTables frames_;
  std::vector<ComputationText> computations_;
  std::unordered_map<std::string_view, ComputationId> by_name_;
};

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

/// The contents of a file, uncompressed where it is gzip.
std::string contents(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw WorkloadError(path + ": expected a file with HLO text, found a directory");
  }
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzopen(path.c_str(), "rb"));
  if (!file) throw WorkloadError(path + ": expected a file with HLO text: " + std::strerror(errno));
  std::string text;
  std::vector<char> chunk(std::size_t{1} << 18);
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()))) > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  int status = Z_OK;
  const char* message = gzerror(file.get(), &status);
  if (count < 0 || status == Z_BUF_ERROR || (status != Z_OK && status != Z_STREAM_END)) {
    throw WorkloadError(
        path + ": expected a whole file, found one that ends or breaks within: " + message);
  }
  return text;
}

}  // namespace

Module read_hlo_text(std::string_view file, std::string_view text) {
  return ModuleReader(file, text).read();
}

Module read_hlo_file(const std::string& path) { return read_hlo_text(path, contents(path)); }

}  // namespace tpu::hlo
