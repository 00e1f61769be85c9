#include "workloads/compiler/passes/fuse/vectors_in_rows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/tile_row.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// Kernels that read an array whole rather than a vector that is made of one of its rows.
constexpr std::size_t kMostRowReaders = 3;

class VectorRows {
 public:
  VectorRows(hlo::Module& module, const Target& target)
      : module_(module),
        target_(target),
        entry_(module.computations[static_cast<std::size_t>(module.entry)]),
        users_(users_of(entry_)) {}

  void run();

 private:
  struct Stack {
    InstructionId concatenate = -1;
    std::vector<InstructionId> rows;     ///< Reshapes of vectors.
    std::vector<InstructionId> vectors;  ///< In the entry.
    InstructionId fusion = -1;           ///< The last one that makes some of them.
  };

  Computation& called(const HloInstruction& fusion) {
    return module_.computations[static_cast<std::size_t>(fusion.called.at(0))];
  }
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  std::int64_t vector_extent(const HloInstruction& fusion);
  InstructionId maker_of(InstructionId vector) const;
  InstructionId behind_bitcasts(InstructionId id) const;
  bool is_read_by_alone(InstructionId vector, const Stack& stack) const;
  std::optional<Stack> stack_of(const HloInstruction& concatenate);
  std::size_t result_number(InstructionId vector) const {
    const HloInstruction& made = entry_.at(vector);
    return made.opcode == HloOpcode::kFusion ? 0 : static_cast<std::size_t>(made.tuple_index);
  }
  InstructionId append_stack(Computation& fused, HloInstruction& fusion, const Stack& stack);
  std::vector<std::int64_t> places_beside(const Stack& stack, std::size_t results) const;
  HloInstruction element(InstructionId like, std::int64_t number, InstructionId fusion) const;
  void replace(InstructionId from, InstructionId to);
  bool write_stack(const Stack& stack);
  bool pays(InstructionId vector);
  bool read_rows(InstructionId fusion);

  hlo::Module& module_;
  const Target& target_;
  Computation& entry_;
  std::vector<std::vector<InstructionId>> users_;
};

/// With a name that no other instruction of the computation has.
InstructionId append_named(Computation& fused, HloInstruction instruction) {
  const auto is_taken = [&fused](const std::string& name) {
    return std::any_of(fused.instructions.begin(), fused.instructions.end(),
                       [&name](const HloInstruction& each) { return each.name == name; });
  };
  const std::string name = instruction.name;
  for (std::size_t number = fused.instructions.size(); is_taken(instruction.name); ++number) {
    instruction.name = name + "." + std::to_string(number);
  }
  return append(fused, std::move(instruction));
}

InstructionId parameter_for(Computation& fused, HloInstruction& fusion, InstructionId operand,
                            const Shape& shape) {
  const auto found = std::find(fusion.operands.begin(), fusion.operands.end(), operand);
  const std::int64_t number = found - fusion.operands.begin();
  for (const HloInstruction& each : fused.instructions) {
    const bool is_parameter = each.opcode == HloOpcode::kParameter;
    if (is_parameter && each.parameter_number == number) return each.id;
  }
  HloInstruction parameter;
  parameter.opcode = HloOpcode::kParameter;
  parameter.name = "param_" + std::to_string(fusion.operands.size()) + "." + fusion.name;
  parameter.shape = shape;
  parameter.parameter_number = static_cast<std::int64_t>(fusion.operands.size());
  fusion.operands.push_back(operand);
  return append_named(fused, std::move(parameter));
}

/// A parameter becomes what is reshaped of a part of another one.
void read_part(Computation& fused, HloInstruction& fusion, InstructionId parameter,
               const PartInTiles& part, const Shape& array) {
  InstructionId given = parameter_for(fused, fusion, part.array, array);
  if (part.slice) {
    HloInstruction slice = *part.slice;
    slice.operands = {given};
    slice.control_predecessors.reset();
    slice.name += "." + fused.at(parameter).name;
    given = append_named(fused, std::move(slice));
  }
  HloInstruction& reshape = fused.at(parameter);
  reshape.opcode = HloOpcode::kReshape;
  reshape.operands = {given};
}

/// Parameters that are left, in the order of their operands.
void renumber_parameters(Computation& fused, HloInstruction& fusion) {
  const std::vector<InstructionId> given = std::exchange(fusion.operands, {});
  for (HloInstruction& each : fused.instructions) {
    if (each.opcode != HloOpcode::kParameter) continue;
    fusion.operands.push_back(given[static_cast<std::size_t>(each.parameter_number)]);
    each.parameter_number = static_cast<std::int64_t>(fusion.operands.size()) - 1;
  }
  tidy(fused);
}

