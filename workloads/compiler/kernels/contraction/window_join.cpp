#include "workloads/compiler/kernels/contraction/window_join.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

namespace {

/// A chunk's addresses, its first loads and its last stores.
constexpr double kChunkCycles = 30;

/// Registers of a chunk: the more, the less of its time is the wait for the last turn; unions that
/// others need wait in registers.
std::uint32_t most_registers(std::uint32_t joined) {
  if (joined <= 2) return 64;
  if (joined == 3) return 32;
  return joined == 4 ? 20 : 10;
}

/// The greatest power of two below a number of positions.
std::uint32_t first_part(std::uint32_t joined) {
  std::uint32_t part = 1;
  while (2 * part < joined) part *= 2;
  return part;
}

std::uint32_t ones_of(std::uint32_t number) {
  std::uint32_t ones = 0;
  for (; number != 0; number &= number - 1) ++ones;
  return ones;
}

/// Turns of a chunk: unions of each power of two of positions, those of neighbours once, then of
/// what is left.
std::uint32_t turns_of(const JoinPass& pass) {
  std::uint32_t turns = pass.chunk * (ones_of(pass.joined) - 1);
  for (std::uint32_t part = 2; part <= pass.joined; part *= 2) {
    const std::uint32_t parts = pass.joined / part, apart = part * pass.position;
    const bool shares = pass.keeps_unions() && apart % pass.unit() == 0;
    const std::uint32_t fresh = shares ? std::min(pass.chunk, apart / pass.unit()) : pass.chunk;
    turns += pass.chunk + (parts - 1) * fresh;
  }
  return turns;
}

}  // namespace

JoinedDirection::JoinedDirection(std::uint32_t positions, std::uint32_t apart, std::uint32_t step,
                                 std::uint32_t results, std::uint32_t at_once)
    : joined(at_once), distance(apart), groups(tiles_of(positions, at_once)) {
  const std::uint32_t group = joined * distance;
  unit = groups == 1 ? step : std::gcd(step, group);
  result_step = step / unit;
  group_step = groups == 1 ? 0 : group / unit;
  pixels = (results - 1) * result_step + (groups - 1) * group_step + 1;
}

double JoinPass::cycles(const Target& target) const {
  // A turn waits for the one that it is made of, where no others stand between them.
  const std::uint32_t waits = keeps_unions() && chunk < 12 ? 2 : 1;
  return double(lines) * chunks * parts *
         (double(target.xlu_interval_cycles) * turns_of(*this) +
          double(target.xlu_latency_cycles) * waits + kChunkCycles);
}

WindowJoin::WindowJoin(const std::array<JoinedDirection, 2>& directions, hlo::ElementType type,
                       std::uint32_t tiles, std::uint32_t features)
    : y(directions[0]), x(directions[1]), pitch(pitch_of(features)) {
  const bool pairs = is_packed(type) && tiles == 1;
  // Straight code goes along lines, or along a column where lines are single pixels.
  const bool is_column = x.joined == 1 && x.pixels == 1;
  JoinedDirection& run = is_column ? y : x;
  const std::uint32_t most = std::min(most_registers(x.joined), most_registers(y.joined));
  const std::uint32_t units = tiles_of(run.pixels, pairs ? 2 : 1), chunks = tiles_of(units, most);
  const std::uint32_t chunk = tiles_of(units, chunks);
  run.pixels = chunks * chunk * (pairs ? 2 : 1);
  pixel_rows = tiles * tile_rows(type);
  line_rows = x.pixels * pixel_rows;
  const std::uint32_t input_line = x.input_pixels() * pixel_rows;
  JoinPass pass;
  pass.chunks = chunks;
  pass.chunk = chunk;
  pass.parts = pairs ? 1 : pixel_rows / 8;
  pass.pairs = pairs;
  pass.line = input_line;
  pass.pixel = run.unit * pixel_rows;
  if (x.joined > 1) {
    JoinPass& along = passes[pass_count++] = pass;
    along.joined = x.joined;
    along.lanes = pitch;
    along.position = x.distance * pixel_rows;
    // Lines that only the other pass reads are joined first.
    along.lines = y.joined > 1 ? y.input_pixels() : y.pixels;
    along.line = input_line * (y.joined > 1 ? 1 : y.unit);
    if (y.joined > 1) between_rows = along.lines * line_rows;
    pass.line = line_rows;
    pass.pixel = pixel_rows;
    pass.has_padding = false;
  }
  if (y.joined > 1) {
    JoinPass& across = passes[pass_count++] = pass;
    across.joined = y.joined;
    across.lanes = x.joined * pitch;
    across.position = y.distance * pass.line;
    across.line = y.unit * pass.line;
    across.lines = is_column ? 1 : y.pixels;
  }
}

