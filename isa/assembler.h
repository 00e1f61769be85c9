#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isa/program.h"

namespace tpu::isa {

/// Reads kernels in the notation of XLA's listings with physical registers:
///
///     kernel add_rows                     /* a name in quotes may hold any character */
///     loop:
///       0x1 : > { %v2 = vld [vmem:%s3 + $0x10 ss:$-1 sm:$0xf]  ;;  %s4 = sadd.s32 (!%p3), %s3, 1 }
///             { sbr.rel (%p1) target = loop  ;;  vdelay 2 }
///
/// The number before a bundle (its own, counted from 0) and the loop marks are optional; a branch
/// names a bundle by number or label; `inlined_call site = 3` names an entry of
/// Program::call_sites. Comments are `/* */` and `//`. Throws WorkloadError
/// "FILE:LINE:COLUMN: expected ..., found ..."; bundles that do not fit the slots are refused, too.
std::vector<Kernel> assemble(std::string_view text, const std::string& file_name);

/// One instruction, as format_instruction() prints it.
Instruction assemble_instruction(std::string_view text);

}  // namespace tpu::isa
