#include "models/host/training_loop.h"

#include <algorithm>
#include <limits>
#include <string>

#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr std::uint64_t kNoStep = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMostCycles = std::uint64_t{1} << 60;
constexpr std::uint64_t kMostSimulated = 1'000'000;
constexpr std::size_t kMostMarks = 32768;
enum Shape : std::size_t { kFull, kRagged, kEvaluation };

/// Steps from the end of `step` to the next multiple, at least one.
std::uint64_t to_multiple(std::uint64_t step, std::uint64_t every) {
  return every == 0 ? kNoStep : every - step % every;
}

bool is_multiple(std::uint64_t step, std::uint64_t every) { return every > 0 && step % every == 0; }

}  // namespace

const char* to_string(TrainingCause cause) {
  constexpr const char* kNames[] = {"steps",      "repeated steps", "input",    "compilation",
                                    "launch",     "transfer",       "readback", "CPU fallback",
                                    "evaluation", "checkpoint",     "restart"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::uint64_t percentile(const std::map<std::uint64_t, std::uint64_t>& times, double percent) {
  std::uint64_t all = 0, seen = 0;
  for (const auto& [cycles, count] : times) all += count;
  for (const auto& [cycles, count] : times) {
    seen += count;
    if (static_cast<double>(seen) >= percent / 100 * static_cast<double>(all)) return cycles;
  }
  return 0;
}

TrainingLoop::TrainingLoop(const TrainingPlan& plan) : plan_(plan) {
  TPU_CHECK(
      plan.epochs > 0 && epoch_length() > 0 && plan.steps_a_launch > 0 && plan.batches_ahead > 0,
      "a training of no steps");
  if (epoch_length() > kMostCycles / plan.epochs) {
    throw ConfigurationError("the training: expected less than 2^60 steps, found " +
                             std::to_string(plan.epochs) + " epochs of " +
                             std::to_string(epoch_length()));
  }
  total_ = plan.epochs * epoch_length();
  start_pipeline(0);
}

bool TrainingLoop::is_ragged(std::uint64_t step) const {
  return plan_.has_ragged && step % epoch_length() == plan_.steps_of_epoch;
}

std::uint64_t TrainingLoop::input_cycles(std::uint64_t batch) const {
  const std::uint64_t full = is_ragged(batch) ? plan_.ragged.input_cycles : plan_.full.input_cycles;
  if (batch >= epoch_length() || plan_.first_input_cycles == 0) return full;
  const double part = is_ragged(batch) && plan_.full.input_cycles > 0
                          ? static_cast<double>(full) / static_cast<double>(plan_.full.input_cycles)
                          : 1;
  return static_cast<std::uint64_t>(part * static_cast<double>(plan_.first_input_cycles));
}

/// Of the pipeline that begins with the batch of the present step.
void TrainingLoop::start_pipeline(std::uint64_t now) {
  made_.clear();
  next_batch_ = step_;
  std::uint64_t ready = now + plan_.first_batch_cycles;
  for (std::uint64_t i = 0; i < plan_.batches_ahead; ++i) {
    made_.push_back(ready);
    ready += input_cycles(++next_batch_);
  }
}

/// How many steps run before something other than a step of this shape happens.
std::uint64_t TrainingLoop::to_next_event(std::uint64_t step) const {
  const std::uint64_t in_epoch = step % epoch_length();
  std::uint64_t next = in_epoch < plan_.steps_of_epoch ? plan_.steps_of_epoch - in_epoch : 1;
  for (const std::uint64_t every :
       {plan_.readback_every, plan_.evaluation_every, plan_.checkpoint_every}) {
    next = std::min(next, to_multiple(step, every));
  }
  if (!preempted_ && plan_.preempted_after > step) {
    next = std::min(next, plan_.preempted_after - step);
  }
  if (again_until_ > step) next = std::min(next, again_until_ - step);
  return next;
}

void TrainingLoop::do_work(TrainingCause cause, std::uint64_t cycles) {
  if (cycles > 0) work_.push_back({cause, host_, host_ + cycles});
  host_ += cycles;
}

void TrainingLoop::compile(std::size_t shape, const TrainingPlan::Step& step) {
  if (compiled_[shape]) return;
  compiled_[shape] = true;
  ++time_.compilations;
  do_work(TrainingCause::kCompile, step.compile_cycles);
}

/// The host's thread waits until few enough launches are on their way, then prepares one more.
void TrainingLoop::launch(const TrainingPlan::Step& step) {
  if (launches_.size() > plan_.launches_ahead) {
    host_ = std::max(host_, launches_.front());
    launches_.pop_front();
  }
  left_ = std::min(plan_.steps_a_launch, to_next_event(step_));
  compile(is_ragged(step_) ? kRagged : kFull, step);
  do_work(TrainingCause::kTransfer, left_ * plan_.transfer_cycles);
  do_work(TrainingCause::kLaunch, plan_.launch_cycles);
  launched_ = host_;
}

/// The device waits from the end of the last step until `begin`: for what the host did meanwhile,
/// and behind that for the batch.
void TrainingLoop::wait_until(std::uint64_t begin, std::uint64_t launched) {
  std::uint64_t explained = 0;
  const auto add = [&](TrainingCause cause, std::uint64_t from, std::uint64_t to) {
    from = std::max(from, now_);
    to = std::min(to, begin);
    if (to <= from) return;
    time_.causes[static_cast<std::size_t>(cause)] += to - from;
    explained += to - from;
  };
  for (const Work& work : work_) add(work.cause, work.begin, work.end);
  add(TrainingCause::kInput, launched, begin);
  TPU_CHECK(explained == (begin > now_ ? begin - now_ : 0),
            explained << " cycles of " << begin - now_ << " have a cause");
}

void TrainingLoop::run_step() {
  const TrainingPlan::Step& step = is_ragged(step_) ? plan_.ragged : plan_.full;
  if (left_ == 0) launch(step);
  const std::uint64_t there = made_.front();
  const std::uint64_t begin = std::max({now_, launched_, there});
  wait_until(begin, launched_);
  work_.clear();
  made_.pop_front();
  const std::uint64_t last = made_.empty() ? there : made_.back();
  made_.push_back(std::max(last, begin) + input_cycles(next_batch_++));
  const bool again = step_ < again_until_;
  time_
      .causes[static_cast<std::size_t>(again ? TrainingCause::kRepeated : TrainingCause::kSteps)] +=
      step.cycles;
  time_.causes[static_cast<std::size_t>(TrainingCause::kFallback)] += plan_.fallback_cycles;
  end_step(begin + step.cycles + plan_.fallback_cycles);
}

void TrainingLoop::end_step(std::uint64_t end) {
  sample(end - now_, 1);
  now_ = end;
  ++step_;
  ++time_.steps;
  ++time_.simulated;
  if (now_ > kMostCycles) {
    throw ConfigurationError("the training lasts longer than 2^60 cycles, 38 years at 940 MHz");
  }
  if (--left_ == 0) launches_.push_back(now_);
}

void TrainingLoop::sample(std::uint64_t cycles, std::uint64_t count) {
  if (!samples_.empty() && samples_.back().first == cycles) {
    samples_.back().second += count;
  } else {
    samples_.push_back({cycles, count});
  }
}

/// What follows the step that ended. True where anything did.
bool TrainingLoop::handle_events() {
  if (!preempted_ && plan_.preempted_after > 0 && step_ == plan_.preempted_after) {
    preempt();
    return true;
  }
  bool any = false;
  const auto happens = [&](std::uint64_t every) {
    if (!is_multiple(step_, every)) return false;
    host_ = std::max(host_, now_);
    return any = true;
  };
  if (happens(plan_.readback_every)) do_work(TrainingCause::kReadback, plan_.readback_cycles);
  if (happens(plan_.evaluation_every)) evaluate();
  if (happens(plan_.checkpoint_every)) save();
  return any;
}

void TrainingLoop::evaluate() {
  ++time_.evaluations;
  compile(kEvaluation, plan_.evaluation);
  const std::uint64_t step = std::max(plan_.evaluation.cycles, plan_.evaluation.input_cycles);
  do_work(TrainingCause::kEvaluation, plan_.first_batch_cycles + plan_.evaluation_steps * step);
}

void TrainingLoop::save() {
  ++time_.checkpoints;
  saved_step_ = step_;
  if (plan_.checkpoint_in_background && writer_ > host_) {
    do_work(TrainingCause::kCheckpoint, writer_ - host_);
  }
  do_work(TrainingCause::kCheckpoint, plan_.checkpoint_read_cycles);
  if (plan_.checkpoint_in_background) {
    writer_ = host_ + plan_.checkpoint_write_cycles;
  } else {
    do_work(TrainingCause::kCheckpoint, plan_.checkpoint_write_cycles);
  }
}

/// The job begins again with what the last checkpoint holds.
void TrainingLoop::preempt() {
  preempted_ = true;
  again_until_ = step_;
  step_ = saved_step_;
  left_ = 0;
  launches_.clear();
  host_ = std::max(host_, now_);
  writer_ = 0;
  if (!plan_.compile_is_cached) compiled_ = {};
  do_work(TrainingCause::kRestart, plan_.restart_cycles);
  start_pipeline(host_);
}

/// Everything that decides what follows, relative to the end of the last step, with the places in
/// the periods of events and in the epoch, as far as those may be met before it is over.
TrainingLoop::Key TrainingLoop::state(Phases phases) const {
  const auto ahead = [&](std::uint64_t time) { return time > now_ ? time - now_ : 0; };
  // The host's thread may be free before the step ends, and begin its next launch then.
  Key key{host_ - now_, ahead(writer_), ahead(launched_), left_};
  for (const std::uint64_t time : made_) key.push_back(ahead(time));
  key.push_back(kNoStep);
  for (const std::uint64_t time : launches_) key.push_back(time - now_);
  key.push_back(kNoStep);
  for (const Work& work : work_) {
    key.insert(key.end(),
               {static_cast<std::uint64_t>(work.cause), ahead(work.begin), ahead(work.end)});
  }
  // Whether the pipeline works for another epoch than the one that fills the cache.
  key.push_back(next_batch_ < epoch_length() ? 1 : 0);
  if (phases == Phases::kNone) return key;
  if (phases == Phases::kAll) key.push_back(step_ % epoch_length());
  for (const std::uint64_t every :
       {plan_.readback_every, plan_.evaluation_every, plan_.checkpoint_every}) {
    key.push_back(every == 0 ? 0 : step_ % every);
  }
  for (const bool compiled : compiled_) key.push_back(compiled ? 1 : 0);
  key.push_back(preempted_ || plan_.preempted_after < step_ ? 1 : 0);
  key.push_back(step_ < again_until_ ? 1 : 0);
  return key;
}

TrainingLoop::Mark TrainingLoop::mark() const {
  Mark mark{step_, now_, time_, samples_.size()};
  return mark;
}

/// Where the present state was met before, counts the stretch between as often as it ends at or
/// before step `limit`.
void TrainingLoop::skip(std::map<Key, Mark>& marks, Phases phases, std::uint64_t limit) {
  // A sample that joined the one before it would belong to two stretches.
  samples_.push_back({0, 0});
  const auto [found, is_new] = marks.emplace(state(phases), mark());
  if (is_new) {
    if (marks.size() > kMostMarks) marks.clear();
    return;
  }
  const Mark before = found->second;
  const std::uint64_t period = step_ - before.step, cycles = now_ - before.now;
  const std::uint64_t times = limit > step_ ? (limit - step_) / period : 0;
  if (times == 0) return;
  if (cycles > 0 && times > (kMostCycles - std::min(kMostCycles, now_)) / cycles) {
    throw ConfigurationError("the training lasts longer than 2^60 cycles, 38 years at 940 MHz");
  }
  const auto repeat = [&](std::uint64_t& counter, std::uint64_t then) {
    counter += times * (counter - then);
  };
  const auto last = samples_.size();
  for (std::size_t i = before.samples; i < last; ++i) {
    if (samples_[i].second > 0) samples_.push_back({samples_[i].first, times * samples_[i].second});
  }
  repeat(time_.steps, before.counted.steps);
  repeat(time_.compilations, before.counted.compilations);
  repeat(time_.evaluations, before.counted.evaluations);
  repeat(time_.checkpoints, before.counted.checkpoints);
  for (std::size_t i = 0; i < kTrainingCauses; ++i) {
    repeat(time_.causes[i], before.counted.causes[i]);
  }
  const std::uint64_t shift = times * cycles;
  step_ += times * period;
  next_batch_ += times * period;
  if (saved_step_ > before.step) saved_step_ += times * period;
  now_ += shift;
  host_ += shift;
  writer_ += shift;
  launched_ += shift;
  for (std::uint64_t& time : made_) time += shift;
  for (std::uint64_t& time : launches_) time += shift;
  for (Work& work : work_) work.begin += shift, work.end += shift;
  marks.clear();
}

/// Looks for a repetition at the end of a step: between two events, between the ends of an epoch,
/// and at its beginning, each up to what would end it.
void TrainingLoop::look_for_repetition(bool event) {
  // The launch before an event is shorter, and the pipeline is ahead of the steps.
  const std::uint64_t margin = std::max(plan_.steps_a_launch, plan_.batches_ahead) + 1;
  const auto before = [&](std::uint64_t steps) {
    return steps > margin ? step_ + steps - margin : step_;
  };
  const std::uint64_t in_epoch = step_ % epoch_length();
  const bool boundary = in_epoch == 0 || is_ragged(step_) || step_ == again_until_;
  if (boundary || event) plain_.clear();
  if (boundary) within_.clear();
  if (!boundary && !event) return skip(plain_, Phases::kNone, before(to_next_event(step_)));
  std::uint64_t limit = total_;
  if (!preempted_ && plan_.preempted_after > step_) limit = plan_.preempted_after - 1;
  if (again_until_ > step_) limit = std::min(limit, again_until_);
  if (in_epoch == 0) return skip(between_, Phases::kAll, std::min(limit, total_));
  if (boundary) return;
  skip(within_, Phases::kEvents, std::min(limit, before(plan_.steps_of_epoch - in_epoch)));
}

TrainingTime TrainingLoop::run(bool repetition) {
  while (step_ < total_) {
    run_step();
    if (time_.simulated > kMostSimulated) {
      throw ConfigurationError(
          "the training: no repetition in " + std::to_string(kMostSimulated) + " of its " +
          std::to_string(total_) +
          " steps: choose periods of printing, evaluation and checkpoints that divide each other, "
          "or fewer steps");
    }
    const bool event = handle_events();
    if (repetition) look_for_repetition(event);
  }
  time_.cycles = std::max(now_, host_);
  // What the host does behind the last step.
  for (const Work& work : work_) {
    const std::uint64_t begin = std::max(work.begin, now_);
    if (work.end > begin) {
      time_.causes[static_cast<std::size_t>(work.cause)] += work.end - begin;
    }
  }
  for (const auto& [cycles, count] : samples_) {
    if (count > 0) time_.step_times[cycles] += count;
  }
  return std::move(time_);
}

}  // namespace tpu
