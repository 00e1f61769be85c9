#include "workloads/compiler/kernels/contraction/dot_tiling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

constexpr double kTurnCycles = 290;  ///< From the first push of a transposition to its first pop.
constexpr double kTurnedBesideCycles = 8.5;  ///< Of a push to the unit beside a step.
constexpr std::uint32_t kMostFinished = 16;  ///< Tiles that a step finishes.
constexpr std::uint32_t kFewestLots = 4, kMostLots = 16;
/// Pushes to an array of a step that multiplies in parts.
constexpr std::uint32_t kMostPushesInParts = 96;

std::vector<std::uint32_t> divisors(std::uint32_t value) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t d = 1; d <= value; ++d) {
    if (value % d == 0) found.push_back(d);
  }
  return found;
}

/// Block sizes that cut `tiles` into 1, 2, 3, ... nearly equal parts, in multiples of `unit`; the
/// last one is a unit.
std::vector<std::uint32_t> block_sizes(std::uint32_t tiles, std::uint32_t unit) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t parts = 1; parts <= tiles; parts = parts < 16 ? parts + 1 : parts * 5 / 4) {
    const std::uint32_t size = ceil_divide(ceil_divide(tiles, parts), unit) * unit;
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  }
  if (sizes.back() != unit) sizes.push_back(unit);
  return sizes;
}

MatmulUnits units_of(const DotTiling& tiling, const Target& target) {
  MatmulUnits units(target, tiling.columns_at_once, tiling.k_parts);
  units.groups_take_matrices = tiling.arrays_take_matrices;
  return units;
}

/// Of a lot.
std::uint32_t pushes_of(const DotTiling& tiling, const MatmulUnits& units) {
  return units.groups_take_matrices ? tiling.chunk_m : tiling.chunk_m / units.groups();
}

class Search {
 public:
  /// `whole`: only cuts that have_whole_arrays().
  Search(const DotProblem& problem, const Target& target, bool may_overlap, bool whole = false)
      : problem_(problem),
        target_(target),
        pairs_(static_cast<std::uint32_t>(PartPairs(problem.parts).size())),
        may_overlap_(may_overlap),
        whole_(whole) {}

  /// `cycles` is 0 where no cut fits VMEM.
  DotTiling run() {
    for (const std::uint32_t columns : column_choices(target_)) {
      for (std::uint32_t block_n : column_blocks(columns)) {
        for (std::uint32_t block_k : depth_blocks()) {
          for (std::uint32_t parts = target_.row_parts(); parts > 0; --parts) {
            if (block_k % parts == 0) try_rows(columns, block_n, block_k, parts);
          }
        }
      }
    }
    return best_;
  }

 private:
  bool is_in_parts() const { return pairs_ > 1; }

  /// A step may be lots of columns, or of tiles along k: it takes less than the latency of the
  /// MXUs.
  bool has_short_steps() const {
    if (is_in_parts()) return false;
    const std::uint32_t pushes = std::max(ceil_divide(problem_.m, 8U), weight_pushes(problem_));
    return kFewestLots * pushes * target_.push_interval_cycles <= target_.matmul_latency_cycles;
  }

  /// Blocks of columns, in multiples of those that a step has.
  std::vector<std::uint32_t> column_blocks(std::uint32_t columns) const {
    const std::uint32_t tiles = ceil_divide(problem_.n, 128);
    std::vector<std::uint32_t> sizes = block_sizes(tiles, columns);
    if (!has_short_steps()) return sizes;
    for (std::uint32_t lots = kFewestLots; lots <= kMostLots && lots * columns < 2 * tiles;
         lots *= 2) {
      const std::vector<std::uint32_t> more = block_sizes(tiles, lots * columns);
      sizes.insert(sizes.end(), more.begin(), more.end());
    }
    return sizes;
  }

  /// Blocks along k: all are whole, but for sides of which lots of a step have the last tiles.
  std::vector<std::uint32_t> depth_blocks() const {
    const std::uint32_t tiles = ceil_divide(problem_.k, 128);
    std::vector<std::uint32_t> sizes = divisors(tiles);
    const bool is_plain = problem_.outer_k.empty() && problem_.matrix_k == 0 &&
                          problem_.lhs_lanes.is_one() && problem_.rhs_lanes.is_one() &&
                          problem_.lhs_rows.is_one() && problem_.rhs_rows.is_one();
    if (!has_short_steps() || !is_plain || whole_) return sizes;
    for (std::uint32_t lots = kFewestLots; lots <= kMostLots && lots < 2 * tiles; lots *= 2) {
      for (const std::uint32_t size : block_sizes(tiles, lots)) {
        if (!contains(sizes, size)) sizes.push_back(size);
      }
    }
    return sizes;
  }

