#include "workloads/compiler/kernels/collective/mesh_all_reduce.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/power_of_two.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/collective/mesh_cut.h"
#include "workloads/compiler/kernels/collective/remote_dma.h"

namespace tpu::compiler {
namespace {

constexpr std::uint32_t kFieldMask = (1U << kMeshFieldBits) - 1;

class MeshAllReduce {
 public:
  MeshAllReduce(const AllReduceShape& shape, const Target& target, std::uint32_t number)
      : shape_(shape),
        target_(target),
        cut_(target, shape.mesh.y_first),
        kernel_("all-reduce", target),
        entered_(number == 0 ? kMeshEntranceFlag.begin : kGroupEntranceFlags.begin + number) {
    half_ = bucket() / cut_.pair;
  }

  isa::Kernel build() {
    base_ = kernel_.operand(0);
    allocate();
    find_place();
    clear_granules(kernel_, buffers_, kMeshBuffers * bucket(), base_, shape_.used_granules,
                   shape_.granules, written_);
    prepare_dmas();
    enter();
    slot_ = kernel_.scalar_variable(0);
    start_load(kernel_.constant(0), kernel_.constant(0));
    kernel_.loop(shape_.mesh.buckets + 2, [&](SReg turn) { take_turn(turn); });
    return kernel_.finish();
  }

 private:
  /// A ring along a dimension, as this core stands in it.
  struct Line {
    SReg rank, next, previous;  ///< Chips.
  };
  /// A dimension: this core's place on its ring, and its DMAs one way round and the other.
  struct Way {
    RemoteDmaWords reduce, gather;
  };
  /// A part of each segment, which travels by itself.
  struct Part {
    std::uint32_t row = 0;  ///< Its first one in a segment.
    Way forward, backward;
  };
  struct Dimension {
    std::uint32_t members = 1, granules = 0;  ///< Granules of a member's segment.
    std::uint32_t arrivals = 0;               ///< First of its rows in the region of that name.
    Line line;
    std::vector<Part> parts;

    std::uint32_t part_granules() const {
      return granules / static_cast<std::uint32_t>(parts.size());
    }
  };

  /// The dimension along which whole halves go, and the others, one after the other.
  using Order = std::vector<Dimension>;

  std::uint32_t bucket() const { return shape_.mesh.bucket_granules; }
  static std::uint32_t rows(std::uint32_t granules) { return granules * kRowsPerGranule; }

  void allocate();
  Order order(const std::vector<std::uint32_t>& sides) const;
  void in_order(const std::function<void(const Order&)>& emit);
  void find_place();
  Line line(std::uint32_t members, bool wraps, SReg at, const std::function<SReg(SReg)>& chip);
  void prepare_dmas();
  void prepare_lines();
  void prepare_dimension(Dimension& along, std::uint32_t sent);
  RemoteDmaWords prepare_dma(std::uint32_t sent, std::uint32_t granules, const Peer& to);
  void enter();
  void start_load(SReg number, SReg slot);
  void take_turn(SReg turn);
  void store_sums(SReg number, SReg slot);
  void finish_pair(SReg slot, SReg turn);
  SReg first_row(SReg slot);
  SReg row_of(SReg slot, const Order& order, std::size_t dimension);
  void reduce(const Dimension& along, SReg begin);
  void gather(const Dimension& along, SReg begin);
  using Move = std::function<void(const Part&, bool forward, SReg step)>;
  void travel(const Dimension& along, const Move& send, const Move& receive);
  SReg arrival_row(const Dimension& along, const Part& part, bool forward, SReg step);
  void add_rows(SReg to_row, SReg from_row, std::uint32_t granules);
  SReg segment_row(SReg begin, const Dimension& along, ScalarOperand ahead);

