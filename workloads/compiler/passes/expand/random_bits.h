#pragma once

#include <string>
#include <vector>

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: random bits as arithmetic on words, bit for bit what XLA's expansion of the operation
/// makes (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; XLA,
/// RngBitGenerator in its operation semantics).
///
/// - rng-bit-generator: Threefry-2x32 with 20 rounds, or Philox-4x32 with 10 rounds, which is also
///   what `rng_default` means here (as on XLA's CPU backend; what the TPU's own does is not
///   public). The state stands as u32[2, words] (`word_types.h`).
/// - rng: Threefry from a key of its own per instruction. The chip's hidden state is not modelled:
///   every step draws the same numbers.
/// - rng-get-and-update-state: a constant, for the same reason.
///
/// Needs: a simplified entry without calls, 64-bit types in words.
/// Leaves: none of these operations; refusals of other types and distributions.
void rewrite_random_bits(hlo::Module& module, Refusals& refusals);

/// What the user should know of the random numbers of a module, before any pass.
std::vector<std::string> notes_on_random_bits(const hlo::Module& module);

}  // namespace tpu::compiler