double WindowJoin::cycles(const Target& target) const {
  double cycles = 0;
  for (std::uint32_t i = 0; i < pass_count; ++i) cycles += passes[i].cycles(target);
  return cycles;
}

BlockJoiner::BlockJoiner(KernelBuilder& builder, MatmulMemory& memory, const WindowJoin& join)
    : builder_(builder), memory_(memory), join_(join) {
  if (join.between_rows > 0) between_ = builder.allocate_vmem(join.between_rows);
  joined_ = builder.allocate_vmem(join.rows());
}

void BlockJoiner::make(const VmemAddress& block) {
  VmemAddress from = block;
  for (std::uint32_t i = 0; i < join_.pass_count; ++i) {
    const VmemRegion to = i + 1 < join_.pass_count ? between_ : joined_;
    emit(join_.passes[i], from, to);
    from = VmemAddress(to);
  }
}

namespace {

/// The registers of one chunk.
class ChunkJoiner {
 public:
  ChunkJoiner(KernelBuilder& builder, const JoinPass& pass, const VmemAddress& from, VReg mask)
      : builder_(builder), pass_(pass), from_(from), mask_(mask) {}

  /// Makes the unions that several neighbours or a longer one need, shorter ones first: turns
  /// follow each other then, and none waits for the one before.
  void prepare() {
    if (!pass_.keeps_unions()) return;
    std::map<Union, bool> needed;
    for (std::uint32_t i = 0; i < pass_.chunk; ++i) {
      const std::uint32_t first = first_part(pass_.joined), row = i * pass_.unit();
      need(needed, {first, row});
      need(needed, {pass_.joined - first, row + first * pass_.position});
    }
    for (const auto& [part, unused] : needed) made_[part] = unite(part);
  }

  VReg joined(std::uint32_t i) { return get({pass_.joined, i * pass_.unit()}); }

 private:
  using Union = std::pair<std::uint32_t, std::uint32_t>;  ///< Positions, rows of the first one.

  void need(std::map<Union, bool>& needed, Union part) {
    if (part.first == 1 || !needed.emplace(part, true).second) return;
    const std::uint32_t first = first_part(part.first);
    need(needed, {first, part.second});
    need(needed, {part.first - first, part.second + first * pass_.position});
  }

  VReg get(Union part) {
    if (part.first == 1) return load(part.second);
    const auto found = made_.find(part);
    return found != made_.end() ? found->second : unite(part);
  }

  VReg unite(Union part) {
    const std::uint32_t first = first_part(part.first);
    const VReg left = get({first, part.second});
    const VReg right = get({part.first - first, part.second + first * pass_.position});
    return builder_.or_(left, builder_.rotate_lanes(right, first * pass_.lanes));
  }

  VReg load(std::uint32_t row) {
    const VmemAddress address = from_.plus(row);
    VReg rows;
    if (pass_.pairs && pass_.pixel != 4) {
      rows = builder_.or_(builder_.load(address.mask(0x0f)),
                          builder_.load(address.plus(std::int64_t{pass_.pixel} - 4).mask(0xf0)));
    } else {
      rows = builder_.load(address);
    }
    return mask_ ? builder_.and_(rows, mask_) : rows;
  }

  KernelBuilder& builder_;
  const JoinPass& pass_;
  const VmemAddress& from_;
  VReg mask_;
  std::map<Union, VReg> made_;
};

}  // namespace

void BlockJoiner::emit(const JoinPass& pass, const VmemAddress& from, VmemRegion to) {
  builder_.new_block();
  StepCounter counter(builder_, {pass.lines, pass.chunks, pass.parts});
  const std::uint32_t to_unit = pass.pairs ? 8 : join_.pixel_rows;
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg source =
        weighted_sum(builder_, digits, {pass.line, pass.chunk * pass.unit(), 8}, from.base);
    const SReg target = weighted_sum(builder_, digits, {join_.line_rows, pass.chunk * to_unit, 8});
    const VReg mask = pass.has_padding ? memory_.mask(hlo::ElementType::kF32, PReg()) : VReg();
    const VmemAddress begin(from.region, from.offset, source);
    ChunkJoiner chunk(builder_, pass, begin, mask);
    chunk.prepare();
    for (std::uint32_t i = 0; i < pass.chunk; ++i) {
      builder_.store({to, std::int64_t{i} * to_unit, target}, chunk.joined(i));
    }
    counter.advance(counter.next());
  });
  builder_.new_block();
}

}  // namespace tpu::compiler
