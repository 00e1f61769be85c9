#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "isa/program.h"

namespace tpu::isa {

/// One instruction in the assembler's notation: "%s4 = sadd.s32 (!%p3), %s3, 1".
std::string format_instruction(const Instruction& instruction);

/// One bundle: "{ a ;; b ;; vdelay 2 }".
std::string format_bundle(const Kernel& kernel, const Bundle& bundle);

/// A name of a kernel, buffer or operation as the assembler reads it: in quotes where it needs
/// them.
std::string quoted_name(const std::string& name);

/// Kernels as the assembler reads them. Branch targets are bundle numbers, call sites the numbers
/// of Program::call_sites.
void print_kernel(std::ostream& out, const Kernel& kernel);
void print_kernels(std::ostream& out, const std::vector<Kernel>& kernels);

}  // namespace tpu::isa