  void try_rows(std::uint32_t columns, std::uint32_t block_n, std::uint32_t block_k,
                std::uint32_t k_parts) {
    const std::uint32_t row_tiles = ceil_divide(problem_.m, 8);
    const std::uint32_t groups = MatmulUnits(target_, columns, k_parts).groups();
    for (std::uint32_t chunk :
         {192U, 128U, 96U, 64U, 48U, 32U, 28U, 24U, 20U, 16U, 12U, 8U, 4U, 2U, 1U}) {
      if (chunk > 32 * std::max(groups, 2U)) continue;
      if (chunk % groups != 0 || chunk / groups > 48) continue;
      if (is_in_parts() && chunk / groups * pairs_ > kMostPushesInParts) continue;
      const std::uint32_t lanes = problem_.lane_row_tiles;
      const bool whole_tiles =
          (problem_.lhs_transposed || problem_.result_turned) && row_tiles > lanes;
      const std::uint32_t least = whole_tiles ? std::lcm(lanes, groups) : 16;
      if (whole_tiles && chunk % lanes != 0) continue;
      if (chunk >= 2 * row_tiles && chunk > 2 * groups && chunk > least) continue;
      const std::uint32_t unit =
          problem_.row_period == 0 ? chunk : std::lcm(chunk, problem_.row_period);
      for (std::uint32_t block_m : block_sizes(row_tiles, unit)) {
        // Rows in the lanes of one tile are fetched, or written, together.
        const bool in_lanes = problem_.lhs_transposed || problem_.result_turned;
        if (in_lanes && block_m < std::min(row_tiles, lanes)) continue;
        DotTiling tiling;
        tiling.block_m = block_m;
        tiling.block_n = block_n;
        tiling.block_k = block_k;
        tiling.chunk_m = chunk;
        tiling.columns_at_once = columns;
        tiling.k_parts = k_parts;
        if (cuts_matrices(tiling)) continue;
        consider_outer(tiling);
        if (!has_short_steps()) continue;
        for (const LotsOf direction : {LotsOf::kColumns, LotsOf::kContracted}) {
          DotTiling cut = tiling;
          cut.lots_of = direction;
          const bool is_columns = direction == LotsOf::kColumns;
          cut.lots = lots(tiling, is_columns ? tiling.column_steps() : tiling.depth_steps());
          if (cut.lots > 1) consider_outer(cut);
        }
      }
    }
  }

  void consider_outer(DotTiling tiling) {
    consider(tiling);
    tiling.columns_outermost = true;
    consider(tiling);
    consider_outer_inside(tiling);
    tiling.columns_outermost = false;
    // Rows that stand in the lanes of an array go in columns of 128.
    const bool in_lanes = problem_.lhs_transposed || problem_.result_turned;
    const bool whole =
        tiling.block_m >= ceil_divide(problem_.m, 8) &&
        (!in_lanes || ceil_divide(tiling.block_m, 16) == ceil_divide(problem_.m, 128)) &&
        tiling.block_n == ceil_divide(problem_.n, 128) &&
        tiling.block_k == ceil_divide(problem_.k, 128);
    const bool is_gathered = !problem_.lhs_lanes.is_one() || !problem_.rhs_lanes.is_one() ||
                             !problem_.lhs_rows.is_one() || !problem_.rhs_rows.is_one() ||
                             !problem_.out_rows.is_one();
    if (!whole || problem_.outer.empty() || is_gathered || tiling.lots > 1) return;
    for (std::uint32_t block : divisors(problem_.outer.back().extent)) {
      if (block == 1 || block > 64) continue;
      tiling.block_outer = block;
      for (const bool apart : {false, true}) {
        tiling.arrays_take_matrices = apart;
        const MatmulUnits units = units_of(tiling, target_);
        if (apart && (units.groups() == 1 || block % units.groups() != 0)) continue;
        tiling.lots = lots(tiling, block / units.matrices_at_once());
        consider(tiling);
      }
    }
  }

