#include "workloads/graph/inference.h"
#include "workloads/graph/shape_inference.h"
#include "workloads/graph/small_floats.h"

namespace tpu::hlo {

std::int64_t window_output_extent(std::int64_t extent, const WindowDimension& window) {
  const std::int64_t dilated = extent == 0 ? 0 : (extent - 1) * window.base_dilation + 1;
  const std::int64_t padded = dilated + window.padding_low + window.padding_high;
  const std::int64_t reach = (window.size - 1) * window.window_dilation + 1;
  return padded < reach ? 0 : (padded - reach) / window.stride + 1;
}

namespace inference_detail {

/// Checks that a called computation takes scalars of these types and returns such.
void Inference::check_scalar_computation(std::size_t called,
                                         const std::vector<ElementType>& parameters,
                                         const std::vector<ElementType>& results) const {
  const Computation& computation = module_.computation(instruction_.called[called]);
  const std::vector<InstructionId> ids = computation.parameters();
  const Shape& root = computation.at(computation.root).shape;
  const auto scalar = [](const Shape& shape, ElementType type) {
    return !shape.is_tuple() && shape.rank() == 0 && compatible(shape.type, type);
  };
  bool fits = ids.size() == parameters.size();
  for (std::size_t i = 0; fits && i < ids.size(); ++i) {
    fits = scalar(computation.at(ids[i]).shape, parameters[i]);
  }
  if (results.size() == 1 && !root.is_tuple()) {
    fits = fits && scalar(root, results[0]);
  } else {
    fits = fits && root.elements.size() == results.size();
    for (std::size_t i = 0; fits && i < results.size(); ++i) {
      fits = scalar(root.elements[i], results[i]);
    }
  }
  if (fits) return;
  std::string expected;
  for (ElementType type : parameters) {
    expected += (expected.empty() ? "" : ", ") + std::string(to_string(type)) + "[]";
  }
  std::string returned;
  for (ElementType type : results) {
    returned += (returned.empty() ? "" : ", ") + std::string(to_string(type)) + "[]";
  }
  fail("expected a computation of (" + expected + ") that returns " + returned + ", found \"" +
       computation.name + "\", which returns " + to_string(root, false) + " from " +
       std::to_string(ids.size()) + " parameters");
}

void Inference::check_reducer(std::size_t arrays) const {
  need_called(1);
  std::vector<ElementType> results;
  for (std::size_t i = 0; i < arrays; ++i) results.push_back(operand(i).type);
  std::vector<ElementType> parameters = results;
  parameters.insert(parameters.end(), results.begin(), results.end());
  check_scalar_computation(0, parameters, results);
}

Shape Inference::reduce() const {
  if (operand_count() == 0 || operand_count() % 2 != 0) {
    fail("expected arrays and as many initial values, found " + std::to_string(operand_count()) +
         " operands");
  }
  need_operands(operand_count());
  const std::size_t arrays = operand_count() / 2;
  check_reducer(arrays);
  need_distinct(instruction_.dimensions, operand(0).rank(), "dimensions");
  Dimensions kept;
  for (std::int64_t d = 0; d < operand(0).rank(); ++d) {
    const Dimensions& gone = instruction_.dimensions;
    if (std::find(gone.begin(), gone.end(), d) == gone.end()) {
      kept.push_back(operand(0).dimensions[static_cast<std::size_t>(d)]);
    }
  }
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < arrays; ++i) {
    if (operand(i).dimensions != operand(0).dimensions || operand(arrays + i).rank() != 0) {
      fail("expected arrays of one shape with scalar initial values, found " +
           to_string(operand(i), false) + " with " + to_string(operand(arrays + i), false));
    }
    shapes.push_back(array_shape(operand(i).type, kept));
  }
  return one_or_tuple(shapes);
}

void Inference::check_window(std::int64_t dimensions) const {
  need_count(instruction_.window.size(), dimensions, "window dimensions");
  for (const WindowDimension& w : instruction_.window) {
    for (std::int64_t number : {w.size, w.stride, w.base_dilation, w.window_dilation}) {
      if (number < 1 || number > kLargestWindowNumber) {
        fail("expected window sizes, strides and dilations from 1 to 2^31, found " +
             std::to_string(number));
      }
    }
    for (std::int64_t number : {w.padding_low, w.padding_high}) {
      if (std::abs(number) > kLargestWindowNumber) {
        fail("expected window padding within 2^31, found " + std::to_string(number));
      }
    }
  }
}

Shape Inference::windowed(const Shape& base) const {
  Shape shape = array_shape(base.type, {});
  for (std::size_t d = 0; d < instruction_.window.size(); ++d) {
    shape.dimensions.push_back(window_output_extent(base.dimensions[d], instruction_.window[d]));
  }
  return shape;
}

Shape Inference::reduce_window() const {
  if (operand_count() == 0 || operand_count() % 2 != 0) {
    fail("expected arrays and as many initial values, found " + std::to_string(operand_count()) +
         " operands");
  }
  need_operands(operand_count());
  const std::size_t arrays = operand_count() / 2;
  check_reducer(arrays);
  check_window(operand(0).rank());
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < arrays; ++i) {
    if (operand(i).dimensions != operand(0).dimensions || operand(arrays + i).rank() != 0) {
      fail("expected arrays of one shape with scalar initial values, found " +
           to_string(operand(i), false) + " with " + to_string(operand(arrays + i), false));
    }
    shapes.push_back(windowed(operand(i)));
  }
  return one_or_tuple(shapes);
}

