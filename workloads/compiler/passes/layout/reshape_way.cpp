#include "workloads/compiler/passes/layout/reshape_way.h"

#include <algorithm>

#include "isa/instruction.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"

namespace tpu::compiler {

namespace {

using ExtentList = std::vector<std::int64_t>;

/// The extents with each row a matrix: of rows of 128 lanes, or of the one row.
ExtentList rows_as_matrices(ExtentList extents) {
  const std::int64_t lanes = extents.back();
  const bool is_whole = lanes % isa::kLanes == 0;
  extents.back() = is_whole ? lanes / isa::kLanes : 1;
  extents.push_back(is_whole ? isa::kLanes : lanes);
  return extents;
}

std::int64_t elements_in(const ExtentList& extents) {
  std::int64_t all = 1;
  for (std::int64_t extent : extents) all *= extent;
  return all;
}

/// Arrays in row-major order.
void add_row_major(const hlo::Shape& from, const hlo::Shape& to, std::vector<hlo::Shape>& shapes) {
  constexpr std::int64_t kLongestRow = 1 << 17;
  const std::int64_t elements = from.element_count();
  ExtentList rows{isa::kLanes};
  for (const hlo::Shape* shape : {&from, &to}) {
    std::int64_t lanes = 1;
    for (std::size_t d = shape->dimensions.size(); d-- > 0;) {
      lanes *= shape->dimensions[d];
      if (lanes <= kLongestRow) rows.push_back(lanes);
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  if (hlo::byte_size(from.type) == 4) shapes.push_back(hlo::array_shape(from.type, {elements}));
  for (std::int64_t lanes : rows) {
    if (elements % lanes == 0) {
      shapes.push_back(hlo::array_shape(from.type, {elements / lanes, lanes}));
    }
  }
  for (const hlo::Shape* shape : {&from, &to}) {
    if (shape->rank() < 2) continue;
    shapes.push_back(hlo::array_shape(from.type, rows_as_matrices(shape->dimensions)));
  }
  for (hlo::Shape& shape : shapes) shape.layout = row_major_layout(shape.type, shape.rank());
}

/// The order with the dimensions from `place` on outside of the others; those of extent 1, which
/// would take a tile for an element, outside of all.
DimensionOrder turned_at(const hlo::Shape& shape, std::int64_t place) {
  DimensionOrder order = row_major(shape.rank());
  std::rotate(order.begin(), order.begin() + place, order.end());
  std::stable_partition(order.begin(), order.end(), [&shape](std::int64_t d) {
    return shape.dimensions[static_cast<std::size_t>(d)] == 1;
  });
  return order;
}

/// The order that the array has, with the dimensions [begin, end) as one, where the last of them
/// stands.
DimensionOrder with_one_for(const hlo::Shape& shape, std::int64_t begin, std::int64_t end) {
  DimensionOrder order;
  for (std::int64_t d : major_to_minor(shape)) {
    if (d < begin) order.push_back(d);
    if (d >= end - 1) order.push_back(d - (end - 1 - begin));
  }
  return order;
}

}  // namespace

std::vector<hlo::Shape> shapes_between(const hlo::Shape& from, const hlo::Shape& to) {
  std::vector<hlo::Shape> shapes;
  add_row_major(from, to, shapes);
  for (const hlo::Shape* of : {&from, &to}) {
    const ExtentList& extents = of->dimensions;
    for (std::int64_t place = 1; place < of->rank(); ++place) {
      const auto middle = extents.begin() + place;
      const ExtentList before(extents.begin(), middle), behind(middle, extents.end());
      ExtentList one_before{elements_in(before)}, one_behind{before};
      one_before.insert(one_before.end(), behind.begin(), behind.end());
      one_behind.push_back(elements_in(behind));
      const auto add = [&](const ExtentList& dimensions, const DimensionOrder& order) {
        shapes.push_back(in_order(hlo::array_shape(of->type, dimensions), order));
      };
      const auto turned = [&](const ExtentList& dimensions, std::int64_t at) {
        add(dimensions, turned_at(hlo::array_shape(of->type, dimensions), at));
      };
      turned({one_before[0], one_behind.back()}, 1);
      turned(one_before, 1);
      turned(one_behind, place);
      turned(extents, place);
      add(one_before, with_one_for(*of, 0, place));
      add(one_behind, with_one_for(*of, place, of->rank()));
    }
  }
  std::vector<hlo::Shape> different;
  for (const hlo::Shape& shape : shapes) {
    const bool is_known = std::any_of(different.begin(), different.end(), [&](const auto& other) {
      return other.dimensions == shape.dimensions && other.layout == shape.layout;
    });
    if (!is_known) different.push_back(shape);
  }
  return different;
}

}  // namespace tpu::compiler
