#include "workloads/hlo/hlo_reader.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <limits>
#include <unordered_map>

#include "workloads/graph/replica_groups.h"
#include "workloads/hlo/async_sugar.h"
#include "workloads/hlo/attribute_reader.h"
#include "workloads/hlo/hlo_cursor.h"
#include "workloads/hlo/literal_reader.h"
#include "workloads/hlo/module_linker.h"

namespace tpu::hlo {

namespace {

/// Computations or operands written inside each other beyond which a text is refused.
constexpr int kDeepestNesting = 64;

class ModuleReader {
 public:
  ModuleReader(std::string_view file, std::string_view text) : cursor_(file, text) {}

  Module read() {
    header();
    while (!cursor_.at_end()) {
      if (!tables()) computation();
    }
    if (module_.entry < 0) cursor_.fail("an ENTRY computation");
    ModuleLinker(cursor_, module_, by_name_).link(std::move(computations_));
    return std::move(module_);
  }

 private:
  void header() {
    cursor_.expect("HloModule");
    module_.name = cursor_.name("the name of the module");
    std::int64_t replica_count = 1;
    while (cursor_.take(',')) {
      const std::string_view name = cursor_.name("the name of an attribute of the module");
      cursor_.expect('=');
      if (name == "input_output_alias") {
        aliases();
      } else if (name == "num_partitions") {
        module_.partitions = devices(name);
      } else if (name == "replica_count") {
        replica_count = devices(name);
      } else if (name == "frontend_attributes") {
        frontend_attributes();
      } else if (name == "entry_computation_layout") {
        entry_layout();
      } else {
        const std::string_view value = cursor_.balanced("the value of this attribute");
        if (!module_.raw_attributes.empty()) module_.raw_attributes += ", ";
        module_.raw_attributes.append(name).append("=").append(value);
      }
    }
    module_.replicas = replica_count * module_.partitions;
  }

  std::int64_t devices(std::string_view name) {
    const char* const at = cursor_.next();
    const std::int64_t count = cursor_.integer(name);
    if (count > kMostReplicas) cursor_.fail_at(at, "at most 2^20 devices");
    return std::max<std::int64_t>(count, 1);
  }

  /// {name="value",other={...}}; our own writer notes examples_per_step="128" and
  /// infeed_parameters="12,13".
  void frontend_attributes() {
    cursor_.list('{', '}', [&] {
      const std::string_view name = cursor_.name("the name of an attribute of the frontend");
      cursor_.expect('=');
      if (name == "examples_per_step") {
        const std::vector<std::int64_t> examples = numbers(cursor_.quoted(name));
        if (!examples.empty()) module_.examples_per_step = examples.front();
      } else if (name == "infeed_parameters") {
        module_.infeed_parameters = numbers(cursor_.quoted(name));
      } else {
        std::string& text = module_.frontend_attributes;
        if (!text.empty()) text += ',';
        text.append(name).append("=").append(cursor_.balanced("the attribute's value"));
      }
    });
  }