Shape Inference::select_and_scatter() const {
  need_operands(3);
  need_called(2);
  const ElementType type = operand(0).type;
  check_scalar_computation(0, {type, type}, {ElementType::kPred});
  check_scalar_computation(1, {type, type}, {type});
  check_window(operand(0).rank());
  const Shape expected = windowed(operand(0));
  if (operand(1).dimensions != expected.dimensions) {
    fail("expected a source of the window's output " + to_string(expected, false) + ", found " +
         to_string(operand(1), false));
  }
  if (operand(2).rank() != 0) {
    fail("expected a scalar initial value, found " + to_string(operand(2), false));
  }
  return result(operand(0).dimensions);
}

Shape Inference::dot() const {
  need_operands(2);
  const DotDimensions& dims = instruction_.dot;
  need_count(dims.rhs_batch.size(), static_cast<std::int64_t>(dims.lhs_batch.size()),
             "rhs_batch_dims");
  need_count(dims.rhs_contracting.size(), static_cast<std::int64_t>(dims.lhs_contracting.size()),
             "rhs_contracting_dims");
  Dimensions used[2] = {dims.lhs_batch, dims.rhs_batch};
  used[0].insert(used[0].end(), dims.lhs_contracting.begin(), dims.lhs_contracting.end());
  used[1].insert(used[1].end(), dims.rhs_contracting.begin(), dims.rhs_contracting.end());
  need_distinct(used[0], operand(0).rank(), "batch and contracting dimensions of the left side");
  need_distinct(used[1], operand(1).rank(), "batch and contracting dimensions of the right side");
  Dimensions dimensions;
  for (std::size_t i = 0; i < used[0].size(); ++i) {
    const std::int64_t left = operand(0).dimensions[static_cast<std::size_t>(used[0][i])];
    const std::int64_t right = operand(1).dimensions[static_cast<std::size_t>(used[1][i])];
    if (left != right) {
      fail("expected equal extents in dimension " + std::to_string(used[0][i]) + " of " +
           to_string(operand(0), false) + " and dimension " + std::to_string(used[1][i]) + " of " +
           to_string(operand(1), false));
    }
    if (i < dims.lhs_batch.size()) dimensions.push_back(left);
  }
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::int64_t d = 0; d < operand(side).rank(); ++d) {
      if (std::find(used[side].begin(), used[side].end(), d) == used[side].end()) {
        dimensions.push_back(operand(side).dimensions[static_cast<std::size_t>(d)]);
      }
    }
  }
  need_numbers();
  return array_shape(instruction_.shape.type, dimensions);
}

