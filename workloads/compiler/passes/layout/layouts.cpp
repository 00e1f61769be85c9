#include "workloads/compiler/passes/layout/layouts.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/dot_orders.h"
#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/matrix_kernels.h"
#include "workloads/compiler/ir/scan_form.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"
#include "workloads/compiler/passes/layout/convolution_sides.h"
#include "workloads/compiler/passes/layout/generated_values.h"
#include "workloads/compiler/passes/layout/layout_search.h"
#include "workloads/compiler/passes/layout/narrow_copies.h"
#include "workloads/compiler/passes/layout/orders_in_step.h"
#include "workloads/compiler/passes/layout/padded_images.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Layout;
using hlo::Shape;

namespace {

using Order = DimensionOrder;

Layout layout_of(ElementType type, const Order& order) {
  return tiled_layout(type, Order(order.rbegin(), order.rend()));
}

/// Whether elements that were neighbours along a dimension are none after the operation, or the
/// other way round. (What is reversed has the neighbours that it had.)
bool has_steps(const HloInstruction& instruction, std::int64_t dimension) {
  const auto d = static_cast<std::size_t>(dimension);
  switch (instruction.opcode) {
    case HloOpcode::kSlice:
      return !instruction.slice->strides.empty() && instruction.slice->strides[d] != 1;
    case HloOpcode::kPad:
      return instruction.padding[d].interior != 0;
    default:
      return false;
  }
}

/// Assigns orders: first what convolutions, then what others, then what windows ask for, along
/// operations that keep the dimensions; the rest by search.
class LayoutAssignment {
 public:
  LayoutAssignment(const hlo::Module& module, Computation& computation, bool is_entry,
                   ConvolutionKernels& kernels)
      : module_(module),
        computation_(computation),
        is_entry_(is_entry),
        target_(kernels.target()),
        users_(users_of(computation)),
        sides_(computation, kernels, Rewriting::kDone),
        orders_(computation.instructions.size()) {}

  void run(const std::vector<hlo::Alias>& aliases, const std::vector<Order>& asked,
           const GivenOrders& given, const std::vector<InstructionId>& parted) {
    seed_convolutions();
    seed_blocks();
    spread();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!asked[i].empty()) assign(static_cast<InstructionId>(i), asked[i]);
    }
    spread();
    seed_windows();
    spread();
    search_orders(computation_, is_entry_, target_, given_by_instruction(aliases, given), orders_);
    for (HloInstruction& instruction : computation_.instructions) settle(instruction);
    write();
    make_parameters_given(given);
    make_operands_agree();
    make_dots_fit();
    make_parts_fit();
    make_steps_fit();
    make_blocks_fit();
    make_rows_fit();
    make_windows_fit();
    make_results_agree(aliases, given);
    join_parted_images(computation_, parted);
    tidy(computation_);
    generate_in_dense_orders(computation_, target_);
    copy_narrow_values(computation_, target_);
  }

 private:
  HloInstruction& at(InstructionId id) { return computation_.at(id); }
  Order& order(InstructionId id) { return orders_[static_cast<std::size_t>(id)]; }
  std::int64_t extent(InstructionId id, std::int64_t d) {
    return at(id).shape.dimensions[static_cast<std::size_t>(d)];
  }
  void assign(InstructionId id, const Order& order);
  void seed_convolutions();
  void seed_blocks();
  void seed_windows();
  bool is_pooling(const HloInstruction& instruction);
  Order order_of_pooling(const HloInstruction& instruction);
  void spread();
  void spread_from(InstructionId id);
  void settle(HloInstruction& instruction);
  void write();
  void make_operands_agree();
  void make_dots_fit();
  void make_parts_fit();
  void make_steps_fit();
  void make_blocks_fit();
  void make_rows_fit();
  void make_windows_fit();
  InstructionId in_order(InstructionId id, const Order& order);
  void behind_copy(InstructionId id, const Order& order);
  std::vector<InstructionId> results();
  std::vector<Order> given_by_instruction(const std::vector<hlo::Alias>& aliases,
                                          const GivenOrders& given);
  void make_parameters_given(const GivenOrders& given);
  void make_results_agree(const std::vector<hlo::Alias>& aliases, const GivenOrders& given);
  InstructionId copy_as(InstructionId id, const Layout& layout);

  const hlo::Module& module_;
  Computation& computation_;
  bool is_entry_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
  ConvolutionSides sides_;
  std::vector<Order> orders_;
  std::map<std::pair<InstructionId, Order>, InstructionId> copies_;  ///< Of values, by order.
  std::deque<InstructionId> work_;
};