/// The vectors' extent, of an elementwise fusion over vectors around no product; 0: of another.
std::int64_t VectorRows::vector_extent(const HloInstruction& fusion) {
  if (fusion.opcode != HloOpcode::kFusion || is_kernel_sequence(fusion)) return 0;
  if (product_in(module_, fusion) != nullptr || joins_moves(module_, fusion)) return 0;
  const Computation& fused = called(fusion);
  std::int64_t extent = 0;
  const auto add = [&extent](const Shape& shape) {
    if (shape.is_tuple() || shape.rank() != 1) return false;
    if (extent != 0 && extent != shape.dimensions[0]) return false;
    extent = shape.dimensions[0];
    return true;
  };
  for (const HloInstruction& each : fused.instructions) {
    if (each.opcode == HloOpcode::kReduce && !add(fused.at(each.operands[0]).shape)) return 0;
  }
  if (extent != 0) return extent;
  const HloInstruction& root = fused.at(fused.root);
  const std::vector<InstructionId> results =
      root.opcode == HloOpcode::kTuple ? root.operands : std::vector<InstructionId>{fused.root};
  for (const InstructionId result : results) {
    const HloInstruction& made = fused.at(result);
    const bool is_stack = is_stack_of_vectors(fused, made);
    if (!add(is_stack ? fused.at(stacked_vectors(fused, made)[0]).shape : made.shape)) return 0;
  }
  return extent;
}

InstructionId VectorRows::behind_bitcasts(InstructionId id) const {
  while (entry_.at(id).opcode == HloOpcode::kBitcast && !is_named_part(entry_.at(id))) {
    id = entry_.at(id).operands[0];
  }
  return id;
}

/// The fusion that the vector is a result of; none: -1.
InstructionId VectorRows::maker_of(InstructionId vector) const {
  const HloInstruction& made = entry_.at(vector);
  if (made.opcode == HloOpcode::kFusion) return vector;
  if (made.opcode != HloOpcode::kGetTupleElement) return -1;
  return entry_.at(made.operands[0]).opcode == HloOpcode::kFusion ? made.operands[0] : -1;
}

/// Whether nothing else needs the vector in HBM.
bool VectorRows::is_read_by_alone(InstructionId vector, const Stack& stack) const {
  std::vector<InstructionId> work{vector};
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    if (id == entry_.root) return false;
    for (const InstructionId user : users(id)) {
      if (user == stack.concatenate) continue;
      const HloOpcode opcode = entry_.at(user).opcode;
      if (opcode != HloOpcode::kBitcast && opcode != HloOpcode::kReshape) return false;
      work.push_back(user);
    }
  }
  return true;
}

/// A concatenation of reshaped vectors into the rows of one row tile, some of which a fusion makes.
std::optional<VectorRows::Stack> VectorRows::stack_of(const HloInstruction& concatenate) {
  if (concatenate.opcode != HloOpcode::kConcatenate || concatenate.control_predecessors.is_set()) {
    return std::nullopt;
  }
  const std::vector<std::int64_t>& order = concatenate.shape.layout.minor_to_major;
  const std::vector<std::int64_t>& extents = concatenate.shape.dimensions;
  const std::size_t rows = concatenate.operands.size();
  if (extents.size() < 2 || order.size() != extents.size() || rows > isa::kSublanes ||
      concatenate.dimensions[0] != order[1] || hlo::byte_size(concatenate.shape.type) != 4) {
    return std::nullopt;
  }
  const std::int64_t lanes = extents[static_cast<std::size_t>(order[0])];
  if (concatenate.shape.element_count() != lanes * static_cast<std::int64_t>(rows)) {
    return std::nullopt;
  }
  Stack stack;
  stack.concatenate = concatenate.id;
  for (const InstructionId operand : concatenate.operands) {
    const HloInstruction& row = entry_.at(behind_bitcasts(operand));
    if (row.opcode != HloOpcode::kReshape) return std::nullopt;
    const InstructionId vector = behind_bitcasts(row.operands[0]);
    const Shape& shape = entry_.at(vector).shape;
    if (shape.rank() != 1 || shape.dimensions[0] != lanes || shape.type != concatenate.shape.type) {
      return std::nullopt;
    }
    stack.rows.push_back(operand);
    stack.vectors.push_back(vector);
    const InstructionId maker = maker_of(vector);
    if (maker > stack.fusion && vector_extent(entry_.at(maker)) == lanes) stack.fusion = maker;
  }
  const bool is_found = stack.fusion >= 0 &&
                        std::all_of(stack.vectors.begin(), stack.vectors.end(), [&](auto vector) {
                          return maker_of(vector) == stack.fusion || vector < stack.fusion;
                        });
  return is_found ? std::optional(stack) : std::nullopt;
}

