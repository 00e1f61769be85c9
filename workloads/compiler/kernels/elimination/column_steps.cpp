#include "workloads/compiler/kernels/elimination/column_steps.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"

namespace tpu::compiler {

using isa::Opcode;

ColumnShapes::ColumnShapes(const std::vector<std::int64_t>& extents)
    : rows(extents.end()[-2]),
      columns(extents.back()),
      count(std::accumulate(extents.begin(), extents.end() - 2, std::int64_t{1},
                            std::multiplies<>())),
      tiles(ceil_divide(rows, kMatrixTileRows)) {
  constexpr std::int64_t kMostTiles = 32;  // Unrolled.
  together = std::min(count, std::max<std::int64_t>(1, kMostTiles / tiles));
}

double ColumnShapes::cycles(double of_step, double of_tile, const Target& target) const {
  const auto groups = static_cast<double>(ceil_divide(count, together));
  const auto all = static_cast<double>(steps());
  const double present = static_cast<double>(tiles) - all / kMatrixTileRows / 2 + 0.5;
  const double step =
      of_step + target.xlu_latency_cycles + static_cast<double>(together) * present * of_tile;
  return kKernelCycles + groups * all * step;
}

bool are_column_matrices(const hlo::Shape& given, const hlo::Shape& made, std::int64_t most_rows,
                         std::int64_t more) {
  if (!are_matrices_in_rows(given) || !are_matrices_in_rows(made)) return false;
  std::vector<std::int64_t> expected = given.dimensions;
  expected.back() += more;
  return made.dimensions == expected && expected.back() <= isa::kLanes &&
         expected.end()[-2] <= most_rows;
}

ColumnSteps::ColumnSteps(const std::string& name, const std::vector<std::int64_t>& given,
                         const Target& target)
    : builder_(name, target),
      shapes_(given),
      groups_(builder_, {shapes_.count, shapes_.together, shapes_.tiles, shapes_.tiles}) {}

void ColumnSteps::run(
    const std::function<VReg(std::int64_t tile, VReg given)>& prepare,
    const std::function<void(const Step& step, std::int64_t matrix, const Column& column)>& work) {
  groups_.run([&](Index buffer) {
    find_places();
    for (std::int64_t m = 0; m < shapes_.together; ++m) {
      for (std::int64_t t = 0; t < shapes_.tiles; ++t) {
        const VmemAddress place = groups_.row(m, t * kMatrixTileRows, buffer);
        builder_.store(place, prepare(t, builder_.load(place)));
      }
    }
    for (std::int64_t first = 0; first < shapes_.steps(); first += kMatrixTileRows) {
      const std::int64_t steps = std::min(kMatrixTileRows, shapes_.steps() - first);
      builder_.loop(static_cast<std::uint64_t>(steps), [&](SReg sublane) {
        const Step step = begin(first / kMatrixTileRows, sublane, buffer);
        std::vector<Column> columns{column_of(step, 0)};
        for (std::int64_t m = 0; m < shapes_.together; ++m) {
          if (m + 1 < shapes_.together) columns.push_back(column_of(step, m + 1));
          work(step, m, columns[static_cast<std::size_t>(m)]);
        }
      });
    }
  });
}

void ColumnSteps::find_places() {
  const VReg places = builder_.lane_sequence();
  lane_ = builder_.and_(places, 127);
  sublane_ = builder_.shift_right(places, 7);
  sublane_number_ = builder_.vector(Opcode::kVcvtS32F32, sublane_);
}

MReg ColumnSteps::is_lane(std::int64_t lane) {
  return builder_.vector_compare(Opcode::kVcmpEqS32, lane_, static_cast<std::uint32_t>(lane));
}

VReg ColumnSteps::row_numbers(std::int64_t tile) {
  return builder_.add(sublane_number_, static_cast<float>(tile * kMatrixTileRows));
}

VmemAddress ColumnSteps::place(const Step& step, std::int64_t matrix, std::int64_t tile) const {
  return groups_.row(matrix, tile * kMatrixTileRows, step.buffer);
}

ColumnSteps::Step ColumnSteps::begin(std::int64_t tile, SReg sublane, Index buffer) {
  find_places();
  Step step;
  step.tile = tile;
  step.sublane = sublane;
  step.buffer = buffer;
  const VReg number = builder_.splat(builder_.add(sublane, tile * kMatrixTileRows));
  step.number = builder_.vector(Opcode::kVcvtS32F32, number);
  const VReg row = builder_.splat(sublane);
  step.is_row = builder_.vector_compare(Opcode::kVcmpEqS32, sublane_, row);
  step.is_below = builder_.vector_compare(Opcode::kVcmpGtS32, sublane_, row);
  step.is_column = builder_.vector_compare(Opcode::kVcmpEqS32, lane_, number);
  step.is_behind =
      builder_.mask(Opcode::kVmand, builder_.vector_compare(Opcode::kVcmpGtS32, lane_, number),
                    builder_.vector_compare(Opcode::kVcmpLtS32, lane_,
                                            static_cast<std::uint32_t>(shapes_.columns)));
  builder_.set_lane_pattern(number);
  return step;
}

ColumnSteps::Column ColumnSteps::column_of(const Step& step, std::int64_t matrix) {
  Column column;
  const Index row = add(builder_, step.buffer, {step.sublane, 0});
  column.row = builder_.load(groups_.row(matrix, step.tile * kMatrixTileRows, row).stride(0));
  column.diagonal = builder_.permute_lanes(column.row);
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    column.elements.push_back(builder_.permute_lanes(builder_.load(place(step, matrix, t))));
  }
  return column;
}

}  // namespace tpu::compiler
