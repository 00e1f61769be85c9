#include "workloads/compiler/passes/fuse/vectors_in_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
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
constexpr std::size_t kMostReaders = 3;

/// A vector in the entry that is a row of an array.
struct RowOfArray {
  InstructionId array = -1;
  std::optional<HloInstruction> slice;  ///< None: the array is the row.
};

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
  bool write_stack(const Stack& stack);
  std::optional<RowOfArray> row_of_array(InstructionId vector);
  bool pays(InstructionId vector);
  bool read_rows(InstructionId fusion);

  hlo::Module& module_;
  const Target& target_;
  Computation& entry_;
  std::vector<std::vector<InstructionId>> users_;
};

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
  return append(fused, std::move(parameter));
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
    if (shape.rank() != 1 || shape.dimensions[0] != lanes ||
        shape.type != concatenate.shape.type) {
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

/// The fusion makes the stack, behind those of its results that others read.
bool VectorRows::write_stack(const Stack& stack) {
  HloInstruction fusion = entry_.at(stack.fusion);
  const HloInstruction concatenate = entry_.at(stack.concatenate);
  const Computation before = called(fusion);
  Computation& fused = called(fusion);
  const bool is_tuple = fusion.shape.is_tuple();
  const std::vector<InstructionId> results =
      is_tuple ? fused.at(fused.root).operands : std::vector<InstructionId>{fused.root};
  HloInstruction inner = concatenate;
  inner.operands.clear();
  std::vector<bool> is_private(results.size(), false);
  std::vector<bool> is_read(results.size(), false);
  for (const InstructionId user : users(stack.fusion)) {
    if (is_tuple) is_read[static_cast<std::size_t>(entry_.at(user).tuple_index)] = true;
  }
  for (std::size_t i = 0; i < stack.vectors.size(); ++i) {
    const InstructionId vector = stack.vectors[i];
    InstructionId inside = -1;
    if (maker_of(vector) == stack.fusion) {
      const auto number =
          is_tuple ? static_cast<std::size_t>(entry_.at(vector).tuple_index) : std::size_t{0};
      inside = results[number];
      is_private[number] = is_read_by_alone(vector, stack);
    } else {
      inside = parameter_for(fused, fusion, vector, entry_.at(vector).shape);
    }
    HloInstruction row = entry_.at(stack.rows[i]);
    row.opcode = HloOpcode::kReshape;
    row.operands = {inside};
    row.control_predecessors.reset();
    inner.operands.push_back(append(fused, std::move(row)));
  }
  std::vector<std::int64_t> places(results.size(), -1);
  std::vector<InstructionId> left;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_private[i]) continue;
    places[i] = static_cast<std::int64_t>(left.size());
    left.push_back(results[i]);
    shapes.push_back(is_tuple ? fusion.shape.elements[i] : fusion.shape);
  }
  const auto place = static_cast<std::int64_t>(left.size());
  left.push_back(append(fused, std::move(inner)));
  shapes.push_back(concatenate.shape);
  if (left.size() == 1) {
    fused.root = left[0];
    fusion.shape = shapes[0];
  } else if (is_tuple) {
    fused.at(fused.root).operands = left;
    fused.at(fused.root).shape.elements = shapes;
    fusion.shape.elements = shapes;
  } else {
    fusion.shape = Shape();
    fusion.shape.type = hlo::ElementType::kTuple;
    fusion.shape.elements = shapes;
    HloInstruction tuple;
    tuple.opcode = HloOpcode::kTuple;
    tuple.name = "tuple." + fusion.name;
    tuple.shape = fusion.shape;
    tuple.operands = left;
    fused.root = append(fused, std::move(tuple));
  }
  tidy(fused);
  if (!has_elementwise_kernel(module_, entry_, fusion, target_)) {
    fused = before;
    return false;
  }
  entry_.at(stack.fusion) = fusion;
  const auto element = [&](InstructionId like, std::int64_t number) {
    HloInstruction made = entry_.at(like);
    made.opcode = HloOpcode::kGetTupleElement;
    made.operands = {stack.fusion};
    made.dimensions.clear();
    made.called.clear();
    made.tuple_index = number;
    made.shape = shapes[static_cast<std::size_t>(number)];
    return made;
  };
  const auto replace = [&](InstructionId from, InstructionId to) {
    for (HloInstruction& user : entry_.instructions) {
      if (user.id != to) std::replace(user.operands.begin(), user.operands.end(), from, to);
    }
    if (entry_.root == from) entry_.root = to;
  };
  for (HloInstruction& user : entry_.instructions) {
    const bool is_element = is_tuple && user.opcode == HloOpcode::kGetTupleElement &&
                            user.operands[0] == stack.fusion;
    if (is_element) {
      const std::int64_t now = places[static_cast<std::size_t>(user.tuple_index)];
      user.tuple_index = std::max<std::int64_t>(now, 0);  // Of a private one nobody reads it.
    }
  }
  if (left.size() == 1) {
    replace(stack.concatenate, stack.fusion);
  } else {
    if (!is_tuple) {
      HloInstruction first = element(stack.fusion, 0);
      first.name += ".0";
      const InstructionId made = append(entry_, std::move(first));
      replace(stack.fusion, made);
    }
    entry_.at(stack.concatenate) = element(stack.concatenate, place);
  }
  return true;
}