/// What a fusion has as results.
std::vector<InstructionId> loop_results_of(const Computation& fused) {
  const HloInstruction& root = fused.at(fused.root);
  return root.opcode == HloOpcode::kTuple ? root.operands : std::vector<InstructionId>{fused.root};
}

void set_results(Computation& fused, HloInstruction& fusion,
                 const std::vector<InstructionId>& results) {
  std::vector<Shape> shapes;
  for (const InstructionId result : results) shapes.push_back(fused.at(result).shape);
  if (results.size() == 1) {
    fused.root = results[0];
    fusion.shape = shapes[0];
    return;
  }
  fusion.shape = Shape();
  fusion.shape.type = hlo::ElementType::kTuple;
  fusion.shape.elements = std::move(shapes);
  if (fused.at(fused.root).opcode != HloOpcode::kTuple) {
    HloInstruction tuple;
    tuple.opcode = HloOpcode::kTuple;
    tuple.name = "tuple." + fusion.name;
    fused.root = append(fused, std::move(tuple));
  }
  fused.at(fused.root).operands = results;
  fused.at(fused.root).shape = fusion.shape;
}

/// A result of a fusion, named like another instruction.
HloInstruction VectorRows::element(InstructionId like, std::int64_t number,
                                   InstructionId fusion) const {
  HloInstruction made;
  made.id = like;
  made.opcode = HloOpcode::kGetTupleElement;
  made.name = entry_.at(like).name + (like == fusion ? ".0" : "");
  made.metadata = entry_.at(like).metadata;
  made.operands = {fusion};
  made.tuple_index = number;
  made.shape = entry_.at(fusion).shape.elements[static_cast<std::size_t>(number)];
  return made;
}

void VectorRows::replace(InstructionId from, InstructionId to) {
  for (HloInstruction& user : entry_.instructions) {
    if (user.id != to) std::replace(user.operands.begin(), user.operands.end(), from, to);
  }
  if (entry_.root == from) entry_.root = to;
}

/// The concatenation inside of the fusion, of vectors that it has, or reads.
InstructionId VectorRows::append_stack(Computation& fused, HloInstruction& fusion,
                                       const Stack& stack) {
  const std::vector<InstructionId> results = loop_results_of(fused);
  HloInstruction inner = entry_.at(stack.concatenate);
  inner.operands.clear();
  for (std::size_t i = 0; i < stack.vectors.size(); ++i) {
    const InstructionId vector = stack.vectors[i];
    const bool is_made = maker_of(vector) == stack.fusion;
    HloInstruction row = entry_.at(stack.rows[i]);
    row.opcode = HloOpcode::kReshape;
    row.operands = {is_made ? results[result_number(vector)]
                            : parameter_for(fused, fusion, vector, entry_.at(vector).shape)};
    row.control_predecessors.reset();
    inner.operands.push_back(append_named(fused, std::move(row)));
  }
  return append_named(fused, std::move(inner));
}

/// Where in the fusion's results, of which the last one is the stack, those before it stand that
/// others read; -1: nobody does.
std::vector<std::int64_t> VectorRows::places_beside(const Stack& stack, std::size_t results) const {
  std::vector<bool> is_private(results, false);
  for (const InstructionId vector : stack.vectors) {
    if (maker_of(vector) != stack.fusion) continue;
    is_private[result_number(vector)] = is_read_by_alone(vector, stack);
  }
  std::vector<std::int64_t> places(results, -1);
  std::int64_t place = 0;
  for (std::size_t i = 0; i < results; ++i) {
    if (!is_private[i]) places[i] = place++;
  }
  return places;
}

/// The fusion makes the stack, behind those of its results that others read.
bool VectorRows::write_stack(const Stack& stack) {
  HloInstruction fusion = entry_.at(stack.fusion);
  Computation& fused = called(fusion);
  const Computation before = fused;
  const bool was_tuple = fusion.shape.is_tuple();
  const std::vector<InstructionId> results = loop_results_of(fused);
  const std::vector<std::int64_t> places = places_beside(stack, results.size());
  std::vector<InstructionId> left;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (places[i] >= 0) left.push_back(results[i]);
  }
  left.push_back(append_stack(fused, fusion, stack));
  set_results(fused, fusion, left);
  tidy(fused);
  if (!has_elementwise_kernel(module_, entry_, fusion, target_)) {
    fused = before;
    return false;
  }
  entry_.at(stack.fusion) = fusion;
  for (HloInstruction& user : entry_.instructions) {
    const bool is_element =
        was_tuple && user.opcode == HloOpcode::kGetTupleElement && user.operands[0] == stack.fusion;
    if (!is_element) continue;
    // Of one without a place nobody reads it.
    const std::int64_t now = places[static_cast<std::size_t>(user.tuple_index)];
    user.tuple_index = std::max<std::int64_t>(now, 0);
  }
  if (left.size() == 1) {
    replace(stack.concatenate, stack.fusion);
    return true;
  }
  if (!was_tuple) {
    const InstructionId first = append(entry_, element(stack.fusion, 0, stack.fusion));
    replace(stack.fusion, first);
  }
  entry_.at(stack.concatenate) =
      element(stack.concatenate, static_cast<std::int64_t>(left.size()) - 1, stack.fusion);
  return true;
}

