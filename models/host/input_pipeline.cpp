#include "models/host/input_pipeline.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "isa/instruction.h"
#include "models/clock_cycles.h"
#include "models/host/part_names.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr double kSecondsOfAYear = 365.0 * 24 * 3600;

/// Why no batch leaves the host.
constexpr LinkAccount::Causes kBatchCauses{"idle: no room", "idle: batch not ready", nullptr};

/// A time in cycles and ticks, and how many ticks a cycle has.
struct ExactTime {
  InputPipeline::Time time;
  std::uint64_t ticks_per_cycle = 1;
};

/// The time of so many examples. A rate with up to nine decimals is a fraction of whole numbers,
/// and so is the time then: batches keep to a rhythm that comes again. Others count in 2^-16
/// cycles.
ExactTime exact_time(double rate, std::uint64_t clock_mhz, std::uint64_t examples) {
  constexpr std::uint64_t kMostDecimals = 1'000'000'000, kMega = 1'000'000;
  constexpr double kLargest = 1e15;
  __extension__ using Wide = unsigned __int128;
  const Wide clocks = static_cast<Wide>(examples) * clock_mhz * kMega;
  for (std::uint64_t one = 1; one <= kMostDecimals; one *= 10) {
    const double scaled = std::round(rate * static_cast<double>(one));
    if (scaled > kLargest || scaled / static_cast<double>(one) != rate) continue;
    const auto divisor = static_cast<std::uint64_t>(scaled);
    const auto whole = static_cast<std::uint64_t>(clocks * one / divisor);
    return {{whole, static_cast<std::uint64_t>(clocks * one % divisor)}, divisor};
  }
  constexpr std::uint64_t kTicksPerCycle = 65536;
  const double cycles = static_cast<double>(clocks) / rate;
  const double whole = std::floor(cycles);
  const auto ticks = static_cast<std::uint64_t>(std::llround((cycles - whole) * kTicksPerCycle));
  return {{static_cast<std::uint64_t>(whole) + ticks / kTicksPerCycle, ticks % kTicksPerCycle},
          kTicksPerCycle};
}

/// How long the host prepares a global batch.
ExactTime time_per_batch(const MachineParams& params, const InputPipeline::Workload& work,
                         std::size_t cores) {
  const double rate = params.host.examples_per_s;
  if (!(rate >= 0)) {
    throw ConfigurationError("host.examples_per_s: expected 0 or more, found " +
                             std::to_string(rate));
  }
  if (rate == 0 || work.infeed_bytes == 0) return {};
  if (work.examples == 0) {
    throw WorkloadError(
        "the program takes infeed but does not say how many examples a step consumes, which "
        "host.examples_per_s needs; set host.examples_per_s to 0");
  }
  const double seconds = static_cast<double>(work.examples) * static_cast<double>(cores) / rate;
  if (!(seconds < kSecondsOfAYear)) {
    std::ostringstream found;
    found << "host.examples_per_s: expected a batch of " << work.examples * cores
          << " examples in less than a year, found " << rate << " examples/s";
    throw ConfigurationError(found.str());
  }
  return exact_time(rate, params.clock_mhz, work.examples * cores);
}

}  // namespace

InputPipeline::InputPipeline(const MachineParams& params, const Workload& workload,
                             std::vector<Fed> cores)
    : batch_bytes_(workload.infeed_bytes),
      host_bytes_(workload.host_bytes),
      pcie_latency_(cycles_of_ns(params.host.pcie_latency_ns, params.clock_mhz)),
      cores_(std::move(cores)) {
  if (params.host.pcie_gb_per_s == 0 || params.host.infeed_queue_batches == 0) {
    throw ConfigurationError(
        "host: expected pcie_gb_per_s and infeed_queue_batches above 0, found 0");
  }
  batch_granules_ = (batch_bytes_ + isa::kHbmGranuleBytes - 1) / isa::kHbmGranuleBytes;
  const InfeedQueue::Size size{
      params.host.infeed_queue_batches,
      std::uint64_t{params.host.infeed_queue_kib} * 1024 / isa::kHbmGranuleBytes};
  piece_granules_ =
      size.granules == 0 ? batch_granules_ : std::max<std::uint64_t>(size.granules / 4, 1);
  const ExactTime exact = time_per_batch(params, workload, cores_.size());
  batch_time_ = exact.time;
  ticks_per_cycle_ = exact.ticks_per_cycle;
  queues_.assign(cores_.size(), InfeedQueue(size, batch_granules_));
  if (params.host.outfeed_queue_kib > 0) {
    outfeed_queues_.assign(cores_.size(),
                           OutfeedQueue(std::uint64_t{params.host.outfeed_queue_kib} * 1024));
  }
  std::uint32_t chips = 0;
  for (const Fed& core : cores_) chips = std::max(chips, core.chip + 1);
  const HostWire link(std::uint64_t{params.host.pcie_gb_per_s} * 1000, params.clock_mhz);
  down_.assign(chips, link);
  up_.assign(chips, link);
  if (params.host.network_mb_per_s > 0) {
    network_.emplace(static_cast<std::uint64_t>(params.host.network_mb_per_s * 1000),
                     std::uint64_t{params.clock_mhz} * 1000);
  }
  if (HandOver::is_described(params.host)) hand_over_.emplace(params.host, params.clock_mhz);
  if (batch_bytes_ == 0) return;
  if (Loader::is_described(params)) {
    if (workload.examples == 0) {
      throw WorkloadError(
          "the program takes infeed but does not say how many examples a step consumes, which the "
          "input pipeline of [input] needs; set input.images to 0");
    }
    loader_.emplace(params, workload.examples * cores_.size(), host_bytes_ / workload.examples);
    ahead_ = 1 + params.input.prefetch_batches;
  }
  begin_batches(0);
}

