#include "workloads/compiler/kernels/collective/all_reduce.h"

#include <algorithm>
#include <string>

#include "isa/dma_descriptor.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/collective/mesh_all_reduce.h"
#include "workloads/compiler/kernels/collective/remote_dma.h"

namespace tpu::compiler {

namespace {

constexpr std::uint32_t kLargestChunk = 256;

/// A chip's entry in the ring table: its place, the chip after it and the one before it.
constexpr int kTableBits = 10;

struct Stream {
  bool forward = true;
  VmemRegion slots;  ///< Two chunks.
  VmemRegion local;  ///< One chunk: the core's own part of the next sum.
  std::uint32_t received = 0, credit = 0, sent = 0, loaded = 0, written = 0;  ///< Sync flags.
  RemoteDmaWords from_hbm, from_vmem;                                         ///< To the next core.
  std::uint32_t credit_address = 0;  ///< SMEM: the flag of the core before.
};

class AllReduce {
 public:
  AllReduce(const AllReduceShape& shape, const Target& target, const Ring& ring)
      : shape_(shape),
        target_(target),
        ring_(ring),
        cores_(ring.members(target)),
        steps_((is(RingKind::kAllReduce) ? 2 : 1) * (cores_ - 1)),
        kernel_(name_of(shape.kind), target) {}

  isa::Kernel build() {
    base_ = kernel_.operand(0);
    if (!is(RingKind::kAllReduce)) result_ = kernel_.operand(1);
    if (ring_.groups.empty()) {
      find_neighbours();
    } else {
      find_group();
    }
    for (std::uint32_t i = 0; i < shape_.streams; ++i) prepare_stream(i);
    // Nothing has ever written the rest of the range.
    if (is(RingKind::kAllReduce)) {
      clear_granules(kernel_, streams_[0].local, chunk(), base_, shape_.used_granules,
                     shape_.granules, streams_[0].written);
    }
    kernel_.new_block();
    kernel_.loop(shape_.rounds, [&](SReg round) { round_body(round); });
    return kernel_.finish();
  }

 private:
  static const char* name_of(RingKind kind) {
    switch (kind) {
      case RingKind::kAllReduce:
        return "all-reduce";
      case RingKind::kAllGather:
        return "all-gather";
      case RingKind::kReduceScatter:
        return "reduce-scatter";
    }
    return "";
  }
  bool is(RingKind kind) const { return shape_.kind == kind; }
  std::uint32_t chunk() const { return shape_.chunk_granules; }
  void find_neighbours();
  void find_group();
  Peer peer(SReg chip_on_ring, bool is_next);
  void prepare_stream(std::uint32_t index);
  RemoteDmaWords write_descriptor(const Stream& stream, bool from_hbm);
  SReg segment(const Stream& stream, ScalarOperand hop);
  SReg granule(SReg base, bool has_blocks, std::uint32_t index, SReg round, SReg segment);
  SReg source(std::uint32_t index, SReg round, SReg segment);
  SReg destination(std::uint32_t index, SReg round, SReg segment);
  SReg slot_row(SReg round, ScalarOperand step);
  void give_credit(const Stream& stream, ScalarOperand count);
  void round_body(SReg round);
  void begin_round(std::uint32_t index, SReg round);
  void finish_previous(const Stream& stream, SReg round, SReg step);
  void step_body(std::uint32_t index, SReg round, SReg step);
  void add_local(const Stream& stream, SReg slot_row);
  void send(const Stream& stream, SReg step, SReg slot_row);
  void finish_round(const Stream& stream, SReg round);