/// An order that others want for a dynamic slice (an inner loop whose state it becomes) ends there
/// if it would cut tiles: what wants it gets a copy.
void LayoutAssignment::assign(InstructionId id, const Order& wanted) {
  if (at(id).shape.is_tuple() || at(id).shape.rank() < 2 || !order(id).empty()) return;
  if (is_dynamic_part(at(id)) && wanted != row_major(at(id).shape.rank()) &&
      !lies_for_parts(computation_, at(id), wanted)) {
    return;
  }
  order(id) = wanted;
  work_.push_back(id);
}

/// Images have the side that was chosen for them; one that a convolution takes or makes on the
/// other side is turned in between.
void LayoutAssignment::seed_convolutions() {
  for (const HloInstruction& instruction : computation_.instructions) {
    if (instruction.opcode != HloOpcode::kConvolution) continue;
    const ConvolutionOrders orders = convolution_orders(instruction, sides_.in_lanes(instruction));
    // Its kernel has the result so; where images like it lie otherwise, the order goes no further.
    order(instruction.id) = orders.output;
  }
  sides_.for_each_image([this](const ConvolutionImage& image, ImageSide side) {
    assign(image.id,
           order_of_images(at(image.id).shape.rank(), image.roles, side == ImageSide::kLanes));
  });
  for (const HloInstruction& instruction : computation_.instructions) {
    if (instruction.opcode != HloOpcode::kConvolution) continue;
    const ConvolutionOrders orders = convolution_orders(instruction, sides_.in_lanes(instruction));
    assign(instruction.operands[0], orders.input);
    assign(instruction.operands[1], orders.window);
    if (!sides_.has_image(instruction.id)) work_.push_back(instruction.id);
  }
}

/// Blocks of the members of a ring follow each other.
void LayoutAssignment::seed_blocks() {
  for (const HloInstruction& instruction : computation_.instructions) {
    switch (instruction.opcode) {
      case HloOpcode::kAllGather:
      case HloOpcode::kReduceScatter:
      case HloOpcode::kAllToAll:
      case HloOpcode::kCollectivePermute:
        break;
      default:
        continue;
    }
    assign(instruction.operands[0], row_major(instruction.shape.rank()));
    assign(instruction.id, row_major(instruction.shape.rank()));
  }
}

/// Pooling windows of rank 4: their window dimensions are the spatial ones. Gradients first: their
/// kernels hold more of the image in VMEM, and windows of the same image lie as they do.
void LayoutAssignment::seed_windows() {
  for (const HloOpcode opcode : {HloOpcode::kSelectAndScatter, HloOpcode::kReduceWindow}) {
    for (const HloInstruction& instruction : computation_.instructions) {
      if (instruction.opcode != opcode || !is_pooling(instruction)) continue;
      assign(instruction.operands[0], order_of_pooling(instruction));
    }
  }
}

bool LayoutAssignment::is_pooling(const HloInstruction& instruction) {
  const std::vector<hlo::WindowDimension>& window = instruction.window;
  return (instruction.opcode == HloOpcode::kReduceWindow ||
          instruction.opcode == HloOpcode::kSelectAndScatter) &&
         at(instruction.operands[0]).shape.rank() == 4 &&
         !std::all_of(window.begin(), window.end(), is_trivial);
}

Order LayoutAssignment::order_of_pooling(const HloInstruction& instruction) {
  const bool is_reduction = instruction.opcode == HloOpcode::kReduceWindow;
  return order_of_windows(instruction, at(instruction.operands[0]).shape,
                          is_reduction ? instruction.shape : at(instruction.operands[1]).shape,
                          target_.vmem_bytes);
}

