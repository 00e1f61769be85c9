#include "models/wait_graph.h"

#include <algorithm>

#include "sim/base/error.h"

namespace tpu {
namespace {

/// So that what a core runs between two events fits 32 bits.
constexpr std::uint64_t kLongestEvent = std::uint64_t{1} << 31;
constexpr std::size_t kOfShortRuns = 4096;

/// A record that outgrows a short run's gets room for `usual`: pages of memory that are touched for
/// the first time take longer than all that is written into them, and growing by doubling touches
/// twice as many.
template <class Each>
void make_room(std::vector<Each>& record, std::size_t usual) {
  if (record.size() < record.capacity()) return;
  const std::size_t room = record.size() < kOfShortRuns ? kOfShortRuns : usual;
  if (record.size() < room) record.reserve(room);
}

}  // namespace

const char* to_string(Resource resource) {
  constexpr const char* kNames[] = {"MXU", "VPU", "latency", "HBM", "host", "ICI"};
  return kNames[static_cast<std::size_t>(resource)];
}

WaitGraph::WaitGraph(const MachineParams& params, std::size_t cores, std::size_t ops,
                     std::size_t warmup_steps, std::size_t most)
    : hbm_bytes_per_cycle_(params.core_hbm_bytes_per_s() / (params.clock_mhz * 1e6)),
      hbm_latency_(params.hbm.latency_cycles),
      count_(cores),
      warmup_steps_(warmup_steps),
      most_(most),
      cores_(params.cores()) {
  TPU_CHECK(params.cores() < std::size_t{1} << kCoreBits, params.cores() << " cores");
  for (OfCore& core : cores_) core.last_done.fill(kNone);
  result_.ops.resize(ops);
}

WaitGraph::Event& WaitGraph::append(Event::Kind kind, const Position& position) {
  OfCore& core = cores_[position.core];
  core.reached = position;
  Event& event = append({position.cycle, position.op, kNone, {}, position.core, kind});
  for (std::size_t r = 0; r < kCoreResources; ++r) {
    event.ran[r] = static_cast<std::uint32_t>(position.ran[r] - core.recorded[r]);
  }
  core.recorded = position.ran;
  return event;
}

WaitGraph::Event& WaitGraph::append(const Event& event) {
  make_room(events_, most_ + most_ / 2);
  events_.push_back(event);
  return events_.back();
}

void WaitGraph::at(const Position& position) {
  OfCore& core = cores_[position.core];
  core.reached = position;
  for (std::size_t r = 0; r < kCoreResources; ++r) {
    if (position.ran[r] - core.recorded[r] < kLongestEvent) continue;
    append(Event::Kind::kRan, position);
    return;
  }
}

void WaitGraph::pass(const Position& position) {
  append(Event::Kind::kRan, position);
  if (events_.size() < most_) return;
  if (cores_[position.core].accounts >= warmup_steps_) evaluate(position.core, false);
  ++result_.cuts;
  forget(first_event_ + events_.size(), position.cycle);
}

void WaitGraph::met(const Position& position, std::uint32_t transfer) {
  append(Event::Kind::kMet, position).transfer = transfer;
}

void WaitGraph::released(std::uint32_t core, std::uint64_t now, std::uint32_t transfer) {
  Position position = cores_[core].reached;
  append(Event::Kind::kRan, position);
  position.cycle = now;
  append(Event::Kind::kWait, position).transfer = transfer;
}

std::uint32_t WaitGraph::start(std::uint32_t core, std::uint64_t bytes, Resource first,
                               Resource then) {
  const std::uint64_t event = first_event_ + events_.size();
  const auto number = static_cast<std::uint32_t>(first_transfer_ + transfers_.size());
  const Position& from = cores_[core].reached;
  append(Event::Kind::kStart, from).transfer = number;
  make_room(transfers_, most_ / 2 + most_ / 4);
  transfers_.push_back({event, from.cycle, from.cycle, 0, bytes, core, kNone, first, then});
  return number;
}

void WaitGraph::split(std::uint32_t transfer, std::uint64_t now) {
  Transfer& mine = transfers_[transfer - first_transfer_];
  mine.split = now;
  if (mine.first != Resource::kHost) return;
  cores_[mine.core].last_batch = now;
  cores_[mine.core].batch_was_late = now > mine.issue;
}

void WaitGraph::done(std::uint32_t number, std::uint64_t now) {
  Transfer& transfer = transfers_[number - first_transfer_];
  std::uint32_t& last = cores_[transfer.core].last_done[static_cast<std::size_t>(transfer.then)];
  transfer.done = now;
  transfer.behind = last;
  last = number;
  append({now, kNone, number, {}, transfer.core, Event::Kind::kDone});
}

void WaitGraph::begin(std::uint32_t core, std::uint64_t cycle) {
  OfCore& mine = cores_[core];
  mine.account_event = first_event_ + events_.size();
  mine.account_begin = cycle;
  mine.batch_before = mine.last_batch;
  ++mine.accounts;
  std::size_t count = 0;
  const OfCore* first = &mine;
  for (const OfCore& each : cores_) {
    if (each.accounts != mine.accounts) continue;
    ++count;
    if (each.account_event < first->account_event) first = &each;
  }
  if (count < count_) return;
  std::vector<CriticalPath::Op> ops(result_.ops.size());
  result_ = {};
  result_.ops = std::move(ops);
  // A cut may have come between.
  if (first->account_event >= first_event_) forget(first->account_event, first->account_begin);
}

/// Events before one; of transfers those at the begin of the record that are done.
void WaitGraph::forget(std::uint64_t event, std::uint64_t cycle) {
  events_.erase(events_.begin(),
                events_.begin() + static_cast<std::ptrdiff_t>(event - first_event_));
  first_event_ = event;
  begin_cycle_ = cycle;
  const auto kept = std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& each) {
    return each.done == 0 || each.start >= event;
  });
  first_transfer_ += static_cast<std::uint32_t>(kept - transfers_.begin());
  transfers_.erase(transfers_.begin(), kept);
}

