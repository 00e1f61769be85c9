#include "isa/listing/unknown_instruction.h"

#include <algorithm>

#include "isa/opcode_table.h"

namespace tpu::isa {
namespace {

constexpr std::size_t kMaxText = 64;  ///< Of a name in a message.

std::string in_quotes(const std::string& text) { return "\"" + text.substr(0, kMaxText) + "\""; }

std::string number_of(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string in_kernel(const UnknownInstruction& unknown) {
  return unknown.kernel.empty() ? "" : "kernel " + unknown.kernel + ": ";
}

std::string first_place(const UnknownInstruction& unknown) {
  return "first " + (unknown.kernel.empty() ? "" : "in kernel " + unknown.kernel + " ") +
         "in line " + std::to_string(unknown.place.line);
}

}  // namespace

void add_unknown(const std::vector<UnknownInstruction>& of_kernel, const std::string& kernel,
                 std::vector<UnknownInstruction>& all) {
  for (const UnknownInstruction& unknown : of_kernel) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const UnknownInstruction& other) {
      return other.text == unknown.text;
    });
    if (known != all.end()) {
      known->count += unknown.count;
      known->kernels += unknown.kernels;
      continue;
    }
    all.push_back(unknown);
    all.back().kernel = kernel;
  }
}

void refuse_unknown(const std::vector<UnknownInstruction>& unknown) {
  if (unknown.empty()) return;
  const UnknownInstruction& first = unknown.front();
  std::string message = to_string(first.place) + ": " + in_kernel(first) +
                        "expected an instruction of libtpu 0.0.42.1, found " +
                        in_quotes(first.text) + " (the nearest known is \"" +
                        nearest_opcode_text(first.text) + "\")";
  if (unknown.size() > 1) {
    message += "; all that are unknown:";
    for (const UnknownInstruction& one : unknown) {
      message += (&one == &first ? " " : ", ") + in_quotes(one.text) + " (" +
                 number_of(one.count, "time") + " in " + number_of(one.kernels, "kernel");
      if (&one != &first) message += ", " + first_place(one);
      message += ")";
    }
  }
  throw WorkloadError(message);
}

}  // namespace tpu::isa
