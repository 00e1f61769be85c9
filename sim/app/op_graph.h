#pragma once

#include <map>
#include <string>
#include <vector>

#include "traces/run_record.h"
#include "workloads/compiler/compiler.h"

namespace tpu::app {

/// Which operation of a program reads what of which other: out of the module that our compiler's
/// last pass leaves, or out of the scheduled one that XLA's compiler left. Instructions that are no
/// operations of the program (tuples and their elements, bitcasts) are looked through.
class OpGraph {
 public:
  compiler::PassObserver observer();
  void read(const hlo::Module& module);
  /// What each op of the program reads, ops and parameters, as far as the module has them.
  std::vector<traces::OpOperand> operands(const std::vector<isa::OpInfo>& ops) const;

 private:
  struct Node {
    std::vector<std::string> operands;
    std::int64_t parameter = -1;
  };
  std::map<std::string, Node> nodes_;  ///< Of the entry computation, by name.
};

}  // namespace tpu::app
