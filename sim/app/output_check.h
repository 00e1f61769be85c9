#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "traces/npz.h"
#include "workloads/compiler/buffers.h"

namespace tpu::app {

/// Compares outputs with recorded ones, like with like. A captured program comes with two
/// references of each output, as whole arrays or as samples at flat indices (`out_003_idx` with
/// `out_003_val` and `bf16_003_val`):
///   * `bf16_003`: products rounded as the matrix units round them;
///   * `out_003`: fp32 throughout, which products on the vector unit equal.
/// The nearer one counts. An output passes when its relative L2 error (where the reference is all
/// zero, the L2 norm) is at most `tolerance`. None given, that is the first of these that holds it:
///   1. kClose: the same arithmetic but for the order of sums and last bits of functions;
///   2. kMoves times the output's own sensitivity, `sensitivity[3]` of the file: how far the
///      reference itself moves when its inputs move by 1e-6, or when its values of bf16 and fp16
///      stay in fp32 between operations (`sensitivity_narrow[3]`);
///   3. the distance between both references, at most kWorst: a compiler may round another operand
///      of the same product (it moves a scale from one side to the other);
///   4. of an output that moves by kNoise or more with its inputs, a gradient that is zero but for
///      rounding for one, no digit is certain: its order of magnitude alone is compared.
/// A file without sensitivities has kWorst for all. A program that draws bits from the chip's own
/// generator has others than the reference: an output that fails says so. An output without a
/// reference is left out; none at all, or a reference for an output that does not exist, is a
/// WorkloadError.
std::vector<report::CheckedOutput> check_outputs(
    const std::map<std::uint32_t, compiler::HostArray>& outputs, const traces::NpzFile& references,
    std::optional<double> tolerance, const std::string& file, bool draws_own_bits = false);

constexpr double kClose = 1e-4;
constexpr double kMoves = 3;
constexpr double kWorst = 1e-2;
constexpr double kNoise = 0.1;

/// The verdict, the median error and the worst tensors with their tolerances, for a reader.
std::string check_text(const std::vector<report::CheckedOutput>& checks);

}  // namespace tpu::app
