#include "workloads/graph/widening.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"

namespace tpu::hlo {
namespace {

std::size_t index(std::int64_t number) { return static_cast<std::size_t>(number); }

/// An array in an instruction's result: its first dimension's number, and its extents.
struct Leaf {
  std::size_t first = 0;
  const Shape* shape = nullptr;
};
using Leaves = std::vector<Leaf>;

/// Dimensions of all arrays of a module in classes: those of a class are equally long in every
/// module of these operations.
class Extents {
 public:
  explicit Extents(const Module& module) : module_(module) {
    for (const Computation& computation : module.computations) {
      leaves_.emplace_back();
      for (const HloInstruction& instruction : computation.instructions) {
        leaves_.back().emplace_back();
        add_leaves(instruction.shape, leaves_.back().back());
      }
    }
    class_.resize(extents_.size());
    std::iota(class_.begin(), class_.end(), std::size_t{0});
    fixed_.resize(extents_.size());
    multiple_.assign(extents_.size(), 1);
  }

  const Leaves& of(ComputationId computation, InstructionId id) const {
    return leaves_[index(computation)][index(id)];
  }
  std::size_t root(std::size_t at) {
    while (class_[at] != at) at = class_[at] = class_[class_[at]];
    return at;
  }
  void fix(std::size_t at) { fixed_[root(at)] = true; }
  void fix(const Leaves& leaves) {
    for (const Leaf& leaf : leaves) {
      for (std::int64_t d = 0; d < leaf.shape->rank(); ++d) fix(leaf.first + index(d));
    }
  }
  /// One dimension in two arrays; where they are not equally long, a part of one is the other.
  void join(std::size_t a, std::size_t b) {
    const bool same = extents_[a] == extents_[b];
    a = root(a), b = root(b);
    if (!same) fixed_[a] = fixed_[b] = true;
    if (a == b) return;
    class_[b] = a;
    fixed_[a] = fixed_[a] || fixed_[b];
    multiple_[a] = std::max(multiple_[a], multiple_[b]);
  }
  /// All dimensions, one by one; other ranks are not the same array.
  void join(const Leaf& a, const Leaf& b) {
    if (a.shape->rank() != b.shape->rank()) {
      fix(Leaves{a, b});
      return;
    }
    for (std::int64_t d = 0; d < a.shape->rank(); ++d) join(a.first + index(d), b.first + index(d));
  }
  void join(const Leaves& a, const Leaves& b) {
    if (a.size() != b.size()) {
      fix(a), fix(b);
      return;
    }
    for (std::size_t i = 0; i < a.size(); ++i) join(a[i], b[i]);
  }
  void ask_for(std::size_t at, std::int64_t multiple) {
    asked_.emplace_back(at, multiple);
    multiple_[root(at)] = std::max(multiple_[root(at)], multiple);
  }

  std::int64_t extent(std::size_t at) {
    const std::size_t to = root(at);
    return fixed_[to] ? extents_[at] : round_up(extents_[at], multiple_[to]);
  }
  /// Extents that were asked for and have grown, and those that still are no multiple.
  std::pair<std::size_t, std::size_t> counts() {
    std::size_t widened = 0, kept = 0;
    for (const auto& [at, multiple] : asked_) {
      if (extent(at) % multiple != 0) {
        ++kept;
      } else if (extent(at) != extents_[at]) {
        ++widened;
      }
    }
    return {widened, kept};
  }

  const Module& module() const { return module_; }

 private:
  void add_leaves(const Shape& shape, Leaves& leaves) {
    if (shape.is_tuple()) {
      for (const Shape& element : shape.elements) add_leaves(element, leaves);
      return;
    }
    leaves.push_back({extents_.size(), &shape});
    extents_.insert(extents_.end(), shape.dimensions.begin(), shape.dimensions.end());
  }

  const Module& module_;
  std::vector<std::vector<Leaves>> leaves_;
  std::vector<std::int64_t> extents_;
  std::vector<std::size_t> class_;
  std::vector<bool> fixed_;             ///< Of the first of a class.
  std::vector<std::int64_t> multiple_;  ///< Of the first of a class.
  std::vector<std::pair<std::size_t, std::int64_t>> asked_;
};

bool is_whole(const WindowDimension& window) {
  return window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
         window.padding_high == 0 && window.base_dilation == 1 && window.window_dilation == 1;
}

/// A constant whose elements are all alike, or unknown.
bool is_splat(const HloInstruction& constant) {
  const auto size = static_cast<std::size_t>(byte_size(constant.shape.type));
  const std::vector<std::uint8_t>& bytes = constant.literal;
  if (constant.shape.is_tuple() || size == 0) return false;
  return bytes.empty() ||
         std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin());
}

/// What the instructions of a computation say of the dimensions of their operands and results.
class Reader {
 public:
  Reader(Extents& extents, ComputationId computation, std::int64_t multiple, std::int64_t rows)
      : extents_(extents),
        id_(computation),
        computation_(extents.module().computation(computation)),
        multiple_(multiple),
        rows_(rows) {}

