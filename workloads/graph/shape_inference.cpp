#include "workloads/graph/shape_inference.h"

#include "workloads/graph/inference.h"

namespace tpu::hlo {

namespace inference_detail {

Shape Inference::elementwise() const {
  const HloOpcode opcode = instruction_.opcode;
  // A stochastic-convert's second operand is random bits.
  const bool has_bits = opcode == HloOpcode::kStochasticConvert;
  const bool binary = elementwise_operands(opcode) == 2;
  need_operands(binary ? 2 : 1);
  if (binary && !has_bits &&
      (operand(0).dimensions != operand(1).dimensions ||
       !compatible(operand(0).type, operand(1).type))) {
    fail("expected two operands of one shape, found " + to_string(operand(0), false) + " and " +
         to_string(operand(1), false));
  }
  Shape shape = result(operand(0).dimensions);
  if (opcode == HloOpcode::kIsFinite && !floating(shape.type)) {
    fail("expected an operand of floating type, found " + to_string(shape, false));
  }
  if (opcode == HloOpcode::kIsFinite) shape.type = ElementType::kPred;
  if (opcode == HloOpcode::kAbs && shape.type == ElementType::kC64) shape.type = ElementType::kF32;
  if (opcode == HloOpcode::kAbs && shape.type == ElementType::kC128) shape.type = ElementType::kF64;
  if (opcode == HloOpcode::kConvert || opcode == HloOpcode::kCopy ||
      (floating(shape.type) && floating(instruction_.shape.type))) {
    shape.type = instruction_.shape.type;
  }
  if (shape.type == ElementType::kTuple) fail("expected an array type, found a tuple");
  return shape;
}

Shape Inference::compare() const {
  need_operands(2);
  if (operand(0).dimensions != operand(1).dimensions ||
      !compatible(operand(0).type, operand(1).type)) {
    fail("expected two operands of one shape, found " + to_string(operand(0), false) + " and " +
         to_string(operand(1), false));
  }
  return array_shape(ElementType::kPred, operand(0).dimensions);
}

Shape Inference::select() const {
  need_operands(3);
  if (operand(0).type != ElementType::kPred || operand(0).dimensions != operand(1).dimensions ||
      operand(1).dimensions != operand(2).dimensions ||
      !compatible(operand(1).type, operand(2).type)) {
    fail("expected a pred and two values of the same dimensions, found " +
         to_string(operand(0), false) + ", " + to_string(operand(1), false) + " and " +
         to_string(operand(2), false));
  }
  return array_shape(operand(1).type, operand(1).dimensions);
}

Shape Inference::clamp() const {
  need_operands(3);
  for (std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    if ((operand(i).rank() != 0 && operand(i).dimensions != operand(1).dimensions) ||
        !compatible(operand(i).type, operand(1).type)) {
      fail("expected bounds that are scalars or have the shape of the value " +
           to_string(operand(1), false) + ", found " + to_string(operand(i), false));
    }
  }
  return array_shape(operand(1).type, operand(1).dimensions);
}

Shape Inference::broadcast() const {
  need_operands(1);
  const Dimensions& target = instruction_.shape.dimensions;
  need_count(instruction_.dimensions.size(), operand(0).rank(), "broadcast dimensions");
  need_distinct(instruction_.dimensions, instruction_.shape.rank(), "broadcast dimensions");
  for (std::size_t i = 0; i < instruction_.dimensions.size(); ++i) {
    const std::size_t d = static_cast<std::size_t>(instruction_.dimensions[i]);
    if (operand(0).dimensions[i] != target[d]) {
      fail("expected dimension " + std::to_string(d) + " of the result " +
           to_string(instruction_.shape, false) + " to equal dimension " + std::to_string(i) +
           " of the operand " + to_string(operand(0), false));
    }
  }
  return result(target);
}

Shape Inference::reshape() const {
  need_operands(1);
  const Shape& to = instruction_.shape;
  const bool bits = instruction_.opcode != HloOpcode::kReshape;
  const std::int64_t before = bits ? operand(0).unpadded_bytes() : operand(0).element_count();
  const std::int64_t after = bits ? to.unpadded_bytes() : to.element_count();
  if (before != after) {
    fail("expected as many elements as the operand " + to_string(operand(0), false) + " has (" +
         std::to_string(before) + "), found " + to_string(to, false));
  }
  return array_shape(bits ? to.type : operand(0).type, to.dimensions);
}

Shape Inference::transpose() const {
  need_operands(1);
  need_count(instruction_.dimensions.size(), operand(0).rank(), "dimensions");
  need_distinct(instruction_.dimensions, operand(0).rank(), "dimensions");
  Dimensions dimensions;
  for (std::int64_t d : instruction_.dimensions) {
    dimensions.push_back(operand(0).dimensions[static_cast<std::size_t>(d)]);
  }
  return result(dimensions);
}

Shape Inference::slice() const {
  need_operands(1);
  const std::int64_t rank = operand(0).rank();
  need_count(instruction_.slice->starts.size(), rank, "slice starts");
  need_count(instruction_.slice->limits.size(), rank, "slice limits");
  need_count(instruction_.slice->strides.size(), rank, "slice strides");
  Dimensions dimensions;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    const std::int64_t start = instruction_.slice->starts[d];
    const std::int64_t limit = instruction_.slice->limits[d];
    const std::int64_t stride = instruction_.slice->strides[d];
    if (start < 0 || limit < start || limit > operand(0).dimensions[d] || stride < 1) {
      fail("expected a slice within " + to_string(operand(0), false) + ", found [" +
           std::to_string(start) + ":" + std::to_string(limit) + ":" + std::to_string(stride) +
           "] in dimension " + std::to_string(d));
    }
    dimensions.push_back(limit == start ? 0 : (limit - start - 1) / stride + 1);
  }
  return result(dimensions);
}

Shape Inference::concatenate() const {
  if (operand_count() == 0) fail("expected at least one operand, found none");
  need_operands(operand_count());
  need_count(instruction_.dimensions.size(), 1, "dimension");
  const std::int64_t along = instruction_.dimensions[0];
  need_dimension(along, operand(0).rank(), "the dimension");
  Dimensions dimensions = operand(0).dimensions;
  for (std::size_t i = 1; i < operand_count(); ++i) {
    Dimensions expected = operand(0).dimensions;
    if (operand(i).rank() == operand(0).rank()) {
      expected[static_cast<std::size_t>(along)] =
          operand(i).dimensions[static_cast<std::size_t>(along)];
    }
    if (operand(i).dimensions != expected || !compatible(operand(i).type, operand(0).type)) {
      fail("expected operands that differ in dimension " + std::to_string(along) + " only, found " +
           to_string(operand(0), false) + " and " + to_string(operand(i), false));
    }
    dimensions[static_cast<std::size_t>(along)] += expected[static_cast<std::size_t>(along)];
  }
  return result(dimensions);
}

Shape Inference::pad() const {
  need_operands(2);
  if (operand(1).rank() != 0) {
    fail("expected a scalar padding value, found " + to_string(operand(1), false));
  }
  need_count(instruction_.padding.size(), operand(0).rank(), "padding dimensions");
  Dimensions dimensions;
  for (std::size_t d = 0; d < instruction_.padding.size(); ++d) {
    const PaddingDimension& padding = instruction_.padding[d];
    const std::int64_t extent = operand(0).dimensions[d];
    if (padding.interior < 0 || padding.interior > kLargestWindowNumber ||
        std::abs(padding.low) > kLargestWindowNumber ||
        std::abs(padding.high) > kLargestWindowNumber) {
      fail("expected padding of at most 2^31 and no negative interior padding in dimension " +
           std::to_string(d));
    }
    const std::int64_t padded = padding.low + padding.high + extent +
                                std::max<std::int64_t>(extent - 1, 0) * padding.interior;
    if (padded < 0) {
      fail("expected padding that leaves dimension " + std::to_string(d) +
           " no negative size, found size " + std::to_string(padded));
    }
    dimensions.push_back(padded);
  }
  return result(dimensions);
}

Shape Inference::reverse() const {
  need_operands(1);
  need_distinct(instruction_.dimensions, operand(0).rank(), "dimensions");
  return result(operand(0).dimensions);
}

/// Checks the start indices of a dynamic slice, from operand `first` on: a scalar per dimension or
/// one vector.
void Inference::check_integers(std::size_t first) const {
  const std::int64_t rank = operand(0).rank();
  const std::int64_t given = static_cast<std::int64_t>(operand_count() - first);
  bool fits = given == rank;
  if (given == 1 && operand(first).rank() == 1) {
    fits = integral(operand(first).type) && operand(first).dimensions[0] == rank;
  } else {
    for (std::size_t i = first; i < operand_count(); ++i) {
      fits = fits && integral(operand(i).type) && operand(i).rank() == 0;
    }
  }
  if (!fits) {
    fail("expected " + std::to_string(rank) + " integer start indices after operand " +
         std::to_string(first - 1) + ", found " + std::to_string(given) + " operands");
  }
}

Shape Inference::dynamic_slice() const {
  if (operand_count() == 0) fail("expected an array and its start indices, found no operands");
  need_operands(operand_count());
  const Dimensions& sizes = instruction_.dynamic_slice_sizes;
  need_count(sizes.size(), operand(0).rank(), "dynamic_slice_sizes");
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || sizes[d] > operand(0).dimensions[d]) {
      fail("expected sizes within " + to_string(operand(0), false) + ", found " + join(sizes));
    }
  }
  check_integers(1);
  return result(sizes);
}

