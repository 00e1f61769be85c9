#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "models/core/decoded_kernel.h"
#include "models/params.h"
#include "models/schedule_cause.h"

namespace tpu {

/// Why the bundles of a kernel stand as far apart as they do, for any compiler's code: each cycle
/// of a bundle (its own and its delay) is charged to one cause.
///
/// Code between branches and their targets is taken by itself, as if no wait stalled it. In it, a
/// bundle may be held by another one before it: the writer of a register that it reads, the push
/// whose result it pops, the last user of a port that takes eight rows in eight cycles, the bundle
/// just before whose slots are full. It is held where the distance is exactly what the machine
/// asks for. From the end of the code back to its begin the analysis follows the chain of holds
/// that leaves the fewest cycles unforced; of equal chains, one of ports and slots rather than of
/// results: what a taken port explains, nothing but the port can shorten. Each hold is charged with
/// the cycles it spans. A loop whose body is one such piece is followed through three of its trips,
/// of which the second counts.
///
/// Left out: dependences through VMEM, and what is in the queues when a piece begins.
class ScheduleCauses {
 public:
  struct Charge {
    ScheduleCause cause = ScheduleCause::kUnforced;
    std::uint32_t cycles = 0;
  };

  ScheduleCauses(const isa::Kernel& kernel, const DecodedKernel& code, const CoreParams& params);

  const Charge* begin(std::uint32_t bundle) const { return charges_.data() + first_[bundle]; }
  const Charge* end(std::uint32_t bundle) const { return charges_.data() + first_[bundle + 1]; }

 private:
  std::vector<std::uint32_t> first_;  ///< Per bundle and one more, in charges_.
  std::vector<Charge> charges_;
};

}  // namespace tpu
