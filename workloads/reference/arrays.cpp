#include <algorithm>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/reference/operations.h"

namespace tpu::reference {

using hlo::HloInstruction;
using Extents = std::vector<std::int64_t>;

namespace {

/// Fills the result element by element from x, at the offset that each of the result's dimensions
/// adds: first + sum of index * step. Offsets stay within x.
void take_strided(const Value& x, std::int64_t first, const Extents& steps, Value& result) {
  const Extents& limits = result.shape.dimensions;
  const std::int64_t count = static_cast<std::int64_t>(result.size());
  if (count == 0) return;
  const std::int64_t row = limits.empty() ? 1 : limits.back();
  const std::int64_t step = limits.empty() ? 0 : steps.back();
  Extents outer(limits.begin(), limits.end() - (limits.empty() ? 0 : 1));
  Index index(outer);
  const Extents outer_steps(steps.begin(),
                            steps.begin() + static_cast<std::ptrdiff_t>(outer.size()));
  for (std::int64_t to = 0; to < count; to += row, index.next()) {
    std::int64_t from = first + index.offset(outer_steps);
    for (std::int64_t i = 0; i < row; ++i, from += step) {
      if (result.integers.empty()) {
        result.numbers[static_cast<std::size_t>(to + i)] =
            x.numbers[static_cast<std::size_t>(from)];
      } else {
        result.integers[static_cast<std::size_t>(to + i)] =
            x.integers[static_cast<std::size_t>(from)];
      }
    }
  }
}

}  // namespace

Value iota(const HloInstruction& instruction) {
  Value result = make_value(instruction.shape);
  const std::size_t along = static_cast<std::size_t>(instruction.dimensions.at(0));
  Index index(instruction.shape.dimensions);
  for (std::size_t i = 0; i < result.size(); ++i, index.next()) {
    const std::int64_t number = index.at()[along];
    set_element(result, i, {static_cast<double>(number), number});
  }
  return result;
}

Value broadcast(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  const Extents strides = strides_of(x.shape.dimensions);
  Extents steps(instruction.shape.dimensions.size(), 0);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    steps[static_cast<std::size_t>(instruction.dimensions[i])] = strides[i];
  }
  take_strided(x, 0, steps, result);
  return result;
}

Value reshape(const HloInstruction& instruction, const Value& x) {
  Value result = x;
  result.shape = instruction.shape;
  return result;
}

Value bitcast_convert(const HloInstruction& instruction, const Value& x) {
  return from_bytes(instruction.shape, to_bytes(x));
}

Value transpose(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  const Extents strides = strides_of(x.shape.dimensions);
  Extents steps;
  for (std::int64_t d : instruction.dimensions)
    steps.push_back(strides[static_cast<std::size_t>(d)]);
  take_strided(x, 0, steps, result);
  return result;
}

Value slice(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  Extents steps = strides_of(x.shape.dimensions);
  std::int64_t first = 0;
  for (std::size_t d = 0; d < steps.size(); ++d) {
    first += instruction.slice->starts[d] * steps[d];
    steps[d] *= instruction.slice->strides[d];
  }
  take_strided(x, first, steps, result);
  return result;
}

Value reverse(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  Extents steps = strides_of(x.shape.dimensions);
  std::int64_t first = 0;
  for (std::int64_t d : instruction.dimensions) {
    std::int64_t& step = steps[static_cast<std::size_t>(d)];
    first += (x.shape.dimensions[static_cast<std::size_t>(d)] - 1) * step;
    step = -step;
  }
  take_strided(x, first, steps, result);
  return result;
}

Value concatenate(const HloInstruction& instruction, const Operands& operands) {
  Value result = make_value(instruction.shape);
  const std::size_t along = static_cast<std::size_t>(instruction.dimensions.at(0));
  const Extents strides = strides_of(instruction.shape.dimensions);
  std::int64_t start = 0;
  for (const Value* part : operands) {
    Index index(part->shape.dimensions);
    for (std::size_t i = 0; i < part->size(); ++i, index.next()) {
      const std::int64_t to = index.offset(strides) + start * strides[along];
      set_element(result, static_cast<std::size_t>(to), element(*part, i));
    }
    start += part->shape.dimensions[along];
  }
  return result;
}

