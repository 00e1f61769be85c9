#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/compiler/random_material.h"

namespace tpu::test {

/// A start index: within the array, beyond it, or one that is computed.
inline Tensor start_index(RandomMaterial& m, std::int64_t extent) {
  switch (m.below(4)) {
    case 0:
      return m.graph.constant(ElementType::kS32, 0);
    case 1:
      return m.graph.constant(ElementType::kS32, static_cast<double>(m.between(-2, extent + 2)));
    default:
      return m.partner({}, ElementType::kS32);
  }
}

/// An array of numbers with at least one dimension.
inline Tensor any_array(RandomMaterial& m) {
  Tensor x = m.any();
  if (m.graph.type(x) == ElementType::kPred || m.graph.type(x) == ElementType::kU32) {
    x = m.number(x);
  }
  if (m.extents_of(x).empty()) x = m.parameter(m.random_type(), {m.random_extent(), 9});
  return x;
}

inline void add_dynamic_slice(RandomMaterial& m) {
  const Tensor x = any_array(m);
  const Extents extents = m.extents_of(x);
  Extents sizes;
  std::vector<Tensor> starts;
  for (std::int64_t extent : extents) {
    sizes.push_back(m.one_in(2) ? extent : m.between(1, extent));
    starts.push_back(start_index(m, extent));
  }
  std::vector<Tensor> operands = {x};
  const bool updates = m.one_in(2);
  if (updates) operands.push_back(m.partner(sizes, m.graph.type(x)));
  operands.insert(operands.end(), starts.begin(), starts.end());
  HloInstruction slice =
      m.make(updates ? HloOpcode::kDynamicUpdateSlice : HloOpcode::kDynamicSlice, operands);
  if (!updates) slice.dynamic_slice_sizes = sizes;
  m.keep(m.graph.instruction(std::move(slice)));
}

/// Keys in random order with what goes along with them.
inline void add_sort(RandomMaterial& m) {
  const Extents extents{m.between(1, 20), m.one_in(2) ? m.between(1, 40) : m.random_extent()};
  const Tensor keys = m.parameter(ElementType::kF32, extents);
  const bool descends = m.one_in(2), has_payload = m.one_in(2);
  const std::string type = has_payload && m.one_in(2) ? "s32[]" : "f32[]";
  std::string text = "a = f32[] parameter(0)\nb = f32[] parameter(1)\n";
  if (has_payload) text += "c = " + type + " parameter(2)\nd = " + type + " parameter(3)\n";
  text += std::string("ROOT r = pred[] compare(a, b), direction=") + (descends ? "GT\n" : "LT\n");
  std::vector<Tensor> operands = {keys};
  if (has_payload) {
    operands.push_back(m.partner(extents, type == "s32[]" ? ElementType::kS32 : ElementType::kF32));
  }
  HloInstruction sort = m.make(HloOpcode::kSort, operands);
  sort.dimensions = {m.one_in(3) ? 0 : 1};
  sort.called = {m.computation(text)};
  sort.raw_attributes = "is_stable=true";
  const Tensor sorted = m.graph.instruction(std::move(sort));
  if (!has_payload) {
    m.keep(sorted);
    return;
  }
  m.keep(m.element(sorted, 0));
  m.keep(m.element(sorted, 1));
}

/// The place of the greatest element along a dimension, as JAX lowers it.
inline void add_greatest_place(RandomMaterial& m) {
  Extents extents = m.random_extents();
  if (extents.empty()) extents = {m.between(1, 300)};
  const auto dimension = static_cast<std::int64_t>(m.below(extents.size()));
  const Tensor x = m.parameter(ElementType::kF32, extents);
  const Tensor places = m.graph.iota(ElementType::kS32, extents, dimension);
  const Tensor lowest = m.graph.constant(ElementType::kF32, -INFINITY);
  HloInstruction reduce =
      m.make(HloOpcode::kReduce, {x, places, lowest, m.graph.constant(ElementType::kS32, 0)});
  reduce.dimensions = {dimension};
  reduce.called = {m.computation(R"(a = f32[] parameter(0)
i = s32[] parameter(1)
b = f32[] parameter(2)
j = s32[] parameter(3)
gt = pred[] compare(a, b), direction=GT
ne = pred[] compare(a, a), direction=NE
or = pred[] or(gt, ne)
value = f32[] select(or, a, b)
eq = pred[] compare(a, b), direction=EQ
lt = pred[] compare(i, j), direction=LT
and = pred[] and(eq, lt)
first = pred[] or(or, and)
place = s32[] select(first, i, j)
ROOT both = (f32[], s32[]) tuple(value, place)
)")};
  const Tensor both = m.graph.instruction(std::move(reduce));
  m.keep(m.element(both, 0));
  m.keep(m.element(both, 1));
}

/// Running sums, forwards or backwards, as a window of the whole dimension.
inline void add_running_sum(RandomMaterial& m) {
  const Tensor x = m.number(any_array(m));
  const Extents extents = m.extents_of(x);
  std::vector<hlo::WindowDimension> window(extents.size());
  const std::size_t d = m.below(extents.size());
  if (elements(extents) * extents[d] > 1000000) return;
  window[d].size = extents[d];
  (m.one_in(3) ? window[d].padding_high : window[d].padding_low) = extents[d] - 1;
  m.keep(m.graph.reduce_window_sum(x, window));
}

/// Slices of an array at indices of any form of dimension numbers. Indices may lie outside.
struct IndexedSlices {
  Tensor array, indices;
  hlo::GatherDimensions dimensions;
  Extents result;  ///< Of the gather; of the updates of a scatter.
};

inline IndexedSlices indexed_slices(RandomMaterial& m) {
  IndexedSlices slices;
  Extents extents(1 + m.below(3));
  for (std::int64_t& extent : extents) extent = m.between(1, 24);
  slices.array = m.partner(extents, m.one_in(8) ? ElementType::kS32 : ElementType::kF32);
  std::vector<std::int64_t> order(extents.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), m.engine);
  const std::size_t indexed = 1 + m.below(extents.size());
  hlo::GatherDimensions& dimensions = slices.dimensions;
  dimensions.start_index_map.assign(order.begin(), order.begin() + static_cast<int>(indexed));
  Extents windows;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    const auto& map = dimensions.start_index_map;
    const bool is_indexed = std::find(map.begin(), map.end(), dimension) != map.end();
    const bool collapses = is_indexed && !m.one_in(3);
    const std::int64_t size = collapses ? 1 : m.one_in(2) ? extents[d] : m.between(1, extents[d]);
    dimensions.slice_sizes.push_back(size);
    if (collapses) {
      dimensions.collapsed_slice_dims.push_back(dimension);
    } else {
      windows.push_back(size);
    }
  }
  Extents batch(m.below(3));
  for (std::int64_t& extent : batch) extent = m.between(1, 7);
  Extents index_extents = batch;
  dimensions.index_vector_dim = static_cast<std::int64_t>(m.below(batch.size() + 1));
  index_extents.insert(index_extents.begin() + static_cast<int>(dimensions.index_vector_dim),
                       static_cast<std::int64_t>(indexed));
  if (indexed == 1 && m.one_in(3)) {
    index_extents = batch;
    dimensions.index_vector_dim = static_cast<std::int64_t>(batch.size());
  }
  slices.indices = m.partner(index_extents, ElementType::kS32);
  // Windows and batch dimensions in any interleaving.
  std::size_t next_window = 0, next_batch = 0;
  while (next_window < windows.size() || next_batch < batch.size()) {
    const bool takes_window =
        next_window < windows.size() && (next_batch == batch.size() || m.one_in(2));
    if (takes_window) {
      dimensions.offset_dims.push_back(static_cast<std::int64_t>(slices.result.size()));
    }
    slices.result.push_back(takes_window ? windows[next_window++] : batch[next_batch++]);
  }
  return slices;
}