  const AllReduceShape& shape_;
  const Target& target_;
  const MeshCut cut_;
  KernelBuilder kernel_;
  std::uint32_t half_ = 0;  ///< Granules of a bucket that this core sums.
  SReg base_, chip_, core_, my_half_, other_half_;
  VmemRegion buffers_;   ///< kMeshBuffers buckets.
  SVariable slot_;       ///< First row of the present turn's bucket in the buffers.
  VmemRegion arrivals_;  ///< From the other core, then the parts of all dimensions.
  const std::uint32_t entered_;
  std::uint32_t loaded_ = 0, written_ = 0, added_ = 0, sent_ = 0;
  std::vector<Line> lines_;    ///< Along x, y and z.
  std::vector<Order> orders_;  ///< One, or one for each core of a chip.
  RemoteDmaWords exchange_half_, return_half_;
  std::uint32_t next_flag_ = kKernelFlags.begin;
};

MeshAllReduce::Order MeshAllReduce::order(const std::vector<std::uint32_t>& sides) const {
  Order order;
  std::uint32_t granules = half_, arrivals = rows(cut_.pair > 1 ? half_ : 0);
  for (const std::uint32_t side : sides) {
    Dimension& along = order.emplace_back();
    along.members = side;
    along.granules = granules /= side;
    along.arrivals = arrivals;
    arrivals += rows((side - 1) * granules);
  }
  return order;
}

void MeshAllReduce::allocate() {
  orders_ = {order(cut_.sides)};
  if (cut_.orders() > 1) {
    std::vector<std::uint32_t> other = cut_.sides;
    std::swap(other[0], other[1]);
    orders_.push_back(order(other));
  }
  const Dimension& last = orders_[0].back();
  // The last part is added in whole registers, which reach a little into what is behind it.
  arrivals_ = kernel_.allocate_vmem(last.arrivals + rows((last.members - 1) * last.granules));
  buffers_ = kernel_.allocate_vmem(kMeshBuffers * rows(bucket()));
  loaded_ = next_flag_++;
  written_ = next_flag_++;
  added_ = next_flag_++;
  kernel_.new_block();
}

/// A ring over the chips of a line: with a wrap-around in their order; else out over the even ones
/// and back over the odd ones, so that neighbours are two links apart at most.
MeshAllReduce::Line MeshAllReduce::line(std::uint32_t members, bool wraps, SReg at,
                                        const std::function<SReg(SReg)>& chip) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < members; ++i) {
    const bool straight = wraps || members <= 2;
    const std::uint32_t half = ceil_divide(members, 2);
    order.push_back(straight ? i : i < half ? 2 * i : 2 * (members - 1 - i) + 1);
  }
  const std::uint32_t table = kernel_.allocate_smem(members);
  for (std::uint32_t i = 0; i < members; ++i) {
    kernel_.store_smem(table + order[i],
                       i | order[(i + 1) % members] << kMeshFieldBits |
                           order[(i + members - 1) % members] << 2 * kMeshFieldBits);
  }
  const SReg entry = kernel_.load_smem(table, at);
  const auto field = [&](int bits) {
    return kernel_.and_(kernel_.shift_right(entry, bits), kFieldMask);
  };
  return {kernel_.and_(entry, kFieldMask), chip(field(kMeshFieldBits)),
          chip(field(2 * kMeshFieldBits))};
}