std::uint64_t WaitGraph::least_cycles(Resource resource, std::uint64_t bytes) const {
  if (resource != Resource::kHbm) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) / hbm_bytes_per_cycle_);
}

bool WaitGraph::queued(const Transfer& mine) const {
  const Transfer* before = transfer(mine.behind);
  if (before == nullptr) return false;
  const std::uint64_t latency = mine.then == Resource::kHbm ? hbm_latency_ : 0;
  return before->done > mine.split + latency;
}

void WaitGraph::evaluate(std::uint32_t core, bool is_the_end) {
  add_path(*this, core, result_);
  add_free_runs(*this, is_the_end ? kNone : core, result_);
}

/// What the host needs for the batches of the account, where it is what they wait for. A step that
/// is shorter finds no batch sooner: what is gained behind one is lost before the next.
std::uint64_t WaitGraph::host_cycles() const {
  std::uint64_t most = 0;
  for (const OfCore& core : cores_) {
    if (!core.batch_was_late || core.batch_before == 0) continue;
    most = std::max(most, core.last_batch - core.batch_before);
  }
  return std::min(most, result_.cycles);
}

CriticalPath WaitGraph::finish(std::uint32_t core) {
  evaluate(core, true);
  const std::uint64_t host = host_cycles();
  for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
    if ((set & CriticalPath::set_of(Resource::kHost)) != 0) continue;
    result_.without[set] = std::max(result_.without[set], host);
  }
  result_.twice_the_mxus = std::max(result_.twice_the_mxus, host);
  for (CriticalPath::Op& op : result_.ops) {
    for (std::int64_t& gain : op.gain) gain /= static_cast<std::int64_t>(count_);
    for (double& cycles : op.cycles) cycles /= static_cast<double>(count_);
  }
  return std::move(result_);
}

}  // namespace tpu
