#pragma once

#include <cstddef>

namespace tpu::compiler {

/// From here on schedules of blocks are kept, for programs that share kernels: what was scheduled
/// once is not scheduled again. A process that this one starts begins with what it has. Takes some
/// 200 bytes an instruction; `keeps` false forgets them.
void keep_schedules(bool keeps);

/// Blocks that were taken over since then.
std::size_t schedules_taken_over();

}  // namespace tpu::compiler