  /// Whole numbers with commas between them.
  std::vector<std::int64_t> numbers(std::string_view list) {
    std::vector<std::int64_t> numbers;
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

  /// {(f32[2]{0}, ...)->f32[2]{0}}
  void entry_layout() {
    EntryLayout& layout = module_.entry_layout.edit();
    cursor_.expect('{');
    cursor_.list('(', ')', [&] { layout.parameters.push_back(shape()); });
    cursor_.expect("->");
    layout.result = shape();
    cursor_.expect('}');
  }

  std::vector<std::int64_t> shape_index() {
    std::vector<std::int64_t> path;
    cursor_.list('{', '}',
                 [&] { path.push_back(cursor_.integer("the number of a tuple's element")); });
    return path;
  }

  /// { {0}: (3, {}, may-alias), ... }
  void aliases() {
    cursor_.list('{', '}', [&] {
      Alias alias;
      alias.within_output = shape_index();
      if (!alias.within_output.empty()) {
        alias.output_index = alias.within_output.front();
        alias.within_output.erase(alias.within_output.begin());
      }
      cursor_.expect(':');
      cursor_.expect('(');
      alias.parameter_number = cursor_.integer("the number of a parameter");
      if (cursor_.take(',')) {
        alias.within_parameter = shape_index();
        if (cursor_.take(',')) {
          const char* const at = cursor_.next();
          const std::string_view kind = cursor_.name("may-alias or must-alias");
          alias.must = kind == "must-alias";
          if (!alias.must && kind != "may-alias") cursor_.fail_at(at, "may-alias or must-alias");
        }
      }
      cursor_.expect(')');
      module_.aliases.push_back(alias);
    });
  }

  bool tables() {
    StackFrames& frames = module_.stack_frames;
    if (cursor_.take_word("FileNames")) {
      while (row(frames.files.size())) frames.files.emplace_back(cursor_.quoted("a file"));
    } else if (cursor_.take_word("FunctionNames")) {
      while (row(frames.functions.size()))
        frames.functions.emplace_back(cursor_.quoted("a function"));
    } else if (cursor_.take_word("FileLocations")) {
      while (row(frames.locations.size())) {
        StackFrames::Location at;
        columns({{"file_name_id", &at.file},
                 {"function_name_id", &at.function},
                 {"line", &at.line},
                 {"end_line", &at.end_line},
                 {"column", &at.column},
                 {"end_column", &at.end_column}});
        frames.locations.push_back(at);
      }
    } else if (cursor_.take_word("StackFrames")) {
      while (row(frames.frames.size())) {
        StackFrames::Frame frame;
        columns({{"file_location_id", &frame.location}, {"parent_frame_id", &frame.parent}});
        frames.frames.push_back(frame);
      }
    } else {
      return false;
    }
    return true;
  }

  /// Takes the number of a table's next row; false at the table's end.
  bool row(std::size_t rows) {
    const char next = cursor_.peek();
    if (next < '0' || next > '9') return false;
    const char* const at = cursor_.next();
    if (cursor_.integer("the number of a row") != static_cast<std::int64_t>(rows) + 1) {
      cursor_.fail_at(at, "row " + std::to_string(rows + 1));
    }
    return true;
  }

  void columns(std::initializer_list<std::pair<std::string_view, int*>> names) {
    cursor_.expect('{');
    while (!cursor_.take('}')) {
      const std::string_view key = cursor_.name("a column");
      cursor_.expect('=');
      const std::int64_t value = cursor_.integer("the column's value");
      const auto* found =
          std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == key; });
      if (found == names.end()) cursor_.fail_in(key, "a column of this table");
      if (value < 0 || value > std::numeric_limits<int>::max()) {
        cursor_.fail_in(key, "a value from 0 to 2^31 - 1");
      }
      *found->second = static_cast<int>(value);
    }
  }

  void computation() {
    ComputationText text;
    const bool is_entry = cursor_.take_word("ENTRY");
    cursor_.take('%');
    const char* const at = cursor_.next();
    const std::string_view name =
        cursor_.name("a computation, as in `%name (parameters) -> shape {`");
    text.computation.name = name;
    if (cursor_.take('(')) {
      cursor_.skip_list(')', "a parameter");
      cursor_.expect("->");
      shape();
    }
    const ComputationId id = body(std::move(text));
    attributes();
    if (is_entry) {
      if (module_.entry >= 0) cursor_.fail_at(at, "one ENTRY computation");
      module_.entry = id;
    }
    if (!by_name_.emplace(name, id).second) {
      cursor_.fail_at(at, "a name that no computation has yet");
    }
  }

  /// The computation's own attributes, behind its '}'.
  void attributes() {
    while (cursor_.take(',')) {
      const std::string_view value = cursor_.balanced("an attribute of the computation");
      std::string& raw = computations_.back().computation.raw_attributes;
      if (!raw.empty()) raw += ", ";
      raw.append(value);
    }
  }

  /// From '{' to '}'; returns the computation's number.
  ComputationId body(ComputationText text) {
    if (++depth_ > kDeepestNesting) cursor_.fail("at most 64 computations inside each other");
    const char* const at = cursor_.next();
    cursor_.expect('{');
    text.begin = at;
    while (!cursor_.take('}')) instruction(text);
    if (text.computation.instructions.empty())
      cursor_.fail_at(at, "a computation with instructions");
    if (text.computation.root < 0) text.computation.root = text.computation.instructions.back().id;
    if (text.is_complete()) text.by_name = {};
    std::vector<HloInstruction>& instructions = text.computation.instructions;
    if (instructions.capacity() - instructions.size() > instructions.size() / 8)
      instructions.shrink_to_fit();
    --depth_;
    computations_.push_back(std::move(text));
    return static_cast<ComputationId>(computations_.size()) - 1;
  }