inline void add_gather(RandomMaterial& m) {
  const IndexedSlices slices = indexed_slices(m);
  m.keep(m.graph.gather(slices.array, slices.indices, slices.dimensions));
}

inline void add_scatter(RandomMaterial& m) {
  IndexedSlices slices = indexed_slices(m);
  slices.dimensions.slice_sizes.clear();
  const ElementType type = m.graph.type(slices.array);
  const Tensor updates = m.partner(slices.result, type);
  const std::string scalar = type == ElementType::kS32 ? "s32[]" : "f32[]";
  static constexpr const char* kCombinations[] = {"add", "add", "add",     "add",
                                                  "add", "add", "maximum", "minimum"};
  HloInstruction scatter = m.make(HloOpcode::kScatter, {slices.array, slices.indices, updates});
  scatter.gather = slices.dimensions;
  scatter.called = {m.computation("a = " + scalar + " parameter(0)\nb = " + scalar +
                                  " parameter(1)\nROOT c = " + scalar + " " +
                                  kCombinations[m.below(std::size(kCombinations))] + "(a, b)\n")};
  m.keep(m.graph.instruction(std::move(scatter)));
}

inline void add_rows(RandomMaterial& m) {
  const std::int64_t count = m.between(1, 40), width = m.random_extent(), picked = m.between(1, 30);
  const Tensor table = m.partner({count, width}, ElementType::kF32);
  const Tensor raw = m.parameter(ElementType::kS32, {picked});
  const Tensor lowest = m.graph.splat(ElementType::kS32, {picked}, 0);
  const Tensor highest = m.graph.splat(ElementType::kS32, {picked}, static_cast<double>(count - 1));
  const Tensor indices =
      m.graph.reshape(m.graph.binary(HloOpcode::kMaximum, lowest,
                                     m.graph.binary(HloOpcode::kMinimum, highest, raw)),
                      {picked, 1});
  hlo::GatherDimensions dimensions;
  dimensions.offset_dims = {1};
  dimensions.collapsed_slice_dims = {0};
  dimensions.start_index_map = {0};
  dimensions.index_vector_dim = 1;
  if (m.one_in(2)) {
    m.keep(m.graph.scatter_add(table, indices, m.partner({picked, width}, ElementType::kF32),
                               dimensions));
    return;
  }
  dimensions.slice_sizes = {1, width};
  m.keep(m.graph.gather(table, indices, dimensions));
}

}  // namespace tpu::test