  const AllReduceShape& shape_;
  const Target& target_;
  const Ring& ring_;
  std::uint32_t cores_;
  std::uint32_t steps_;
  KernelBuilder kernel_;
  SReg base_, result_, place_;
  std::uint32_t member_table_ = 0;  ///< SMEM: the member at each place of a ring of all cores.
  SReg chip_, core_;
  Peer next_, previous_;
  std::vector<Stream> streams_;
};

/// The place on the ring and both neighbours, from the core's own number and the table of chips.
void AllReduce::find_neighbours() {
  const std::vector<std::uint32_t> ring = ring_of_chips(target_);
  const auto chips = static_cast<std::uint32_t>(ring.size());
  const std::uint32_t table = kernel_.allocate_smem(chips);
  for (std::uint32_t i = 0; i < chips; ++i) {
    const std::uint32_t after = ring[(i + 1) % chips];
    const std::uint32_t before = ring[(i + chips - 1) % chips];
    kernel_.store_smem(table + ring[i], i | after << kTableBits | before << 2 * kTableBits);
  }
  chip_ = kernel_.load_smem(kChipIdWord);
  core_ = kernel_.load_smem(kCoreIdWord);
  const SReg entry = kernel_.load_smem(table, chip_);
  constexpr std::uint32_t kMask = (1U << kTableBits) - 1;
  const std::uint32_t per_chip = cores_ / chips;
  if (!is(RingKind::kAllReduce)) {
    member_table_ = kernel_.allocate_smem(cores_);
    for (std::uint32_t i = 0; i < cores_; ++i) {
      kernel_.store_smem(member_table_ + i, ring[i / per_chip] * per_chip + i % per_chip);
    }
  }
  place_ = kernel_.add(kernel_.mul(kernel_.and_(entry, kMask), per_chip), core_);
  const SReg after = kernel_.and_(kernel_.shift_right(entry, kTableBits), kMask);
  const SReg before = kernel_.shift_right(entry, 2 * kTableBits);
  const PReg is_last = kernel_.equal(core_, per_chip - 1);
  const PReg is_first = kernel_.equal(core_, 0);
  next_ = {kernel_.select(is_last, after, chip_),
           kernel_.select(is_last, 0, kernel_.add(core_, 1))};
  previous_ = {kernel_.select(is_first, before, chip_),
               kernel_.select(is_first, per_chip - 1, kernel_.sub(core_, 1))};
}

/// The place in the group and both neighbours, from a table of all cores.
void AllReduce::find_group() {
  const std::uint32_t per_chip = target_.cores_per_chip;
  const std::uint32_t table = kernel_.allocate_smem(target_.cores);
  for (const std::vector<std::uint32_t>& group : ring_.groups) {
    for (std::uint32_t i = 0; i < cores_; ++i) {
      const std::uint32_t after = group[(i + 1) % cores_];
      const std::uint32_t before = group[(i + cores_ - 1) % cores_];
      kernel_.store_smem(table + group[i], i | (after / per_chip) << kTableBits |
                                               (before / per_chip) << 2 * kTableBits |
                                               (after % per_chip) << 3 * kTableBits |
                                               (before % per_chip) << (3 * kTableBits + 1));
    }
  }
  chip_ = kernel_.load_smem(kChipIdWord);
  core_ = kernel_.load_smem(kCoreIdWord);
  const SReg entry = kernel_.load_smem(table, kernel_.add(kernel_.mul(chip_, per_chip), core_));
  constexpr std::uint32_t kMask = (1U << kTableBits) - 1;
  const auto field = [&](int shift, std::uint32_t mask) {
    return kernel_.and_(kernel_.shift_right(entry, shift), mask);
  };
  place_ = kernel_.and_(entry, kMask);
  next_ = {field(kTableBits, kMask), field(3 * kTableBits, 1)};
  previous_ = {field(2 * kTableBits, kMask), field(3 * kTableBits + 1, 1)};
}

/// The words of a stream's descriptors that stay.
RemoteDmaWords AllReduce::write_descriptor(const Stream& stream, bool from_hbm) {
  const RemoteDmaWords dma{
      kernel_.allocate_smem(8), stream.received, stream.sent, chunk(), from_hbm, false};
  write_remote_dma(kernel_, dma, {chip_, core_}, stream.forward ? next_ : previous_);
  return dma;
}

void AllReduce::prepare_stream(std::uint32_t index) {
  Stream stream;
  stream.forward = index % 2 == 0;
  const std::uint64_t rows = std::uint64_t{chunk()} * kRowsPerGranule;
  stream.slots = kernel_.allocate_vmem(2 * rows);
  stream.local = kernel_.allocate_vmem(rows);
  const std::uint32_t flag = kStreamFlags.begin + index * kFlagsPerStream;
  stream.received = flag;
  stream.credit = ring_.number == 0
                      ? flag + 1
                      : kRingCreditFlags.begin + (ring_.number - 1) * kMostStreams + index;
  stream.sent = flag + 2;
  stream.loaded = flag + 3;
  stream.written = flag + 4;
  stream.from_hbm = write_descriptor(stream, true);
  stream.from_vmem = write_descriptor(stream, false);
  stream.credit_address = kernel_.allocate_smem(1);
  kernel_.store_smem(
      stream.credit_address,
      remote_flag_address(kernel_, stream.forward ? previous_ : next_, stream.credit));
  streams_.push_back(stream);
  kernel_.new_block();
  give_credit(stream, std::min<std::uint32_t>(2, shape_.rounds * steps_));
}

void AllReduce::give_credit(const Stream& stream, ScalarOperand count) {
  kernel_.misc(isa::Opcode::kVsyncaddRemote, {kernel_.load_smem(stream.credit_address), count});
}

/// The segment `hop` places back on the stream's way round the ring; hop < 2 cores.
SReg AllReduce::segment(const Stream& stream, ScalarOperand hop) {
  const SReg ahead =
      stream.forward ? kernel_.sub(kernel_.add(place_, 2 * cores_), hop) : kernel_.add(place_, hop);
  const auto wrap = [&](SReg value, std::uint32_t limit) {
    return kernel_.select(kernel_.less(value, limit), value, kernel_.sub(value, limit));
  };
  return wrap(wrap(ahead, 2 * cores_), cores_);
}

/// The chunk of a round. An all-reduce has the chunks of all members side by side, the others have
/// a block per member or only one's own.
SReg AllReduce::granule(SReg base, bool has_blocks, std::uint32_t index, SReg round, SReg segment) {
  const SReg row = kernel_.add(round, index * shape_.rounds);
  if (is(RingKind::kAllReduce)) {
    return kernel_.add(base, kernel_.mul(kernel_.add(kernel_.mul(row, cores_), segment), chunk()));
  }
  const auto block = static_cast<std::uint32_t>(shape_.granules);
  const SReg wanted = kernel_.mul(row, chunk());
  const std::uint32_t last = block - chunk();
  const SReg at = kernel_.add(base, kernel_.min(wanted, last));
  if (!has_blocks) return at;
  const SReg member = ring_.groups.empty() ? kernel_.load_smem(member_table_, segment) : segment;
  return kernel_.add(at, kernel_.mul(member, block));
}

/// Where a member's own part of a segment is read, and where a finished one goes.
SReg AllReduce::source(std::uint32_t index, SReg round, SReg segment) {
  return granule(base_, is(RingKind::kReduceScatter), index, round, segment);
}

SReg AllReduce::destination(std::uint32_t index, SReg round, SReg segment) {
  return granule(is(RingKind::kAllReduce) ? base_ : result_, is(RingKind::kAllGather), index, round,
                 segment);
}

/// The slots take turns, from round to round, too.
SReg AllReduce::slot_row(SReg round, ScalarOperand step) {
  const std::uint32_t rows = chunk() * kRowsPerGranule;
  if (steps_ % 2 == 0) return kernel_.mul(kernel_.and_(step, 1), rows);
  return kernel_.mul(kernel_.and_(kernel_.add(round, step), 1), rows);
}

void AllReduce::round_body(SReg round) {
  for (std::uint32_t i = 0; i < shape_.streams; ++i) begin_round(i, round);
  kernel_.loop(steps_, [&](SReg step) {
    for (const Stream& stream : streams_) finish_previous(stream, round, step);
    for (std::uint32_t i = 0; i < shape_.streams; ++i) step_body(i, round, step);
  });
  for (const Stream& stream : streams_) finish_round(stream, round);
}

/// Sends the first chunk and loads the core's own part of the first one to come: of its own segment
/// on the way to sums everywhere, of the one before it where its own is to come last. An
/// all-gather puts its own block where the others go.
void AllReduce::begin_round(std::uint32_t index, SReg round) {
  const Stream& stream = streams_[index];
  const std::uint32_t first = is(RingKind::kReduceScatter) ? 1 : 0;
  if (is(RingKind::kAllGather)) {
    const SReg own = segment(stream, 0);
    kernel_.dma_in(source(index, round, own), stream.local, chunk(), stream.loaded);
    kernel_.wait(stream.loaded, chunk());
    kernel_.dma_out(stream.local, destination(index, round, own), chunk(), stream.loaded);
  } else {
    kernel_.dma_in(source(index, round, segment(stream, first + 1)), stream.local, chunk(),
                   stream.loaded);
  }
  kernel_.wait(stream.credit, 1);
  const SReg to_row = kernel_.add(slot_row(round, 0), stream.slots.row);
  start_remote_dma(kernel_, stream.from_hbm, source(index, round, segment(stream, first)), to_row);
  kernel_.new_block();
}

/// What the step before still had under way: when its slot is free, the core before learns it. The
/// slots of the last two chunks are not offered again.
void AllReduce::finish_previous(const Stream& stream, SReg round, SReg step) {
  kernel_.wait(stream.sent, chunk());
  const std::uint32_t first_written = is(RingKind::kAllGather) ? 0 : cores_ - 2;
  const PReg has_written = kernel_.less(first_written, step);
  kernel_.guarded(has_written, [&] { kernel_.wait(stream.written, chunk()); });
  const SReg done = kernel_.add(kernel_.mul(round, steps_), step);
  const PReg offers =
      kernel_.and_(kernel_.less(done, shape_.rounds * steps_ - 1), kernel_.less(0, step));
  kernel_.guarded(offers, [&] { give_credit(stream, 1); });
}

void AllReduce::add_local(const Stream& stream, SReg slot_row) {
  const std::uint32_t registers = chunk() * kRowsPerGranule / isa::kSublanes;
  std::uint32_t unroll = kRegistersPerTurn;
  while (registers % unroll != 0) --unroll;
  kernel_.loop(registers / unroll, [&](SReg turn) {
    const SReg row = kernel_.mul(turn, unroll * isa::kSublanes);
    const SReg sum_row = kernel_.add(slot_row, row);
    for (std::uint32_t i = 0; i < unroll; ++i) {
      const std::int64_t offset = std::int64_t{i} * isa::kSublanes;
      const VmemAddress sum(stream.slots, offset, sum_row);
      const VReg mine = kernel_.load(VmemAddress(stream.local, offset, row));
      kernel_.store(sum, kernel_.add(kernel_.load(sum), mine));
    }
  });
  kernel_.new_block();
}

void AllReduce::send(const Stream& stream, SReg step, SReg slot_row) {
  kernel_.if_(kernel_.less(step, steps_ - 1), [&] {
    const std::uint32_t rows = chunk() * kRowsPerGranule;
    kernel_.wait(stream.credit, 1);
    const SReg from_row = kernel_.add(slot_row, stream.slots.row);
    start_remote_dma(kernel_, stream.from_vmem, from_row,
                     kernel_.sub(rows + 2 * stream.slots.row, from_row));
  });
}

void AllReduce::step_body(std::uint32_t index, SReg round, SReg step) {
  const Stream& stream = streams_[index];
  const SReg row = slot_row(round, step);
  const std::uint32_t ahead = is(RingKind::kReduceScatter) ? 2 : 1;
  kernel_.wait(stream.received, chunk());
  if (!is(RingKind::kAllGather)) {
    kernel_.if_(kernel_.less(step, cores_ - 1), [&] {
      kernel_.wait(stream.loaded, chunk());
      kernel_.new_block();
      add_local(stream, row);
      kernel_.if_(kernel_.less(step, cores_ - 2), [&] {
        const SReg next = segment(stream, kernel_.add(step, ahead + 1));
        kernel_.dma_in(source(index, round, next), stream.local, chunk(), stream.loaded);
      });
    });
  }
  send(stream, step, row);
  const std::uint32_t first_written = is(RingKind::kAllGather) ? 0 : cores_ - 2;
  kernel_.if_(kernel_.less(first_written, kernel_.add(step, 1)), [&] {
    const SReg here = segment(stream, kernel_.add(step, ahead));
    kernel_.dma_out(VmemAddress(stream.slots, 0, row), destination(index, round, here), chunk(),
                    stream.written);
  });
}

void AllReduce::finish_round(const Stream& stream, SReg round) {
  kernel_.wait(stream.written, chunk());
  if (is(RingKind::kAllGather)) kernel_.wait(stream.loaded, chunk());
  const SReg done = kernel_.mul(kernel_.add(round, 1), steps_);
  const PReg offers = kernel_.less(done, shape_.rounds * steps_ - 1);
  kernel_.guarded(offers, [&] { give_credit(stream, 1); });
}

}  // namespace

AllReduceShape all_reduce_shape(std::uint64_t granules, const Target& target, const Ring& ring) {
  constexpr std::uint32_t kRegisterGranules = isa::kSublanes / kRowsPerGranule;
  AllReduceShape shape;
  const std::uint64_t vmem_granules = target.vmem_bytes / isa::kHbmGranuleBytes;
  const auto largest = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kLargestChunk, vmem_granules / (4 * shape.streams)));
  const std::uint64_t chunks = std::uint64_t{shape.streams} * ring.members(target);
  shape.rounds = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, (granules + chunks * largest - 1) / (chunks * largest)));
  const std::uint64_t parts = chunks * shape.rounds;
  const auto exact = static_cast<std::uint32_t>(ceil_divide(granules, parts));
  shape.chunk_granules = std::max(kRegisterGranules, round_up(exact, kRegisterGranules));
  shape.used_granules = granules;
  shape.granules = parts * shape.chunk_granules;
  shape.mesh = mesh_shape(shape, target, ring);
  if (shape.mesh.buckets > 0) {
    shape.granules = std::uint64_t{shape.mesh.buckets} * shape.mesh.bucket_granules;
  }
  return shape;
}