/// A product takes arrays of one type, or of numbers of any two types.
void Inference::need_numbers() const {
  const auto is_number = [](const Shape& shape) {
    return integral(shape.type) || floating(shape.type) || float_format(shape.type).has_value();
  };
  if (!compatible(operand(0).type, operand(1).type) &&
      !(is_number(operand(0)) && is_number(operand(1)))) {
    fail("expected operands of one element type, or of numbers, found " +
         to_string(operand(0), false) + " and " + to_string(operand(1), false));
  }
}

/// A dot whose left side is cut in groups along one dimension, whose extents the last operand has:
/// each group of rows meets its own right side, or groups of what is contracted have results of
/// their own, or groups cut batches and change nothing.
Shape Inference::ragged_dot() const {
  need_operands(3);
  const DotDimensions& dims = instruction_.dot;
  const Shape &left = operand(0), &right = operand(1), &sizes = operand(2);
  need_count(dims.rhs_batch.size(), static_cast<std::int64_t>(dims.lhs_batch.size()),
             "rhs_batch_dims");
  need_count(dims.rhs_contracting.size(), static_cast<std::int64_t>(dims.lhs_contracting.size()),
             "rhs_contracting_dims");
  need_count(dims.lhs_ragged.size(), 1, "lhs_ragged_dims");
  Dimensions used[2] = {dims.lhs_batch, dims.rhs_batch};
  used[0].insert(used[0].end(), dims.lhs_contracting.begin(), dims.lhs_contracting.end());
  used[1].insert(used[1].end(), dims.rhs_contracting.begin(), dims.rhs_contracting.end());
  used[1].insert(used[1].end(), dims.rhs_group.begin(), dims.rhs_group.end());
  need_distinct(used[0], left.rank(), "batch and contracting dimensions of the left side");
  need_distinct(used[1], right.rank(), "batch, contracting and group dimensions of the right side");
  const std::int64_t ragged = dims.lhs_ragged[0];
  need_dimension(ragged, left.rank(), "lhs_ragged_dims");
  if (!integral(sizes.type) || sizes.rank() == 0) {
    fail("expected integer sizes of groups, found " + to_string(sizes, false));
  }
  const auto has = [ragged](const Dimensions& list) {
    return std::find(list.begin(), list.end(), ragged) != list.end();
  };
  const bool is_contracted = has(dims.lhs_contracting);
  need_count(dims.rhs_group.size(), has(used[0]) ? 0 : 1, "rhs_group_dims");
  const std::int64_t groups = sizes.dimensions.back();
  const auto extent = [](const Shape& shape, std::int64_t d) {
    return shape.dimensions[static_cast<std::size_t>(d)];
  };
  if (!dims.rhs_group.empty() && extent(right, dims.rhs_group[0]) != groups) {
    fail("expected " + std::to_string(groups) + " groups, found " + to_string(right, false));
  }
  for (std::size_t i = 0; i < used[0].size(); ++i) {
    if (extent(left, used[0][i]) != extent(right, used[1][i])) {
      fail("expected equal extents in dimension " + std::to_string(used[0][i]) + " of " +
           to_string(left, false) + " and dimension " + std::to_string(used[1][i]) + " of " +
           to_string(right, false));
    }
  }
  Dimensions dimensions;
  if (is_contracted) dimensions.push_back(groups);
  for (const std::int64_t d : dims.lhs_batch) dimensions.push_back(extent(left, d));
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::int64_t d = 0; d < operand(side).rank(); ++d) {
      if (std::find(used[side].begin(), used[side].end(), d) == used[side].end()) {
        dimensions.push_back(extent(operand(side), d));
      }
    }
  }
  need_numbers();
  return array_shape(instruction_.shape.type, dimensions);
}

