#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// How the steps of a kernel share out the arrays. What a step sees as units are the column parts
/// of the arrays, as many of each as it uses. Neighbouring units take neighbouring column tiles,
/// `columns_at_once` of them; units of another group take other rows against the same columns, or
/// rows and columns of another matrix. Units of one array see the same rows: they are of one group.
struct MatmulUnits {
  std::uint32_t arrays = 1;
  std::uint32_t column_parts = 1;  ///< In use of each array.
  std::uint32_t row_parts = 1;     ///< In use of each array: tiles along k that a step multiplies.
  std::uint32_t columns_at_once = 1;
  bool groups_take_matrices = false;  ///< Each another one.

  /// All arrays; `columns_at_once` is a multiple of an array's column parts, or 1.
  MatmulUnits(const Target& target, std::uint32_t columns_at_once, std::uint32_t row_parts = 1);

  std::uint32_t count() const { return arrays * column_parts; }
  std::uint32_t groups() const { return count() / columns_at_once; }
  std::uint32_t group_of(std::uint32_t unit) const { return unit / columns_at_once; }
  std::uint32_t column_of(std::uint32_t unit) const { return unit % columns_at_once; }
  std::uint32_t matrices_at_once() const { return groups_take_matrices ? groups() : 1; }
  std::uint32_t matrix_of(std::uint32_t unit) const {
    return groups_take_matrices ? group_of(unit) : 0;
  }
  /// Tiles of weights of a step, and their order: a unit's parts stand beside each other.
  std::uint32_t pieces() const { return count() * row_parts; }
  std::uint32_t piece(std::uint32_t unit, std::uint32_t part) const {
    return unit * row_parts + part;
  }
};

/// What `columns_at_once` may be, most first.
std::vector<std::uint32_t> column_choices(const Target& target);

/// Pushes of eight rows that fill a tile of weights.
constexpr std::uint32_t kWeightPushes = 16;

/// Bundles that a lot takes at least: the intervals of the MXUs' ports, and the slots of pushes,
/// pops, loads and stores, where each result is added to a sum in VMEM.
double step_bundles(const Target& target, const MatmulUnits& units, std::uint32_t pushes,
                    std::uint32_t weight_pushes = kWeightPushes);

/// A sequence of steps in each of which every MXU multiplies some pushes of eight rows by the
/// weights of the step, while the weights of the next step load. Results are popped a latency
/// later, so that the last ones of a step come out during the next one: a loop over steps keeps the
/// MXUs busy across its iterations.
///
/// A step may be several lots, each with weights of its own: small products then share the latency.
/// Tiles of fewer than 128 rows of weights take fewer pushes; the array's other rows are 0.
class MatmulStream {
 public:
  /// What a step multiplies and what becomes of the results.
  struct Step {
    std::uint32_t pushes = 0;  ///< Per MXU and lot; the same for all steps of a stream.
    bool transposed = false;   ///< Weights are pushed transposed.
    /// Eight rows for push i of the array of a unit, from the given one of the step's tiles along
    /// k. Pushes count through the lots.
    std::function<VReg(std::uint32_t unit, std::uint32_t i, std::uint32_t part)> rows;
    /// Push j of the weights of the lots that follow, in the order of the lots; of W for a tile,
    /// rows 8 (W - j) - 1 down to 8 (W - j) - 8.
    std::function<VReg(std::uint32_t unit, std::uint32_t j, std::uint32_t part)> next_weights;
    /// Takes result i of this step, or of the step before when `previous`.
    std::function<void(std::uint32_t unit, std::uint32_t i, bool previous, VReg result)> consume;
    /// Other work that shares the step's time: emitted behind push i of each array. May be absent.
    std::function<void(std::uint32_t i)> meanwhile;
  };

  MatmulStream(KernelBuilder& builder, const MatmulUnits& units, std::uint32_t pushes,
               std::uint32_t weight_pushes = kWeightPushes, std::uint32_t lots = 1);

  std::uint32_t weight_pushes() const { return weight_pushes_; }

  /// Loads the weights of the first lot. The results that the first step takes as those of the
  /// step before are zeros times the weights.
  void begin(const Step& step);
  /// Emits one step.
  void step(const Step& step);
  /// Takes the results of the last step that are still to come.
  void end(const Step& step);
  /// Empties the staging areas of the weights that the last step loaded for nobody. Once, at the
  /// end of the kernel.
  void close();

 private:
  void push_weights(const Step& step, std::uint32_t j);
  void multiply(const Step& step, std::uint32_t array, std::uint32_t i);
  VReg pop(std::uint32_t unit);

  KernelBuilder& builder_;
  MatmulUnits units_;
  std::uint32_t pushes_, weight_pushes_, lots_;
  std::uint32_t lag_;
};

}  // namespace tpu::compiler
