#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workloads/compiler/sharding/annotation.h"
#include "workloads/compiler/sharding/device_mesh.h"
#include "workloads/compiler/sharding/factor_rule.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A value of a module: an array, however many tuples it passes through. Elements of tuples are the
/// values that they were made of; the arrays that a loop carries are one value in its body, its
/// condition and its result.
using ValueId = int;

/// How every array of a module lies on the devices, and over which factors each operation is cut.
///
/// Annotated arrays lie as the annotation says; from there shardings are propagated along
/// the factors of operations: first through operations that keep all dimensions, then through all,
/// then from the operands of broadcasts, each forward until nothing changes, then backward, again
/// and again. What the
/// annotations do not reach is whole on every device.
///
/// Needs: calls only of scalar computations, each body of a loop or branch called once.
class ShardingMap {
 public:
  /// Throws WorkloadError with the instruction and the annotation that cannot be followed.
  ShardingMap(const hlo::Module& module, std::int64_t devices);

  const DeviceMesh& mesh() const { return mesh_; }
  /// Computations whose arrays are cut, callees before callers.
  const std::vector<hlo::ComputationId>& order() const { return order_; }
  const std::vector<ValueId>& values(hlo::ComputationId computation, hlo::InstructionId id) const {
    return values_.at(computation)[static_cast<std::size_t>(id)];
  }
  /// Of the parameter of a body.
  const std::vector<ValueId>& parameter_values(hlo::ComputationId body) const {
    return parameters_.at(body);
  }
  const Sharding& sharding(ValueId value) const {
    return states_[static_cast<std::size_t>(value)].sharding;
  }
  const Sharding& sharding(hlo::ComputationId computation, hlo::InstructionId id,
                           std::size_t leaf = 0) const {
    return sharding(values(computation, id)[leaf]);
  }
  const FactorRule& rule(hlo::ComputationId computation, hlo::InstructionId id) const {
    return rules_.at(computation)[static_cast<std::size_t>(id)];
  }
  /// The manual axes of a GlobalToLocalShape and its kin, and where their operand or result lies.
  struct Boundary {
    std::vector<Sharding> leaves;
  };
  const Boundary* boundary(hlo::ComputationId computation, hlo::InstructionId id) const;
  /// How the arrays of the entry's result have to lie.
  const std::vector<Sharding>& results() const { return results_; }

 private:
  struct State {
    std::vector<std::int64_t> extents;
    Sharding sharding;
    std::vector<bool> closed;  ///< Dimensions that are not cut further.
    std::string name;
  };
  struct Link {
    ValueId from = -1, to = -1;
  };
  enum class Level { kSameDimensions, kAll, kBroadcasts };

  void collect(hlo::ComputationId id);
  void collect_instruction(hlo::ComputationId id, const hlo::HloInstruction& instruction);
  void collect_loop(hlo::ComputationId id, const hlo::HloInstruction& loop);
  void collect_conditional(hlo::ComputationId id, const hlo::HloInstruction& conditional);
  void add_values(const hlo::Shape& shape, const std::string& name, std::vector<ValueId>& to);
  void make_mesh(std::int64_t devices);
  void annotate(hlo::ComputationId id, const hlo::HloInstruction& instruction);
  void annotate_boundary(hlo::ComputationId id, const hlo::HloInstruction& instruction,
                         const InstructionAnnotation& annotation);
  void place_results();
  void keep_aliases(std::vector<char>& is_given);
  Sharding from_annotation(const ShardingAnnotation& annotation, const State& state,
                           const std::string& where, bool must_divide) const;
  bool extend(ValueId value, const std::vector<Axes>& wanted);
  bool pass_on(ValueId from, const FactorRule::ArrayFactors& from_factors, ValueId to,
               const FactorRule::ArrayFactors& to_factors, const FactorRule& rule);
  bool visit(hlo::ComputationId id, const hlo::HloInstruction& instruction, Level level,
             bool forward);
  bool sweep(Level level, bool forward);
  void propagate();

  const hlo::Module& module_;
  AnnotationReader reader_;
  DeviceMesh mesh_{1, {}};
  std::vector<hlo::ComputationId> order_;
  std::map<hlo::ComputationId, std::vector<std::vector<ValueId>>> values_;
  std::map<hlo::ComputationId, std::vector<FactorRule>> rules_;
  std::map<hlo::ComputationId, std::map<hlo::InstructionId, InstructionAnnotation>> annotations_;
  std::map<hlo::ComputationId, std::map<hlo::InstructionId, Boundary>> boundaries_;
  std::map<hlo::ComputationId, std::vector<ValueId>> parameters_;  ///< Of bodies, given before.
  std::vector<Link> links_;
  std::vector<Sharding> results_;
  std::vector<State> states_;
};

/// The axes of each factor in an array that lies like this, as far as they fit.
std::vector<Axes> axes_of_factors(const DeviceMesh& mesh, const FactorRule& rule,
                                  const FactorRule::ArrayFactors& array, const Sharding& sharding);
/// How an array lies whose factors are cut along these axes.
Sharding sharding_of_factors(const DeviceMesh& mesh, const FactorRule& rule,
                             const FactorRule::ArrayFactors& array, const std::vector<Axes>& axes);

/// Kinds of custom-calls around a part of a program that is written for one device.
bool enters_manual_part(const hlo::HloInstruction& instruction);
bool leaves_manual_part(const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