  /// As many of `all` lots as take the latency of the MXUs together.
  std::uint32_t lots(const DotTiling& tiling, std::uint32_t all) const {
    if (is_in_parts()) return 1;
    constexpr std::uint32_t kMostPushes = 48;
    const MatmulUnits units = units_of(tiling, target_);
    const std::uint32_t pushes = pushes_of(tiling, units);
    const double lot = step_bundles(target_, units, pushes, weight_pushes(problem_));
    std::uint32_t most = 1;
    for (std::uint32_t lots : divisors(all)) {
      if (lots > kMostLots || lots * pushes > kMostPushes) break;
      most = lots;
      if (lots * lot >= target_.matmul_latency_cycles) break;
    }
    return most;
  }

  void consider_outer_inside(DotTiling tiling) {
    const auto none_has = [this](std::uint32_t OuterDimension::*stride) {
      return !problem_.outer.empty() &&
             std::all_of(problem_.outer.begin(), problem_.outer.end(),
                         [stride](const OuterDimension& outer) { return outer.*stride == 0; });
    };
    tiling.outer_inside = true;
    for (const bool columns : {false, true}) {
      tiling.columns_outermost = columns;
      if (none_has(columns ? &OuterDimension::rhs : &OuterDimension::lhs)) consider(tiling);
    }
  }

  /// Lanes of several matrices are fetched as whole ones.
  bool cuts_matrices(const DotTiling& tiling) const {
    const auto cuts = [](const SpacedMatrices& matrices, std::uint32_t all, std::uint32_t block) {
      return !matrices.is_one() && (all % block != 0 || block % matrices.tiles != 0);
    };
    const std::uint32_t m = ceil_divide(problem_.m, 8), n = ceil_divide(problem_.n, 8);
    const auto cuts_rows = [&](const SpacedMatrices& matrices, bool are_of_n) {
      return are_of_n ? cuts(matrices, n, 16 * tiling.block_n) : cuts(matrices, m, tiling.block_m);
    };
    if (cuts_rows(problem_.out_rows, problem_.result_turned) ||
        (!problem_.lhs_transposed && cuts_rows(problem_.lhs_rows, false)) ||
        (problem_.rhs_transposed && cuts_rows(problem_.rhs_rows, true))) {
      return true;
    }
    const std::uint32_t lanes = problem_.lane_row_tiles, k = ceil_divide(problem_.k, 128);
    const std::uint32_t rows = ceil_divide(ceil_divide(problem_.m, 8), lanes);
    return cuts(problem_.rhs_lanes, k, tiling.block_k) ||
           (problem_.lhs_transposed ? cuts(problem_.lhs_lanes, rows, tiling.block_m / lanes)
                                    : cuts(problem_.lhs_lanes, k, tiling.block_k));
  }

  void consider(DotTiling tiling) {
    consider_finished(tiling);
    if (may_overlap_) tiling.finished_tiles = tiles_to_finish(problem_, tiling);
    tiling.lots = 1;
    if (tiling.finished_tiles > 0) consider_finished(tiling);
  }

  void consider_finished(DotTiling tiling) {
    DotSizes sizes(problem_, tiling, target_);
    if (whole_ && !sizes.has_whole_arrays()) return;
    if (sizes.plan.vmem_rows() * isa::kVmemRowBytes > target_.vmem_bytes) return;
    if (may_overlap_ && tiling.finished_tiles == 0 && sizes.may_turn_beside()) {
      sizes.turn_beside(target_);
      tiling = sizes.tiling;
    }
    tiling.cycles = sizes.plan.cycles(target_);
    if (best_.cycles == 0 || tiling.cycles < best_.cycles) best_ = tiling;
  }

  const DotProblem& problem_;
  const Target& target_;
  std::uint32_t pairs_;  ///< Of parts of both sides.
  bool may_overlap_, whole_;
  DotTiling best_;
};

}  // namespace

bool makes_sides(const DotProblem& problem) {
  const auto makes = [](const MadeSide& made, hlo::ElementType type, const SpacedMatrices& lanes) {
    return !made.is_made ||
           (!made.depends_on_rows && lanes.is_one() &&
            std::all_of(made.beside.begin(), made.beside.end(),
                        [type](hlo::ElementType beside) { return beside == type; }));
  };
  return makes(problem.made[0], problem.lhs_type, problem.lhs_lanes) &&
         makes(problem.made[1], problem.rhs_type, problem.rhs_lanes);
}

