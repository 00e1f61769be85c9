// The slow twin of the core (RunOptions::interpret): every bundle by itself, no remembered blocks.
#include <algorithm>
#include <array>

#include "models/core/sequencer.h"

namespace tpu {

UnitTimes Sequencer::times_of_units() const {
  UnitTimes until{};
  for (std::size_t u = 0; u < until.size(); ++u) until[u] = scoreboard_->busy_until(pushed_unit(u));
  return until;
}

/// Counts busy and idle cycles of units one by one while any of them works.
void Sequencer::pass_cycles(CoreState state, std::uint64_t from, std::uint64_t to) {
  if (work_until_ <= from) return none_works_.add(state, to - from);
  pass_cycles(state, from, to, times_of_units(), {});
}

/// The same where some units go on with what they had `before`, and begin with what is new later.
void Sequencer::pass_cycles(CoreState state, std::uint64_t from, std::uint64_t to,
                            const UnitTimes& before, const UnitTimes& begin) {
  const UnitTimes until = times_of_units();
  std::uint64_t last = from;
  for (const std::uint64_t each : until) last = std::max(last, std::min(each, to));
  for (std::uint64_t cycle = from; cycle < last; ++cycle) {
    for (std::size_t u = 0; u < until.size(); ++u) {
      if (cycle < before[u] || (begin[u] <= cycle && cycle < until[u])) {
        ++busy_passed_[u];
      } else {
        dynamic_.idle[pushed_index(u)].add(state, 1);
      }
    }
  }
  for (std::size_t u = 0; u < until.size(); ++u) {
    dynamic_.idle[pushed_index(u)].add(state, to - last);
  }
}

void Sequencer::check_bundles(std::uint64_t guards) {
  const bool checks = block_->touches_units || !scoreboard_->registers_settled();
  const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
  std::uint64_t now = edges();
  for (std::uint32_t b = block_->first; b < block_->end; ++b) {
    const std::uint64_t length = 1 + kernel.bundles[b].delay;
    if (!checks) {
      pass_cycles(CoreState::kIssue, now, now + length);
      now += length;
      continue;
    }
    const UnitTimes before = times_of_units();
    const Scoreboard::Violation violation = scoreboard_->issue(kernel, b, guards, now);
    if (violation) fault(violation, b, now_ + now - edges(), violation.hazard.ready - now);
    const std::uint64_t next = now + length + scoreboard_->take_held();
    held_ += next - now - length;
    UnitTimes begin{}, work{};
    blocks_.pushed_work(kernel, b, work);
    const UnitTimes after = times_of_units();
    for (std::size_t u = 0; u < after.size(); ++u) {
      begin[u] = after[u] - std::min(after[u], work[u]);
      work_until_ = std::max(work_until_, after[u]);
    }
    pass_cycles(CoreState::kIssue, now, next, before, begin);
    now = next;
  }
}

/// Bundles of nothing but scalar operations and slots that no other unit notices, up to one that is
/// more: while nothing is on its way in registers and units there is nothing to check.
void Sequencer::execute_quiet_bundles() {
  if (work_until_ > now_ || !scoreboard_->registers_settled()) return;
  while (block_->is_quiet) {
    const std::uint64_t begin = now_;
    execute_quiet_run();
    none_works_.add(CoreState::kIssue, now_ - begin);
    go_on();
    if (step_ended_ || meets_outside()) return;
  }
}

/// One behind the other, up to one behind which the code does not just go on.
void Sequencer::execute_quiet_run() {
  Block* block = block_;
  std::uint64_t now = now_;
  const std::uint64_t room = ~std::uint64_t{0} - last_contact_;
  const std::uint64_t limit =
      std::min(step_limit_, last_contact_ + std::min(options_.runaway_cycles, room));
  while (true) {
    if (block->first_op != block->end_op) {
      block_ = block;
      now_ = now;
      run_scalar(block->first_op, block->end_op);
    }
    count_by_itself(*block);
    now += block->duration;
    if (now > limit) break;
    if (block->how_it_ends != Block::End::kNext || block->next == nullptr) break;
    if (block->next->interacts || !block->next->is_quiet) break;
    block = block->next;
  }
  block_ = block;
  now_ = now;
  check_length();
}

/// An execution that is in no other account yet.
void Sequencer::count_by_itself(const Block& block) {
  if (block.number >= executions_of_.size()) {
    executions_of_.resize(2 * std::size_t{block.number} + 64);
  }
  if (executions_of_[block.number]++ == 0) executed_.push_back(&block);
}

}  // namespace tpu
