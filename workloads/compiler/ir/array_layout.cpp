#include "workloads/compiler/ir/array_layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/dimension_order.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::Layout;
using hlo::Shape;

namespace {

constexpr std::uint64_t kGranuleBytes = 1024;

}  // namespace

Layout tiled_layout(ElementType type, std::vector<std::int64_t> minor_to_major) {
  Layout layout;
  const std::size_t rank = minor_to_major.size();
  layout.minor_to_major = std::move(minor_to_major);
  if (rank == 0) return layout;
  layout.tiles = {rank == 1 ? std::vector<std::int64_t>{1024} : std::vector<std::int64_t>{8, 128}};
  if (type == ElementType::kBf16 && rank >= 2) layout.tiles.push_back({2, 1});
  return layout;
}

Layout row_major_layout(ElementType type, std::int64_t rank) {
  const DimensionOrder order = row_major(rank);
  return tiled_layout(type, {order.rbegin(), order.rend()});
}

Shape as_it_lies(Shape shape) {
  if (shape.rank() < 2) return shape;
  shape.dimensions = physical_extents(shape);
  shape.layout = row_major_layout(shape.type, shape.rank());
  return shape;
}

std::vector<std::int64_t> major_strides(const hlo::Shape& shape) {
  TPU_CHECK(shape.layout.minor_to_major.size() == shape.dimensions.size(),
            "no layout: " << to_string(shape));
  const std::vector<std::int64_t> extents = physical_extents(shape);
  const std::size_t rank = extents.size();
  std::vector<std::int64_t> strides(rank, 0);
  if (rank < 3) return strides;
  std::int64_t stride = hlo::byte_size(shape.type) == 2 ? 2 : 4;
  stride *= ceil_divide(extents[rank - 1], 128) * ceil_divide(extents[rank - 2], 8);
  for (std::size_t i = rank - 2; i-- > 0;) {
    strides[i] = stride;
    stride *= extents[i];
  }
  return strides;
}

std::uint64_t granules(const Shape& shape) {
  if (shape.is_tuple()) {
    std::uint64_t sum = 0;
    for (const Shape& element : shape.elements) sum += granules(element);
    return sum;
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(shape.padded_bytes());
  return std::max<std::uint64_t>(1, ceil_divide(bytes, kGranuleBytes));
}

std::vector<std::int64_t> major_to_minor(const hlo::Shape& shape) {
  std::vector<std::int64_t> order(shape.layout.minor_to_major.rbegin(),
                                  shape.layout.minor_to_major.rend());
  if (order.size() != shape.dimensions.size()) {
    order.resize(shape.dimensions.size());
    std::iota(order.begin(), order.end(), 0);
  }
  return order;
}

hlo::Shape in_type(hlo::Shape shape, hlo::ElementType type) {
  shape.layout = tiled_layout(type, shape.layout.minor_to_major);
  shape.type = type;
  return shape;
}

double registers_of(const hlo::Shape& shape) {
  return static_cast<double>(granules(shape)) / static_cast<double>(hlo::byte_size(shape.type));
}

std::int64_t fewest_registers(const std::vector<std::int64_t>& extents) {
  if (extents.size() == 1) return ceil_divide(extents[0], isa::kSublanes * isa::kLanes);
  const std::int64_t all =
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t lanes = 0; lanes < extents.size(); ++lanes) {
    for (std::size_t rows = 0; rows < extents.size(); ++rows) {
      if (rows == lanes) continue;
      const std::int64_t others = all / (extents[lanes] * extents[rows]);
      fewest = std::min(fewest, others * ceil_divide(extents[lanes], std::int64_t{isa::kLanes}) *
                                    ceil_divide(extents[rows], std::int64_t{isa::kSublanes}));
    }
  }
  return fewest;
}

std::int64_t granules_of_tile(const hlo::Shape& shape) {
  return shape.type == hlo::ElementType::kBf16 ? 2 : 4;
}

std::int64_t granules_with_rows(const hlo::Shape& shape) {
  if (shape.is_tuple() || shape.rank() < 2 || shape.layout.tiles.empty()) return 0;
  const std::vector<std::int64_t> extents = physical_extents(shape);
  const std::int64_t tile = granules_of_tile(shape);
  const std::int64_t with_rows =
      ceil_divide(extents[extents.size() - 2] * tile, std::int64_t{isa::kSublanes});
  return with_rows < tile ? with_rows : 0;
}

std::int64_t moved_granules(const hlo::Shape& shape) {
  const auto all = static_cast<std::int64_t>(granules(shape));
  const std::int64_t with_rows = granules_with_rows(shape);
  return with_rows > 0 ? all / granules_of_tile(shape) * with_rows : all;
}

std::vector<std::int64_t> physical_extents(const hlo::Shape& shape) {
  std::vector<std::int64_t> extents;
  for (std::int64_t dimension : major_to_minor(shape)) {
    extents.push_back(shape.dimensions[static_cast<std::size_t>(dimension)]);
  }
  return extents;
}

}  // namespace tpu::compiler
