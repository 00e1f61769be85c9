#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// What is true of a module on its way: from the pass that establishes it on, until one ends it.
/// `module_verifier.h` has the rule of each.
enum class Fact : std::uint8_t {
  kVerified,        ///< Plain HLO whose shapes follow from its operands.
  kWhole,           ///< No operation in two halves (start and done).
  kInWords,         ///< No integer under 32 bits or over, no f16, no f64.
  kGroupsNumbered,  ///< Every grouping of replicas but that of all has a number.
  kFlat,            ///< No call or fusion in the entry.
  kNotEmpty,        ///< Nothing computes with an array without elements.
  kOutlined,        ///< Loops and branches run regions, whose bodies are modules.
  kRewritten,       ///< Only operations that kernels may have.
  kLayouts,         ///< Every array has an order and tiles.
  kFused,           ///< Elementwise operations and reductions stand inside of fusions.
  kStoredTypes,     ///< Arrays between kernels have types that memory holds.
  kScheduled,       ///< The order of the entry is that of the kernels.
  kPlanned,         ///< Every array has its place.
  kCount,
};
std::string to_string(Fact fact);

/// A set of facts.
class Facts {
 public:
  Facts() = default;
  Facts(std::initializer_list<Fact> facts) {
    for (Fact fact : facts) bits_ |= bit(fact);
  }
  bool has(Fact fact) const { return (bits_ & bit(fact)) != 0; }
  Facts with(const Facts& more) const { return Facts(bits_ | more.bits_); }
  Facts without(const Facts& less) const { return Facts(bits_ & ~less.bits_); }

 private:
  explicit Facts(std::uint32_t bits) : bits_(bits) {}
  static std::uint32_t bit(Fact fact) { return 1U << static_cast<unsigned>(fact); }
  std::uint32_t bits_ = 0;
};

/// When a pass runs, in this order.
enum class Stage : std::uint8_t {
  kWhole,    ///< Once, with all computations in the module.
  kInline,   ///< On the module and on each body, until no branch is known any more.
  kOutline,  ///< Where loops or branches are left; behind it their bodies go through all stages
             ///< from kInline to kEntry.
  kBehindBodies,  ///< Then.
  kEntry,         ///< On the module and on each body.
  kPlan,          ///< Once, with the bodies in their final form.
};

/// What a pass works on.
struct PassContext {
  ScheduledModule& scheduled;
  const Target& target;
  CompileReport* report;             ///< May be null.
  ConvolutionKernels& convolutions;  ///< One for a module and its bodies.
};

/// A row of the table: one run of a pass.
struct Pass {
  const char* name;
  Stage stage;
  void (*run)(const PassContext& context);
  Facts needs;                           ///< Have to hold before it.
  Facts excludes = {};                   ///< Must not hold yet.
  Facts gives = {};                      ///< Hold behind it.
  Facts ends = {};                       ///< Hold no more.
  std::vector<const char*> after = {};   ///< Passes that have run before it.
  std::vector<const char*> before = {};  ///< Passes that have not run yet.
};

/// The passes in the order in which they run.
const std::vector<Pass>& pass_table();

/// Throws SimulatorBug for a table whose order breaks what its rows say: a need that no row before
/// gives, a fact that holds too early, a pass before one that it has to follow.
void check_order(const std::vector<Pass>& table);

}  // namespace tpu::compiler
