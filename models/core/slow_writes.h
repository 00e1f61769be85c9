#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "models/core/decoded_kernel.h"
#include "models/core/result_queue.h"

namespace tpu {

/// Registers whose new value is still on its way: reading one is a hazard.
class SlowWrites {
 public:
  bool empty() const { return pending_.empty(); }

  /// The hazard of a bundle that reads these registers now.
  Hazard check(const ReadSet& reads, std::uint64_t now) {
    forget_past(now);
    for (const Pending& write : pending_) {
      if ((reads[write.reg / 32] >> (write.reg % 32) & 1) != 0) {
        return {Hazard::Kind::kRegisterEarly, write.ready};
      }
    }
    return {};
  }
  void add(const SlowWrite& write, std::uint64_t now) {
    pending_.push_back({write.reg, now + write.latency});
  }

  void save(StateWriter& out, std::uint64_t now) {
    forget_past(now);
    std::sort(pending_.begin(), pending_.end(), [](const Pending& a, const Pending& b) {
      return std::tie(a.reg, a.ready) < std::tie(b.reg, b.ready);
    });
    out.count(pending_.size());
    for (const Pending& write : pending_) {
      out.count(write.reg);
      out.cycle(write.ready);
    }
  }
  void load(StateReader& in) {
    pending_.resize(in.next());
    for (Pending& write : pending_) {
      write.reg = static_cast<std::uint8_t>(in.next());
      write.ready = in.next();
    }
  }

 private:
  struct Pending {
    std::uint8_t reg = 0;
    std::uint64_t ready = 0;
  };

  void forget_past(std::uint64_t now) {
    pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                  [&](const Pending& write) { return write.ready <= now; }),
                   pending_.end());
  }

  std::vector<Pending> pending_;
};

}  // namespace tpu
