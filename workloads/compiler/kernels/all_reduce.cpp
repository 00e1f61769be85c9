#include "workloads/compiler/kernels/all_reduce.h"

#include <algorithm>
#include <string>

#include "isa/dma_descriptor.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

namespace {

constexpr std::uint32_t kRowsPerGranule = isa::kHbmGranuleBytes / isa::kVmemRowBytes;
constexpr std::uint32_t kLargestChunk = 256;
constexpr std::uint32_t kFlagsPerStream = 5;
constexpr std::uint32_t kRegistersPerTurn = 8;  ///< Of the loop that adds, at most.

// Fields of a DMA descriptor (isa/dma_descriptor.h) that are put together at run time.
constexpr int kChipShift = 19;
constexpr int kCoreShift = 16;
constexpr std::uint32_t kHbmEndpoint = 2U << 8;
constexpr std::uint32_t kVmemEndpoint = 4U << 8;
constexpr std::uint32_t kRemoteFlagEndpoint = 64;
constexpr std::uint32_t kRemoteSize = 0x81400000;
constexpr std::uint32_t kRemoteFlags = 1U << 30;
// Address of another core's sync flag.
constexpr std::uint32_t kRemoteFlagAddress = 0x40000;
constexpr int kFlagCoreShift = 20;
constexpr int kFlagChipShift = 21;

/// A chip's entry in the ring table: its place, the chip after it and the one before it.
constexpr int kTableBits = 10;

struct Peer {
  SReg chip, core;
};

struct Stream {
  bool forward = true;
  VmemRegion slots;  ///< Two chunks.
  VmemRegion local;  ///< One chunk: the core's own part of the next sum.
  std::uint32_t received = 0, credit = 0, sent = 0, loaded = 0, written = 0;  ///< Sync flags.
  std::uint32_t from_hbm = 0, from_vmem = 0;  ///< SMEM: descriptors to the next core.
  std::uint32_t credit_address = 0;           ///< SMEM: the flag of the core before.
};

class AllReduce {
 public:
  AllReduce(const AllReduceShape& shape, const Target& target)
      : shape_(shape),
        target_(target),
        cores_(target.cores),
        steps_(2 * target.cores - 2),
        kernel_("all-reduce", target) {}

  isa::Kernel build() {
    base_ = kernel_.operand(0);
    find_neighbours();
    for (std::uint32_t i = 0; i < shape_.streams; ++i) prepare_stream(i);
    clear_tail();
    kernel_.new_block();
    kernel_.loop(shape_.rounds, [&](SReg round) { round_body(round); });
    return kernel_.finish();
  }

 private:
  std::uint32_t chunk() const { return shape_.chunk_granules; }
  void find_neighbours();
  Peer peer(SReg chip_on_ring, bool is_next);
  void prepare_stream(std::uint32_t index);
  void write_descriptor(std::uint32_t word, const Stream& stream, std::uint32_t source);
  SReg segment(const Stream& stream, ScalarOperand hop);
  SReg granule(std::uint32_t index, SReg round, SReg segment);
  void clear_tail();
  void give_credit(const Stream& stream, ScalarOperand count);
  void round_body(SReg round);
  void begin_round(std::uint32_t index, SReg round);
  void finish_previous(const Stream& stream, SReg step, PReg is_last_round);
  void step_body(std::uint32_t index, SReg round, SReg step);
  void add_local(const Stream& stream, SReg slot_row);
  void send(const Stream& stream, SReg step, SReg slot_row);
  void finish_round(const Stream& stream, PReg is_last_round);