std::uint32_t weight_pushes(const DotProblem& problem) {
  return std::min(kWeightPushes, ceil_divide(problem.rhs_transposed ? problem.n : problem.k, 8));
}

bool has_several_matrices(const DotProblem& problem, std::uint32_t OuterDimension::*stride) {
  return !problem.outer.empty() && problem.outer.back().*stride != 0;
}

std::uint32_t matrices_of(const DotProblem& problem, const DotTiling& tiling,
                          std::uint32_t OuterDimension::*stride) {
  return has_several_matrices(problem, stride) ? tiling.block_outer : 1;
}

std::uint32_t Turn::at_once() const {
  std::uint32_t most = 1;
  for (std::uint32_t count : divisors(matrices)) {
    if (count * pops <= 16) most = count;
  }
  return most;
}

std::uint32_t turns_of_blocks(const DotProblem& problem, std::uint32_t blocks) {
  return blocks % 2 == 0 && problem.parts[0] == 1 ? blocks / 2 : blocks;
}

Turn turn_of_rows(const DotProblem& problem, const DotTiling& tiling) {
  const std::uint32_t lanes = problem.lane_row_tiles;
  return {tiling.block_k * turns_of_blocks(problem, ceil_divide(tiling.block_m, lanes)),
          std::min(16U, ceil_divide(problem.k, 8)), std::min(lanes, ceil_divide(problem.m, 8)),
          matrices_of(problem, tiling, &OuterDimension::lhs)};
}

std::uint32_t turned_by_step(const DotProblem& problem, const DotTiling& tiling) {
  return ceil_divide(tiling.chunk_m, problem.lane_row_tiles);
}

Turn turn_of_result(const DotProblem& problem, const DotTiling& tiling) {
  return {tiling.block_n * ceil_divide(tiling.block_m, 16),
          std::min(16U, ceil_divide(problem.m, 8)), std::min(16U, ceil_divide(problem.n, 8)),
          tiling.block_outer};
}

std::uint32_t steps_of_columns(const DotTiling& tiling) {
  return tiling.depth_steps() * (tiling.block_m / tiling.chunk_m);
}

std::uint32_t runs_behind(const DotTiling& tiling) {
  const std::uint32_t runs =
      ceil_divide(tiling.block_m * tiling.columns_at_once, tiling.finished_tiles);
  return runs < steps_of_columns(tiling) ? 0 : 1;
}

std::uint32_t tiles_to_finish(const DotProblem& problem, const DotTiling& tiling) {
  const bool has_packed =
      std::count(problem.result_types.begin(), problem.result_types.end(), ElementType::kBf16) > 0;
  const bool is_whole_k = tiling.block_k == ceil_divide(problem.k, 128) && problem.outer_k.empty();
  const std::uint32_t columns = tiling.columns_at_once;
  if (tiling.arrays_take_matrices) return 0;
  if (!(problem.has_epilogue || has_packed) || problem.result_turned || problem.row_period != 0 ||
      !is_whole_k || tiling.block_outer * tiling.block_n < 2 * columns) {
    return 0;
  }
  const std::uint32_t steps = steps_of_columns(tiling);
  for (std::uint32_t tiles = 1; tiles <= kMostFinished; ++tiles) {
    if (tiling.block_m % tiles == 0 && tiles * steps >= tiling.block_m * columns) return tiles;
  }
  return 0;
}

namespace {

/// A block whose columns are those of several matrices.
void take_lanes(BlockShape& side, const SpacedMatrices& lanes) {
  if (lanes.is_one()) return;
  side.matrices = side.block_columns / lanes.tiles;
  side.matrix_stride = lanes.distance;
  side.columns = side.block_columns = lanes.tiles;
  side.abreast = true;
}

/// A block whose rows are those of several matrices.
void take_rows(BlockShape& side, const SpacedMatrices& rows) {
  if (rows.is_one()) return;
  side.matrices = side.block_rows / rows.tiles;
  side.matrix_stride = rows.distance;
  side.rows = side.block_rows = rows.tiles;
}

double turn_cycles(const Turn& turn, const Target& target) {
  const std::uint32_t at_once = turn.at_once();
  const double block = 10.0 * std::max(turn.pushes, turn.pops);
  const double step = std::max(at_once * block, double(target.xlu_latency_cycles));
  return kTurnCycles + step * turn.blocks * turn.matrices / at_once;
}

}  // namespace