  void read() {
    for (const HloInstruction& instruction : computation_.instructions) read(instruction);
  }

 private:
  const Leaves& result(const HloInstruction& in) const { return extents_.of(id_, in.id); }
  const Leaves& operand(const HloInstruction& in, std::size_t i) const {
    return extents_.of(id_, in.operands[i]);
  }
  std::size_t dim(const Leaves& leaves, std::int64_t d) const { return leaves[0].first + index(d); }
  std::int64_t length(const Leaves& leaves, std::int64_t d) const {
    return leaves[0].shape->dimensions[index(d)];
  }
  void fix_all(const HloInstruction& in) {
    extents_.fix(result(in));
    for (std::size_t i = 0; i < in.operands.size(); ++i) extents_.fix(operand(in, i));
  }
  /// Joins a dimension of two arrays where it goes through whole, else fixes both.
  void pass(const Leaves& a, const Leaves& b, std::int64_t d, bool whole) {
    if (whole) {
      extents_.join(dim(a, d), dim(b, d));
    } else {
      extents_.fix(dim(a, d));
      extents_.fix(dim(b, d));
    }
  }

  void read(const HloInstruction& in) {
    if (is_elementwise(in.opcode)) return elementwise(in);
    switch (in.opcode) {
      case HloOpcode::kParameter:
      case HloOpcode::kIota:
      case HloOpcode::kRng:
      case HloOpcode::kPartitionId:
      case HloOpcode::kReplicaId:
        return;
      case HloOpcode::kConstant:
        if (!is_splat(in)) extents_.fix(result(in));
        return;
      case HloOpcode::kCopy:
      case HloOpcode::kReverse:
      case HloOpcode::kAllReduce:
      case HloOpcode::kCollectivePermute:
      case HloOpcode::kOptimizationBarrier:
      case HloOpcode::kMap:
        return elementwise(in);
      case HloOpcode::kSort:
        elementwise(in);
        for (const Leaf& leaf : result(in)) extents_.fix(leaf.first + index(in.dimensions[0]));
        return;
      case HloOpcode::kTuple:
        return tuple(in);
      case HloOpcode::kGetTupleElement:
        return element(in);
      case HloOpcode::kBroadcast:
        for (std::size_t d = 0; d < in.dimensions.size(); ++d) {
          extents_.join(dim(operand(in, 0), static_cast<std::int64_t>(d)),
                        dim(result(in), in.dimensions[d]));
        }
        return;
      case HloOpcode::kTranspose:
        for (std::size_t d = 0; d < in.dimensions.size(); ++d) {
          extents_.join(dim(result(in), static_cast<std::int64_t>(d)),
                        dim(operand(in, 0), in.dimensions[d]));
        }
        return;
      case HloOpcode::kReduce:
        return reduce(in);
      case HloOpcode::kReshape:
        return reshape(in);
      case HloOpcode::kDot:
        return dot(in);
      case HloOpcode::kConvolution:
        return convolution(in);
      case HloOpcode::kSlice:
      case HloOpcode::kPad:
      case HloOpcode::kConcatenate:
      case HloOpcode::kReduceWindow:
      case HloOpcode::kSelectAndScatter:
      case HloOpcode::kDynamicSlice:
      case HloOpcode::kDynamicUpdateSlice:
        return part(in);
      case HloOpcode::kGather:
        return gather(in);
      case HloOpcode::kWhile:
      case HloOpcode::kConditional:
      case HloOpcode::kCall:
      case HloOpcode::kFusion:
        return call(in);
      default:
        return fix_all(in);
    }
  }

  /// All arrays alike, but for numbers that stand for whole ones.
  void elementwise(const HloInstruction& in) {
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const Leaves& leaves = operand(in, i);
      if (result(in).size() == in.operands.size() && leaves.size() == 1) {  // One of several.
        extents_.join(leaves[0], result(in)[i]);
        extents_.join(leaves[0], result(in)[0]);
      } else if (leaves.size() != 1 || leaves[0].shape->rank() > 0) {
        extents_.join(leaves, result(in));
      }
    }
  }