void LayoutAssignment::spread_from(InstructionId id) {
  const Order known = order(id);
  for (InstructionId operand : operands_in_step(computation_, at(id))) assign(operand, known);
  for (InstructionId user : users_[static_cast<std::size_t>(id)]) {
    const std::vector<InstructionId> same = operands_in_step(computation_, at(user));
    if (std::find(same.begin(), same.end(), id) != same.end()) assign(user, known);
  }
}

void LayoutAssignment::spread() {
  while (!work_.empty()) {
    const InstructionId id = work_.front();
    work_.pop_front();
    spread_from(id);
  }
}

/// What nothing reached: a reduction keeps its operand's order, everything else is row-major.
void LayoutAssignment::settle(HloInstruction& instruction) {
  if (instruction.shape.is_tuple() || !order(instruction.id).empty()) return;
  Order wanted = row_major(instruction.shape.rank());
  if (instruction.opcode == HloOpcode::kReduce && instruction.shape.rank() >= 2) {
    const HloInstruction& input = at(instruction.operands[0]);
    wanted.clear();
    for (std::int64_t d : order(input.id)) {
      const auto begin = instruction.dimensions.begin(), end = instruction.dimensions.end();
      if (std::find(begin, end, d) != end) continue;
      const auto before = std::count_if(begin, end, [d](std::int64_t r) { return r < d; });
      wanted.push_back(d - before);
    }
  }
  if (instruction.shape.rank() < 2) {
    order(instruction.id) = wanted;
    return;
  }
  assign(instruction.id, wanted);
  spread();
}

void LayoutAssignment::write() {
  for (HloInstruction& instruction : computation_.instructions) {
    if (!instruction.shape.is_tuple()) {
      instruction.shape.layout = layout_of(instruction.shape.type, order(instruction.id));
    }
  }
  // Operands stand before their users: tuples of elements of tuples are right at once.
  for (HloInstruction& instruction : computation_.instructions) {
    if (instruction.opcode == HloOpcode::kGetTupleElement) {
      const Shape& tuple = at(instruction.operands[0]).shape;
      instruction.shape.layout =
          tuple.elements[static_cast<std::size_t>(instruction.tuple_index)].layout;
      const std::vector<std::int64_t>& minor_to_major = instruction.shape.layout.minor_to_major;
      order(instruction.id) = {minor_to_major.rbegin(), minor_to_major.rend()};
    }
    const bool by_operand =
        instruction.opcode == HloOpcode::kTuple || instruction.opcode == HloOpcode::kAllReduce;
    for (std::size_t i = 0; i < instruction.shape.elements.size(); ++i) {
      Shape& element = instruction.shape.elements[i];
      if (by_operand) {
        element.layout = at(instruction.operands[i]).shape.layout;
      } else if (runs_region(instruction)) {
        element.layout = tiled_layout(element.type, element.layout.minor_to_major);
      } else {
        element.layout = row_major_layout(element.type, element.rank());
      }
    }
  }
}

/// What is spread from a scalar or a vector is spread once more, anything else is copied.
InstructionId LayoutAssignment::copy_as(InstructionId id, const Layout& layout) {
  const bool is_spread =
      at(id).opcode == HloOpcode::kIota ||
      (at(id).opcode == HloOpcode::kBroadcast && at(at(id).operands[0]).shape.rank() < 2);
  const Order order(layout.minor_to_major.rbegin(), layout.minor_to_major.rend());
  if (at(id).opcode == HloOpcode::kCopy) {  // Of a parameter that lies as it is given.
    const HloInstruction& source = at(at(id).operands[0]);
    if (source.opcode == HloOpcode::kParameter) {
      return source.shape.layout == layout ? source.id : copy_as(source.id, layout);
    }
  }
  const auto known = copies_.find({id, order});
  if (known != copies_.end()) return known->second;
  HloInstruction copy;
  if (is_spread) {
    copy = at(id);
  } else {
    copy.opcode = HloOpcode::kCopy;
    copy.operands = {id};
    copy.shape = at(id).shape;
    copy.metadata = at(id).metadata;
  }
  copy.name = at(id).name + ".relayout";
  copy.shape.layout = layout;
  orders_.push_back(order);
  const InstructionId made = append(computation_, std::move(copy));
  if (!is_spread) copies_[{id, order}] = made;
  return made;
}

