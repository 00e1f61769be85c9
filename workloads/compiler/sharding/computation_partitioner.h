#pragma once

#include <map>
#include <utility>
#include <vector>

#include "workloads/compiler/sharding/mover.h"
#include "workloads/compiler/sharding/sharding_map.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Cuts one computation, in place, into what a device does: its instructions get the shapes of one
/// device's part and are told their operands as they need them.
class ComputationPartitioner {
 public:
  using Id = hlo::InstructionId;

  /// `results`: how the arrays of the root have to lie.
  ComputationPartitioner(hlo::Module& module, const ShardingMap& map,
                         hlo::ComputationId computation, std::vector<Sharding> results);

  void run();

 private:
  hlo::Computation& body() { return module_.computations[static_cast<std::size_t>(computation_)]; }
  hlo::HloInstruction& at(Id id) { return body().at(id); }
  Id value(Id old) const { return value_of_[static_cast<std::size_t>(old)]; }
  std::vector<Sharding> shardings(hlo::ComputationId computation, Id id) const;
  hlo::Shape local_shape(const hlo::Shape& shape, const std::vector<Sharding>& leaves,
                         std::size_t& leaf) const;
  hlo::Shape local_shape(const hlo::Shape& shape, const std::vector<Sharding>& leaves) const;

  void visit(Id id);
  void visit_tuple(Id id);
  void visit_region(Id id);
  void visit_boundary(Id id);
  void visit_operation(Id id);
  std::vector<Axes> choose(const hlo::HloInstruction& instruction, const FactorRule& rule);
  double bytes_to_move(double whole, const Sharding& from, const Sharding& to) const;
  double cost_of(const hlo::HloInstruction& instruction, const FactorRule& rule,
                 const std::vector<Axes>& axes);
  std::int64_t parts_of(const Sharding& sharding) const;
  std::vector<Id> moved_operands(const hlo::HloInstruction& instruction, const FactorRule& rule,
                                 const std::vector<Axes>& axes);
  void fit_attributes(hlo::HloInstruction& instruction, const FactorRule& rule) const;
  Id counted_once(Id operand, const Axes& partial);
  Id with_offset(Id iota, const Axes& axes);
  Id moved(Id value, const Sharding& from, const Sharding& to);
  Id repeated(const hlo::HloInstruction& uniform, const Sharding& from, const Sharding& to);
  /// An array or tuple whose arrays lie like `from`, as `to` says.
  Id adjusted(Id value, const std::vector<Sharding>& from, const std::vector<Sharding>& to);
  Id adjusted(Id value, const std::vector<Sharding>& from, const std::vector<Sharding>& to,
              std::size_t& leaf);

  hlo::Module& module_;
  const ShardingMap& map_;
  hlo::ComputationId computation_;
  std::vector<Sharding> results_;
  Mover mover_;
  std::vector<Id> value_of_;
  std::map<std::pair<Id, std::vector<Axes>>, Id> moved_;
};

}  // namespace tpu::compiler
