#include "workloads/compiler/passes/expand/canonical_forms.h"

#include <algorithm>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

std::int64_t product(const Shape& shape, const Dimensions& dimensions) {
  std::int64_t extent = 1;
  for (std::int64_t d : dimensions) extent *= shape.dimensions[static_cast<std::size_t>(d)];
  return extent;
}

Dimensions operator+(Dimensions a, const Dimensions& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool are_neighbours(const Dimensions& list) {
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (list[i] != list[i - 1] + 1) return false;
  }
  return true;
}

/// One side of a dot.
struct Side {
  InstructionId value = -1;
  Dimensions batch, free, contracting;  ///< Dimensions of the value.
};

class CanonicalForms {
 public:
  explicit CanonicalForms(hlo::Module& module)
      : module_(module), entry_(module.entry_computation()) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    for (Computation& reducer : reducers_) module_.computations.push_back(std::move(reducer));
    tidy(module_.entry_computation());
  }

 private:
  HloInstruction& at(InstructionId id) { return entry_.at(id); }
  const Shape& shape(InstructionId id) { return entry_.at(id).shape; }
  void visit(InstructionId id);
  void visit_dot(InstructionId id);
  void visit_rows(InstructionId id);
  void visit_reduce(InstructionId id);
  void visit_reshape(InstructionId id);

  Side side_of(InstructionId value, const Dimensions& batch, const Dimensions& contracting);
  bool is_made_in_matrices(InstructionId value, Dimensions dimensions);
  void merge(Side& side, Dimensions Side::*list);
  void append_unit(Side& side, Dimensions Side::*list);
  InstructionId add(HloOpcode opcode, InstructionId operand, Shape shape);
  InstructionId reshape(InstructionId value, Dimensions dimensions);
  InstructionId convert(InstructionId value, ElementType type);
  void become(InstructionId id, HloOpcode opcode, InstructionId operand);
  hlo::ComputationId reducer(HloOpcode opcode);

  hlo::Module& module_;
  Computation& entry_;
  std::vector<Computation> reducers_;
};

InstructionId CanonicalForms::add(HloOpcode opcode, InstructionId operand, Shape result) {
  HloInstruction instruction;
  instruction.opcode = opcode;
  instruction.name = at(operand).name + "." + std::string(hlo::to_string(opcode)) + "." +
                     std::to_string(entry_.instructions.size());
  instruction.operands = {operand};
  instruction.shape = std::move(result);
  instruction.metadata = at(operand).metadata;
  return append(entry_, std::move(instruction));
}

InstructionId CanonicalForms::reshape(InstructionId value, Dimensions dimensions) {
  if (shape(value).dimensions == dimensions) return value;
  return add(HloOpcode::kReshape, value,
             hlo::array_shape(shape(value).type, std::move(dimensions)));
}

InstructionId CanonicalForms::convert(InstructionId value, ElementType type) {
  if (shape(value).type == type) return value;
  return add(HloOpcode::kConvert, value, hlo::array_shape(type, shape(value).dimensions));
}

/// The instruction keeps its place, name and shape and takes its value from another one.
void CanonicalForms::become(InstructionId id, HloOpcode opcode, InstructionId operand) {
  HloInstruction plain;
  plain.id = id;
  plain.name = at(id).name;
  plain.metadata = at(id).metadata;
  plain.shape = at(id).shape;
  plain.opcode = opcode;
  plain.operands = {operand};
  at(id) = std::move(plain);
}

Side CanonicalForms::side_of(InstructionId value, const Dimensions& batch,
                             const Dimensions& contracting) {
  Side side{value, batch, {}, contracting};
  for (std::int64_t d = 0; d < shape(value).rank(); ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) side.free.push_back(d);
  }
  return side;
}

/// Whether a product of a batch of matrices makes the value, one for each index of all these
/// dimensions but the last, which lies in the matrices: it takes a copy to have them in one.
bool CanonicalForms::is_made_in_matrices(InstructionId value, Dimensions dimensions) {
  for (;;) {
    const HloInstruction& maker = at(value);
    if (maker.opcode == HloOpcode::kDot) {
      const hlo::DotDimensions& numbers = maker.dot;
      const auto batch = static_cast<std::int64_t>(numbers.lhs_batch.size());
      return dimensions.back() >= batch && std::all_of(dimensions.begin(), dimensions.end() - 1,
                                                       [&](std::int64_t d) { return d < batch; });
    }
    if (maker.opcode == HloOpcode::kTranspose) {
      for (std::int64_t& d : dimensions) d = maker.dimensions[static_cast<std::size_t>(d)];
    } else if (!hlo::is_elementwise(maker.opcode)) {
      return false;
    }
    const auto from = std::find_if(maker.operands.begin(), maker.operands.end(), [&](auto id) {
      return at(id).opcode != HloOpcode::kBroadcast && at(id).opcode != HloOpcode::kConstant;
    });
    if (from == maker.operands.end()) return false;
    value = *from;
  }
}