Shape Inference::dynamic_update_slice() const {
  if (operand_count() < 2) fail("expected an array, an update and start indices");
  need_operands(operand_count());
  if (operand(1).rank() != operand(0).rank()) {
    fail("expected an update of rank " + std::to_string(operand(0).rank()) + ", found " +
         to_string(operand(1), false));
  }
  for (std::size_t d = 0; d < operand(0).dimensions.size(); ++d) {
    if (operand(1).dimensions[d] > operand(0).dimensions[d]) {
      fail("expected an update within " + to_string(operand(0), false) + ", found " +
           to_string(operand(1), false));
    }
  }
  if (!compatible(operand(0).type, operand(1).type)) {
    fail("expected an update of type " + std::string(to_string(operand(0).type)) + ", found " +
         to_string(operand(1), false));
  }
  check_integers(2);
  return result(operand(0).dimensions);
}

Shape Inference::tuple() const {
  Shape shape;
  shape.type = ElementType::kTuple;
  for (std::size_t i = 0; i < operand_count(); ++i) shape.elements.push_back(operand(i));
  return shape;
}

Shape Inference::get_tuple_element() const {
  if (operand_count() != 1 || !operand(0).is_tuple()) fail("expected one tuple as operand");
  need_dimension(instruction_.tuple_index, static_cast<std::int64_t>(operand(0).elements.size()),
                 "an index");
  return operand(0).elements[static_cast<std::size_t>(instruction_.tuple_index)];
}

