#include "workloads/compiler/kernels/dot_tiling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/matmul_memory.h"
#include "workloads/compiler/kernels/matmul_stream.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

// What the schedules of kernels take beside the counted pushes, in cycles.
constexpr double kTileCycles = 400;   ///< Of a tile of the grid: its DMAs, the MXU's first results.
constexpr double kFetchCycles = 217;  ///< Between the DMAs of two tiles.
constexpr double kTurnCycles = 290;   ///< From the first push of a transposition to its first pop.
constexpr double kExpressionCycles = 2;  ///< Behind a tile of the result, and for
constexpr int kVectorSlots = 2;          ///< so many instructions.
constexpr double kArrayCycles = 0.25;    ///< More for each further array.
constexpr double kHoles = 1.06;          ///< Times the bundles of a step that finishes tiles, too.
constexpr std::uint32_t kMostFinished = 16;  ///< Tiles that a step finishes.

/// Estimates of one cut, by the same counts as the kernel that is made of it.
class Estimate {
 public:
  Estimate(const DotProblem& problem, const DotTiling& tiling, const Target& target)
      : problem_(problem), tiling_(tiling), target_(target) {
    m_tiles_ = ceil_divide(problem.m, 8);
    n_tiles_ = ceil_divide(problem.n, 128);
    k_tiles_ = ceil_divide(problem.k, 128);
    grid_m_ = ceil_divide(m_tiles_, tiling.block_m);
    grid_n_ = ceil_divide(n_tiles_, tiling.block_n);
    grid_k_ = ceil_divide(k_tiles_, tiling.block_k);
    for (const OuterDimension& outer : problem.outer_k) grid_k_ *= outer.extent;
    for (const OuterDimension& outer : problem.outer) {
      outer_ *= outer.extent;
      rhs_outer_ |= outer.rhs != 0;
    }
    if (!problem.outer.empty()) {
      const std::uint32_t inner = problem.outer.back().extent;
      outer_ = outer_ / inner * ceil_divide(inner, tiling.block_outer);
    }
  }

  double cycles() const {
    const double tiles = double(outer_) * grid_m_ * grid_n_ * grid_k_;
    const double work = tile_work();
    const double traffic = total_bytes() / target_.hbm_bytes_per_cycle;
    const double first = (x_bytes() + w_bytes() + epilogue_bytes()) / target_.hbm_bytes_per_cycle;
    const double last = out_bytes() / target_.hbm_bytes_per_cycle;
    const double latency = 2.0 * target_.dma_latency_cycles;
    if (tiles == 1) return latency + first + last + work;
    // Between the first tile's blocks and the last one's work, either bounds a tile.
    const double fetch = std::max(0.0, traffic - first - last) / (tiles - 1);
    return latency + first + last + work +
           (tiles - 1) * std::max(work, fetch > 0 ? fetch + kFetchCycles : 0.0);
  }

