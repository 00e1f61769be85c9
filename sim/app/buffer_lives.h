#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/compiler.h"

namespace tpu::app {

/// From which op to which each buffer of a program of our compiler holds data, out of the module
/// that its last pass leaves: from the op that makes it to the last that reads it. What the body of
/// a loop or branch keeps for itself lives as long as the loop or branch runs.
class BufferLives {
 public:
  /// Notes what the last pass leaves, and tells `next` of every pass.
  compiler::PassObserver observer(const compiler::PassObserver& next);
  /// In the order of the program's buffers; empty where no pass was seen.
  std::vector<isa::Lifetime> of(const isa::Program& program) const;

 private:
  struct Life {
    std::string buffer;
    std::size_t first = 0, last = 0;  ///< Places in `names_`.
  };
  void read(const hlo::Module& planned);

  std::vector<std::string> names_;  ///< Of the entry's instructions, in their order.
  std::vector<Life> lives_;
};

}  // namespace tpu::app