Shape Inference::convolution() const {
  need_operands(2);
  const ConvolutionDimensions& dims = instruction_.convolution;
  const std::int64_t spatial = static_cast<std::int64_t>(dims.input_spatial.size());
  check_window(spatial);
  const auto side = [&](std::int64_t a, std::int64_t b, const Dimensions& rest, std::int64_t rank,
                        const char* what) {
    Dimensions all = rest;
    all.push_back(a);
    all.push_back(b);
    need_count(all.size(), spatial + 2, "dimension labels on each side");
    need_count(all.size(), rank, what);
    need_distinct(all, rank, what);
  };
  const Shape& input = operand(0);
  const Shape& kernel = operand(1);
  side(dims.input_batch, dims.input_feature, dims.input_spatial, input.rank(), "input labels");
  side(dims.kernel_input_feature, dims.kernel_output_feature, dims.kernel_spatial, kernel.rank(),
       "kernel labels");
  side(dims.output_batch, dims.output_feature, dims.output_spatial, spatial + 2, "output labels");
  const auto of = [](const Shape& shape, std::int64_t d) {
    return shape.dimensions[static_cast<std::size_t>(d)];
  };
  const std::int64_t groups = instruction_.feature_group_count;
  const std::int64_t batch_groups = instruction_.batch_group_count;
  const std::int64_t batch = of(input, dims.input_batch);
  const std::int64_t features = of(input, dims.input_feature);
  const std::int64_t outputs = of(kernel, dims.kernel_output_feature);
  if (groups < 1 || batch_groups < 1 || (groups > 1 && batch_groups > 1) ||
      features % groups != 0 || outputs % groups != 0 || batch % batch_groups != 0 ||
      outputs % batch_groups != 0) {
    fail(
        "expected group counts that divide features, outputs and batch, found "
        "feature_group_count=" +
        std::to_string(groups) + " batch_group_count=" + std::to_string(batch_groups) + " for " +
        to_string(input, false) + " and " + to_string(kernel, false));
  }
  if (features / groups != of(kernel, dims.kernel_input_feature)) {
    fail("expected " + std::to_string(features / groups) +
         " input features of the kernel (those of the input over the groups), found " +
         std::to_string(of(kernel, dims.kernel_input_feature)));
  }
  Dimensions dimensions(static_cast<std::size_t>(spatial) + 2);
  dimensions[static_cast<std::size_t>(dims.output_batch)] = batch / batch_groups;
  dimensions[static_cast<std::size_t>(dims.output_feature)] = outputs;
  for (std::size_t i = 0; i < dims.input_spatial.size(); ++i) {
    if (of(kernel, dims.kernel_spatial[i]) != instruction_.window[i].size) {
      fail("expected a window of the kernel's size " +
           std::to_string(of(kernel, dims.kernel_spatial[i])) + " in spatial dimension " +
           std::to_string(i) + ", found " + std::to_string(instruction_.window[i].size));
    }
    dimensions[static_cast<std::size_t>(dims.output_spatial[i])] =
        window_output_extent(of(input, dims.input_spatial[i]), instruction_.window[i]);
  }
  return array_shape(instruction_.shape.type, dimensions);
}