AllReduceShape ring_block_shape(RingKind kind, std::uint64_t granules, const Target& target) {
  constexpr std::uint32_t kRegisterGranules = isa::kSublanes / kRowsPerGranule;
  TPU_CHECK(granules > 0, "a block of nothing");
  AllReduceShape shape;
  shape.kind = kind;
  const std::uint32_t step = kind == RingKind::kReduceScatter ? kRegisterGranules : 1;
  TPU_CHECK(granules % step == 0, "a block of " << granules << " granules");
  shape.streams = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kMostStreams, std::max<std::uint64_t>(1, granules / step)));
  const std::uint64_t vmem_granules = target.vmem_bytes / isa::kHbmGranuleBytes;
  const std::uint64_t largest =
      std::min<std::uint64_t>(kLargestChunk, vmem_granules / (4 * shape.streams));
  const std::uint64_t a_round = shape.streams * largest;
  shape.rounds = static_cast<std::uint32_t>(ceil_divide(granules, a_round));
  const std::uint64_t parts = std::uint64_t{shape.streams} * shape.rounds;
  const auto exact = static_cast<std::uint32_t>(ceil_divide(granules, parts));
  shape.chunk_granules = round_up(exact, step);
  shape.used_granules = shape.granules = granules;
  return shape;
}

