#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: sorts of complex numbers and of 64-bit unsigned integers, by any order, become sorts of
/// their parts (real and imaginary ones, low and high words), which move together. The computation
/// that compares two elements takes the parts and puts them together where it asks for more than
/// one.
///
/// Needs: a verified module, types of words not chosen yet. Leaves: no sort with such an operand.
void split_wide_sorts(hlo::Module& module);

}  // namespace tpu::compiler