std::optional<RowOfArray> VectorRows::row_of_array(InstructionId vector) {
  const HloInstruction& reshape = entry_.at(vector);
  if (reshape.opcode != HloOpcode::kReshape || reshape.shape.rank() != 1 ||
      hlo::byte_size(reshape.shape.type) != 4) {
    return std::nullopt;
  }
  const std::int64_t lanes = reshape.shape.dimensions[0];
  const auto has_lanes = [lanes](const std::optional<TileRow>& row) {
    return row && row->tiles.dimensions.back() == lanes;
  };
  HloInstruction slice = entry_.at(behind_bitcasts(reshape.operands[0]));
  if (slice.opcode == HloOpcode::kSlice || is_named_part(slice)) {
    const HloInstruction& array = entry_.at(slice.operands[0]);
    slice.opcode = HloOpcode::kSlice;
    const auto& strides = slice.slice->strides;
    const bool is_plain = std::all_of(strides.begin(), strides.end(),
                                      [](std::int64_t stride) { return stride == 1; });
    if (!is_plain || !has_lanes(tile_row_of(array.shape, slice))) return std::nullopt;
    return RowOfArray{array.id, slice};
  }
  const HloInstruction& array = entry_.at(reshape.operands[0]);
  if (!has_lanes(tile_row_of(array.shape))) return std::nullopt;
  return RowOfArray{array.id, std::nullopt};
}

/// Whether all that reads the vector can read the row, and are few.
bool VectorRows::pays(InstructionId vector) {
  const std::vector<InstructionId>& readers = users(vector);
  return readers.size() <= kMostReaders && vector != entry_.root &&
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
  std::set<InstructionId> replaced;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const InstructionId vector = fusion.operands[i];
    if (fused.at(parameters[i]).shape.dimensions != std::vector<std::int64_t>{extent}) continue;
    const std::optional<RowOfArray> row = row_of_array(vector);
    if (!row || !pays(vector)) continue;
    InstructionId given =
        parameter_for(fused, fusion, row->array, entry_.at(row->array).shape);
    if (row->slice) {
      HloInstruction slice = *row->slice;
      slice.operands = {given};
      slice.control_predecessors.reset();
      slice.name += "." + fused.at(parameters[i]).name;
      given = append(fused, std::move(slice));
    }
    HloInstruction& reshape = fused.at(parameters[i]);
    reshape.opcode = HloOpcode::kReshape;
    reshape.operands = {given};
    replaced.insert(parameters[i]);
  }
  if (replaced.empty()) return false;
  // Parameters that are left, in the order of their operands.
  std::vector<InstructionId> operands;
  const std::vector<InstructionId> given = std::exchange(fusion.operands, {});
  for (HloInstruction& each : fused.instructions) {
    if (each.opcode != HloOpcode::kParameter) continue;
    operands.push_back(given[static_cast<std::size_t>(each.parameter_number)]);
    each.parameter_number = static_cast<std::int64_t>(operands.size()) - 1;
  }
  fusion.operands = operands;
  tidy(fused);
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

}  // namespace tpu::compiler
