#include "sim/app/largest_batch.h"

#include <algorithm>
#include <optional>

namespace tpu::app {

std::string largest_batch_text(std::int64_t batch, std::uint32_t cores,
                               const std::function<bool(std::int64_t)>& fits) {
  std::int64_t too_large = batch;
  std::int64_t found = batch / 2;
  while (found > 0 && !fits(found)) {
    too_large = found;
    found /= 2;
  }
  if (found == 0) {
    return "Not even one example per core fits; make the model smaller or use more cores.";
  }
  while (too_large - found > 1) {
    const std::int64_t middle = found + (too_large - found) / 2;
    (fits(middle) ? found : too_large) = middle;
  }
  return "The largest batch that fits is " + std::to_string(found) + " per core: --batch " +
         std::to_string(found * cores) + ".";
}

namespace {

/// The leading dimension of the step's inputs; nothing where they do not share one.
std::optional<std::int64_t> batch_of(const hlo::Module& module) {
  constexpr std::int64_t kKeyElements = 16;  ///< Random keys and scalars are no inputs.
  const hlo::Computation& entry = module.entry_computation();
  std::optional<std::int64_t> batch;
  for (const hlo::InstructionId id : entry.parameters()) {
    const hlo::HloInstruction& parameter = entry.at(id);
    const hlo::Shape& shape = parameter.shape;
    const bool is_state =
        std::any_of(module.aliases.begin(), module.aliases.end(), [&](const hlo::Alias& alias) {
          return alias.parameter_number == parameter.parameter_number;
        });
    if (is_state || shape.is_tuple() || shape.element_count() <= kKeyElements) continue;
    const bool is_integer =
        shape.type >= hlo::ElementType::kS8 && shape.type <= hlo::ElementType::kU64;
    if (module.aliases.empty() && !is_integer) continue;
    if (batch && *batch != shape.dimensions[0]) return std::nullopt;
    batch = shape.dimensions[0];
  }
  return batch;
}

}  // namespace

std::string fixed_batch_text(const hlo::Module& module,
                             const compiler::OutOfMemoryError::Use& use) {
  const std::string advice = "make it again with a smaller batch.";
  if (use.arguments >= use.capacity) {
    return "The arguments alone do not fit: the model needs more cores than this.";
  }
  const std::optional<std::int64_t> batch = batch_of(module);
  if (!batch || *batch < 2) return "The shapes of an HLO module are fixed: " + advice;
  const double share = static_cast<double>(use.capacity - use.arguments) /
                       static_cast<double>(std::max<std::uint64_t>(1, use.program));
  const auto fitting = static_cast<std::int64_t>(share * static_cast<double>(*batch));
  if (fitting < 1) {
    return "Not even one of the " + std::to_string(*batch) +
           " examples of a step would fit, if what the program allocates grows with them.";
  }
  return "About " + std::to_string(fitting) + " of the " + std::to_string(*batch) +
         " examples of a step would fit, if what the program allocates grows with them. The "
         "shapes of an HLO module are fixed: " +
         advice;
}

}  // namespace tpu::app