/// Two orders may meet at an operation: the operand that differs is copied.
void LayoutAssignment::make_operands_agree() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    std::vector<std::pair<InstructionId, Order>> wanted;
    if (at(id).opcode == HloOpcode::kCopy) continue;  // Is what brings one into the other.
    for (InstructionId operand : operands_in_step(computation_, at(id))) {
      wanted.emplace_back(operand, order(id));
    }
    if (at(id).opcode == HloOpcode::kConvolution) {
      const ConvolutionOrders orders = convolution_orders(at(id), sides_.in_lanes(at(id)));
      wanted.emplace_back(at(id).operands[0], orders.input);
      wanted.emplace_back(at(id).operands[1], orders.window);
    }
    for (const auto& [operand, order] : wanted) {
      if (at(operand).shape.rank() < 2) continue;
      const Layout layout = layout_of(at(operand).shape.type, order);
      if (at(operand).shape.layout == layout) continue;
      const InstructionId copy = copy_as(operand, layout);
      std::replace(at(id).operands.begin(), at(id).operands.end(), operand, copy);
    }
  }
}

/// The value, or a copy of it, in an order.
InstructionId LayoutAssignment::in_order(InstructionId id, const Order& wanted) {
  if (at(id).shape.rank() < 2 || same_order(at(id).shape, order(id), wanted)) return id;
  return copy_as(id, layout_of(at(id).shape.type, wanted));
}

/// The instruction computes its value in another order; a copy in its place brings it into the one
/// that it has.
void LayoutAssignment::behind_copy(InstructionId id, const Order& wanted) {
  if (at(id).shape.rank() < 2 || same_order(at(id).shape, order(id), wanted)) return;
  HloInstruction moved = at(id);
  moved.name += ".moved";
  moved.shape.layout = layout_of(moved.shape.type, wanted);
  const InstructionId before = append(computation_, std::move(moved));
  orders_.push_back(wanted);
  HloInstruction copy;
  copy.id = id;
  copy.opcode = HloOpcode::kCopy;
  copy.name = at(id).name;
  copy.shape = at(id).shape;
  copy.metadata = at(id).metadata;
  copy.operands = {before};
  at(id) = std::move(copy);
}

/// Dots whose arrays lie as no matrices get copies that do.
void LayoutAssignment::make_dots_fit() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    if (at(id).opcode != HloOpcode::kDot) continue;
    const InstructionId lhs = at(id).operands[0], rhs = at(id).operands[1];
    if (at(lhs).shape.rank() < 2 || at(rhs).shape.rank() < 2 || at(id).shape.rank() < 2 ||
        find_dot_problem(at(id), at(lhs).shape, at(rhs).shape, at(id).shape)) {
      continue;
    }
    const DotOrders orders = orders_of_matrices(at(id), at(lhs).shape, at(rhs).shape, at(id).shape);
    const InstructionId left = in_order(lhs, orders.lhs), right = in_order(rhs, orders.rhs);
    at(id).operands = {left, right};
    behind_copy(id, orders.result);
  }
}

/// Operands of broadcasts and results of reductions lie as the larger array does.
void LayoutAssignment::make_parts_fit() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    if (at(id).shape.is_tuple()) continue;
    if (at(id).opcode == HloOpcode::kBroadcast) {
      const InstructionId operand = at(id).operands[0];
      if (at(operand).shape.rank() < 2) continue;
      const InstructionId fits = in_order(operand, order_of_part(order(id), at(id).dimensions));
      at(id).operands[0] = fits;
    } else if (at(id).opcode == HloOpcode::kReduce) {
      const Shape& input = at(at(id).operands[0]).shape;
      if (input.rank() < 2 || at(id).shape.rank() < 2) continue;
      const std::vector<std::int64_t>& reduced = at(id).dimensions;
      std::vector<std::int64_t> kept;
      for (std::int64_t d = 0; d < input.rank(); ++d) {
        if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(d);
      }
      behind_copy(id, order_of_part(order(at(id).operands[0]), kept));
    }
  }
}