DotSizes::DotSizes(const DotProblem& of, const DotTiling& cut, const Target& target)
    : problem(&of),
      tiling(cut),
      m_tiles(tiles_of(of.m, 8)),
      n_tiles(tiles_of(of.n, 128)),
      k_tiles(tiles_of(of.k, 128)),
      plan(units_of(cut, target)) {
  plan.grid.resize(static_cast<std::size_t>(k_dimension()) + 1);
  const auto extent = [this](int dimension) -> std::uint32_t& {
    return plan.grid[static_cast<std::size_t>(dimension)];
  };
  for (std::size_t i = 0; i < of.outer.size(); ++i) {
    extent(outer_dimension(i)) =
        of.outer[i].extent / (i + 1 == of.outer.size() ? cut.block_outer : 1);
  }
  extent(m_dimension()) = tiles_of(m_tiles, cut.block_m);
  extent(n_dimension()) = tiles_of(n_tiles, cut.block_n);
  for (std::size_t i = 0; i < of.outer_k.size(); ++i) {
    extent(first_k_dimension() + static_cast<int>(i)) = of.outer_k[i].extent;
  }
  extent(k_dimension()) = tiles_of(k_tiles, cut.block_k);
  set_sides();
  set_results();
  set_steps();
  set_turns(target);
}

void DotSizes::set_sides() {
  using Outer = OuterDimension;
  const DotProblem& of = *problem;
  const std::uint32_t k_rows = tiles_of(of.k, 8), block_k_rows = 16 * tiling.block_k;
  left = of.lhs_transposed
             ? block_shape(&Outer::lhs, of.lhs_type, of.k, {k_rows, block_k_rows},
                           {tiles_of(of.m, 128), tiles_of(tiling.block_m, of.lane_row_tiles)})
             : block_shape(&Outer::lhs, of.lhs_type, of.m, {m_tiles, tiling.block_m},
                           {k_tiles, tiling.block_k});
  right = of.rhs_transposed
              ? block_shape(&Outer::rhs, of.rhs_type, of.n,
                            {tiles_of(of.n, 8), 16 * tiling.block_n}, {k_tiles, tiling.block_k})
              : block_shape(&Outer::rhs, of.rhs_type, of.k, {k_rows, block_k_rows},
                            {n_tiles, tiling.block_n});
  take_lanes(left, of.lhs_lanes);
  take_lanes(right, of.rhs_lanes);
  take_rows(left, of.lhs_rows);
  take_rows(right, of.rhs_rows);
  GridDimensions contracted;
  for (int d = first_k_dimension(); d <= k_dimension(); ++d) contracted.add(d);
  const auto set = [&](ContractionPlan::Blocks& blocks, const BlockShape& shape,
                       std::uint32_t Outer::*stride, int dimension) {
    blocks.dimensions = dimensions(stride, contracted);
    blocks.dimensions.add(dimension);
    blocks.rows = shape.vmem_rows();
    blocks.bytes = shape.mean_bytes();
  };
  set(plan.lhs, left, &Outer::lhs, m_dimension());
  set(plan.rhs, right, &Outer::rhs, n_dimension());
  plan.make_side(plan.lhs, of.made[0], of.lhs_type);
  plan.make_side(plan.rhs, of.made[1], of.rhs_type);
  if (!of.lhs_transposed) return;
  // The last block that is turned may hold more rows than there are.
  const std::uint64_t row_tiles =
      std::uint64_t{matrices_of(of, tiling, &Outer::lhs)} * tiling.block_m;
  transposed_rows = 8 * tiling.block_k * round_up(row_tiles, of.lane_row_tiles);
  plan.rows_apart += transposed_rows;
}