void MeshAllReduce::find_place() {
  chip_ = kernel_.load_smem(kChipIdWord);
  core_ = kernel_.load_smem(kCoreIdWord);
  const isa::Topology::Dimension &along_x = target_.slice.dimension(0),
                                 &along_y = target_.slice.dimension(1),
                                 &along_z = target_.slice.dimension(2);
  const int bits = floor_log2(along_x.size), z_bits = bits + floor_log2(along_y.size);
  const bool has_z = along_z.size > 1;
  const SReg x = kernel_.and_(chip_, along_x.size - 1);
  const SReg rest = kernel_.shift_right(chip_, bits);
  const SReg y = has_z ? kernel_.and_(rest, along_y.size - 1) : rest;
  lines_.push_back(line(along_x.size, along_x.wraps, x,
                        [&](SReg to) { return kernel_.add(kernel_.sub(chip_, x), to); }));
  const SReg beside_y = has_z ? kernel_.sub(chip_, kernel_.shift_left(y, bits)) : x;
  lines_.push_back(line(along_y.size, along_y.wraps, y, [&](SReg to) {
    return kernel_.add(kernel_.shift_left(to, bits), beside_y);
  }));
  if (has_z) {
    const SReg z = kernel_.shift_right(chip_, z_bits);
    const SReg beside_z = kernel_.and_(chip_, along_x.size * along_y.size - 1);
    lines_.push_back(line(along_z.size, along_z.wraps, z, [&](SReg to) {
      return kernel_.add(kernel_.shift_left(to, z_bits), beside_z);
    }));
  }
  my_half_ = kernel_.mul(core_, rows(half_));
  other_half_ = kernel_.sub(rows(bucket() - half_), my_half_);
  kernel_.new_block();
}

RemoteDmaWords MeshAllReduce::prepare_dma(std::uint32_t sent, std::uint32_t granules,
                                          const Peer& to) {
  const RemoteDmaWords words{kernel_.allocate_smem(8), next_flag_++, sent, granules, false, false};
  write_remote_dma(kernel_, words, {chip_, core_}, to);
  kernel_.new_block();
  return words;
}

void MeshAllReduce::prepare_dimension(Dimension& along, std::uint32_t sent) {
  along.parts.resize(segment_parts(along.granules, along.members));
  const auto way = [&](SReg to) {
    return Way{prepare_dma(sent, along.part_granules(), {to, core_}),
               prepare_dma(sent, along.part_granules(), {to, core_})};
  };
  for (std::uint32_t p = 0; p < along.parts.size(); ++p) {
    Part& part = along.parts[p];
    part.row = p * rows(along.part_granules());
    if (steps_forward(along.members) > 0) part.forward = way(along.line.next);
    if (steps_backward(along.members) > 0) part.backward = way(along.line.previous);
  }
}

void MeshAllReduce::prepare_dmas() {
  if (cut_.pair > 1) {
    const Peer other{chip_, kernel_.sub(1, core_)};
    exchange_half_ = prepare_dma(next_flag_++, half_, other);
    return_half_ = prepare_dma(next_flag_++, half_, other);
  }
  prepare_lines();
  sent_ = next_flag_++;
  // A core takes one of the orders, as all those on its lines do: they have flags in common.
  const std::uint32_t flags = next_flag_;
  for (Order& order : orders_) {
    next_flag_ = flags;
    for (Dimension& along : order) prepare_dimension(along, sent_);
  }
}

void MeshAllReduce::prepare_lines() {
  Order& order = orders_[0];
  for (std::size_t i = 0; i < order.size(); ++i) order[i].line = lines_[cut_.along[i]];
  if (orders_.size() > 1) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      orders_[1][i].line = order[i < 2 ? 1 - i : i].line;
    }
  } else if (cut_.pair > 1) {
    const PReg along_x = kernel_.equal(core_, 0);
    const auto choose = [&](const Line& a, const Line& b) {
      return Line{kernel_.select(along_x, a.rank, b.rank), kernel_.select(along_x, a.next, b.next),
                  kernel_.select(along_x, a.previous, b.previous)};
    };
    order[0].line = choose(lines_[0], lines_[1]);
    order[1].line = choose(lines_[1], lines_[0]);
  }
}

/// Code for the order of this core.
void MeshAllReduce::in_order(const std::function<void(const Order&)>& emit) {
  if (orders_.size() == 1) return emit(orders_[0]);
  for (std::uint32_t core = 0; core < orders_.size(); ++core) {
    kernel_.if_(kernel_.equal(core_, core), [&] { emit(orders_[core]); });
  }
}