  void tuple(const HloInstruction& in) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      for (const Leaf& leaf : operand(in, i)) extents_.join(leaf, result(in)[at++]);
    }
  }

  void element(const HloInstruction& in) {
    const Shape& tuple = computation_.at(in.operands[0]).shape;
    std::size_t at = 0;
    const auto arrays = [](const Shape& shape, const auto& self) -> std::size_t {
      if (!shape.is_tuple()) return 1;
      std::size_t sum = 0;
      for (const Shape& each : shape.elements) sum += self(each, self);
      return sum;
    };
    for (std::size_t i = 0; i < index(in.tuple_index); ++i) at += arrays(tuple.elements[i], arrays);
    for (const Leaf& leaf : result(in)) extents_.join(operand(in, 0)[at++], leaf);
  }

  void reduce(const HloInstruction& in) {
    const std::size_t arrays = in.operands.size() / 2;
    for (std::size_t i = 0; i < arrays; ++i) {
      const Leaf& from = operand(in, i)[0];
      extents_.join(operand(in, 0)[0], from);
      std::size_t to = result(in)[i].first;
      for (std::int64_t d = 0; d < from.shape->rank(); ++d) {
        const auto& gone = in.dimensions;
        if (std::find(gone.begin(), gone.end(), d) != gone.end()) continue;
        extents_.join(from.first + index(d), to++);
      }
    }
  }

  /// Dimensions between which both sides have as many elements go through one by one.
  void reshape(const HloInstruction& in) {
    const Leaves &from = operand(in, 0), &to = result(in);
    const std::int64_t from_rank = from[0].shape->rank(), to_rank = to[0].shape->rank();
    std::int64_t a = 0, b = 0;
    while (a < from_rank || b < to_rank) {
      if (a < from_rank && b < to_rank && length(from, a) == length(to, b)) {
        extents_.join(dim(from, a++), dim(to, b++));
      } else if (a < from_rank && length(from, a) == 1) {
        extents_.fix(dim(from, a++));
      } else if (b < to_rank && length(to, b) == 1) {
        extents_.fix(dim(to, b++));
      } else if (a < from_rank && b < to_rank) {
        std::int64_t before = length(from, a), behind = length(to, b);
        extents_.fix(dim(from, a++)), extents_.fix(dim(to, b++));
        while (before != behind && (before < behind ? a < from_rank : b < to_rank)) {
          if (before < behind) {
            before *= length(from, a);
            extents_.fix(dim(from, a++));
          } else {
            behind *= length(to, b);
            extents_.fix(dim(to, b++));
          }
        }
      } else {  // Nothing has no elements.
        return fix_all(in);
      }
    }
  }

  /// Several dimensions that an array of the MXU takes as one: the last of them grows.
  void ask(const Leaves& leaves, const std::vector<std::int64_t>& dims, std::int64_t multiple) {
    std::int64_t extent = 1;
    for (const std::int64_t d : dims) extent *= length(leaves, d);
    if (dims.empty()) return;
    const bool alone = dims.size() == 1;
    if (alone || extent % multiple != 0) extents_.ask_for(dim(leaves, dims.back()), multiple);
  }

  void dot(const HloInstruction& in) {
    const DotDimensions& d = in.dot.get();
    const Leaves &left = operand(in, 0), &right = operand(in, 1);
    std::int64_t to = 0;
    for (std::size_t i = 0; i < d.lhs_batch.size(); ++i) {
      extents_.join(dim(left, d.lhs_batch[i]), dim(right, d.rhs_batch[i]));
      extents_.join(dim(left, d.lhs_batch[i]), dim(result(in), to++));
    }
    for (std::size_t i = 0; i < d.lhs_contracting.size(); ++i) {
      extents_.join(dim(left, d.lhs_contracting[i]), dim(right, d.rhs_contracting[i]));
    }
    ask(left, d.lhs_contracting, multiple_);
    const auto free = [&](const Leaves& side, const std::vector<std::int64_t>& batch,
                          const std::vector<std::int64_t>& contracting, std::int64_t multiple) {
      std::vector<std::int64_t> dims;
      for (std::int64_t i = 0; i < side[0].shape->rank(); ++i) {
        const auto has = [i](const auto& list) {
          return std::find(list.begin(), list.end(), i) != list.end();
        };
        if (has(batch) || has(contracting)) continue;
        dims.push_back(i);
        extents_.join(dim(side, i), dim(result(in), to++));
      }
      ask(side, dims, multiple);
    };
    free(left, d.lhs_batch, d.lhs_contracting, rows_);
    free(right, d.rhs_batch, d.rhs_contracting, multiple_);
  }

  void convolution(const HloInstruction& in) {
    const ConvolutionDimensions& d = in.convolution.get();
    const Leaves &image = operand(in, 0), &kernel = operand(in, 1), &to = result(in);
    for (const std::int64_t at : d.input_spatial) extents_.fix(dim(image, at));
    for (const std::int64_t at : d.kernel_spatial) extents_.fix(dim(kernel, at));
    for (const std::int64_t at : d.output_spatial) extents_.fix(dim(to, at));
    extents_.join(dim(image, d.input_batch), dim(to, d.output_batch));
    extents_.join(dim(image, d.input_feature), dim(kernel, d.kernel_input_feature));
    extents_.join(dim(kernel, d.kernel_output_feature), dim(to, d.output_feature));
    if (in.feature_group_count != 1) {
      extents_.fix(dim(image, d.input_feature));
      extents_.fix(dim(to, d.output_feature));
    }
    if (in.batch_group_count != 1) {
      extents_.fix(dim(image, d.input_batch));
      extents_.fix(dim(to, d.output_feature));
    }
    extents_.ask_for(dim(to, d.output_batch), rows_);
    extents_.ask_for(dim(kernel, d.kernel_input_feature), multiple_);
    extents_.ask_for(dim(to, d.output_feature), multiple_);
  }

  /// Operations that take a part of some dimensions, and all of the others.
  void part(const HloInstruction& in) {
    const Leaves &from = operand(in, 0), &to = result(in);
    if (from.size() != 1 || to.size() != 1) return fix_all(in);
    for (std::int64_t d = 0; d < from[0].shape->rank(); ++d) {
      switch (in.opcode) {
        case HloOpcode::kPad: {
          const PaddingDimension& p = in.padding[index(d)];
          pass(from, to, d, p.low == 0 && p.high == 0 && p.interior == 0);
          break;
        }
        case HloOpcode::kConcatenate:
          for (std::size_t i = 0; i < in.operands.size(); ++i) {
            pass(operand(in, i), to, d, d != in.dimensions[0]);
          }
          break;
        case HloOpcode::kReduceWindow:
          pass(from, to, d, is_whole(in.window[index(d)]));
          break;
        case HloOpcode::kSelectAndScatter:
          extents_.join(dim(from, d), dim(to, d));
          pass(from, operand(in, 1), d, is_whole(in.window[index(d)]));
          break;
        case HloOpcode::kDynamicUpdateSlice:
          extents_.join(dim(from, d), dim(to, d));
          extents_.join(dim(from, d), dim(operand(in, 1), d));
          break;
        default:  // Slices: what is as long behind them is whole.
          extents_.join(dim(from, d), dim(to, d));
      }
    }
  }

  /// Whole rows of a table grow with it.
  void gather(const HloInstruction& in) {
    const GatherDimensions& g = in.gather.get();
    const Leaves &table = operand(in, 0), &to = result(in);
    const auto has = [](const auto& list, std::int64_t d) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    extents_.fix(operand(in, 1));
    for (std::int64_t d = 0; d < to[0].shape->rank(); ++d) {
      if (!has(g.offset_dims, d)) extents_.fix(dim(to, d));
    }
    std::size_t next = 0;
    for (std::int64_t d = 0; d < table[0].shape->rank(); ++d) {
      if (has(g.collapsed_slice_dims, d) || has(g.operand_batching_dims, d)) {
        extents_.fix(dim(table, d));
        continue;
      }
      const std::size_t at = dim(to, g.offset_dims[next++]);
      if (g.slice_sizes[index(d)] == length(table, d)) {
        extents_.join(dim(table, d), at);
      } else {
        extents_.fix(dim(table, d));
        extents_.fix(at);
      }
    }
  }

  void call(const HloInstruction& in) {
    const Module& module = extents_.module();
    const auto enter = [&](ComputationId called, const std::vector<const Leaves*>& arguments,
                           const Leaves* result) {
      const Computation& body = module.computation(called);
      const std::vector<InstructionId> parameters = body.parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        extents_.join(*arguments[i], extents_.of(called, parameters[i]));
      }
      if (result != nullptr) extents_.join(extents_.of(called, body.root), *result);
    };
    if (in.opcode == HloOpcode::kWhile) {
      extents_.join(operand(in, 0), result(in));
      enter(in.called[0], {&result(in)}, &result(in));
      enter(in.called[1], {&result(in)}, nullptr);
    } else if (in.opcode == HloOpcode::kConditional) {
      for (std::size_t i = 0; i < in.called.size(); ++i) {
        enter(in.called[i], {&operand(in, i + 1)}, &result(in));
      }
    } else {
      std::vector<const Leaves*> arguments;
      for (std::size_t i = 0; i < in.operands.size(); ++i) arguments.push_back(&operand(in, i));
      enter(in.called[0], arguments, &result(in));
    }
  }

  Extents& extents_;
  ComputationId id_;
  const Computation& computation_;
  std::int64_t multiple_, rows_;
};