Shape Inference::gather() const {
  need_operands(2);
  const GatherDimensions& dims = instruction_.gather;
  const Shape& from = operand(0);
  const Shape& indices = operand(1);
  if (!integral(indices.type)) fail("expected integer indices, found " + to_string(indices, false));
  need_count(dims.start_indices_batching_dims.size(),
             static_cast<std::int64_t>(dims.operand_batching_dims.size()),
             "start_indices_batching_dims");
  need_distinct(dims.start_indices_batching_dims, indices.rank(), "start_indices_batching_dims");
  need_count(dims.slice_sizes.size(), from.rank(), "slice_sizes");
  need_distinct(dims.collapsed_slice_dims, from.rank(), "collapsed_slice_dims");
  need_distinct(dims.operand_batching_dims, from.rank(), "operand_batching_dims");
  need_distinct(dims.start_index_map, from.rank(), "start_index_map");
  need_dimension(dims.index_vector_dim, indices.rank() + 1, "index_vector_dim");
  const std::int64_t vector =
      dims.index_vector_dim < indices.rank()
          ? indices.dimensions[static_cast<std::size_t>(dims.index_vector_dim)]
          : 1;
  need_count(dims.start_index_map.size(), vector, "entries of start_index_map");
  Dimensions window;
  for (std::int64_t d = 0; d < from.rank(); ++d) {
    const std::int64_t size = dims.slice_sizes[static_cast<std::size_t>(d)];
    if (size < 0 || size > from.dimensions[static_cast<std::size_t>(d)]) {
      fail("expected slice sizes within " + to_string(from, false) + ", found " +
           join(dims.slice_sizes));
    }
    const auto holds = [&](const Dimensions& v) {
      return std::find(v.begin(), v.end(), d) != v.end();
    };
    if (!holds(dims.collapsed_slice_dims) && !holds(dims.operand_batching_dims)) {
      window.push_back(size);
    }
  }
  need_count(dims.offset_dims.size(), static_cast<std::int64_t>(window.size()), "offset_dims");
  Dimensions batch;
  for (std::int64_t d = 0; d < indices.rank(); ++d) {
    if (d != dims.index_vector_dim)
      batch.push_back(indices.dimensions[static_cast<std::size_t>(d)]);
  }
  const std::int64_t rank = static_cast<std::int64_t>(window.size() + batch.size());
  need_distinct(dims.offset_dims, rank, "offset_dims");
  Dimensions dimensions;
  std::size_t next_window = 0, next_batch = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    const bool offset =
        std::find(dims.offset_dims.begin(), dims.offset_dims.end(), d) != dims.offset_dims.end();
    dimensions.push_back(offset ? window[next_window++] : batch[next_batch++]);
  }
  return result(dimensions);
}

Shape Inference::scatter() const {
  if (operand_count() < 3 || operand_count() % 2 == 0) {
    fail("expected operands, indices and as many updates, found " +
         std::to_string(operand_count()) + " operands");
  }
  need_operands(operand_count());
  const std::size_t arrays = operand_count() / 2;
  check_reducer(arrays);
  const GatherDimensions& dims = instruction_.gather;
  const Shape& indices = operand(arrays);
  if (!integral(indices.type)) fail("expected integer indices, found " + to_string(indices, false));
  need_count(dims.start_indices_batching_dims.size(),
             static_cast<std::int64_t>(dims.operand_batching_dims.size()),
             "scatter_indices_batching_dims");
  need_distinct(dims.start_indices_batching_dims, indices.rank(), "scatter_indices_batching_dims");
  need_dimension(dims.index_vector_dim, indices.rank() + 1, "index_vector_dim");
  const std::int64_t vector =
      dims.index_vector_dim < indices.rank()
          ? indices.dimensions[static_cast<std::size_t>(dims.index_vector_dim)]
          : 1;
  need_count(dims.start_index_map.size(), vector, "entries of scatter_dims_to_operand_dims");
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < arrays; ++i) {
    const Shape& into = operand(i);
    const Shape& updates = operand(arrays + 1 + i);
    need_distinct(dims.collapsed_slice_dims, into.rank(), "inserted_window_dims");
    need_distinct(dims.start_index_map, into.rank(), "scatter_dims_to_operand_dims");
    need_distinct(dims.offset_dims, updates.rank(), "update_window_dims");
    need_count(dims.offset_dims.size() + dims.collapsed_slice_dims.size() +
                   dims.operand_batching_dims.size(),
               into.rank(), "window dimensions (update, inserted and batching)");
    const std::int64_t index_dims =
        indices.rank() - (dims.index_vector_dim < indices.rank() ? 1 : 0);
    need_count(static_cast<std::size_t>(updates.rank()) - dims.offset_dims.size(), index_dims,
               "dimensions of the updates that the indices have");
    shapes.push_back(array_shape(into.type, into.dimensions));
  }
  return one_or_tuple(shapes);
}

}  // namespace inference_detail

}  // namespace tpu::hlo