/// Tells all that send to this core that it is there, and waits for those that it sends to.
void MeshAllReduce::enter() {
  std::uint32_t senders = 0;
  const auto tell = [&](const Peer& peer) {
    kernel_.misc(isa::Opcode::kVsyncaddRemote, {remote_flag_address(kernel_, peer, entered_), 1});
    kernel_.new_block();
    ++senders;
  };
  if (cut_.pair > 1) tell({chip_, kernel_.sub(1, core_)});
  for (const Dimension& along : orders_[0]) {
    if (steps_forward(along.members) > 0) tell({along.line.previous, core_});
    if (steps_backward(along.members) > 0) tell({along.line.next, core_});
  }
  kernel_.wait(entered_, senders);
}

void MeshAllReduce::start_load(SReg number, SReg slot) {
  kernel_.dma_in(kernel_.add(base_, kernel_.mul(number, bucket())), VmemAddress(buffers_, 0, slot),
                 bucket(), loaded_);
  kernel_.new_block();
}

/// Three buckets are under way: one is exchanged between the cores of a chip, the one before goes
/// along the dimensions, of the one before that the sums are stored.
void MeshAllReduce::take_turn(SReg turn) {
  const std::uint32_t buckets = shape_.mesh.buckets;
  const std::uint32_t last = (kMeshBuffers - 1) * rows(bucket());
  const SReg slot = kernel_.get(slot_);
  const SReg before =
      kernel_.select(kernel_.equal(slot, 0), last, kernel_.sub(slot, rows(bucket())));
  const SReg other =
      kernel_.select(kernel_.equal(slot, last), 0, kernel_.add(slot, rows(bucket())));
  const PReg exchanges = kernel_.less(turn, buckets);
  const PReg sums = kernel_.and_(kernel_.less(0, turn), kernel_.less(turn, buckets + 1));
  kernel_.new_block();
  kernel_.if_(exchanges, [&] {
    kernel_.wait(loaded_, bucket());
    kernel_.new_block();
    if (cut_.pair == 1) return;
    kernel_.if_(kernel_.less(0, turn), [&] { kernel_.wait(added_, 1); });
    start_remote_dma(kernel_, exchange_half_,
                     kernel_.add(kernel_.add(slot, buffers_.row), other_half_), arrivals_.row);
    kernel_.new_block();
  });
  kernel_.if_(sums, [&] {
    in_order([&](const Order& order) {
      for (std::size_t i = 0; i < order.size(); ++i) reduce(order[i], row_of(before, order, i));
    });
  });
  kernel_.if_(kernel_.less(1, turn), [&] { store_sums(kernel_.sub(turn, 2), other); });
  kernel_.if_(sums, [&] {
    in_order([&](const Order& order) {
      for (std::size_t i = order.size() - 1; i > 0; --i) gather(order[i], row_of(before, order, i));
    });
  });
  // The next bucket is loaded meanwhile.
  kernel_.if_(kernel_.less(1, turn), [&] { kernel_.wait(written_, bucket()); });
  kernel_.if_(kernel_.less(turn, buckets - 1), [&] { start_load(kernel_.add(turn, 1), other); });
  kernel_.if_(sums, [&] {
    in_order([&](const Order& order) { gather(order[0], first_row(before)); });
    // All of the half but what this core sums, whatever the order.
    const std::uint32_t sent = 2 * (half_ - orders_[0].back().granules);
    if (sent > 0) kernel_.wait(sent_, sent);
  });
  // What it tells the other core goes before the sums that follow on the same path.
  if (cut_.pair > 1) kernel_.if_(exchanges, [&] { finish_pair(slot, turn); });
  kernel_.if_(sums, [&] {
    if (cut_.pair == 1) return;
    const SReg mine = kernel_.add(kernel_.add(before, buffers_.row), my_half_);
    start_remote_dma(kernel_, return_half_, mine, mine);
    kernel_.new_block();
  });
  kernel_.new_block();
  kernel_.set(slot_, other);
}