Value pad(const HloInstruction& instruction, const Value& x, const Value& padding) {
  Value result = make_value(instruction.shape);
  for (std::size_t i = 0; i < result.size(); ++i) set_element(result, i, element(padding, 0));
  const Extents& limits = instruction.shape.dimensions;
  const Extents strides = strides_of(limits);
  Index index(x.shape.dimensions);
  for (std::size_t i = 0; i < x.size(); ++i, index.next()) {
    std::int64_t to = 0;
    bool inside = true;
    for (std::size_t d = 0; d < limits.size(); ++d) {
      const hlo::PaddingDimension& p = instruction.padding[d];
      const std::int64_t place = p.low + index.at()[d] * (p.interior + 1);
      inside = inside && place >= 0 && place < limits[d];
      to += place * strides[d];
    }
    if (inside) set_element(result, static_cast<std::size_t>(to), element(x, i));
  }
  return result;
}

namespace {

/// Start indices of a dynamic slice, moved so that the slice lies within the array. They are
/// scalars, or one vector.
Extents clamped_starts(const Operands& operands, std::size_t first, const Extents& array,
                       const Extents& sizes) {
  Extents starts;
  for (std::size_t d = 0; d < array.size(); ++d) {
    const bool vector = operands[first]->shape.rank() == 1;
    const std::int64_t start =
        vector ? operands[first]->integers[d] : operands[first + d]->integers.at(0);
    starts.push_back(std::min(std::max<std::int64_t>(start, 0), array[d] - sizes[d]));
  }
  return starts;
}

}  // namespace

Value joined(const hlo::Shape& shape, const Operands& parts, std::int64_t dimension) {
  HloInstruction join;
  join.opcode = hlo::HloOpcode::kConcatenate;
  join.shape = shape;
  join.dimensions = {dimension};
  return concatenate(join, parts);
}

Value part_of(const Value& x, std::int64_t dimension, std::int64_t index, std::int64_t count) {
  HloInstruction cut;
  cut.opcode = hlo::HloOpcode::kSlice;
  cut.shape = x.shape;
  const std::size_t rank = x.shape.dimensions.size();
  cut.slice = hlo::SliceBounds{Extents(rank, 0), x.shape.dimensions, Extents(rank, 1)};
  const auto d = static_cast<std::size_t>(dimension);
  const std::int64_t size = x.shape.dimensions[d] / count;
  cut.slice.edit().starts[d] = index * size;
  cut.slice.edit().limits[d] = (index + 1) * size;
  cut.shape.dimensions[d] = size;
  return slice(cut, x);
}

Value dynamic_slice(const HloInstruction& instruction, const Operands& operands) {
  Value result = make_value(instruction.shape);
  const Value& x = *operands[0];
  const Extents steps = strides_of(x.shape.dimensions);
  std::int64_t first = 0;
  if (!steps.empty()) {
    const Extents starts =
        clamped_starts(operands, 1, x.shape.dimensions, instruction.shape.dimensions);
    for (std::size_t d = 0; d < steps.size(); ++d) first += starts[d] * steps[d];
  }
  take_strided(x, first, steps, result);
  return result;
}

Value dynamic_update_slice(const HloInstruction& instruction, const Operands& operands) {
  Value result = *operands[0];
  result.shape = instruction.shape;
  const Value& update = *operands[1];
  const Extents strides = strides_of(result.shape.dimensions);
  std::int64_t first = 0;
  if (!strides.empty()) {
    const Extents starts =
        clamped_starts(operands, 2, result.shape.dimensions, update.shape.dimensions);
    for (std::size_t d = 0; d < strides.size(); ++d) first += starts[d] * strides[d];
  }
  Index index(update.shape.dimensions);
  for (std::size_t i = 0; i < update.size(); ++i, index.next()) {
    set_element(result, static_cast<std::size_t>(first + index.offset(strides)),
                element(update, i));
  }
  return result;
}

namespace {

/// How the indices of a gather or scatter address the large array ("operand").
class IndexVectors {
 public:
  IndexVectors(const hlo::GatherDimensions& dims, const Value& indices, const Extents& operand)
      : dims_(dims), indices_(indices), strides_(strides_of(indices.shape.dimensions)) {
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(operand.size()); ++d) {
      if (!contains(dims.collapsed_slice_dims, d) && !contains(dims.operand_batching_dims, d)) {
        window_.push_back(static_cast<std::size_t>(d));
      }
    }
  }

