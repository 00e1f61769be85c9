#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/run_record.h"

namespace tpu::traces {

/// The program of a run as XLA's HloProto: what XProf's memory viewer, graph viewer and op profile
/// read. The module has the parameters and each op as a custom-call of its category, with what
/// it reads as operands where the record has that; what is in a fusion is not there. Buffers of the
/// HBM plan are the buffer assignment; what is temporary is one allocation.
struct RunHlo {
  std::string module;  ///< Name of the module.
  std::uint64_t program_id = 0;
  std::vector<std::uint64_t> op_ids;  ///< The instruction of each op of the record.
  std::string proto;                  ///< The bytes of the HloProto.
};
RunHlo run_hlo(const RunRecord& record);

}  // namespace tpu::traces