/// Makes one dimension of neighbouring ones; they are the last of their list.
void CanonicalForms::merge(Side& side, Dimensions Side::*list) {
  Dimensions extents, number(shape(side.value).dimensions.size());
  const std::int64_t first = (side.*list).front(), last = (side.*list).back();
  for (std::int64_t d = 0; d < shape(side.value).rank(); ++d) {
    const std::int64_t extent = product(shape(side.value), {d});
    if (d > first && d <= last) {
      extents.back() *= extent;
    } else {
      extents.push_back(extent);
    }
    number[static_cast<std::size_t>(d)] = static_cast<std::int64_t>(extents.size()) - 1;
  }
  side.value = reshape(side.value, extents);
  side.*list = {first};
  for (Dimensions* each : {&side.batch, &side.free, &side.contracting}) {
    for (std::int64_t& d : *each) d = number[static_cast<std::size_t>(d)];
  }
}

/// Appends a dimension of extent 1 to the value and to a list.
void CanonicalForms::append_unit(Side& side, Dimensions Side::*list) {
  (side.*list).push_back(shape(side.value).rank());
  side.value = reshape(side.value, shape(side.value).dimensions + Dimensions{1});
}

/// Contracted dimensions that are neighbours on both sides become one where the last one would
/// leave lanes empty, or where each matrix of a batch would leave rows of the MXUs empty, but not
/// where either side is made in matrices that would have to be copied; so do the free dimensions of
/// a matrix of weights.
void CanonicalForms::visit_dot(InstructionId id) {
  const hlo::DotDimensions dims = at(id).dot;
  const InstructionId left_value = at(id).operands[0], right_value = at(id).operands[1];
  Side left = side_of(left_value, dims.lhs_batch, dims.lhs_contracting);
  Side right = side_of(right_value, dims.rhs_batch, dims.rhs_contracting);
  const auto leaves_lanes = [this](const Side& side, const Dimensions& list) {
    return list.back() + 1 == shape(side.value).rank() &&
           product(shape(side.value), {list.back()}) % 128 != 0;
  };
  const auto fills_mxu = [&](std::int64_t d) { return product(shape(left.value), {d}) >= 128; };
  const bool leaves_rows =
      std::none_of(left.contracting.begin(), left.contracting.end(), fills_mxu);
  if (left.contracting.size() > 1 && are_neighbours(left.contracting) &&
      are_neighbours(right.contracting) && leaves_rows &&
      (!left.batch.empty() || leaves_lanes(left, left.contracting) ||
       leaves_lanes(right, right.contracting)) &&
      !is_made_in_matrices(left.value, left.contracting) &&
      !is_made_in_matrices(right.value, right.contracting)) {
    merge(left, &Side::contracting);
    merge(right, &Side::contracting);
  }
  if (right.free.size() > 1 && right.batch.empty() && are_neighbours(right.free) &&
      leaves_lanes(right, right.free)) {
    merge(right, &Side::free);
  }
  for (Side* side : {&left, &right}) {
    if (side->free.empty()) append_unit(*side, &Side::free);
    if (side->contracting.empty()) append_unit(*side, &Side::contracting);
  }
  if (left.value == left_value && right.value == right_value) return;
  HloInstruction dot = at(id);
  dot.name += ".matrices";
  dot.operands = {left.value, right.value};
  dot.dot = hlo::DotDimensions{left.batch, right.batch, left.contracting, right.contracting};
  Dimensions extents;
  for (std::int64_t d : left.batch + left.free) {
    extents.push_back(product(shape(left.value), {d}));
  }
  for (std::int64_t d : right.free) extents.push_back(product(shape(right.value), {d}));
  dot.shape = hlo::array_shape(dot.shape.type, extents);
  if (extents == shape(id).dimensions) {
    dot.name = at(id).name;
    dot.id = id;
    at(id) = std::move(dot);
    return;
  }
  const InstructionId matrices = append(entry_, std::move(dot));
  become(id, HloOpcode::kReshape, matrices);
}