 private:
  double block_bytes(double tiles, ElementType type) const {
    return tiles * tile_rows(type) * 512.0;
  }
  // Tiles of a block that there are, on average over the blocks.
  double rows() const { return double(m_tiles_) / grid_m_; }
  double columns() const { return double(n_tiles_) / grid_n_; }
  /// Of 128; along sublanes, the last one may be cut.
  double contracted(bool along_sublanes) const {
    return (along_sublanes ? ceil_divide(problem_.k, 8) / 16.0 : k_tiles_) / grid_k_;
  }
  double x_bytes() const {
    return block_bytes(tiling_.block_outer * rows() * contracted(problem_.lhs_transposed),
                       problem_.lhs_type);
  }
  double w_bytes() const {
    return block_bytes(16.0 * (rhs_outer_ ? tiling_.block_outer : 1) * columns() *
                           contracted(!problem_.rhs_transposed),
                       problem_.rhs_type);
  }
  double out_bytes() const { return result_bytes(problem_.result_types); }
  double epilogue_bytes() const { return result_bytes(problem_.epilogue_types); }
  /// A block of each array in step with the result.
  double result_bytes(const std::vector<ElementType>& types) const {
    double bytes = 0;
    for (ElementType type : types) {
      bytes += block_bytes(tiling_.block_outer * rows() * columns(), type);
    }
    return bytes;
  }
  double total_bytes() const {
    const double outer = outer_;
    const bool n_outside = tiling_.columns_outermost;
    double x = x_bytes(), w = w_bytes();
    if (tiling_.outer_inside) {
      double& staying = n_outside ? w : x;
      double& passing = n_outside ? x : w;
      const double stays = n_outside ? grid_n_ : grid_m_, passes = n_outside ? grid_m_ : grid_n_;
      staying *= stays * grid_k_ * (grid_k_ == 1 ? 1 : outer * passes);
      passing *= outer * stays * passes * grid_k_;
      return x + w + (out_bytes() + epilogue_bytes()) * outer * grid_m_ * grid_n_;
    }
    // How often each block is fetched, given which dimensions stand inside of its own.
    const bool x_stays = grid_k_ == 1 && !n_outside;
    x *= outer * grid_m_ * grid_k_ * (x_stays ? 1 : grid_n_);
    const bool w_stays = grid_k_ == 1 && (n_outside || grid_n_ == 1);
    w *= (rhs_outer_ || !(w_stays && grid_n_ == 1) ? outer : 1) * grid_n_ * grid_k_ *
         (w_stays ? 1 : grid_m_);
    return x + w + (out_bytes() + epilogue_bytes()) * outer * grid_m_ * grid_n_;
  }
  /// Of a tile of complete sums that becomes results, alone.
  double finish_cycles() const {
    double cycles = 0;
    for (ElementType type : problem_.result_types) {
      if (type == ElementType::kBf16) cycles += 1.2;
    }
    if (problem_.has_epilogue) {
      const double more = double(problem_.epilogue_types.size() + problem_.result_types.size()) - 1;
      const double expression = problem_.epilogue_instructions / double(kVectorSlots);
      cycles += kExpressionCycles + kArrayCycles * more + expression;
    }
    return cycles;
  }
  /// Bundles of a step that also finishes some tiles: by loads, and by the vector unit.
  double shared_step(const MatmulUnits& units, std::uint32_t pushes, double tiles) const {
    const double results = double(units.count()) * pushes;
    double tile_loads = 1 + double(problem_.epilogue_types.size());
    double tile_work = double(problem_.epilogue_instructions);
    for (ElementType type : problem_.result_types) {
      if (type != ElementType::kBf16) continue;
      tile_loads += 2;
      tile_work += 1;
    }
    for (ElementType type : problem_.epilogue_types)
      tile_work += type == ElementType::kBf16 ? 2 : 0;
    const double operands = double(units.row_parts) * pushes * units.groups() +
                            double(units.columns_at_once) * 16 * units.row_parts;
    const double unpacked = problem_.lhs_type == ElementType::kBf16 && !problem_.lhs_transposed
                                ? 2.0 * pushes * units.groups()
                                : 0;
    return std::max(operands + results + tiles * tile_loads,
                    (results + unpacked + tiles * tile_work) / kVectorSlots) +
           10.0;
  }
  double turn_cycles(const Turn& turn) const {
    const std::uint32_t at_once = turn.at_once(tiling_.block_outer);
    const double block = 10.0 * std::max(turn.pushes, turn.pops);
    const double step = std::max(at_once * block, double(target_.xlu_latency_cycles));
    return kTurnCycles + step * turn.blocks * tiling_.block_outer / at_once;
  }
  double tile_work() const {
    const MatmulUnits units(target_, tiling_.columns_at_once, tiling_.k_parts);
    const std::uint32_t pushes = tiling_.chunk_m / units.groups();
    // What a step pushes last is popped in the next one.
    const double step =
        std::max(tiling_.lots * step_bundles(target_, units, pushes, weight_pushes(problem_)),
                 double(target_.matmul_latency_cycles)) +
        10.0;
    const double steps = double(tiling_.block_outer / tiling_.lots) *
                         (tiling_.block_n / tiling_.columns_at_once) *
                         (tiling_.block_k / tiling_.k_parts) * (tiling_.block_m / tiling_.chunk_m);
    double work = steps * step + kTileCycles;
    const double out_tiles = double(tiling_.block_outer) * tiling_.block_m * tiling_.block_n;
    if (tiling_.finished_tiles > 0) {
      // The last columns' tiles stand behind the last step.
      const double finished = tiling_.finished_tiles;
      const bool is_one_step =
          tiling_.block_k == tiling_.k_parts && tiling_.block_m == tiling_.chunk_m;
      const double last = double(tiling_.block_m) * tiling_.columns_at_once * (is_one_step ? 2 : 1);
      work = steps * kHoles * std::max(step, shared_step(units, pushes, finished)) + kTileCycles +
             last * finish_cycles();
    } else {
      work += finish_cycles() * out_tiles / grid_k_;
    }
    if (problem_.result_turned) {
      work += turn_cycles(turn_of_result(problem_, tiling_)) / grid_k_;
    }
    if (problem_.lhs_transposed) {
      // Blocks that stay are transposed once.
      const bool stays = grid_k_ == 1 && !tiling_.columns_outermost;
      work += turn_cycles(turn_of_rows(problem_, tiling_)) /
              (stays ? grid_n_ * (tiling_.outer_inside ? double(outer_) : 1) : 1);
    }
    return work;
  }