/// Blocks of an array of the result's extent, and sums that are not the result yet.
void DotSizes::set_results() {
  const DotProblem& of = *problem;
  const bool turned = of.result_turned;
  const bool is_short = tiling.block_n == 1 && of.row_period == 0 && of.n <= 128;
  out_rows = {m_tiles, tiling.block_m};
  out_columns = {n_tiles, tiling.block_n};
  if (turned) {
    out_rows = {tiles_of(of.n, 8), is_short ? tiles_of(of.n, 8) : 16 * tiling.block_n};
    out_columns = {tiles_of(of.m, 128), tiles_of(tiling.block_m, 16)};
  }
  result_tiles = std::uint64_t{tiling.block_outer} * out_rows.block * out_columns.block;
  const std::uint64_t sum_tiles =
      std::uint64_t{tiling.block_outer} * tiling.block_m * tiling.block_n;
  const bool packed = is_packed(of.result_types[0]);
  sums_apart = packed || of.has_epilogue || turned;
  if (sums_apart) sum_rows = 8 * sum_tiles;
  if (turned && (packed || of.has_epilogue)) turned_rows = 8 * result_tiles;
  plan.rows_apart += sum_rows + turned_rows + of.resident_rows;
  for (std::size_t i = 1; i < of.result_types.size(); ++i) {
    if (has_unrounded(i)) plan.rows_apart += 8 * result_tiles;
  }
  const BlockShape first = result_shape(of.result_types[0]);
  double moved = double(m_tiles) * n_tiles * first.moved_of_tile() / first.tile_granules;
  for (const OuterDimension& outer : of.outer) moved *= outer.extent;
  plan.add_in_step(dimensions(&OuterDimension::out, {m_dimension(), n_dimension()}),
                   of.epilogue_types, of.result_types, result_tiles, moved);
  plan.finish.tiles = double(sum_tiles);
}

void DotSizes::set_steps() {
  const DotProblem& of = *problem;
  ContractionPlan::Steps& steps = plan.steps;
  steps.pushes = pushes_of(tiling, steps.units);
  steps.weight_pushes = weight_pushes(of);
  steps.set_lots(of.parts, tiling.lots);
  steps.unpacks_moving = is_packed(of.lhs_type) && !of.lhs_transposed;
  const auto matrices =
      tiling.block_outer / (tiling.lots_along(LotsOf::kMatrices) * steps.units.matrices_at_once());
  const auto chunks = tiling.block_m / tiling.chunk_m;
  steps.count = double(matrices) * tiling.column_steps() * tiling.depth_steps() * chunks;
  ContractionPlan::Finish& finish = plan.finish;
  plan.set_expression(of.has_epilogue, of.epilogue_cost);
  finish.beside = tiling.finished_tiles;
  if (tiling.finished_tiles == 0) return;
  finish.steps_before = steps_of_columns(tiling) + 1;
  finish.behind = double(tiling.block_m) * tiling.columns_at_once +
                  double(tiling.finished_tiles) * runs_behind(tiling);
}

bool DotSizes::may_turn_beside() const {
  const bool whole =
      tiling.chunk_m % problem->lane_row_tiles == 0 || tiling.chunk_m == tiling.block_m;
  return problem->lhs_transposed && whole && tiling.block_outer == 1 && tiling.k_parts == 1 &&
         tiling.lots == 1 && !has_padded_k() && steps_of_columns(tiling) >= 2 &&
         plan.changes(plan.lhs) == plan.tiles();
}

void DotSizes::turn_beside(const Target& target) {
  tiling.turns_beside = true;
  set_turns(target);
}

void DotSizes::set_turns(const Target& target) {
  const DotProblem& of = *problem;
  if (of.result_turned) {
    plan.results.cycles = turn_cycles(turn_of_result(of, tiling), target);
  }
  if (!of.lhs_transposed) return;
  Turn turn = turn_of_rows(of, tiling);
  if (!tiling.turns_beside) {
    plan.lhs.cycles = turn_cycles(turn, target);
    return;
  }
  // The first step's rows before it; a step that turns takes the longer of both works.
  turn.blocks = turns_of_blocks(of, turned_by_step(of, tiling));
  const double block = kTurnedBesideCycles * std::max(turn.pushes, turn.pops);
  const double step = plan.steps.lots * step_bundles(target, plan.steps.units, plan.steps.pushes,
                                                     plan.steps.weight_pushes);
  plan.lhs.cycles = turn_cycles(turn, target) +
                    steps_of_columns(tiling) * std::max(0.0, block * turn.blocks - step);
}