  /// Where the slice for an index of the gathered (or update) array begins in the operand.
  Extents start(const Extents& gathered, std::size_t operand_rank) const {
    Extents batch;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(gathered.size()); ++d) {
      if (!contains(dims_.offset_dims, d)) batch.push_back(gathered[static_cast<std::size_t>(d)]);
    }
    // The batch index in the coordinates of `indices`, with the index vector's dimension at 0.
    Extents at = batch;
    const std::int64_t rank = indices_.shape.rank();
    if (dims_.index_vector_dim < rank) {
      at.insert(at.begin() + static_cast<std::ptrdiff_t>(dims_.index_vector_dim), 0);
    }
    std::int64_t base = 0;
    for (std::size_t d = 0; d < at.size(); ++d) base += at[d] * strides_[d];
    const std::int64_t step = dims_.index_vector_dim < rank
                                  ? strides_[static_cast<std::size_t>(dims_.index_vector_dim)]
                                  : 0;
    Extents start(operand_rank, 0);
    for (std::size_t i = 0; i < dims_.start_index_map.size(); ++i) {
      start[static_cast<std::size_t>(dims_.start_index_map[i])] =
          indices_.integers[static_cast<std::size_t>(base + static_cast<std::int64_t>(i) * step)];
    }
    for (std::size_t i = 0; i < dims_.operand_batching_dims.size(); ++i) {
      start[static_cast<std::size_t>(dims_.operand_batching_dims[i])] =
          at[static_cast<std::size_t>(dims_.start_indices_batching_dims[i])];
    }
    return start;
  }

  /// The place within the slice, in the coordinates of the operand.
  Extents within(const Extents& gathered, std::size_t operand_rank) const {
    Extents place(operand_rank, 0);
    Extents offsets = dims_.offset_dims;
    std::sort(offsets.begin(), offsets.end());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      place[window_[i]] = gathered[static_cast<std::size_t>(offsets[i])];
    }
    return place;
  }

 private:
  const hlo::GatherDimensions& dims_;
  const Value& indices_;
  Extents strides_;
  std::vector<std::size_t> window_;
};

}  // namespace

Value gather(const HloInstruction& instruction, const Value& from, const Value& indices) {
  Value result = make_value(instruction.shape);
  const Extents& limits = from.shape.dimensions;
  const Extents strides = strides_of(limits);
  const IndexVectors vectors(instruction.gather, indices, limits);
  Index index(instruction.shape.dimensions);
  for (std::size_t i = 0; i < result.size(); ++i, index.next()) {
    const Extents start = vectors.start(index.at(), limits.size());
    const Extents within = vectors.within(index.at(), limits.size());
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < limits.size(); ++d) {
      const std::int64_t last = limits[d] - instruction.gather->slice_sizes[d];
      offset += (std::min(std::max<std::int64_t>(start[d], 0), last) + within[d]) * strides[d];
    }
    set_element(result, i, element(from, static_cast<std::size_t>(offset)));
  }
  return result;
}

Value scatter(const hlo::Module& module, const HloInstruction& instruction,
              const Operands& operands) {
  const std::size_t count = operands.size() / 2;
  std::vector<Value> results;
  for (std::size_t k = 0; k < count; ++k) results.push_back(*operands[k]);
  const Extents& limits = operands[0]->shape.dimensions;
  const Extents& updates = operands[count + 1]->shape.dimensions;
  const Extents strides = strides_of(limits);
  const IndexVectors vectors(instruction.gather, *operands[count], limits);
  ScalarComputation combine(module, instruction.called[0]);
  // An update's whole window must lie within the array, or none of it is applied.
  Extents extent(limits.size(), 1);
  Extents largest;
  for (std::int64_t size : updates) largest.push_back(size - 1);
  const Extents reach = vectors.within(largest, limits.size());
  for (std::size_t d = 0; d < limits.size(); ++d) extent[d] = reach[d] + 1;

  Index index(updates);
  std::vector<Scalar> given(2 * count);
  for (std::size_t i = 0; i < operands[count + 1]->size(); ++i, index.next()) {
    const Extents start = vectors.start(index.at(), limits.size());
    const Extents within = vectors.within(index.at(), limits.size());
    std::int64_t offset = 0;
    bool inside = true;
    for (std::size_t d = 0; d < limits.size(); ++d) {
      inside = inside && start[d] >= 0 && start[d] <= limits[d] - extent[d];
      offset += (start[d] + within[d]) * strides[d];
    }
    if (!inside) continue;
    const std::size_t at = static_cast<std::size_t>(offset);
    for (std::size_t k = 0; k < count; ++k) {
      given[k] = element(results[k], at);
      given[count + k] = element(*operands[count + 1 + k], i);
    }
    const std::vector<Scalar>& made = combine.run(given);
    for (std::size_t k = 0; k < count; ++k) set_element(results[k], at, made[k]);
  }
  if (!instruction.shape.is_tuple()) {
    results[0].shape = instruction.shape;
    return std::move(results[0]);
  }
  Value tuple;
  tuple.shape = instruction.shape;
  tuple.elements = std::move(results);
  return tuple;
}

}  // namespace tpu::reference