  const AllReduceShape& shape_;
  const Target& target_;
  std::uint32_t cores_;
  std::uint32_t steps_;
  KernelBuilder kernel_;
  SReg base_, place_;
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

void AllReduce::write_descriptor(std::uint32_t word, const Stream& stream, std::uint32_t source) {
  const Peer& to = stream.forward ? next_ : previous_;
  const SReg destination =
      kernel_.or_(kernel_.shift_left(to.chip, kChipShift), kernel_.shift_left(to.core, kCoreShift));
  const SReg mine =
      kernel_.or_(kernel_.shift_left(chip_, kChipShift), kernel_.shift_left(core_, kCoreShift));
  const std::uint32_t contiguous = chunk() << 16 | chunk();
  kernel_.store_smem(word + 1,
                     kernel_.or_(destination, (kRemoteFlagEndpoint + stream.received) << 8));
  kernel_.store_smem(word + 2, contiguous);
  kernel_.store_smem(word + 4, kernel_.or_(mine, source));
  kernel_.store_smem(word + 5, contiguous);
  kernel_.store_smem(word + 6, kRemoteSize | chunk());
  kernel_.store_smem(word + 7, kRemoteFlags | stream.sent << 10 | stream.received);
}

void AllReduce::prepare_stream(std::uint32_t index) {
  Stream stream;
  stream.forward = index % 2 == 0;
  const std::uint64_t rows = std::uint64_t{chunk()} * kRowsPerGranule;
  stream.slots = kernel_.allocate_vmem(2 * rows);
  stream.local = kernel_.allocate_vmem(rows);
  const std::uint32_t flag = kAllReduceFlagBegin + index * kFlagsPerStream;
  stream.received = flag;
  stream.credit = flag + 1;
  stream.sent = flag + 2;
  stream.loaded = flag + 3;
  stream.written = flag + 4;
  stream.from_hbm = kernel_.allocate_smem(8);
  stream.from_vmem = kernel_.allocate_smem(8);
  stream.credit_address = kernel_.allocate_smem(1);
  write_descriptor(stream.from_hbm, stream, kHbmEndpoint);
  write_descriptor(stream.from_vmem, stream, kVmemEndpoint);
  const Peer& from = stream.forward ? previous_ : next_;
  const SReg address = kernel_.or_(kernel_.shift_left(from.core, kFlagCoreShift),
                                   kernel_.shift_left(from.chip, kFlagChipShift));
  kernel_.store_smem(stream.credit_address,
                     kernel_.or_(address, kRemoteFlagAddress | stream.credit));
  streams_.push_back(stream);
  kernel_.new_block();
  give_credit(stream, 2);
}

/// Nothing has ever written the rest of the range.
void AllReduce::clear_tail() {
  const Stream& stream = streams_[0];
  std::uint64_t at = shape_.used_granules;
  if (at == shape_.granules) return;
  const std::uint64_t length = std::min<std::uint64_t>(chunk(), shape_.granules - at);
  const std::uint64_t registers = (length * kRowsPerGranule + isa::kSublanes - 1) / isa::kSublanes;
  kernel_.loop(registers, [&](SReg i) {
    kernel_.store(VmemAddress(stream.local, 0, kernel_.mul(i, isa::kSublanes)), 0.0F);
  });
  kernel_.new_block();
  for (; at < shape_.granules; at += length) {
    const auto size = static_cast<std::uint32_t>(std::min(length, shape_.granules - at));
    kernel_.dma_out(stream.local, kernel_.add(base_, static_cast<std::uint32_t>(at)), size,
                    stream.written);
    kernel_.wait(stream.written, size);
  }
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

SReg AllReduce::granule(std::uint32_t index, SReg round, SReg segment) {
  const SReg row = kernel_.mul(kernel_.add(round, index * shape_.rounds), cores_);
  return kernel_.add(base_, kernel_.mul(kernel_.add(row, segment), chunk()));
}

void AllReduce::round_body(SReg round) {
  const PReg is_last_round = kernel_.equal(round, shape_.rounds - 1);
  for (std::uint32_t i = 0; i < shape_.streams; ++i) begin_round(i, round);
  kernel_.loop(steps_, [&](SReg step) {
    for (const Stream& stream : streams_) finish_previous(stream, step, is_last_round);
    for (std::uint32_t i = 0; i < shape_.streams; ++i) step_body(i, round, step);
  });
  for (const Stream& stream : streams_) finish_round(stream, is_last_round);
}

/// Sends the core's own chunk and loads its part of the first one to come.
void AllReduce::begin_round(std::uint32_t index, SReg round) {
  const Stream& stream = streams_[index];
  kernel_.dma_in(granule(index, round, segment(stream, 1)), stream.local, chunk(), stream.loaded);
  kernel_.wait(stream.credit, 1);
  kernel_.store_smem(stream.from_hbm, stream.slots.row);
  kernel_.store_smem(stream.from_hbm + 3, granule(index, round, segment(stream, 0)));
  kernel_.misc(isa::Opcode::kDma, {stream.from_hbm});
  kernel_.new_block();
}

/// What the step before still had under way: when its slot is free, the core before learns it. The
/// last two slots of the last round are not offered again.
void AllReduce::finish_previous(const Stream& stream, SReg step, PReg is_last_round) {
  kernel_.wait(stream.sent, chunk());
  const PReg has_written = kernel_.less(cores_ - 2, step);
  const PReg is_last_but_one = kernel_.equal(step, steps_ - 1);
  kernel_.guarded(has_written, [&] { kernel_.wait(stream.written, chunk()); });
  const PReg keeps =
      kernel_.or_(kernel_.equal(step, 0), kernel_.and_(is_last_round, is_last_but_one));
  kernel_.guarded(not_(keeps), [&] { give_credit(stream, 1); });
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
    kernel_.store_smem(stream.from_vmem, kernel_.sub(rows + 2 * stream.slots.row,
                                                     kernel_.add(slot_row, stream.slots.row)));
    kernel_.store_smem(stream.from_vmem + 3, kernel_.add(slot_row, stream.slots.row));
    kernel_.misc(isa::Opcode::kDma, {stream.from_vmem});
  });
}

void AllReduce::step_body(std::uint32_t index, SReg round, SReg step) {
  const Stream& stream = streams_[index];
  const std::uint32_t rows = chunk() * kRowsPerGranule;
  const SReg slot_row = kernel_.mul(kernel_.and_(step, 1), rows);
  kernel_.wait(stream.received, chunk());
  kernel_.if_(kernel_.less(step, cores_ - 1), [&] {
    kernel_.wait(stream.loaded, chunk());
    kernel_.new_block();
    add_local(stream, slot_row);
    kernel_.if_(kernel_.less(step, cores_ - 2), [&] {
      const SReg next = segment(stream, kernel_.add(step, 2));
      kernel_.dma_in(granule(index, round, next), stream.local, chunk(), stream.loaded);
    });
  });
  send(stream, step, slot_row);
  kernel_.if_(kernel_.less(cores_ - 3, step), [&] {
    const SReg here = segment(stream, kernel_.add(step, 1));
    kernel_.dma_out(VmemAddress(stream.slots, 0, slot_row), granule(index, round, here), chunk(),
                    stream.written);
  });
}

void AllReduce::finish_round(const Stream& stream, PReg is_last_round) {
  kernel_.wait(stream.written, chunk());
  kernel_.guarded(not_(is_last_round), [&] { give_credit(stream, 1); });
}

}  // namespace