  const DotProblem& problem_;
  const DotTiling& tiling_;
  const Target& target_;
  std::uint32_t m_tiles_, n_tiles_, k_tiles_, grid_m_, grid_n_, grid_k_;
  std::uint64_t outer_ = 1;
  bool rhs_outer_ = false;
};

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

class Search {
 public:
  Search(const DotProblem& problem, const Target& target, bool may_overlap)
      : problem_(problem), target_(target), may_overlap_(may_overlap) {}

  DotTiling run() {
    const std::uint32_t n_tiles = ceil_divide(problem_.n, 128);
    const std::uint32_t k_tiles = ceil_divide(problem_.k, 128);
    for (const std::uint32_t columns : column_choices(target_)) {
      for (std::uint32_t block_n : block_sizes(n_tiles, columns)) {
        for (std::uint32_t block_k : divisors(k_tiles)) {
          for (std::uint32_t parts = target_.row_parts(); parts > 0; --parts) {
            if (block_k % parts == 0) try_rows(columns, block_n, block_k, parts);
          }
        }
      }
    }
    if (best_.cycles == 0) {
      throw WorkloadError("dot " + problem_.name + ": no cut of " + std::to_string(problem_.m) +
                          "x" + std::to_string(problem_.k) + "x" + std::to_string(problem_.n) +
                          " fits the VMEM of " + std::to_string(target_.vmem_bytes) + " bytes");
    }
    return best_;
  }