std::vector<std::uint32_t> ring_of_chips(const Target& target) {
  const bool is_part_of_chip = target.cores <= target.cores_per_chip;
  const std::uint32_t chips = is_part_of_chip ? 1 : target.cores / target.cores_per_chip;
  if (chips > 1U << kTableBits) {
    throw WorkloadError("expected at most " + std::to_string(1U << kTableBits) +
                        " chips in the ring of an all-reduce, found " + std::to_string(chips));
  }
  std::vector<std::uint32_t> ring;
  if (is_part_of_chip || chips * target.cores_per_chip == target.cores) {
    ring = target.slice.ring(chips);
  }
  if (ring.empty()) {
    throw WorkloadError("expected cores that fill rows of the " + target.slice.text() +
                        " slice with " + std::to_string(target.cores_per_chip) +
                        " cores a chip, found " + std::to_string(target.cores) +
                        " cores: no ring for the all-reduce");
  }
  return ring;
}

isa::Kernel all_reduce_kernel(const AllReduceShape& shape, const Target& target, const Ring& ring) {
  TPU_CHECK(ring.members(target) > 1, "a ring of one core");
  if (ring.number >= kMostRings ||
      (!ring.groups.empty() && (target.cores > 1U << kTableBits || target.cores_per_chip > 2))) {
    throw WorkloadError("expected collectives over at most " + std::to_string(kMostRings) +
                        " different groupings of at most " + std::to_string(1U << kTableBits) +
                        " cores, two on a chip; found grouping " + std::to_string(ring.number) +
                        " of " + std::to_string(target.cores) + " cores");
  }
  if (shape.mesh.buckets > 0) return mesh_all_reduce_kernel(shape, target, ring.number);
  return AllReduce(shape, target, ring).build();
}

}  // namespace tpu::compiler