/// What the other core of the chip has summed is here, too: the bucket goes back to the HBM.
void MeshAllReduce::store_sums(SReg number, SReg slot) {
  if (cut_.pair > 1) {
    kernel_.wait(return_half_.received, half_);
    kernel_.wait(return_half_.sent, half_);
  }
  kernel_.dma_out(VmemAddress(buffers_, 0, slot), kernel_.add(base_, kernel_.mul(number, bucket())),
                  bucket(), written_);
  kernel_.new_block();
}

/// Adds the other core's half of what this one sums, and tells it that its place is free.
void MeshAllReduce::finish_pair(SReg slot, SReg turn) {
  kernel_.wait(exchange_half_.received, half_);
  kernel_.wait(exchange_half_.sent, half_);
  kernel_.new_block();
  add_rows(kernel_.add(slot, my_half_), kernel_.constant(0), half_);
  kernel_.if_(kernel_.less(turn, shape_.mesh.buckets - 1), [&] {
    const Peer other{chip_, kernel_.sub(1, core_)};
    kernel_.misc(isa::Opcode::kVsyncaddRemote, {remote_flag_address(kernel_, other, added_), 1});
    kernel_.new_block();
  });
}

/// Where the segments of the first dimension begin in VMEM.
SReg MeshAllReduce::first_row(SReg slot) {
  return kernel_.add(kernel_.add(slot, buffers_.row), my_half_);
}

/// And those of a dimension, inside of this core's segment of the one before.
SReg MeshAllReduce::row_of(SReg slot, const Order& order, std::size_t dimension) {
  if (dimension == 0) return first_row(slot);
  const SReg mine = row_of(slot, order, dimension - 1);
  const Dimension& before = order[dimension - 1];
  return kernel_.add(mine, kernel_.mul(before.line.rank, rows(before.granules)));
}

/// The first row of the segment `ahead` places ahead of this core's own on the ring.
SReg MeshAllReduce::segment_row(SReg begin, const Dimension& along, ScalarOperand ahead) {
  const SReg segment = kernel_.and_(kernel_.add(along.line.rank, ahead), along.members - 1);
  return kernel_.add(begin, kernel_.mul(segment, rows(along.granules)));
}

/// The steps of a dimension: in each one, part by part and both ways round, what comes is received
/// and what goes on in the next step is sent at once. The nearer side has one step less, or none.
void MeshAllReduce::travel(const Dimension& along, const Move& send, const Move& receive) {
  const std::uint32_t forward = steps_forward(along.members);
  const std::uint32_t backward = steps_backward(along.members);
  if (forward == 0) return;
  for (const Part& part : along.parts) {
    send(part, true, kernel_.constant(0));
    if (backward > 0) send(part, false, kernel_.constant(0));
  }
  const auto take_step = [&](const Part& part, bool is_forward, SReg step) {
    receive(part, is_forward, step);
    const std::uint32_t last = (is_forward ? forward : backward) - 1;
    kernel_.if_(kernel_.less(step, last), [&] { send(part, is_forward, kernel_.add(step, 1)); });
  };
  kernel_.loop(forward, [&](SReg step) {
    for (const Part& part : along.parts) {
      take_step(part, true, step);
      if (backward == 0) continue;
      kernel_.if_(kernel_.less(step, backward), [&] { take_step(part, false, step); });
    }
  });
}

/// Where a part of a step arrives.
SReg MeshAllReduce::arrival_row(const Dimension& along, const Part& part, bool forward, SReg step) {
  const std::uint32_t behind = forward ? 0 : steps_forward(along.members) * rows(along.granules);
  return kernel_.add(kernel_.mul(step, rows(along.granules)), along.arrivals + behind + part.row);
}