Shape Inference::call() const {
  need_called(1);
  const Computation& called = module_.computation(instruction_.called[0]);
  const std::vector<InstructionId> parameters = called.parameters();
  need_count(operand_count(), static_cast<std::int64_t>(parameters.size()), "operands");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!same_extent(operand(i), called.at(parameters[i]).shape)) {
      fail("expected " + to_string(called.at(parameters[i]).shape, false) + " as operand " +
           std::to_string(i) + " of \"" + called.name + "\", found " +
           to_string(operand(i), false));
    }
  }
  return called_result(0);
}

/// Checks that a called computation has one parameter, of the shape of operand `from`.
void Inference::check_one_parameter(std::size_t called, std::size_t from) const {
  const Computation& computation = module_.computation(instruction_.called[called]);
  const std::vector<InstructionId> parameters = computation.parameters();
  if (parameters.size() != 1 || !same_extent(computation.at(parameters[0]).shape, operand(from))) {
    fail("expected \"" + computation.name + "\" to have one parameter " +
         to_string(operand(from), false));
  }
}

Shape Inference::while_loop() const {
  need_called(2);
  if (operand_count() != 1) fail("expected one operand");
  check_one_parameter(0, 0);
  check_one_parameter(1, 0);
  if (!same_extent(called_result(0), operand(0))) {
    fail("expected a body that returns " + to_string(operand(0), false) + ", found " +
         to_string(called_result(0), false));
  }
  if (called_result(1).type != ElementType::kPred || called_result(1).rank() != 0) {
    fail("expected a condition that returns pred[], found " + to_string(called_result(1), false));
  }
  return operand(0);
}

Shape Inference::conditional() const {
  if (instruction_.called.empty()) fail("expected at least one branch, found none");
  if (operand_count() != instruction_.called.size() + 1) {
    fail("expected a selector and an operand for each of " +
         std::to_string(instruction_.called.size()) + " branches, found " +
         std::to_string(operand_count()) + " operands");
  }
  const bool of_pred = operand(0).type == ElementType::kPred && instruction_.called.size() == 2;
  if (operand(0).rank() != 0 || operand(0).is_tuple() || !(of_pred || integral(operand(0).type))) {
    fail("expected a selector pred[] of two branches or an integer scalar, found " +
         to_string(operand(0), false));
  }
  for (std::size_t i = 0; i < instruction_.called.size(); ++i) check_one_parameter(i, i + 1);
  for (std::size_t i = 1; i < instruction_.called.size(); ++i) {
    if (!same_extent(called_result(i), called_result(0))) {
      fail("expected branches that return one shape, found " + to_string(called_result(0), false) +
           " and " + to_string(called_result(i), false));
    }
  }
  return called_result(0);
}