/// Whether all that reads the vector can read the row, and are few.
bool VectorRows::pays(InstructionId vector) {
  const std::vector<InstructionId>& readers = users(vector);
  return readers.size() <= kMostRowReaders && vector != entry_.root &&
         std::all_of(readers.begin(), readers.end(), [&](InstructionId reader) {
           return vector_extent(entry_.at(reader)) == entry_.at(vector).shape.dimensions[0];
         });
}

bool VectorRows::read_rows(InstructionId id) {
  const std::int64_t extent = vector_extent(entry_.at(id));
  if (extent <= 1) return false;
  HloInstruction fusion = entry_.at(id);
  Computation fused = called(fusion);
  const std::vector<InstructionId> parameters = fused.parameters();
  bool is_changed = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const InstructionId vector = fusion.operands[i];
    if (fused.at(parameters[i]).shape.dimensions != std::vector<std::int64_t>{extent}) continue;
    const std::optional<PartInTiles> row = row_of_array(entry_, entry_.at(vector));
    if (!row || !pays(vector)) continue;
    read_part(fused, fusion, parameters[i], *row, entry_.at(row->array).shape);
    is_changed = true;
  }
  if (!is_changed) return false;
  renumber_parameters(fused, fusion);
  std::swap(called(fusion), fused);
  if (!has_elementwise_kernel(module_, entry_, fusion, target_)) {
    std::swap(called(fusion), fused);
    return false;
  }
  entry_.at(id) = fusion;
  return true;
}

void VectorRows::run() {
  bool changed = false;
  for (std::size_t i = 0; i < entry_.instructions.size(); ++i) {
    const std::optional<Stack> stack = stack_of(entry_.instructions[i]);
    if (!stack || !write_stack(*stack)) continue;
    users_ = users_of(entry_);
    changed = true;
  }
  if (changed) {
    tidy(entry_);
    users_ = users_of(entry_);
  }
  bool reads = false;
  for (std::size_t i = 0; i < entry_.instructions.size(); ++i) {
    if (entry_.instructions[i].opcode == HloOpcode::kFusion) {
      reads |= read_rows(static_cast<InstructionId>(i));
    }
  }
  if (reads) tidy(entry_);
}

}  // namespace

void place_vectors_in_rows(hlo::Module& module, const Target& target) {
  VectorRows(module, target).run();
}

void read_elements_in_place(hlo::Module& module) {
  Computation& entry = module.computations[static_cast<std::size_t>(module.entry)];
  bool changed = false;
  for (HloInstruction& fusion : entry.instructions) {
    const bool is_loop = fusion.opcode == HloOpcode::kFusion && !is_kernel_sequence(fusion) &&
                         product_in(module, fusion) == nullptr && !joins_moves(module, fusion);
    if (!is_loop) continue;
    Computation& fused = module.computations[static_cast<std::size_t>(fusion.called[0])];
    const auto is_spread = [&fused](InstructionId scalar) {
      return std::all_of(fused.instructions.begin(), fused.instructions.end(),
                         [scalar](const HloInstruction& user) {
                           const auto& operands = user.operands;
                           return std::count(operands.begin(), operands.end(), scalar) == 0 ||
                                  user.opcode == HloOpcode::kBroadcast;
                         });
    };
    const std::vector<InstructionId> parameters = fused.parameters();
    bool is_changed = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (fused.at(parameters[i]).shape.rank() != 0 || !is_spread(parameters[i])) continue;
      const auto part = element_of_array(entry, entry.at(fusion.operands[i]));
      if (!part) continue;
      read_part(fused, fusion, parameters[i], *part, entry.at(part->array).shape);
      is_changed = true;
    }
    if (is_changed) renumber_parameters(fused, fusion);
    changed |= is_changed;
  }
  if (changed) tidy(entry);
}

}  // namespace tpu::compiler