/// Reduce-scatter along a dimension: each core ends with the sum of its own segment. Half of the
/// others' parts come one way round, half the other way; on the way each core adds its own.
void MeshAllReduce::reduce(const Dimension& along, SReg begin) {
  const auto forward_steps = steps_forward(along.members);
  const auto backward_steps = steps_backward(along.members);
  const Move send = [&](const Part& part, bool forward, SReg step) {
    const SReg ahead =
        forward ? kernel_.sub(forward_steps, step) : kernel_.sub(step, backward_steps);
    const RemoteDmaWords& dma = (forward ? part.forward : part.backward).reduce;
    start_remote_dma(kernel_, dma, kernel_.add(segment_row(begin, along, ahead), part.row),
                     kernel_.add(arrival_row(along, part, forward, step), arrivals_.row));
    kernel_.new_block();
  };
  const Move receive = [&](const Part& part, bool forward, SReg step) {
    kernel_.wait((forward ? part.forward : part.backward).reduce.received, along.part_granules());
    kernel_.new_block();
    const SReg ahead =
        forward ? kernel_.sub(forward_steps - 1, step) : kernel_.sub(step, backward_steps - 1);
    const SReg sum = kernel_.sub(segment_row(begin, along, ahead), buffers_.row);
    add_rows(kernel_.add(sum, part.row), arrival_row(along, part, forward, step),
             along.part_granules());
  };
  travel(along, send, receive);
}

/// All-gather along a dimension: segments arrive where they belong, half of them from either side.
void MeshAllReduce::gather(const Dimension& along, SReg begin) {
  const Move send = [&](const Part& part, bool forward, SReg step) {
    const SReg segment = segment_row(begin, along, forward ? kernel_.sub(0, step) : step);
    const SReg row = kernel_.add(segment, part.row);
    start_remote_dma(kernel_, (forward ? part.forward : part.backward).gather, row, row);
    kernel_.new_block();
  };
  const Move receive = [&](const Part& part, bool forward, SReg) {
    kernel_.wait((forward ? part.forward : part.backward).gather.received, along.part_granules());
    kernel_.new_block();
  };
  travel(along, send, receive);
}

/// Adds rows of what has arrived to rows of the buffers.
void MeshAllReduce::add_rows(SReg to_row, SReg from_row, std::uint32_t granules) {
  const auto add = [&](std::int64_t offset, SReg to, SReg from, const std::optional<MReg>& mask) {
    const VmemAddress sum(buffers_, offset, to);
    const VReg added =
        kernel_.add(kernel_.load(sum), kernel_.load(VmemAddress(arrivals_, offset, from)));
    if (mask) {
      kernel_.store(sum, *mask, added);
    } else {
      kernel_.store(sum, added);
    }
  };
  const std::uint32_t registers = granules / kRegisterGranules;
  std::uint32_t unroll = kRegistersPerTurn;
  while (registers % unroll != 0) --unroll;
  kernel_.loop(registers / unroll, [&](SReg turn) {
    const SReg row = kernel_.mul(turn, unroll * isa::kSublanes);
    const SReg to = kernel_.add(to_row, row), from = kernel_.add(from_row, row);
    for (std::uint32_t i = 0; i < unroll; ++i) {
      add(std::int64_t{i} * isa::kSublanes, to, from, std::nullopt);
    }
  });
  if (granules % kRegisterGranules != 0) {
    const std::uint32_t left = rows(granules % kRegisterGranules) * isa::kLanes;
    const MReg mask =
        kernel_.vector_compare(isa::Opcode::kVcmpLtS32, kernel_.lane_sequence(), left);
    const std::int64_t offset = std::int64_t{registers} * isa::kSublanes;
    add(offset, to_row, from_row, mask);
  }
  kernel_.new_block();
}

}  // namespace

isa::Kernel mesh_all_reduce_kernel(const AllReduceShape& shape, const Target& target,
                                   std::uint32_t number) {
  return MeshAllReduce(shape, target, number).build();
}

}  // namespace tpu::compiler