/// Slices with a stride and pads between elements leave the lanes as they are: another
/// dimension becomes the minor one, the longest.
void LayoutAssignment::make_steps_fit() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    if (at(id).shape.is_tuple() || at(id).shape.rank() < 2) continue;
    const Order present = order(id);
    if (present.empty() || !has_steps(at(id), present.back())) continue;
    std::int64_t minor = -1;
    for (std::int64_t d : present) {
      if (has_steps(at(id), d)) continue;
      if (minor < 0 || extent(id, d) >= extent(id, minor)) minor = d;
    }
    if (minor < 0) continue;
    Order wanted = present;
    wanted.erase(std::find(wanted.begin(), wanted.end(), minor));
    wanted.push_back(minor);
    const InstructionId operand = in_order(at(id).operands[0], wanted);
    at(id).operands[0] = operand;
    behind_copy(id, wanted);
  }
}

/// Blocks that are gathered or scattered are ranges of their table.
void LayoutAssignment::make_blocks_fit() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    if (!moves_blocks(at(id)) || lies_for_parts(computation_, at(id), order(id))) continue;
    Order wanted = order(id);
    wanted.erase(std::find(wanted.begin(), wanted.end(), 0));
    wanted.insert(wanted.begin(), 0);
    for (std::size_t operand = 0; operand < at(id).operands.size(); operand += 2) {
      const InstructionId fits = in_order(at(id).operands[operand], wanted);
      at(id).operands[operand] = fits;
    }
    behind_copy(id, wanted);
  }
}

/// Tables are gathered from and scattered into by rows, and factorizations go through rows, so the
/// rows are what is contiguous; of matrices that are sorted the columns are what stands beside each
/// other.
void LayoutAssignment::make_rows_fit() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    const HloOpcode opcode = at(id).opcode;
    const bool sorts = opcode == HloOpcode::kSort;
    const bool scans =
        opcode == HloOpcode::kReduceWindow && scan_form(module_, computation_, at(id));
    if (!moves_rows(at(id)) && !sorts && !scans && !is_matrix_kernel(at(id))) continue;
    if (at(id).shape.is_tuple() && !sorts) continue;
    for (std::size_t operand = 0; operand < at(id).operands.size(); operand += sorts ? 1 : 2) {
      const InstructionId rows = at(id).operands[operand];
      const InstructionId fits = in_order(rows, row_major(at(rows).shape.rank()));
      at(id).operands[operand] = fits;
    }
    if (!at(id).shape.is_tuple()) behind_copy(id, row_major(at(id).shape.rank()));
  }
}

/// Windows that another order reached, of an operand whose other users came first: their dimensions
/// are copied out of the tiles, where the kernel of pooling has them.
void LayoutAssignment::make_windows_fit() {
  const std::size_t count = computation_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    if (!is_pooling(at(id))) continue;
    const Order present = order(at(id).operands[0]);
    const bool is_tiled = std::any_of(present.end() - 2, present.end(), [&](std::int64_t d) {
      return !is_trivial(at(id).window[static_cast<std::size_t>(d)]);
    });
    const bool is_scatter = at(id).opcode == HloOpcode::kSelectAndScatter;
    if (!is_tiled && (!is_scatter || has_rows_first(at(id).window, present))) continue;
    const Order wanted = order_of_pooling(at(id));
    for (std::size_t operand = 0; operand < (is_scatter ? 2U : 1U); ++operand) {
      const InstructionId fits = in_order(at(id).operands[operand], wanted);
      at(id).operands[operand] = fits;
    }
    behind_copy(id, wanted);
  }
}

/// The arrays that the computation gives.
std::vector<InstructionId> LayoutAssignment::results() {
  const bool is_tuple = at(computation_.root).opcode == HloOpcode::kTuple;
  if (is_tuple) return at(computation_.root).operands;
  return {computation_.root};
}