 private:
  void try_rows(std::uint32_t columns, std::uint32_t block_n, std::uint32_t block_k,
                std::uint32_t k_parts) {
    const std::uint32_t row_tiles = ceil_divide(problem_.m, 8);
    const std::uint32_t groups = MatmulUnits(target_, columns, k_parts).groups();
    for (std::uint32_t chunk :
         {192U, 128U, 96U, 64U, 48U, 32U, 28U, 24U, 20U, 16U, 12U, 8U, 4U, 2U, 1U}) {
      if (chunk > 32 * std::max(groups, 2U)) continue;
      if (chunk % groups != 0 || chunk / groups > 48) continue;
      const bool whole_tiles =
          (problem_.lhs_transposed || problem_.result_turned) && row_tiles > 16;
      const std::uint32_t least = whole_tiles ? std::lcm(16U, groups) : 16;
      if (whole_tiles && chunk % 16 != 0) continue;
      if (chunk >= 2 * row_tiles && chunk > 2 * groups && chunk > least) continue;
      const std::uint32_t unit =
          problem_.row_period == 0 ? chunk : std::lcm(chunk, problem_.row_period);
      for (std::uint32_t block_m : block_sizes(row_tiles, unit)) {
        // Rows in the lanes of one tile are fetched, or written, together.
        const bool in_lanes = problem_.lhs_transposed || problem_.result_turned;
        if (in_lanes && block_m < std::min(row_tiles, 16U)) continue;
        DotTiling tiling;
        tiling.block_m = block_m;
        tiling.block_n = block_n;
        tiling.block_k = block_k;
        tiling.chunk_m = chunk;
        tiling.columns_at_once = columns;
        tiling.k_parts = k_parts;
        consider_outer(tiling);
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
    if (!whole || problem_.outer.empty()) return;
    for (std::uint32_t block : divisors(problem_.outer.back().extent)) {
      if (block == 1 || block > 64) continue;
      tiling.block_outer = block;
      tiling.lots = lots(tiling);
      consider(tiling);
    }
  }

  /// As many matrices of a block as take the latency of the MXUs together.
  std::uint32_t lots(const DotTiling& tiling) const {
    constexpr std::uint32_t kMostPushes = 48, kMostLots = 16;
    const MatmulUnits units(target_, tiling.columns_at_once, tiling.k_parts);
    const std::uint32_t pushes = tiling.chunk_m / units.groups();
    const double lot = step_bundles(target_, units, pushes, weight_pushes(problem_));
    std::uint32_t most = 1;
    for (std::uint32_t lots : divisors(tiling.block_outer)) {
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

  void consider(DotTiling tiling) {
    consider_finished(tiling);
    if (may_overlap_) tiling.finished_tiles = tiles_to_finish(problem_, tiling);
    tiling.lots = 1;
    if (tiling.finished_tiles > 0) consider_finished(tiling);
  }

  void consider_finished(DotTiling tiling) {
    if (vmem_rows(problem_, tiling) * 512 > target_.vmem_bytes) return;
    tiling.cycles = Estimate(problem_, tiling, target_).cycles();
    if (best_.cycles == 0 || tiling.cycles < best_.cycles) best_ = tiling;
  }

  const DotProblem& problem_;
  const Target& target_;
  bool may_overlap_;
  DotTiling best_;
};

}  // namespace

std::uint32_t weight_pushes(const DotProblem& problem) {
  return std::min(kWeightPushes, ceil_divide(problem.rhs_transposed ? problem.n : problem.k, 8));
}

std::uint32_t Turn::at_once(std::uint32_t matrices) const {
  std::uint32_t most = 1;
  for (std::uint32_t count : divisors(matrices)) {
    if (count * pops <= 16) most = count;
  }
  return most;
}

Turn turn_of_rows(const DotProblem& problem, const DotTiling& tiling) {
  return {tiling.block_k * ceil_divide(tiling.block_m, 16),
          std::min(16U, ceil_divide(problem.k, 8)), std::min(16U, ceil_divide(problem.m, 8))};
}

Turn turn_of_result(const DotProblem& problem, const DotTiling& tiling) {
  return {tiling.block_n * ceil_divide(tiling.block_m, 16),
          std::min(16U, ceil_divide(problem.m, 8)), std::min(16U, ceil_divide(problem.n, 8))};
}

ResultBlock result_block(const DotProblem& problem, const DotTiling& tiling) {
  if (!problem.result_turned) return {tiling.block_m, tiling.block_n};
  const bool is_short = tiling.block_n == 1 && problem.row_period == 0 && problem.n <= 128;
  return {is_short ? ceil_divide(problem.n, 8) : 16 * tiling.block_n,
          ceil_divide(tiling.block_m, 16)};
}

std::uint32_t tiles_to_finish(const DotProblem& problem, const DotTiling& tiling) {
  const bool has_packed =
      std::count(problem.result_types.begin(), problem.result_types.end(), ElementType::kBf16) > 0;
  const bool is_whole_k = tiling.block_k == ceil_divide(problem.k, 128) && problem.outer_k.empty();
  const std::uint32_t columns = tiling.columns_at_once;
  if (!(problem.has_epilogue || has_packed) || problem.result_turned || problem.row_period != 0 ||
      !is_whole_k || tiling.block_outer * tiling.block_n < 2 * columns) {
    return 0;
  }
  // The first step of a column still adds to sums of the one before; where there is no other, tiles
  // are those of two columns before.
  const std::uint32_t all_steps =
      (tiling.block_k / tiling.k_parts) * (tiling.block_m / tiling.chunk_m);
  const std::uint32_t steps = std::max(all_steps, 2U) - 1;
  for (std::uint32_t tiles = 1; tiles <= kMostFinished; ++tiles) {
    if (tiling.block_m % tiles == 0 && tiles * steps >= tiling.block_m * columns) return tiles;
  }
  return 0;
}

std::uint64_t vmem_rows(const DotProblem& problem, const DotTiling& tiling) {
  const std::uint64_t outer = tiling.block_outer;
  const bool rhs_outer = !problem.outer.empty() && problem.outer.back().rhs != 0;
  const std::uint32_t m_tiles =
      problem.lhs_transposed ? 16 * ceil_divide(tiling.block_m, 16) : tiling.block_m;
  const std::uint64_t x_tiles = outer * m_tiles * tiling.block_k;
  const std::uint64_t w_tiles =
      (rhs_outer ? outer : 1) * 16 * std::uint64_t{tiling.block_n} * tiling.block_k;
  const ResultBlock result = result_block(problem, tiling);
  const std::uint64_t sum_tiles = outer * tiling.block_m * tiling.block_n;
  const std::uint64_t out_tiles = std::max(sum_tiles, outer * result.rows * result.columns);
  std::uint64_t rows =
      2 * x_tiles * tile_rows(problem.lhs_type) + 2 * w_tiles * tile_rows(problem.rhs_type);
  bool is_first = true;
  for (ElementType type : problem.result_types) {
    const bool is_packed = type == ElementType::kBf16;
    rows += 2 * out_tiles * tile_rows(type);
    const bool is_unrounded = is_packed && tiling.finished_tiles == 0;
    if (is_first ? is_packed || problem.has_epilogue : is_unrounded) rows += out_tiles * 8;
    is_first = false;
  }
  if (problem.result_turned) rows += out_tiles * 8;
  for (ElementType type : problem.epilogue_types) rows += 2 * out_tiles * tile_rows(type);
  if (problem.lhs_transposed) rows += x_tiles * 8;
  return rows + problem.resident_rows + 2048;
}

DotTiling find_dot_tiling(const DotProblem& problem, const Target& target, bool may_overlap) {
  return Search(problem, target, may_overlap).run();
}

}  // namespace tpu::compiler