/// Gathers and scatters whose indices have more dimensions than one, or a last one of extent 1.
void CanonicalForms::visit_rows(InstructionId id) {
  const bool is_gather = at(id).opcode == HloOpcode::kGather;
  const hlo::GatherDimensions dims = at(id).gather;
  if (at(id).operands.size() != (is_gather ? 2U : 3U) || at(id).shape.is_tuple()) return;
  const InstructionId table = at(id).operands[0], indices = at(id).operands[1];
  const InstructionId rows = is_gather ? id : at(id).operands[2];
  const std::int64_t index_rank = shape(indices).rank();
  const bool has_vectors = dims.index_vector_dim < index_rank;
  const bool one_number = !has_vectors || (dims.index_vector_dim == index_rank - 1 &&
                                           shape(indices).dimensions.back() == 1);
  const Dimensions last{shape(rows).rank() - 1};
  const bool whole_rows =
      shape(table).rank() == 2 && one_number && dims.offset_dims == last &&
      dims.collapsed_slice_dims == Dimensions{0} && dims.start_index_map == Dimensions{0} &&
      (!is_gather || dims.slice_sizes == Dimensions{1, shape(table).dimensions[1]});
  if (!whole_rows || (index_rank == 1 && !has_vectors)) return;
  const std::int64_t count = shape(indices).element_count();
  const Dimensions matrix{count, shape(table).dimensions[1]};
  HloInstruction vector_form = at(id);
  vector_form.operands[1] = reshape(indices, {count});
  vector_form.gather.edit().offset_dims = {1};
  vector_form.gather.edit().index_vector_dim = 1;
  if (!is_gather) {
    vector_form.operands[2] = reshape(rows, matrix);
    vector_form.id = id;
    at(id) = std::move(vector_form);
    return;
  }
  vector_form.name += ".rows";
  vector_form.shape = hlo::array_shape(vector_form.shape.type, matrix);
  const InstructionId gathered = append(entry_, std::move(vector_form));
  become(id, HloOpcode::kReshape, gathered);
}

hlo::ComputationId CanonicalForms::reducer(HloOpcode opcode) {
  Computation computation;
  computation.name =
      std::string(hlo::to_string(opcode)) + "_f32.canonical." + std::to_string(reducers_.size());
  for (std::int64_t number : {0, 1}) {
    HloInstruction parameter;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = number;
    parameter.name = number == 0 ? "a" : "b";
    parameter.shape = hlo::array_shape(ElementType::kF32, {});
    append(computation, std::move(parameter));
  }
  HloInstruction combination;
  combination.opcode = opcode;
  combination.name = "combination";
  combination.operands = {0, 1};
  combination.shape = hlo::array_shape(ElementType::kF32, {});
  computation.root = append(computation, std::move(combination));
  reducers_.push_back(std::move(computation));
  return static_cast<hlo::ComputationId>(module_.computations.size() + reducers_.size() - 1);
}

void CanonicalForms::visit_reduce(InstructionId id) {
  if (at(id).shape.is_tuple() || at(id).operands.size() != 2) return;
  const ElementType type = at(id).shape.type;
  HloOpcode operation = combining_operation(module_.computation(at(id).called.at(0)));
  if (type == ElementType::kPred) {
    if (operation == HloOpcode::kAnd) operation = HloOpcode::kMinimum;
    if (operation == HloOpcode::kOr) operation = HloOpcode::kMaximum;
  } else if (type != ElementType::kBf16) {
    return;
  }
  const HloInstruction& initial = at(at(id).operands[1]);
  if (operation == HloOpcode::kCount || initial.opcode != HloOpcode::kConstant) return;
  const std::optional<double> start = scalar_value(initial);
  if (!start) return;
  HloInstruction constant = scalar_constant(ElementType::kF32, *start);
  constant.name = initial.name + ".f32." + std::to_string(id);
  HloInstruction reduce = at(id);
  reduce.name += ".f32";
  reduce.shape = hlo::array_shape(ElementType::kF32, reduce.shape.dimensions);
  reduce.operands = {convert(reduce.operands[0], ElementType::kF32),
                     append(entry_, std::move(constant))};
  reduce.called = {reducer(operation)};
  const InstructionId wide = append(entry_, std::move(reduce));
  become(id, HloOpcode::kConvert, wide);
}

void CanonicalForms::visit_reshape(InstructionId id) {
  const InstructionId operand = at(id).operands[0];
  const ElementType type = at(id).shape.type;
  if (type != ElementType::kBf16 && type != ElementType::kPred) return;
  if ((at(id).shape.rank() < 2) == (shape(operand).rank() < 2)) return;
  const InstructionId wide = convert(operand, ElementType::kF32);
  become(id, HloOpcode::kConvert, reshape(wide, at(id).shape.dimensions));
}

void CanonicalForms::visit(InstructionId id) {
  switch (at(id).opcode) {
    case HloOpcode::kDot:
      return visit_dot(id);
    case HloOpcode::kGather:
    case HloOpcode::kScatter:
      return visit_rows(id);
    case HloOpcode::kReduce:
      return visit_reduce(id);
    case HloOpcode::kReshape:
      return visit_reshape(id);
    default:
      return;
  }
}

}  // namespace

void use_canonical_forms(hlo::Module& module) {
  CanonicalForms(module).run();
  // Dots and gathers may have left reshapes of 16 bits behind that change the rank.
  CanonicalForms(module).run();
}

}  // namespace tpu::compiler