GridDimensions DotSizes::dimensions(std::uint32_t OuterDimension::*stride,
                                    GridDimensions inner) const {
  for (std::size_t i = 0; i < problem->outer.size(); ++i) {
    if (problem->outer[i].*stride != 0) inner.add(outer_dimension(i));
  }
  return inner;
}

BlockShape DotSizes::block_shape(std::uint32_t OuterDimension::*stride, ElementType type,
                                 std::uint32_t extent, Extent rows, Extent columns) const {
  BlockShape shape;
  shape.tile_granules = tile_granules(type);
  shape.rows = rows.tiles;
  const std::uint32_t with_rows = tiles_of(extent * shape.tile_granules, isa::kSublanes);
  if (with_rows < shape.tile_granules) shape.granules_with_rows = with_rows;
  shape.columns = columns.tiles;
  shape.block_rows = rows.block;
  shape.block_columns = columns.block;
  shape.matrices = matrices_of(*problem, tiling, stride);
  if (!problem->outer.empty()) shape.matrix_stride = problem->outer.back().*stride;
  return shape;
}

BlockShape DotSizes::result_shape(ElementType type) const {
  const std::uint32_t extent = problem->result_turned ? problem->n : problem->m;
  BlockShape shape = block_shape(&OuterDimension::out, type, extent, out_rows, out_columns);
  take_rows(shape, problem->out_rows);
  shape.matrix_stride =
      shape.matrix_stride / tile_granules(problem->result_types[0]) * tile_granules(type);
  return shape;
}

std::uint32_t DotSizes::last_block_k() const {
  const std::uint32_t blocks = tiles_of(k_tiles, tiling.block_k);
  return problem->k - (blocks - 1) * tiling.block_k * 128;
}

bool DotSizes::has_whole_arrays() const {
  const auto is_whole = [](const BlockShape& shape) {
    const bool is_one = shape.matrices == 1 || (shape.block_rows == shape.rows &&
                                                shape.matrix_stride == shape.matrix_granules());
    return is_one && shape.block_columns == shape.columns && !shape.abreast;
  };
  return plan.tiles() == 1 && is_whole(left) && is_whole(right) &&
         is_whole(result_shape(problem->result_types[0]));
}

OrRefusal<DotTiling> find_dot_tiling(const DotProblem& problem, const Target& target,
                                     bool may_overlap) {
  const DotTiling found = Search(problem, target, may_overlap).run();
  if (found.cycles == 0) {
    return Refusal{"dot " + problem.name + ": no cut of " + std::to_string(problem.m) + "x" +
                   std::to_string(problem.k) + "x" + std::to_string(problem.n) +
                   " fits the VMEM of " + std::to_string(target.vmem_bytes) + " bytes"};
  }
  return found;
}

std::optional<DotTiling> find_whole_dot_tiling(DotProblem& problem, const Target& target) {
  const std::optional<DotProblem> exchanged = with_sides_exchanged(problem);
  DotTiling best = Search(problem, target, false, true).run();
  if (exchanged) {
    const DotTiling other = Search(*exchanged, target, false, true).run();
    if (other.cycles != 0 && (best.cycles == 0 || other.cycles < best.cycles)) {
      best = other;
      problem = *exchanged;
    }
  }
  if (best.cycles == 0) return std::nullopt;
  return best;
}

OrRefusal<DotTiling> choose_sides(DotProblem& problem, const Target& target) {
  exchange_where_cheaper(problem);
  std::vector<DotProblem> forms{problem};
  const std::optional<DotProblem> exchanged = with_sides_exchanged(problem);
  if (exchanged && blocks_to_transpose(problem) > 0) forms.push_back(*exchanged);
  for (std::size_t i = 0, sides = forms.size(); i < sides; ++i) {
    DotProblem joined = forms[i];
    take_rows_in_lanes(joined);
    take_k_in_lanes(joined);
    const bool is_joined = joined.m != forms[i].m || joined.k != forms[i].k;
    if (is_joined && makes_sides(joined)) forms.push_back(std::move(joined));
  }
  DotTiling best;
  for (DotProblem& form : forms) {
    const DotTiling found = Search(form, target, true).run();
    if (found.cycles == 0 || (best.cycles != 0 && best.cycles <= found.cycles)) continue;
    best = found;
    problem = std::move(form);
  }
  if (best.cycles == 0) return find_dot_tiling(problem, target);
  return best;
}

}  // namespace tpu::compiler