AllReduceShape all_reduce_shape(std::uint64_t granules, const Target& target) {
  constexpr std::uint32_t kRegisterGranules = isa::kSublanes / kRowsPerGranule;
  AllReduceShape shape;
  const std::uint64_t vmem_granules = target.vmem_bytes / isa::kHbmGranuleBytes;
  const auto largest = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(kLargestChunk, vmem_granules / (4 * shape.streams)));
  const std::uint64_t chunks = std::uint64_t{shape.streams} * target.cores;
  shape.rounds = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, (granules + chunks * largest - 1) / (chunks * largest)));
  const std::uint64_t parts = chunks * shape.rounds;
  const auto exact = static_cast<std::uint32_t>((granules + parts - 1) / parts);
  shape.chunk_granules = std::max(
      kRegisterGranules, (exact + kRegisterGranules - 1) / kRegisterGranules * kRegisterGranules);
  shape.used_granules = granules;
  shape.granules = parts * shape.chunk_granules;
  return shape;
}

std::vector<std::uint32_t> ring_of_chips(const Target& target) {
  const std::uint32_t width = target.mesh_x;
  const std::uint32_t all = width * target.mesh_y;
  std::uint32_t chips = target.cores / target.cores_per_chip;
  if (target.cores <= target.cores_per_chip) chips = 1;
  const bool is_whole =
      target.cores <= target.cores_per_chip || chips * target.cores_per_chip == target.cores;
  const bool is_rectangle = chips <= width || chips % width == 0;
  if (!is_whole || !is_rectangle || chips > all || chips >= 1U << kTableBits) {
    throw WorkloadError("expected cores that fill rows of the " + std::to_string(target.mesh_x) +
                        "x" + std::to_string(target.mesh_y) + " slice with " +
                        std::to_string(target.cores_per_chip) + " cores a chip, found " +
                        std::to_string(target.cores) + " cores: no ring for the all-reduce");
  }
  const std::uint32_t columns = std::min(chips, width);
  const std::uint32_t rows = chips / columns;
  std::vector<std::uint32_t> ring;
  const auto chip = [width](std::uint32_t x, std::uint32_t y) { return y * width + x; };
  if (rows == 1 || columns == 1) {
    for (std::uint32_t i = 0; i < chips; ++i) ring.push_back(rows == 1 ? chip(i, 0) : chip(0, i));
    return ring;
  }
  // Down the first column, back up in serpentines over the others. With an odd number of rows the
  // serpentine runs over columns when those are even.
  const bool swap = rows % 2 != 0 && columns % 2 == 0;
  const std::uint32_t lines = swap ? columns : rows;
  const std::uint32_t length = swap ? rows : columns;
  const auto place = [&](std::uint32_t line, std::uint32_t along) {
    return swap ? chip(line, along) : chip(along, line);
  };
  ring.push_back(place(0, 0));
  for (std::uint32_t line = 0; line < lines; ++line) {
    for (std::uint32_t i = 1; i < length; ++i) {
      ring.push_back(place(line, line % 2 == 0 ? i : length - i));
    }
  }
  for (std::uint32_t line = lines - 1; line > 0; --line) ring.push_back(place(line, 0));
  return ring;
}

isa::Kernel all_reduce_kernel(const AllReduceShape& shape, const Target& target) {
  TPU_CHECK(target.cores > 1, "an all-reduce over one core");
  return AllReduce(shape, target).build();
}

}  // namespace tpu::compiler