void InputPipeline::add_accounts(const std::string& host, std::uint64_t end,
                                 ExactAccounts& accounts) const {
  for (std::size_t chip = 0; chip < down_.size(); ++chip) {
    accounts.push_back(down_[chip].account(pcie_down_name(host, chip), end, kBatchCauses));
    accounts.push_back(up_[chip].account(pcie_up_name(host, chip), end));
  }
  if (network_) accounts.push_back(network_->account(network_name(host), end, kBatchCauses));
  if (hand_over_) accounts.push_back(hand_over_->account(hand_over_name(host), end));
  if (loader_) loader_->add_accounts(host, end, accounts);
}

void InputPipeline::settle(std::uint64_t now) {
  for (HostWire& link : down_) link.settle(now);
  for (HostWire& link : up_) link.settle(now);
  if (network_) network_->settle(now);
  if (hand_over_) hand_over_->settle(now);
  if (loader_) loader_->settle(now);
}

void InputPipeline::begin_account(std::uint64_t now) {
  for (HostWire& link : down_) link.begin_account(now);
  for (HostWire& link : up_) link.begin_account(now);
  if (network_) network_->begin_account(now);
  if (hand_over_) hand_over_->begin_account(now);
  if (loader_) loader_->begin_account(now);
}

void InputPipeline::describe(StepState& state) const {
  const auto add = [&](const Time& time) {
    state.add_past(time.cycle);
    state.add(time.ticks);
  };
  state.add(made_.size());
  for (const Time& ready : made_) add(ready);
  for (const std::uint64_t begin : begun_) state.add_past(begin);
  // Of a pipeline that has run dry it does not matter when.
  add(last_made_.cycle + 1 < state.now() ? Time{state.now(), 0} : last_made_);
  state.add(arrivals_.size());
  for (auto arrivals = arrivals_; !arrivals.empty(); arrivals.pop()) {
    if (arrivals.top().outfeed) state.leave_open();
    state.add_time(arrivals.top().cycle);
    state.add(arrivals.top().core);
    state.add(arrivals.top().granules);
  }
  state.add(left_granules_);
  for (const OutfeedQueue& queue : outfeed_queues_) queue.describe(state);
  for (const InfeedQueue& queue : queues_) queue.describe(state);
  if (network_) network_->describe(state);
  if (hand_over_) hand_over_->describe(state);
  for (const HostWire& link : down_) link.describe(state);
  for (const HostWire& link : up_) link.describe(state);
  if (loader_) loader_->describe(state);
}

/// When the next batch is ready of which the work may begin now.
InputPipeline::Time InputPipeline::next_ready(std::uint64_t now) {
  if (loader_) return {loader_->make(now), 0};
  // A pipeline that never ran dry goes on where the batch before ended.
  Time ready = last_made_.cycle + 1 < now ? Time{now, 0} : last_made_;
  const std::uint64_t ticks = ready.ticks + batch_time_.ticks;
  ready.cycle += batch_time_.cycle + ticks / ticks_per_cycle_;
  ready.ticks = ticks % ticks_per_cycle_;
  return ready;
}

void InputPipeline::begin_batches(std::uint64_t now) {
  while (made_.size() < ahead_) {
    if (!loader_) {
      if (!have_places()) return;
      take_places();
    }
    last_made_ = next_ready(now);
    made_.push_back(last_made_);
    begun_.push_back(now);
  }
}

bool InputPipeline::have_places() const {
  return !queues_.empty() && std::all_of(queues_.begin(), queues_.end(),
                                         [](const auto& queue) { return queue.has_place(); });
}

/// Whether nothing but time keeps a batch here.
bool InputPipeline::may_leave() const {
  if (made_.empty() || !have_room()) return false;
  return left_granules_ > 0 || !loader_ || have_places();
}

std::uint64_t InputPipeline::next_piece() const {
  return std::min(piece_granules_, batch_granules_ - left_granules_);
}

