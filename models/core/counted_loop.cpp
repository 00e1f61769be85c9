#include "models/core/counted_loop.h"

#include <limits>

namespace tpu {
namespace {

using Kind = MicroOp::Kind;

std::uint64_t bit(std::uint8_t reg) { return std::uint64_t{1} << reg; }

/// Computes a register from registers, and does so in every trip.
bool is_plain(const MicroOp& op) { return op.guard.always() && op.kind <= Kind::kNot; }

std::uint64_t registers_read(const MicroOp& op) {
  return (bit(op.reg[0]) | bit(op.reg[1]) | bit(op.reg[2])) & ~bit(scalar_file::kZero);
}

/// What the operations say of each other, in their order.
struct Uses {
  bool plain = true;
  std::uint64_t written = 0;
  std::uint64_t written_again = 0;  ///< By more than one of them.
  std::uint64_t carried = 0;        ///< Read before they are written.
};

Uses uses_of(const MicroOp* begin, const MicroOp* end) {
  Uses uses;
  std::uint64_t read_first = 0;
  for (const MicroOp* op = begin; op != end; ++op) {
    uses.plain = uses.plain && is_plain(*op);
    read_first |= registers_read(*op) & ~uses.written;
    uses.written_again |= uses.written & bit(op->dest);
    uses.written |= bit(op->dest);
  }
  uses.carried = read_first & uses.written;
  return uses;
}

const MicroOp* writer(const MicroOp* begin, const MicroOp* end, std::uint8_t reg) {
  for (const MicroOp* op = begin; op != end; ++op) {
    if (op->dest == reg) return op;
  }
  return nullptr;
}

}  // namespace

CountedLoop counted_loop(const MicroOp* begin, const MicroOp* end) {
  const Uses uses = uses_of(begin, end);
  const MicroOp* const branch = writer(begin, end, scalar_file::kBranchTaken);
  if (!uses.plain || branch == nullptr || branch->kind != Kind::kCopyBit ||
      branch->immediate[0] != 0) {
    return {};
  }
  const MicroOp* const compare = writer(begin, branch, branch->reg[0]);
  if (compare == nullptr || compare->kind != Kind::kLess) return {};
  const std::uint8_t counter = compare->reg[0];
  const MicroOp* const add = writer(begin, end, counter);
  if (add == nullptr || add->kind != Kind::kAdd || uses.carried != bit(counter)) return {};
  if (registers_read(*add) != bit(counter) || add->reg[0] == add->reg[1]) return {};
  const std::uint64_t once = bit(counter) | bit(compare->dest) | bit(branch->dest);
  if ((uses.written_again & once) != 0 || (uses.written & bit(compare->reg[1])) != 0) return {};
  CountedLoop loop;
  loop.step = add->immediate[0] + add->immediate[1];
  if (static_cast<std::int32_t>(loop.step) <= 0) return {};
  loop.counter = counter;
  loop.offset = compare->immediate[0] + (add < compare ? loop.step : 0);
  loop.bound = {compare->reg[1], compare->immediate[1]};
  return loop;
}

std::uint64_t CountedLoop::trips(std::uint32_t counter_before, std::uint32_t bound_value) const {
  const std::int64_t compared = static_cast<std::int32_t>(counter_before + offset);
  const std::int64_t end = static_cast<std::int32_t>(bound_value);
  // Behind the last number the counter begins again at the lowest one.
  if (compared >= end || end + step > std::numeric_limits<std::int32_t>::max()) return 0;
  return (static_cast<std::uint64_t>(end - compared) + step - 1) / step;
}

}  // namespace tpu
