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
  Hazard check(const std::array<ReadSet, 2>& reads, std::uint64_t now) {
    forget_past(now);
    for (const Pending& write : pending_) {
      const std::uint32_t word = write.reg / 32;
      const std::uint32_t bit = 1U << (write.reg % 32);
      if (now < write.ready && (reads[0][word] & bit) != 0) {
        return {Hazard::Kind::kRegisterEarly, write.ready};
      }
      if (now < write.ready_for_vpack && (reads[1][word] & bit) != 0) {
        return {Hazard::Kind::kRegisterEarly, write.ready_for_vpack};
      }
    }
    return {};
  }
  void add(const SlowWrite& write, std::uint64_t now) {
    pending_.push_back({write.reg, now + write.latency, now + write.latency_for_vpack});
  }
  void forget_past(std::uint64_t now) {
    pending_.erase(std::remove_if(pending_.begin(), pending_.end(),
                                  [&](const Pending& write) {
                                    return write.ready <= now && write.ready_for_vpack <= now;
                                  }),
                   pending_.end());
  }

  void save(StateWriter& out, std::uint64_t now) {
    forget_past(now);
    std::sort(pending_.begin(), pending_.end(), [](const Pending& a, const Pending& b) {
      return std::tie(a.reg, a.ready, a.ready_for_vpack) <
             std::tie(b.reg, b.ready, b.ready_for_vpack);
    });
    out.count(pending_.size());
    for (const Pending& write : pending_) {
      out.count(write.reg);
      out.cycle(write.ready);
      out.cycle(write.ready_for_vpack);
    }
  }
  void load(StateReader& in) {
    pending_.resize(in.next());
    for (Pending& write : pending_) {
      write.reg = static_cast<std::uint8_t>(in.next());
      write.ready = in.next();
      write.ready_for_vpack = in.next();
    }
  }

 private:
  struct Pending {
    std::uint8_t reg = 0;
    std::uint64_t ready = 0;
    std::uint64_t ready_for_vpack = 0;
  };
  std::vector<Pending> pending_;
};

}  // namespace tpu