/// The order in which an array is taken or has to be given; a result in the memory of a parameter
/// has the parameter's.
std::vector<Order> LayoutAssignment::given_by_instruction(const std::vector<hlo::Alias>& aliases,
                                                          const GivenOrders& given) {
  std::vector<Order> orders(computation_.instructions.size());
  const std::vector<InstructionId> values = results(), parameters = computation_.parameters();
  const auto give = [&](InstructionId id, const Order& order) {
    if (at(id).shape.rank() == static_cast<std::int64_t>(order.size())) {
      orders[static_cast<std::size_t>(id)] = order;
    }
  };
  for (std::size_t i = 0; i < std::min(given.results.size(), values.size()); ++i) {
    give(values[i], given.results[i]);
  }
  for (std::size_t i = 0; i < std::min(given.parameters.size(), parameters.size()); ++i) {
    give(parameters[i], given.parameters[i]);
  }
  for (const hlo::Alias& alias : aliases) {
    const std::size_t number = static_cast<std::size_t>(alias.parameter_number);
    const std::size_t place = static_cast<std::size_t>(alias.output_index);
    if (number >= given.parameters.size() || place >= values.size()) continue;
    if (!given.parameters[number].empty()) give(values[place], given.parameters[number]);
  }
  return orders;
}

/// Parameters lie as they are given; what the computation would have is a copy.
void LayoutAssignment::make_parameters_given(const GivenOrders& given) {
  const std::vector<InstructionId> parameters = computation_.parameters();
  for (std::size_t i = 0; i < std::min(given.parameters.size(), parameters.size()); ++i) {
    const InstructionId id = parameters[i];
    const Order& wanted = given.parameters[i];
    if (wanted.empty() || at(id).shape.rank() != static_cast<std::int64_t>(wanted.size())) continue;
    behind_copy(id, wanted);
    if (at(id).opcode == HloOpcode::kCopy) std::swap(at(id).name, at(at(id).operands[0]).name);
  }
}

/// A result that shares its buffer with a parameter lies as the parameter does, others as they are
/// given.
void LayoutAssignment::make_results_agree(const std::vector<hlo::Alias>& aliases,
                                          const GivenOrders& given) {
  const std::vector<InstructionId> values = results(), parameters = computation_.parameters();
  std::vector<Order> wanted(values.size());
  std::copy_n(given.results.begin(), std::min(given.results.size(), values.size()), wanted.begin());
  for (const hlo::Alias& alias : aliases) {
    const InstructionId parameter = parameters[static_cast<std::size_t>(alias.parameter_number)];
    wanted[static_cast<std::size_t>(alias.output_index)] = order(parameter);
  }
  const bool is_tuple = at(computation_.root).opcode == HloOpcode::kTuple;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (wanted[i].size() != static_cast<std::size_t>(at(values[i]).shape.rank())) continue;
    const Layout layout = layout_of(at(values[i]).shape.type, wanted[i]);
    if (wanted[i].size() < 2 || at(values[i]).shape.layout == layout) continue;
    const InstructionId copy = copy_as(values[i], layout);
    if (!is_tuple) {
      computation_.root = copy;
      continue;
    }
    at(computation_.root).operands[i] = copy;
    at(computation_.root).shape.elements[i].layout = layout;
  }
}

}  // namespace

void assign_layouts(hlo::Module& module, ConvolutionKernels& kernels,
                    const std::vector<DimensionOrder>& asked, const GivenOrders& given) {
  for (std::size_t i = 0; i < module.computations.size(); ++i) {
    const bool is_entry = static_cast<hlo::ComputationId>(i) == module.entry;
    const std::vector<hlo::InstructionId> parted =
        is_entry ? part_padded_images(module.computations[i], asked, kernels.target())
                 : std::vector<hlo::InstructionId>{};
    LayoutAssignment(module, module.computations[i], is_entry, kernels)
        .run(is_entry ? module.aliases : std::vector<hlo::Alias>{},
             is_entry ? asked : std::vector<DimensionOrder>{}, is_entry ? given : GivenOrders{},
             parted);
  }
}

void assign_layouts(hlo::Module& module, const Target& target) {
  ConvolutionKernels kernels(target);
  assign_layouts(module, kernels);
}

}  // namespace tpu::compiler