bool InputPipeline::have_room() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [&](const auto& queue) { return queue.has_room(next_piece()); });
}

void InputPipeline::take_places() {
  for (InfeedQueue& queue : queues_) queue.take_place();
}

/// The parts of the cores of a chip cross its link side by side, and are there together.
void InputPipeline::send_piece(std::uint64_t now) {
  const bool is_first = left_granules_ == 0;
  const std::uint64_t granules = next_piece();
  const auto bytes_up_to = [&](std::uint64_t granule) {
    return host_bytes_ / batch_granules_ * granule +
           host_bytes_ % batch_granules_ * granule / batch_granules_;
  };
  const std::uint64_t piece_bytes =
      bytes_up_to(left_granules_ + granules) - bytes_up_to(left_granules_);
  // A loader makes batches ahead, which wait for room; else the work begins when there is room.
  // The pieces behind the first one wait for room alone.
  const std::uint64_t made = loader_ ? made_.front().rounded_up() : begun_.front();
  const std::uint64_t split = is_first ? made : now;
  const std::size_t before = loader_ && is_first ? 1 : 0;
  if (loader_ && is_first) take_places();
  for (InfeedQueue& queue : queues_) queue.take_room(granules);
  std::vector<std::uint64_t> bytes(down_.size());
  for (const Fed& core : cores_) bytes[core.chip] += piece_bytes;
  std::vector<std::uint64_t> arrivals(down_.size());
  const std::uint64_t leaves = hand_over_ && is_first ? hand_over_->begin(now, host_bytes_) : now;
  std::uint64_t left = leaves;
  for (std::size_t chip = 0; chip < down_.size(); ++chip) {
    if (bytes[chip] == 0) continue;
    const std::uint64_t sent =
        network_ ? network_->pass(leaves, bytes[chip], split, before).end : leaves;
    const std::uint64_t there = down_[chip].pass(sent, bytes[chip], split, before).end;
    arrivals[chip] = there + pcie_latency_;
    left = std::max(left, network_ ? sent : there);
  }
  for (std::uint32_t core = 0; core < cores_.size(); ++core) {
    arrivals_.push({arrivals[cores_[core].chip], order_++, false, core, 0, granules});
  }
  if (hand_over_) hand_over_->left(left);
  left_granules_ += granules;
  if (left_granules_ < batch_granules_) return;
  left_granules_ = 0;
  made_.pop_front();
  begun_.pop_front();
}

void InputPipeline::request(std::uint32_t core, std::uint64_t granules, std::uint64_t token) {
  queues_[core].request(granules, token);
}

void InputPipeline::send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token,
                                 std::uint64_t now) {
  const HostWire::Passage passage = up_[cores_[core].chip].pass(now, bytes);
  const std::uint64_t done =
      outfeed_queues_.empty() ? passage.end + pcie_latency_
                              : outfeed_queues_[core].enter(now, bytes, passage.begin, passage.end);
  arrivals_.push({done, order_++, true, core, token, 0});
}

std::optional<std::uint64_t> InputPipeline::next_event() const {
  std::optional<std::uint64_t> next;
  if (!arrivals_.empty()) next = arrivals_.top().cycle;
  if (may_leave()) {
    const std::uint64_t ready = made_.front().rounded_up();
    next = next ? std::min(*next, ready) : ready;
  }
  return next;
}

std::vector<InputPipeline::Done> InputPipeline::advance(std::uint64_t now) {
  std::vector<Done> result;
  while (!arrivals_.empty() && arrivals_.top().cycle <= now) {
    const Arrival arrival = arrivals_.top();
    arrivals_.pop();
    if (arrival.outfeed) {
      result.push_back({true, arrival.core, arrival.token, {}});
    } else {
      queues_[arrival.core].deliver(arrival.granules);
    }
  }
  for (std::uint32_t core = 0; core < queues_.size(); ++core) {
    while (const std::optional<InfeedQueue::Request> request = queues_[core].next()) {
      result.push_back({false, core, request->token, words_of(core, *request)});
    }
  }
  if (batch_bytes_ == 0) return result;
  begin_batches(now);
  while (may_leave() && made_.front().rounded_up() <= now) {
    send_piece(now);
    begin_batches(now);
  }
  return result;
}

std::vector<std::uint32_t> InputPipeline::words_of(std::uint32_t core,
                                                   const InfeedQueue::Request& request) const {
  const std::vector<MemoryBlock>* batches = cores_[core].batches;
  if (batches == nullptr || batches->empty()) return {};
  const std::vector<std::uint32_t>& all = (*batches)[request.batch % batches->size()].words;
  const std::size_t granule_words = isa::kHbmGranuleBytes / 4;
  const std::size_t begin = std::min(all.size(), request.offset * granule_words);
  const std::size_t end = std::min(all.size(), (request.offset + request.granules) * granule_words);
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace tpu