  /// Makes room for a long computation's next instructions: as many as there are lines up to its
  /// end, as far as that can be seen. Growing by doubling would need twice the memory of the whole.
  void make_room(ComputationText& text) {
    constexpr std::size_t kLong = 1024;
    constexpr std::size_t kView = 16;
    std::vector<HloInstruction>& instructions = text.computation.instructions;
    if (instructions.size() < kLong || instructions.size() < instructions.capacity()) return;
    const std::string_view view =
        cursor_.rest().substr(0, kView * cursor_.since(text.begin).size());
    const std::string_view rest = view.substr(0, view.find("\n}"));
    const auto lines = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '\n'));
    // One for the present instruction, one because the cursor may stand behind its line's end.
    if (lines > instructions.size() / 8) instructions.reserve(instructions.size() + lines + 2);
  }

  Shape shape() { return read_shape(cursor_); }

  /// True where a shape stands: a tuple, or a name with '[' behind it.
  bool at_shape() {
    const std::string_view rest = cursor_.rest();
    if (!rest.empty() && rest.front() == '(') return true;
    std::size_t end = 0;
    while (end < rest.size() && is_letter_or_digit(rest[end])) ++end;
    return end > 0 && end < rest.size() && rest[end] == '[';
  }

  void instruction(ComputationText& text) {
    const bool is_root = cursor_.take_word("ROOT");
    cursor_.take('%');
    const char* const at = cursor_.next();
    const std::string_view name =
        cursor_.name("an instruction, as in `%name = shape opcode(operands)`, or '}'");
    cursor_.expect('=');
    const InstructionId id = right_hand_side(text, name, at, true);
    if (is_root) text.computation.root = id;
  }

  /// `shape opcode(operands), attributes`; adds the instruction under its name.
  InstructionId right_hand_side(ComputationText& text, std::string_view name, const char* name_at,
                                bool with_attributes) {
    HloInstruction made;
    made.name = name;
    const bool shaped = at_shape();
    if (shaped) made.shape = shape();
    const char* const opcode_at = cursor_.next();
    const std::string_view word = cursor_.name("an opcode");
    AsyncSugar sugar;
    made.opcode = hlo_opcode(word);
    if (made.opcode == HloOpcode::kCount) {
      sugar = async_sugar(word);
      made.opcode = sugar.opcode;
    }
    if (made.opcode == HloOpcode::kCount) cursor_.fail_at(opcode_at, "an opcode of HLO");
    std::vector<ComputationText::Operand> unknown;
    cursor_.expect('(');
    operands(text, made, unknown);
    NamedReferences references;
    if (with_attributes) {
      AttributeReader(cursor_, [this] { return body({}); }).read(made, references);
    }
    if (sugar.wrapped != HloOpcode::kCount) {
      wrap(made, sugar.wrapped, references, shaped, opcode_at);
    }
    return add(text, std::move(made), name, name_at, unknown, references,
               shaped ? nullptr : opcode_at);
  }

  /// Makes the computation that `operation-start` stands for.
  void wrap(HloInstruction& start, HloOpcode wrapped, NamedReferences& references, bool shaped,
            const char* at) {
    if (!shaped || !can_wrap(start.shape)) {
      cursor_.fail_at(at, "a tuple of the operands' tuple and the result in front of this opcode");
    }
    if (wrapped == HloOpcode::kCall) {
      start.opcode = HloOpcode::kAsyncStart;
      return;
    }
    ComputationText text;
    text.computation = wrap_operation(start, wrapped, called_by(references.calls));
    const InstructionId root = text.computation.root;
    name_calls(text, text.computation.at(root), root, references.calls);
    references.calls.clear();
    computations_.push_back(std::move(text));
    NamedCall call;
    call.id = static_cast<ComputationId>(computations_.size()) - 1;
    references.calls.push_back(call);
  }

  /// The computation that one call names, when the text has it so far.
  const Computation* called_by(const std::vector<NamedCall>& calls) const {
    if (calls.size() != 1) return nullptr;
    ComputationId id = calls[0].id;
    const auto found = by_name_.find(calls[0].name);
    if (id < 0 && found != by_name_.end()) id = found->second;
    return id < 0 ? nullptr : &computations_[static_cast<std::size_t>(id)].computation;
  }

  void name_calls(ComputationText& text, HloInstruction& made, InstructionId id,
                  const std::vector<NamedCall>& calls) {
    for (const NamedCall& call : calls) {
      ComputationId called = call.id;
      if (called < 0) {
        const auto found = by_name_.find(call.name);
        if (found != by_name_.end()) {
          called = found->second;
        } else {
          text.calls.push_back({id, made.called.size(), call.name});
        }
      }
      made.called.push_back(called);
    }
  }

  InstructionId add(ComputationText& text, HloInstruction made, std::string_view name,
                    const char* name_at, std::vector<ComputationText::Operand>& unknown,
                    const NamedReferences& references, const char* unshaped_at) {
    const auto id = static_cast<InstructionId>(text.computation.instructions.size());
    made.id = id;
    for (ComputationText::Operand& operand : unknown) {
      operand.user = id;
      text.operands.push_back(operand);
    }
    name_calls(text, made, id, references.calls);
    for (std::string_view before : references.predecessors) {
      const auto found = text.by_name.find(before);
      if (found != text.by_name.end()) {
        made.control_predecessors.edit().push_back(found->second);
      } else {
        text.predecessors.push_back({id, before});
      }
    }
    if (unshaped_at != nullptr) {
      made.shape.type = ElementType::kCount;
      text.unshaped.push_back({id, unshaped_at});
    }
    if (!text.by_name.emplace(name, id).second) {
      cursor_.fail_at(name_at, "a name that no instruction of this computation has yet");
    }
    make_room(text);
    text.computation.instructions.push_back(std::move(made));
    return id;
  }

  void operands(ComputationText& text, HloInstruction& made,
                std::vector<ComputationText::Operand>& unknown) {
    if (made.opcode == HloOpcode::kConstant) {
      if (made.shape.type == ElementType::kToken || made.shape.type == ElementType::kOpaque) {
        cursor_.fail("a constant of an array or tuple");
      }
      made.literal = read_literal(cursor_, made.shape);
    } else if (made.opcode == HloOpcode::kParameter) {
      made.parameter_number = cursor_.integer("the number of the parameter");
    } else {
      return cursor_.list(')', [&] { operand(text, made, unknown); });
    }
    cursor_.expect(')');
  }

  /// `%name`, `name`, the old style with the operand's shape in front, `%name#1` for an element of
  /// a tuple, or an instruction without a name in the operand's place.
  void operand(ComputationText& text, HloInstruction& made,
               std::vector<ComputationText::Operand>& unknown) {
    const char* const begin = cursor_.next();
    Shape stated;
    const bool shaped = cursor_.peek() != '%' && at_shape();
    if (shaped) stated = shape();
    const bool percent = cursor_.take('%');
    const char* const at = cursor_.next();
    const std::string_view name = cursor_.name("an operand");
    if (!percent && cursor_.peek() == '(') {
      cursor_.move_to(begin);
      made.operands.push_back(nested(text, name));
      return;
    }
    if (cursor_.peek() == '#') {
      made.operands.push_back(tuple_element(text, name, at, shaped ? &stated : nullptr));
      return;
    }
    const auto found = text.by_name.find(name);
    if (found == text.by_name.end()) {
      unknown.push_back({-1, made.operands.size(), name, at});
      made.operands.push_back(-1);
      return;
    }
    const Shape& defined = text.computation.at(found->second).shape;
    if (shaped && defined.type != ElementType::kCount && !same_extent(defined, stated)) {
      cursor_.fail_at(begin, "the shape of this operand, " + to_string(defined, false));
    }
    made.operands.push_back(found->second);
  }

  /// A name that no instruction of the computation has: "opcode.anon", "opcode.anon.1", ...
  std::string_view unused_name(const ComputationText& text, std::string_view opcode) {
    int& used = anonymous_[opcode];
    std::string name;
    do {
      name = std::string(opcode) + ".anon" + (used == 0 ? "" : "." + std::to_string(used));
      ++used;
    } while (text.by_name.count(name) > 0);
    return names_.emplace_back(std::move(name));
  }

  InstructionId nested(ComputationText& text, std::string_view opcode) {
    if (++depth_ > kDeepestNesting) cursor_.fail("at most 64 operands inside each other");
    const char* const at = cursor_.next();
    const InstructionId id = right_hand_side(text, unused_name(text, opcode), at, false);
    --depth_;
    return id;
  }

  /// `%name#1#0`: get-tuple-element instructions.
  InstructionId tuple_element(ComputationText& text, std::string_view name, const char* at,
                              const Shape* stated) {
    InstructionId from = -1;
    const auto found = text.by_name.find(name);
    if (found != text.by_name.end()) from = found->second;
    while (cursor_.take('#')) {
      HloInstruction element;
      element.opcode = HloOpcode::kGetTupleElement;
      element.tuple_index = cursor_.integer("the number of a tuple's element");
      element.operands.push_back(from);
      const bool last = cursor_.peek() != '#';
      if (last && stated != nullptr) element.shape = *stated;
      std::vector<ComputationText::Operand> unknown;
      if (from < 0) unknown.push_back({-1, 0, name, at});
      const std::string_view made = unused_name(text, "get-tuple-element");
      element.name = made;
      from = add(text, std::move(element), made, at, unknown, {},
                 last && stated != nullptr ? nullptr : at);
    }
    return from;
  }

  HloCursor cursor_;
  Module module_;
  std::vector<ComputationText> computations_;
  std::unordered_map<std::string_view, ComputationId> by_name_;
  std::deque<std::string> names_;  ///< Of instructions that have none in the text.
  std::unordered_map<std::string_view, int> anonymous_;  ///< How many by opcode.
  int depth_ = 0;
};

}  // namespace

Module read_hlo_text(std::string_view file, std::string_view text) {
  return ModuleReader(file, text).read();
}

}  // namespace tpu::hlo
