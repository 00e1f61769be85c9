#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isa/program.h"
#include "sim/base/error.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What a compilation says of itself.
struct CompileReport {
  struct Pass {
    std::string name;
    double cpu_s = 0;
  };
  std::vector<Pass> passes;
  std::size_t kernels = 0;  ///< Distinct kernels.
  std::size_t call_sites = 0;
  std::size_t bundles = 0;         ///< Static bundles.
  std::vector<std::string> notes;  ///< What the user should know of the program, a line each.
  /// As the module states them; buffers may hold wider ones.
  std::vector<hlo::ElementType> parameter_types, result_types;
};

/// A module whose buffers do not fit the HBM of a core; the message is the report that users of
/// TPUs know, lines at its end.
class OutOfMemoryError : public WorkloadError {
 public:
  /// Bytes of HBM: what the module's arguments take, what the program allocates beside them, what
  /// there is for both.
  struct Use {
    std::uint64_t arguments = 0, program = 0, capacity = 0;
  };
  OutOfMemoryError(const std::string& report, const Use& use) : WorkloadError(report), use_(use) {}
  const Use& use() const { return use_; }

 private:
  Use use_;
};

/// What a pass leaves, while an observer is told of it.
class PassResult {
 public:
  PassResult(std::string pass, const hlo::Module& module, bool is_last = false)
      : pass_(std::move(pass)), module_(module), is_last_(is_last) {}

  /// Its name; of the body of a loop or branch "body/pass".
  const std::string& pass() const { return pass_; }
  /// As HLO that reads back, which is made when it is asked for.
  const hlo::Module& module() const;
  /// Of the passes of the whole module: kernels are made of what it leaves.
  bool is_last() const { return is_last_; }

 private:
  std::string pass_;
  const hlo::Module& module_;
  mutable std::optional<hlo::Module> plain_;
  bool is_last_;
};

/// Is told of each pass.
using PassObserver = std::function<void(const PassResult&)>;

/// Compiles a training step (or any module) for one core of the target; the cores of a
/// data-parallel run all execute it. The module's gradients are reduced over target.cores replicas
/// by its all-reduce instructions. Throws WorkloadError for an operation without a kernel (its
/// opcode and shapes) and for what does not fit (the out-of-memory report).
isa::Program compile(const hlo::Module& module, const Target& target,
                     CompileReport* report = nullptr, const PassObserver& after_pass = {});

/// True when the module's buffers fit the target's HBM; makes no kernels.
bool fits(const hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
