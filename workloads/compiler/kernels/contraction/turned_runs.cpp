#include "workloads/compiler/kernels/contraction/turned_runs.h"

#include <algorithm>
#include <vector>

#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

using isa::Opcode;

namespace {

constexpr std::uint32_t kRunRegisters = TurnedRuns::kRunTiles / 2;
constexpr std::uint32_t kLanes = 128;
/// Turns of one piece of code: the last one is waited for.
constexpr std::uint32_t kMostTurns = 64;
constexpr double kPieceCycles = 40;  ///< Its addresses, first loads and last stores.

/// The greatest divisor of a count that is no more than `most`.
std::uint32_t divisor_up_to(std::uint32_t count, std::uint32_t most) {
  std::uint32_t divisor = std::min(count, std::max(most, 1U));
  while (count % divisor != 0) --divisor;
  return divisor;
}

/// Tiles of features that one piece of code shifts.
std::uint32_t shifted_tiles(const TurnedRuns& runs) {
  return divisor_up_to(runs.features(), kMostTurns / (runs.runs + 1));
}

}  // namespace

VReg load_tile_pair(KernelBuilder& builder, const VmemAddress& first, std::int64_t apart,
                    bool descends) {
  if (apart == 4) return builder.load(descends ? first.plus(7).stride(-1) : first);
  const VmemAddress low = descends ? first.plus(apart + 3).stride(-1) : first;
  const VmemAddress high = descends ? first.plus(7).stride(-1) : first.plus(apart - 4);
  return builder.or_(builder.load(low.mask(0x0f)), builder.load(high.mask(0xf0)));
}

std::uint32_t TurnedRuns::further_runs() const {
  return tiles_of((positions - 1) * distance, run_pixels());
}

double TurnedRuns::cycles(const Target& target) const {
  const double interval = target.xlu_interval_cycles, latency = target.xlu_latency_cycles;
  const double turn = std::max(interval * kRunRegisters, latency) + 8;
  const double turned = double(lines) * all_runs() * row_tiles * turn;
  const double unpacked = 4.0 * lines * runs * features();
  const double pieces = double(lines) * (positions - 1) * features() / shifted_tiles(*this);
  const double piece = interval * shifted_tiles(*this) * (runs + 1) + latency + kPieceCycles;
  return turned + unpacked + pieces * piece;
}

RunTurner::RunTurner(KernelBuilder& builder, const TurnedRuns& runs)
    : builder_(builder), runs_(runs) {
  turned_ = builder.allocate_vmem(runs.rows());
}

void RunTurner::make(const VmemAddress& from, VmemRegion to) {
  turn(from);
  unpack(to);
  if (runs_.positions > 1) shift(to);
}

/// Each run becomes a register for each tile of features, its lanes pairs of rows.
void RunTurner::turn(const VmemAddress& from) {
  StepCounter counter(builder_, {runs_.lines, runs_.all_runs(), runs_.row_tiles});
  const std::uint32_t lanes = runs_.feature_tiles * 8;
  const std::vector<std::uint32_t> distances{runs_.line_rows,
                                             runs_.run_pixels() * runs_.pixel_rows(), 4};
  // Row tiles of a pixel stand between its batch tiles.
  const std::uint32_t tile = 4 * runs_.row_tiles;
  builder_.new_block();
  const auto push = [&](const std::vector<SReg>& digits) {
    const SReg source = weighted_sum(builder_, digits, distances, from.base);
    for (std::uint32_t i = 0; i < kRunRegisters; ++i) {
      const VmemAddress first(from.region, from.offset + std::int64_t{2} * i * tile, source);
      builder_.transpose_push(load_tile_pair(builder_, first, tile, false), lanes, i,
                              kRunRegisters);
    }
  };
  push(std::vector<SReg>(3));
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> next = counter.next();
    push(next);
    const SReg target = builder_.mul(index, lanes);
    for (std::uint32_t i = 0; i < runs_.feature_tiles; ++i) {
      builder_.store({turned_, std::int64_t{8} * i, target}, builder_.transpose_pop());
    }
    counter.advance(next);
  });
  // What the last iteration pushed is nobody's.
  for (std::uint32_t i = 0; i < runs_.feature_tiles; ++i) builder_.transpose_pop();
  builder_.new_block();
}

/// Even and odd rows of a run, as groups that follow each other.
void RunTurner::store(VReg pairs, VmemRegion to, SReg row, std::uint32_t run,
                      std::uint32_t offset) {
  const std::uint32_t group = runs_.positions * runs_.run_rows();
  const std::int64_t at = std::int64_t{2} * run * group + offset;
  builder_.store({to, at, row}, builder_.unpack_even(pairs));
  builder_.store({to, at + group, row}, builder_.unpack_odd(pairs));
}

/// What the first position meets: the runs as they are.
void RunTurner::unpack(VmemRegion to) {
  const std::uint32_t tiles = divisor_up_to(runs_.features(), 16);
  StepCounter counter(builder_, {runs_.lines, runs_.runs, runs_.features() / tiles});
  const std::uint32_t group = runs_.positions * runs_.run_rows();
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg source = weighted_sum(
        builder_, digits, {runs_.all_runs() * runs_.run_rows(), runs_.run_rows(), 8 * tiles});
    const SReg target =
        weighted_sum(builder_, digits, {2 * runs_.runs * group, 2 * group, 8 * tiles});
    for (std::uint32_t i = 0; i < tiles; ++i) {
      store(builder_.load({turned_, std::int64_t{8} * i, source}), to, target, 0, 8 * i);
    }
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// What later positions meet: runs that begin some pixels on.
void RunTurner::shift(VmemRegion to) {
  const std::uint32_t tiles = shifted_tiles(runs_);
  const std::uint32_t group = runs_.positions * runs_.run_rows();
  const VReg lane = builder_.and_(builder_.lane_sequence(), kLanes - 1);
  builder_.new_block();
  for (std::uint32_t position = 1; position < runs_.positions; ++position) {
    const std::uint32_t lanes = position * runs_.distance * runs_.pixel_lanes();
    const std::uint32_t whole = lanes / kLanes, left = kLanes - lanes % kLanes;
    StepCounter counter(builder_, {runs_.lines, runs_.features() / tiles});
    builder_.loop(counter.steps(), [&](SReg) {
      const std::vector<SReg> digits = counter.present();
      const SReg source =
          weighted_sum(builder_, digits, {runs_.all_runs() * runs_.run_rows(), 8 * tiles});
      const SReg target = weighted_sum(builder_, digits, {2 * runs_.runs * group, 8 * tiles});
      const MReg own = builder_.vector_compare(Opcode::kVcmpLtS32, lane, static_cast<int>(left));
      for (std::uint32_t i = 0; i < tiles; ++i) {
        const auto run = [&](std::uint32_t number) {
          const std::int64_t row = std::int64_t{number + whole} * runs_.run_rows() + 8 * i;
          const VReg pairs = builder_.load({turned_, row, source});
          return left == kLanes ? pairs : builder_.rotate_lanes(pairs, left);
        };
        VReg first = run(0);
        for (std::uint32_t number = 0; number < runs_.runs; ++number) {
          const VReg second = left == kLanes && number + 1 == runs_.runs ? first : run(number + 1);
          const VReg pairs = left == kLanes ? first : builder_.select(own, first, second);
          store(pairs, to, target, number, position * runs_.run_rows() + 8 * i);
          first = second;
        }
      }
      counter.advance(counter.next());
    });
    builder_.new_block();
  }
}

}  // namespace tpu::compiler