Shape Inference::map() const {
  need_called(1);
  if (operand_count() == 0) fail("expected at least one operand, found none");
  need_operands(operand_count());
  std::vector<ElementType> types;
  for (std::size_t i = 0; i < operand_count(); ++i) {
    if (operand(i).dimensions != operand(0).dimensions) {
      fail("expected operands of one shape, found " + to_string(operand(0), false) + " and " +
           to_string(operand(i), false));
    }
    types.push_back(operand(i).type);
  }
  check_scalar_computation(0, types, {called_result(0).type});
  return array_shape(called_result(0).type, operand(0).dimensions);
}

Shape Inference::sort() const {
  need_called(1);
  need_operands(operand_count());
  Shape shape = same_as_operands();
  need_count(instruction_.dimensions.size(), 1, "dimension");
  need_dimension(instruction_.dimensions[0], operand(0).rank(), "the dimension");
  std::vector<ElementType> types;
  for (std::size_t i = 0; i < operand_count(); ++i) {
    if (operand(i).dimensions != operand(0).dimensions) {
      fail("expected operands of one shape, found " + to_string(operand(0), false) + " and " +
           to_string(operand(i), false));
    }
    types.insert(types.end(), 2, operand(i).type);
  }
  check_scalar_computation(0, types, {ElementType::kPred});
  if (instruction_.batch_group_count > 1) {  // The first elements alone.
    const auto along = static_cast<std::size_t>(instruction_.dimensions[0]);
    if (!shape.is_tuple()) shape.dimensions[along] = instruction_.batch_group_count;
    for (Shape& part : shape.elements) part.dimensions[along] = instruction_.batch_group_count;
  }
  return shape;
}

Shape Inference::all_reduce() const {
  need_called(1);
  need_operands(operand_count());
  if (module_.computation(instruction_.called[0]).parameters().size() != 2) {
    fail("expected a computation of two parameters");
  }
  return same_as_operands();
}

Shape Inference::same_as_operands() const {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < operand_count(); ++i) shapes.push_back(operand(i));
  if (shapes.empty()) fail("expected at least one operand, found none");
  return one_or_tuple(shapes);
}

std::optional<Shape> Inference::infer() {
  switch (instruction_.opcode) {
    case HloOpcode::kCompare:
      return compare();
    case HloOpcode::kSelect:
      return select();
    case HloOpcode::kClamp:
      return clamp();
    case HloOpcode::kBroadcast:
      return broadcast();
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
    case HloOpcode::kBitcastConvert:
      return reshape();
    case HloOpcode::kTranspose:
      return transpose();
    case HloOpcode::kSlice:
      return slice();
    case HloOpcode::kConcatenate:
      return concatenate();
    case HloOpcode::kPad:
      return pad();
    case HloOpcode::kReverse:
      return reverse();
    case HloOpcode::kReduce:
      return reduce();
    case HloOpcode::kReduceWindow:
      return reduce_window();
    case HloOpcode::kSelectAndScatter:
      return select_and_scatter();
    case HloOpcode::kDot:
      return dot();
    case HloOpcode::kRaggedDot:
      return ragged_dot();
    case HloOpcode::kConvolution:
      return convolution();
    case HloOpcode::kGather:
      return gather();
    case HloOpcode::kScatter:
      return scatter();
    case HloOpcode::kDynamicSlice:
      return dynamic_slice();
    case HloOpcode::kDynamicUpdateSlice:
      return dynamic_update_slice();
    case HloOpcode::kTuple:
      return tuple();
    case HloOpcode::kGetTupleElement:
      return get_tuple_element();
    case HloOpcode::kCall:
    case HloOpcode::kFusion:
      return call();
    case HloOpcode::kWhile:
      return while_loop();
    case HloOpcode::kConditional:
      return conditional();
    case HloOpcode::kMap:
      return map();
    case HloOpcode::kSort:
      return sort();
    case HloOpcode::kAllReduce:
      return all_reduce();
    case HloOpcode::kOptimizationBarrier:
      return same_as_operands();
    case HloOpcode::kCopy:
      return operand_count() == 1 && operand(0).is_tuple() ? same_as_operands() : elementwise();
    default:
      if (is_elementwise(instruction_.opcode)) return elementwise();
      return std::nullopt;
  }
}

}  // namespace inference_detail

std::optional<Shape> infer_shape(const Module& module, const Computation& computation,
                                 const HloInstruction& instruction) {
  return inference_detail::Inference(module, computation, instruction).infer();
}

}  // namespace tpu::hlo
