#pragma once

#include <cstdint>

namespace tpu {

/// The clock of a chip that is slower than the machine's, as of a part that gets too hot: clock
/// pulses are left out, so its edges lie in whole cycles of the machine, as even as they can be.
/// Edge n is in cycle ceil(n * machine / own). Its HBM, routers and DMA engines keep their rates.
class CoreClock {
 public:
  CoreClock(std::uint32_t own_mhz, std::uint32_t machine_mhz)
      : own_(own_mhz), machine_(machine_mhz) {}

  /// It has an edge in every cycle of the machine.
  bool is_the_machines() const { return own_ == machine_; }
  /// Edges up to and with a cycle of the machine, but for edge 0.
  std::uint64_t edges(std::uint64_t cycle) const {
    if (own_ == machine_) return cycle;
    return cycle / machine_ * own_ + cycle % machine_ * own_ / machine_;
  }
  /// Where a cycle lies between edges, which come again.
  std::uint64_t phase(std::uint64_t cycle) const { return own_ == machine_ ? 0 : cycle % machine_; }
  /// The cycle of an edge.
  std::uint64_t cycle(std::uint64_t edge) const {
    return edge / own_ * machine_ + (edge % own_ * machine_ + own_ - 1) / own_;
  }
  /// The cycle of the first edge in a cycle or behind it.
  std::uint64_t next_edge(std::uint64_t at) const {
    if (own_ == machine_) return at;
    const std::uint64_t before = edges(at);
    return cycle(before) == at ? at : cycle(before + 1);
  }
  /// Where so many edges behind that of cycle `from` are.
  std::uint64_t after(std::uint64_t from, std::uint64_t edges_later) const {
    if (own_ == machine_) return from + edges_later;
    return cycle(edges(from) + edges_later);
  }

 private:
  std::uint64_t own_;
  std::uint64_t machine_;
};

}  // namespace tpu