/// Gives the arrays of a shape their extents.
void set_extents(Extents& extents, const Leaves& leaves, std::size_t& at, Shape& shape) {
  if (shape.is_tuple()) {
    for (Shape& element : shape.elements) set_extents(extents, leaves, at, element);
    return;
  }
  const Leaf& leaf = leaves[at++];
  for (std::size_t d = 0; d < shape.dimensions.size(); ++d) {
    shape.dimensions[d] = extents.extent(leaf.first + d);
  }
}

void set_extents(Extents& extents, const Leaves& leaves, Shape& shape) {
  std::size_t at = 0;
  set_extents(extents, leaves, at, shape);
}

/// What an instruction says of whole dimensions in numbers.
void set_numbers(const Computation& computation, HloInstruction& in) {
  if (in.opcode == HloOpcode::kConstant && !in.literal.empty()) {
    const auto size = static_cast<std::size_t>(byte_size(in.shape.type));
    const auto bytes = static_cast<std::size_t>(in.shape.element_count()) * size;
    const std::vector<std::uint8_t> one(
        in.literal.begin(),
        in.literal.begin() + static_cast<std::ptrdiff_t>(std::min(size, in.literal.size())));
    if (bytes != in.literal.size()) {
      in.literal.clear();
      while (in.literal.size() < bytes) in.literal.insert(in.literal.end(), one.begin(), one.end());
    }
  } else if (in.opcode == HloOpcode::kSlice) {
    const Shape& from = computation.at(in.operands[0]).shape;
    SliceBounds bounds = in.slice.get();
    for (std::size_t d = 0; d < bounds.limits.size(); ++d) {
      const bool whole = bounds.starts[d] == 0 && bounds.strides[d] == 1 &&
                         in.shape.dimensions[d] == from.dimensions[d];
      if (whole) bounds.limits[d] = from.dimensions[d];
    }
    in.slice = bounds;
  } else if (in.opcode == HloOpcode::kDynamicSlice) {
    in.dynamic_slice_sizes = in.shape.dimensions;
  } else if (in.opcode == HloOpcode::kGather) {
    GatherDimensions& g = in.gather.edit();
    const auto has = [](const auto& list, std::size_t d) {
      return std::find(list.begin(), list.end(), static_cast<std::int64_t>(d)) != list.end();
    };
    std::size_t next = 0;
    for (std::size_t d = 0; d < g.slice_sizes.size(); ++d) {
      if (has(g.collapsed_slice_dims, d) || has(g.operand_batching_dims, d)) continue;
      g.slice_sizes[d] = in.shape.dimensions[index(g.offset_dims[next++])];
    }
  }
}

}  // namespace

WidenedModule widen_products(const Module& module, std::int64_t multiple, std::int64_t rows) {
  Extents extents(module);
  for (std::size_t i = 0; i < module.computations.size(); ++i) {
    Reader(extents, static_cast<ComputationId>(i), multiple, rows).read();
  }
  WidenedModule wider;
  wider.module = module;
  for (std::size_t c = 0; c < module.computations.size(); ++c) {
    Computation& computation = wider.module.computations[c];
    for (HloInstruction& in : computation.instructions) {
      set_extents(extents, extents.of(static_cast<ComputationId>(c), in.id), in.shape);
      set_numbers(computation, in);
    }
  }
  if (module.entry_layout.is_set()) {
    EntryLayout layout = module.entry_layout.get();
    const Computation& entry = module.entry_computation();
    const std::vector<InstructionId> parameters = entry.parameters();
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
      set_extents(extents, extents.of(module.entry, parameters[i]), layout.parameters[i]);
    }
    set_extents(extents, extents.of(module.entry, entry.root), layout.result);
    wider.module.entry_layout = layout;
  }
  std::tie(wider.widened, wider.kept) = extents.counts();
  verify(wider.module);
  return wider;
}

}  // namespace tpu::hlo
