#include "models/core/followed_kernels.h"

#include <algorithm>

namespace tpu {
namespace {

/// The kernel that has spent the most.
template <class Count>
std::uint32_t most_of(const std::map<std::uint32_t, Count>& spent) {
  return std::max_element(spent.begin(), spent.end(),
                          [](auto& a, auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

FollowedKernels::FollowedKernels(const isa::Program& program) : program_(program) {
  std::uint32_t first = 0;
  for (const isa::Kernel& kernel : program.kernels) {
    first_instruction_.push_back(first);
    first += static_cast<std::uint32_t>(kernel.instructions.size());
  }
  sets_index_addresses_.resize(program.kernels.size());
  for (const isa::CallSite& site : program.call_sites) {
    if (!site.is_opening()) continue;
    opened_[site.kernel] = program.call_sites.at(site.opens).kernel;
  }
}

std::vector<std::uint32_t> FollowedKernels::openings_of(std::uint32_t kernel) const {
  std::vector<std::uint32_t> openings;
  for (const auto& [opening, opened] : opened_) {
    if (opened == kernel) openings.push_back(opening);
  }
  return openings;
}

bool FollowedKernels::sets_index_addresses(std::uint32_t kernel) const {
  std::optional<bool>& known = sets_index_addresses_[kernel];
  if (!known) {
    const std::vector<isa::Instruction>& code = program_.kernels[kernel].instructions;
    known = std::any_of(code.begin(), code.end(), [](const isa::Instruction& i) {
      return i.opcode == isa::Opcode::kVsetiarRaw;
    });
  }
  return *known;
}

void FollowedKernels::begin_run(const FollowLimits& limits) {
  limits_ = limits;
  used_ = false;
  spent_instructions_ = 0;
  spent_bytes_ = 0;
  spent_bytes_by_.clear();
  spent_.clear();
  wanted_.clear();
  for (auto& [kernel, followed] : kernels_) {
    if (!followed.changed) continue;
    followed.slice = slice_of(program_.kernels[kernel], followed.demand);
    followed.changed = false;
  }
}

std::optional<std::uint32_t> FollowedKernels::kernel_of(Origin origin) const {
  const std::optional<std::uint32_t> instruction = origin.instruction();
  if (!instruction) return origin.kernel();
  const auto behind =
      std::upper_bound(first_instruction_.begin(), first_instruction_.end(), *instruction);
  return static_cast<std::uint32_t>(behind - first_instruction_.begin()) - 1;
}

bool FollowedKernels::add(Origin origin) {
  bool more = add_one(origin);
  for (const Origin wanted : wanted_) more = add_one(wanted) || more;
  wanted_.clear();
  return more;
}

/// Of a kernel that is not followed yet an instruction is demanded alone. When nobody knows which
/// one it is, the kernel is followed to find out; when that is done already, as a whole.
bool FollowedKernels::add_one(Origin origin) {
  if (!can_add(origin)) return false;
  any_ = true;
  const std::optional<std::uint32_t> kernel = kernel_of(origin);
  if (!kernel) return true;
  const auto [at, first] = kernels_.try_emplace(*kernel);
  Followed& followed = at->second;
  followed.changed = true;
  if (first) {
    for (const std::uint32_t opening : openings_of(*kernel)) kernels_.try_emplace(opening);
  }
  if (const std::optional<std::uint32_t> instruction = origin.instruction()) {
    followed.demand.instructions.insert(*instruction - first_instruction_[*kernel]);
  } else if (!first) {
    followed.demand.whole = true;
  }
  return true;
}

bool FollowedKernels::can_add(Origin origin) const {
  if (refused(origin)) return false;
  const std::optional<std::uint32_t> kernel = kernel_of(origin);
  if (!kernel) return !any_;
  const auto found = kernels_.find(*kernel);
  if (found == kernels_.end()) return true;
  const std::optional<std::uint32_t> instruction = origin.instruction();
  if (!instruction) return !found->second.demand.whole;
  return !found->second.demand.contains(*instruction - first_instruction_[*kernel]);
}

/// With what opens it, or what it opens.
void FollowedKernels::refuse(std::uint32_t kernel) {
  kernel = opened_by(kernel).value_or(kernel);
  std::vector<std::uint32_t> all = openings_of(kernel);
  all.push_back(kernel);
  for (const std::uint32_t each : all) {
    refused_.insert(each);
    kernels_.erase(each);
  }
}

void FollowedKernels::refuse_all() {
  for (const auto& [kernel, followed] : kernels_) refused_.insert(kernel);
  kernels_.clear();
}

bool FollowedKernels::refused(Origin origin) const {
  const std::optional<std::uint32_t> kernel = kernel_of(origin);
  return others_refused_ || (kernel && refused_.count(*kernel) != 0);
}

void FollowedKernels::spend_instructions(std::uint32_t kernel, std::uint64_t count) const {
  spent_[kernel] += count;
  spent_instructions_ += count;
  if (spent_instructions_ <= limits_.instructions) return;
  throw FollowLimit("more instructions than may be followed", most_of(spent_));
}

void FollowedKernels::spend_bytes(std::uint32_t kernel, std::int64_t more) const {
  if (more == 0) return;
  spent_bytes_ += more;
  spent_bytes_by_[kernel] += more;
  if (more < 0 || spent_bytes_ <= static_cast<std::int64_t>(limits_.bytes)) return;
  throw FollowLimit("more bytes than may be remembered", most_of(spent_bytes_by_), true);
}

std::vector<std::string> FollowedKernels::names() const {
  std::vector<std::string> names;
  for (const auto& [kernel, followed] : kernels_) {
    if (opened_by(kernel)) continue;
    names.push_back(program_.kernels[kernel].name + " (" +
                    std::to_string(followed.slice.code.instructions.size()) + " of " +
                    std::to_string(followed.slice.instructions_of_kernel) +
                    " vector instructions)");
  }
  return names;
}

}  // namespace tpu
