#include "models/memory/dma_engine.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

using isa::MemorySpace;

/// Tokens from here on are those of parts of remote DMAs.
constexpr std::uint64_t kFirstPart = std::uint64_t{1} << 63;

/// How many address units of a memory a granule takes.
std::uint32_t units_per_granule(MemorySpace space, const GranuleView& hbm) {
  switch (space) {
    case MemorySpace::kVmem:
    case MemorySpace::kCmem:
      return hbm.rows();
    case MemorySpace::kSmem:
      return hbm.words();
    default:
      return 1;
  }
}

/// Calls visit(address, offset, count) for each run of an endpoint: address in the units of the
/// memory, offset and count in granules.
template <class Visit>
void for_each_run(const isa::DmaEndpoint& endpoint, std::uint32_t granules, const GranuleView& hbm,
                  const Visit& visit) {
  const std::uint64_t unit = units_per_granule(endpoint.space, hbm);
  const bool contiguous = endpoint.granules_per_run == 0 || endpoint.granules_per_run >= granules;
  const std::uint32_t run = contiguous ? granules : endpoint.granules_per_run;
  std::uint64_t address = endpoint.address;
  for (std::uint32_t done = 0; done < granules; done += run) {
    visit(address, done, std::min(run, granules - done));
    address += unit * endpoint.stride;
  }
}

/// The traffic of `granules` granules of an endpoint in HBM, from its granule `first` on.
HbmRequest hbm_request(const isa::DmaEndpoint& endpoint, bool write, std::uint32_t first,
                       std::uint32_t granules, HbmClient& client, std::uint64_t token) {
  HbmRequest request;
  request.write = write;
  request.address = endpoint.address;
  request.granules_per_run = endpoint.granules_per_run;
  request.stride = endpoint.stride;
  request.first = first;
  request.granules = granules;
  request.client = &client;
  request.token = token;
  return request;
}

/// One behind the last address that an endpoint touches.
std::uint64_t end_address(const isa::DmaEndpoint& endpoint, std::uint32_t granules,
                          const GranuleView& hbm) {
  const std::uint64_t unit = units_per_granule(endpoint.space, hbm);
  const bool contiguous = endpoint.granules_per_run == 0 || endpoint.granules_per_run >= granules;
  if (contiguous) return endpoint.address + unit * granules;
  const std::uint64_t run = endpoint.granules_per_run;
  const std::uint64_t whole = granules / run;
  const std::uint64_t rest = granules % run;
  std::uint64_t end = endpoint.address + unit * ((whole - 1) * endpoint.stride + run);
  if (rest != 0) {
    end = std::max(end, endpoint.address + unit * (whole * endpoint.stride + rest));
  }
  return end;
}

std::string beyond(const char* which, const char* memory, std::uint64_t end, std::uint64_t size,
                   const char* unit) {
  return std::string("the ") + which + " of the DMA ends at " + memory + " " + unit + " " +
         std::to_string(end) + ", but there are " + std::to_string(size);
}

}  // namespace

const std::uint32_t* DmaPayload::granule(std::uint32_t number) const {
  return words.data() + std::size_t{number} * granule_words;
}

/// The first input behind a granule.
std::vector<DmaPayload::Input>::const_iterator DmaPayload::behind(std::uint32_t number) const {
  return std::upper_bound(inputs.begin(), inputs.end(), number,
                          [](std::uint32_t at, const Input& input) { return at < input.offset; });
}

std::uint32_t DmaPayload::same_origin(std::uint32_t first, std::uint32_t most) const {
  if (origins.empty()) return most;
  const auto next = behind(first);
  if (next != inputs.end()) most = std::min(most, next->offset - first);
  std::uint32_t count = 1;
  while (count < most && origins[first + count] == origins[first]) ++count;
  return count;
}

std::optional<MemoryImage::InputPart> DmaPayload::input_at(std::uint32_t number) const {
  const auto next = behind(number);
  if (next == inputs.begin()) return std::nullopt;
  const Input& input = *std::prev(next);
  const std::uint32_t before = number - input.offset;
  if (before >= input.part.granules) return std::nullopt;
  MemoryImage::InputPart part = input.part;
  part.first += before;
  part.granules -= before;
  return part;
}

DmaEngine::DmaEngine(Core core, const MachineParams& params, const isa::Program& program,
                     MemoryImage& hbm, ScalarUnit& scalar, isa::CoreState* data,
                     Knowledge* knowledge, WaitGraph& graph, TransferOverlap& overlap,
                     DmaPorts& ports)
    : core_(core),
      params_(params),
      program_(program),
      hbm_(hbm),
      scalar_(scalar),
      data_(data),
      knowledge_(knowledge),
      graph_(graph),
      overlap_(overlap),
      ports_(ports),
      vmem_rows_((params.core.vmem_mib << 20) / isa::kVmemRowBytes),
      hbm_granules_((std::uint64_t{params.hbm.gib} << 20) / params.cores_per_chip),
      hbm_bytes_(hbm.bytes()),
      hbm_view_(hbm, program.conventions.granule_bytes, data != nullptr && knowledge == nullptr) {}

// ---- Start

/// Size of an endpoint's memory in its units of address.
std::uint64_t DmaEngine::limit(MemorySpace space) const {
  switch (space) {
    case MemorySpace::kHbm:
      return hbm_granules_ * hbm_view_.per_kib();
    case MemorySpace::kCmem:
      return (std::uint64_t{params_.core.cmem.mib} << 20) / isa::kVmemRowBytes;
    case MemorySpace::kVmem:
      return vmem_rows_;
    case MemorySpace::kSmem:
      return params_.core.smem_words;
    default:
      return ~std::uint64_t{0};
  }
}

bool DmaEngine::is_inside(const isa::DmaEndpoint& endpoint, std::uint32_t granules) const {
  return end_address(endpoint, granules, hbm_view_) <= limit(endpoint.space);
}

std::string DmaEngine::check_endpoint(const isa::DmaEndpoint& endpoint, std::uint32_t granules,
                                      const char* which) const {
  if (is_inside(endpoint, granules)) return {};
  const std::uint64_t end = end_address(endpoint, granules, hbm_view_);
  const std::uint64_t size = limit(endpoint.space);
  switch (endpoint.space) {
    case MemorySpace::kHbm:
      return beyond(which, "HBM", end, size, "granule");
    case MemorySpace::kVmem:
      return beyond(which, "VMEM", end, size, "row");
    case MemorySpace::kCmem:
      return beyond(which, "CMEM", end, size, "row");
    default:
      return beyond(which, "SMEM", end, size, "word");
  }
}

/// A placeholder that stands for an unknown address and leaves the memory moves back inside.
void DmaEngine::keep_inside(isa::DmaEndpoint& endpoint, std::uint32_t granules) const {
  const std::uint64_t end = end_address(endpoint, granules, hbm_view_);
  const std::uint64_t size = limit(endpoint.space);
  if (end <= size) return;
  const std::uint64_t extent = end - endpoint.address;
  endpoint.address = static_cast<std::uint32_t>(size - std::min(size, extent));
}

std::string DmaEngine::check_endpoints(const isa::DmaDescriptor& descriptor) const {
  if (is_word_for_other_core(descriptor)) {
    const std::uint32_t words = params_.core.smem_words;
    const std::uint32_t from = descriptor.source.address, to = descriptor.destination.address;
    if (from >= words) return beyond("source", "SMEM", std::uint64_t{from} + 1, words, "word");
    if (to >= words) return beyond("destination", "SMEM", std::uint64_t{to} + 1, words, "word");
    return {};
  }
  std::string problem = check_endpoint(descriptor.source, descriptor.granules, "source");
  if (!problem.empty()) return problem;
  return check_endpoint(descriptor.destination, descriptor.granules, "destination");
}

std::string DmaEngine::check(const isa::DmaDescriptor& descriptor) const {
  if (!descriptor.remote && descriptor.destination_flag < params_.core.sync_flags &&
      is_inside(descriptor.source, descriptor.granules) &&
      is_inside(descriptor.destination, descriptor.granules)) {
    return {};
  }
  std::string problem = check_endpoints(descriptor);
  if (!problem.empty()) return problem;
  const auto check_flag = [&](std::uint32_t flag) {
    if (flag < params_.core.sync_flags) return std::string();
    return "expected a sync flag below " + std::to_string(params_.core.sync_flags) +
           " in the DMA, found " + std::to_string(flag);
  };
  problem = check_flag(descriptor.destination_flag);
  if (problem.empty() && descriptor.remote) problem = check_flag(descriptor.source_flag);
  if (!problem.empty() || !descriptor.remote) return problem;
  const bool in_hbm = descriptor.source.space == MemorySpace::kHbm ||
                      descriptor.destination.space == MemorySpace::kHbm;
  if (in_hbm && hbm_view_.per_kib() != 1) {
    return "a remote DMA to or from HBM in XLA's code for v4, which is in no listing "
           "(models/DEVIATIONS.md)";
  }
  const isa::DmaEndpoint& to = descriptor.destination;
  if (to.chip >= params_.chips() || to.core >= params_.cores_per_chip) {
    return "the remote DMA goes to chip " + std::to_string(to.chip) + ", core " +
           std::to_string(to.core) + ", but the slice has " + std::to_string(params_.chips()) +
           " chips of " + std::to_string(params_.cores_per_chip) + " cores";
  }
  if (!ports_.runs(to.chip, to.core)) {
    return "the remote DMA goes to chip " + std::to_string(to.chip) + ", core " +
           std::to_string(to.core) + ", which does not take part in the run";
  }
  return {};
}

std::string DmaEngine::check_infeed(std::uint32_t granules) {
  const std::uint64_t batch = (program_.infeed_bytes + hbm_view_.bytes() - 1) / hbm_view_.bytes();
  if (batch == 0) {
    return "a DMA out of the infeed queue, but the program takes no infeed (infeed_bytes is 0)";
  }
  const std::uint64_t left = batch - infeed_taken_ % batch;
  if (granules > left) {
    return "a DMA of " + std::to_string(granules) + " granules out of the infeed queue, but " +
           std::to_string(left) + " are left of the batch";
  }
  infeed_taken_ += granules;
  return {};
}

void DmaEngine::describe(StepState& state) const {
  if (!idle() || !remote_parts_.empty()) state.leave_open();
  state.add_time(next_start_);
  const std::uint64_t batch = (program_.infeed_bytes + hbm_view_.bytes() - 1) / hbm_view_.bytes();
  state.add(batch == 0 ? 0 : infeed_taken_ % batch);
}

std::uint64_t DmaEngine::new_token() {
  if (free_.empty()) {
    local_.emplace_back();
    return local_.size() - 1;
  }
  const std::uint64_t token = free_.back();
  free_.pop_back();
  return token;
}

std::string DmaEngine::start(isa::DmaDescriptor descriptor, UnknownAddresses unknown,
                             CodePlace place, const MemberDestinations& destinations,
                             std::uint64_t now) {
  if (!unknown.source.known()) keep_inside(descriptor.source, descriptor.granules);
  if (!unknown.destination.known()) keep_inside(descriptor.destination, descriptor.granules);
  std::string problem = check(descriptor);
  const bool infeed = descriptor.source.space == MemorySpace::kInfeed;
  if (problem.empty() && infeed) problem = check_infeed(descriptor.granules);
  if (!problem.empty()) return problem;
  const std::uint64_t start = std::max(now, next_start_);
  next_start_ = start + params_.dma.issue_interval_cycles;
  if (is_word_for_other_core(descriptor)) {
    send_word(descriptor, destinations, start);
    return {};
  }
  if (descriptor.remote) {
    if (descriptor.granules > 0) count_start(now);
    start_remote(descriptor, unknown, place, destinations, start);
    return {};
  }
  const std::uint64_t token = new_token();
  LocalDma& dma = local_[token];
  dma.active = true;
  dma.descriptor = descriptor;
  dma.unknown = unknown;
  dma.place = place;
  dma.begin = now;
  count_start(now);
  dma.transfer = record_start(descriptor);
  const bool reads = descriptor.source.space == MemorySpace::kHbm;
  const bool writes = descriptor.destination.space == MemorySpace::kHbm;
  if (infeed) {
    dma.parts = 1;
    ports_.take_infeed(descriptor.granules, token, start);
    return {};
  }
  dma.parts = reads && writes ? 2 : 1;
  const bool exact = !core_alone_notices(descriptor);
  const auto submit = [&](const isa::DmaEndpoint& endpoint, bool write, std::uint32_t granules) {
    HbmRequest request = hbm_view_.whole(hbm_request(endpoint, write, 0, granules, *this, token));
    request.exact = exact;
    if (!exact) request.flag = descriptor.destination_flag;
    ports_.submit_hbm(request, start);
  };
  if (reads) submit(descriptor.source, false, descriptor.granules);
  if (writes) submit(descriptor.destination, true, descriptor.granules);
  // Between VMEM, CMEM and SMEM the engine's latency is taken for that of the HBM.
  if (!reads && !writes) submit({}, false, 0);
  return {};
}

/// All that comes of the end of a local DMA is that its flag rises: no data moves that the core may
/// read without looking at the flag, and nothing leaves the core.
bool DmaEngine::core_alone_notices(const isa::DmaDescriptor& descriptor) const {
  const auto of_scalar_unit = [](MemorySpace space) { return space == MemorySpace::kSmem; };
  return ports_.runs_ahead() && !of_scalar_unit(descriptor.source.space) &&
         !of_scalar_unit(descriptor.destination.space) &&
         descriptor.destination.space != MemorySpace::kOutfeed;
}

/// A local DMA begins, in the record of what waits wait for.
std::uint32_t DmaEngine::record_start(const isa::DmaDescriptor& descriptor) {
  const bool infeed = descriptor.source.space == MemorySpace::kInfeed;
  const bool outfeed = descriptor.destination.space == MemorySpace::kOutfeed;
  const bool reads = descriptor.source.space == MemorySpace::kHbm;
  const bool writes = descriptor.destination.space == MemorySpace::kHbm;
  const std::uint64_t granules = std::uint64_t{descriptor.granules} * (reads + writes);
  return graph_.start(number(), granules * hbm_view_.bytes(),
                      infeed ? Resource::kHost : Resource::kHbm,
                      outfeed ? Resource::kHost : Resource::kHbm);
}

// ---- Progress of local DMAs

void DmaEngine::hbm_done(std::uint64_t token, std::uint64_t now) {
  if (token >= kFirstPart) {
    const auto found = remote_parts_.find(token);
    const RemotePart part = found->second;
    remote_parts_.erase(found);
    if (part.write) {
      piece_written(*part.dma, now);
    } else {
      send_message(*part.dma, now);
    }
    return;
  }
  LocalDma& dma = local_[token];
  if (--dma.parts > 0) return;
  if (dma.descriptor.destination.space == MemorySpace::kOutfeed) {
    graph_.split(dma.transfer, now);
    ports_.send_outfeed(std::uint64_t{dma.descriptor.granules} * hbm_view_.bytes(), token, now);
    return;
  }
  complete(token, now);
}

void DmaEngine::infeed_arrived(std::uint64_t token, std::vector<std::uint32_t> words,
                               std::uint64_t now) {
  LocalDma& dma = local_[token];
  dma.words = std::move(words);
  graph_.split(dma.transfer, now);
  ports_.submit_hbm(hbm_view_.whole(hbm_request(dma.descriptor.destination, true, 0,
                                                dma.descriptor.granules, *this, token)),
                    now);
}

void DmaEngine::outfeed_sent(std::uint64_t token, std::uint64_t now) { complete(token, now); }

void DmaEngine::complete(std::uint64_t token, std::uint64_t now) {
  LocalDma& dma = local_[token];
  const isa::DmaDescriptor descriptor = dma.descriptor;
  if (descriptor.granules > 0) move(dma);
  dma.active = false;
  dma.words.clear();
  free_.push_back(token);
  count_end(now);
  note(descriptor, nullptr, dma.begin, now);
  CoreState reason = CoreState::kMemoryWait;
  if (descriptor.source.space == MemorySpace::kInfeed) reason = CoreState::kInfeedWait;
  if (descriptor.destination.space == MemorySpace::kOutfeed) reason = CoreState::kOutfeedWait;
  FlagRaiser raiser;
  raiser.reason = reason;
  raiser.transfer = dma.transfer;
  graph_.done(dma.transfer, now);
  ports_.raise_flag(descriptor.destination_flag, descriptor.granules, raiser, now);
}

void DmaEngine::note(const isa::DmaDescriptor& descriptor, const MemberDestinations& destinations,
                     std::uint64_t begin, std::uint64_t end) const {
  if (!ports_.watched()) return;
  DmaEvent event;
  event.source_chip = core_.chip;
  event.source_core = core_.core;
  event.destination_chip = descriptor.remote ? descriptor.destination.chip : core_.chip;
  event.destination_core = descriptor.remote ? descriptor.destination.core : core_.core;
  event.source = descriptor.source.space;
  event.destination = descriptor.destination.space;
  event.begin = begin;
  event.end = end;
  event.bytes = std::uint64_t{descriptor.granules} * hbm_view_.bytes();
  ports_.note_dma(event, destinations);
}

// ---- Remote DMAs

std::uint32_t DmaEngine::largest_message() const {
  return std::max<std::uint32_t>(params_.ici.message_kib, 1) * hbm_view_.per_kib();
}

std::uint32_t DmaEngine::message_granules(const RemoteDma& dma, std::uint32_t index) const {
  const std::uint32_t largest = largest_message();
  return std::min(largest, dma.descriptor.granules - index * largest);
}

/// The HBM traffic of a message at one end.
void DmaEngine::submit_part(const RemotePart& part, const isa::DmaEndpoint& endpoint,
                            std::uint32_t index, std::uint64_t now) {
  const std::uint64_t token = kFirstPart + submitted_parts_++;
  remote_parts_.emplace(token, part);
  const std::uint32_t first = index * largest_message();
  ports_.submit_hbm(
      hbm_request(endpoint, part.write, first, message_granules(*part.dma, index), *this, token),
      now);
}

void DmaEngine::start_remote(const isa::DmaDescriptor& descriptor, UnknownAddresses unknown,
                             CodePlace place, const MemberDestinations& destinations,
                             std::uint64_t now) {
  if (descriptor.granules == 0) return;
  auto owned = std::make_unique<RemoteDma>();
  RemoteDma& dma = *owned;
  dma.id = remote_started_++;
  remote_.emplace(dma.id, std::move(owned));
  dma.source_engine = this;
  dma.source_core = number();
  dma.descriptor = descriptor;
  dma.unknown = unknown;
  dma.place = place;
  dma.destinations = destinations;
  dma.begin = now;
  dma.op = overlap_.begin(now);
  const std::uint64_t bytes = std::uint64_t{descriptor.granules} * hbm_view_.bytes();
  dma.leaves = graph_.start(number(), bytes, Resource::kIci, Resource::kIci);
  dma.arrives = graph_.start(number(), bytes, Resource::kIci, Resource::kIci);
  const std::uint32_t largest = largest_message();
  dma.messages = (descriptor.granules + largest - 1) / largest;
  for (std::uint32_t i = 0; i < dma.messages; ++i) {
    if (descriptor.source.space != MemorySpace::kHbm) {
      send_message(dma, now);
      continue;
    }
    submit_part({&dma, false}, descriptor.source, i, now);
  }
}

void DmaEngine::send_message(RemoteDma& dma, std::uint64_t now) {
  IciMessage message;
  message.source_chip = core_.chip;
  message.source_core = core_.core;
  message.destination_chip = dma.descriptor.destination.chip;
  message.destination_core = dma.descriptor.destination.core;
  message.bytes = std::uint64_t{message_granules(dma, dma.read)} * hbm_view_.bytes();
  message.number = 1 + dma.id;
  message.dma = &dma;
  message.sent = dma.begin;
  message.writes_hbm = dma.descriptor.destination.space == MemorySpace::kHbm;
  message.destinations = dma.destinations;
  ++dma.read;
  ports_.send(message, now);
}

/// A word with an addition of 1 to a flag there: it takes the time of the addition. The source's
/// flag stays as it is: the runtime's first one, which nothing waits for.
void DmaEngine::send_word(const isa::DmaDescriptor& descriptor,
                          const MemberDestinations& destinations, std::uint64_t now) {
  const std::uint32_t from = descriptor.source.address;
  IciMessage message;
  message.source_chip = core_.chip;
  message.source_core = core_.core;
  message.destination_chip = descriptor.destination.chip;
  message.destination_core = descriptor.destination.core;
  message.flag = descriptor.destination_flag;
  message.value = 1;
  message.word = std::make_shared<const RemoteWord>(
      RemoteWord{descriptor.destination.address, scalar_.smem(from), scalar_.smem_origin(from)});
  message.sent = now;
  message.transfer = graph_.start(number(), 0, Resource::kIci, Resource::kIci);
  message.destinations = destinations;
  ports_.send(message, now);
}

void DmaEngine::message_left(const IciMessage& message, std::uint64_t now) {
  if (message.dma == nullptr) return;
  RemoteDma& dma = *message.dma;
  if (++dma.left < dma.messages) return;
  if (values_on()) {
    dma.payload.words = read_source(dma.descriptor, dma.place);
  } else if (knowledge_ != nullptr) {
    dma.payload = read_known(dma.descriptor, dma.unknown.source, dma.place);
  }
  FlagRaiser raiser;
  raiser.reason = CoreState::kIciWait;
  raiser.transfer = dma.leaves;
  graph_.done(dma.leaves, now);
  ports_.raise_flag(dma.descriptor.source_flag, dma.descriptor.granules, raiser, now);
}

void DmaEngine::message_arrived(const IciMessage& message, std::uint64_t now) {
  if (message.dma == nullptr) {
    const std::uint32_t sender = message.source_chip * params_.cores_per_chip + message.source_core;
    FlagRaiser raiser = FlagRaiser::peer(sender, message.sent);
    raiser.transfer = message.transfer;
    if (message.word != nullptr) {
      const RemoteWord& word = *message.word;
      if (word.origin.known()) {
        scalar_.write_smem(word.address, word.value);
      } else {
        scalar_.write_smem_unknown(word.address, word.origin);
      }
      if (values_on()) data_->scalar.smem[word.address] = word.value;
    }
    graph_.done(message.transfer, now);
    ports_.raise_flag(message.flag, message.value, raiser, now);
    return;
  }
  RemoteDma& dma = *message.dma;
  if (dma.descriptor.destination.space != MemorySpace::kHbm) {
    piece_written(dma, now);
    return;
  }
  ports_.note_hbm_write(message.bytes);
  submit_part({&dma, true}, dma.descriptor.destination, dma.landed++, now);
}

void DmaEngine::finish(const RemoteDma& dma, std::uint64_t now) {
  overlap_.end(dma.op, now);
  remote_.erase(dma.id);
  count_end(now);
}

/// The account takes over the starts up to a cycle. The core runs: waits have been counted when
/// they ended.
void DmaEngine::count_starts(std::uint64_t until) {
  for (; !starts_.empty() && starts_.front() <= until; starts_.pop_front()) {
    if (under_way_++ == 0) count_idle(CoreState::kIssue, starts_.front());
  }
}

void DmaEngine::count_end(std::uint64_t now) {
  count_starts(now);
  last_end_ = std::max(last_end_, now);  // The end of a remote one is known at once.
  if (--under_way_ > 0) return;
  busy_cycles_ += last_end_ - counted_;
  counted_ = last_end_;
}

void DmaEngine::count_idle(CoreState state, std::uint64_t until) {
  if (until <= counted_) return;
  idle_.add(state, until - counted_);
  counted_ = until;
}

void DmaEngine::core_waited(CoreState reason, std::uint64_t begin, std::uint64_t end) {
  count_starts(begin);
  if (under_way_ > 0) return;
  count_idle(CoreState::kIssue, begin);
  count_idle(reason, end);
}

void DmaEngine::begin_account(std::uint64_t now) {
  count_starts(now);
  account_begin_ = counted_ = last_end_ = now;
  busy_cycles_ = 0;
  idle_ = {};
}

PartAccount DmaEngine::account(std::uint64_t end, std::uint64_t finished) {
  count_starts(end);
  if (under_way_ > 0) {
    busy_cycles_ += end - counted_;
    counted_ = end;
  }
  count_idle(CoreState::kIssue, finished);
  count_idle(CoreState::kFinished, end);
  TPU_CHECK(busy_cycles_ + idle_.total() == end - account_begin_,
            "DMAs of core " << number() << ": of " << end - account_begin_ << " cycles, "
                            << busy_cycles_ << " busy and " << idle_.total() << " idle");
  PartAccount account{"DMAs of core " + std::to_string(number()), {{"busy", busy_cycles_}}};
  for (std::size_t s = 0; s < CycleAccount<CoreState>::kStates; ++s) {
    const auto state = static_cast<CoreState>(s);
    if (state == CoreState::kDelay) continue;  // With kIssue: the core runs.
    std::string name = state == CoreState::kIssue ? "core runs" : to_string(state);
    std::replace(name.begin(), name.end(), '_', ' ');
    account.cycles.emplace_back("idle: " + name, idle_[state]);
  }
  return account;
}

void DmaEngine::piece_written(RemoteDma& dma, std::uint64_t now) {
  if (++dma.arrived < dma.messages) return;
  if (data_ != nullptr) {
    deliver(dma.descriptor, dma.payload, dma.unknown.destination, dma.place);
  } else if (dma.descriptor.destination.space == MemorySpace::kHbm &&
             dma.unknown.destination.known()) {
    DmaPayload unknown;
    unknown.origins.assign(dma.descriptor.granules, Origin::nobody());
    deliver(dma.descriptor, unknown, {}, dma.place);
  }
  dma.source_engine->note(dma.descriptor, dma.destinations, dma.begin, now);
  const std::uint32_t flag = dma.descriptor.destination_flag;
  const std::uint32_t granules = dma.descriptor.granules;
  FlagRaiser sender = FlagRaiser::peer(dma.source_core, dma.begin);
  sender.transfer = dma.arrives;
  graph_.done(dma.arrives, now);
  dma.source_engine->finish(dma, now);
  ports_.raise_flag(flag, granules, sender, now);
}

// ---- Values

void DmaEngine::move(LocalDma& dma) {
  const isa::DmaDescriptor& descriptor = dma.descriptor;
  const isa::DmaEndpoint& to = descriptor.destination;
  if (to.space == MemorySpace::kOutfeed) return;
  if (to.space == MemorySpace::kCmem && !values_on()) return;
  if (values_on()) {
    DmaPayload payload;
    payload.granule_words = hbm_view_.words();
    if (descriptor.source.space == MemorySpace::kInfeed) {
      payload.words = dma.words;
      payload.words.resize(std::size_t{descriptor.granules} * hbm_view_.words());
    } else {
      payload.words = read_source(descriptor, dma.place);
    }
    return deliver(descriptor, payload, {}, dma.place);
  }
  if (knowledge_ == nullptr) {
    // Nothing of VMEM is known, and HBM only where something was loaded.
    if (to.space == MemorySpace::kVmem || !dma.unknown.destination.known()) return;
    if (to.space == MemorySpace::kHbm && descriptor.source.space != MemorySpace::kHbm &&
        !hbm_view_.any_known(to.address, end_address(to, descriptor.granules, hbm_view_))) {
      return;
    }
  }
  deliver(descriptor, read_known(descriptor, dma.unknown.source, dma.place),
          dma.unknown.destination, dma.place);
}

/// Whether the code may read a granule of HBM that nothing has written: XLA's gathers fetch what
/// the padding of an array of indices names, and drop it. What is loaded before the program starts
/// is there.
bool DmaEngine::may_read_unwritten(CodePlace place, std::uint64_t granule) const {
  if (program_.kernels.at(place.kernel).names.empty()) return false;  // Not out of a listing.
  const std::uint64_t kib = granule / hbm_view_.per_kib();
  return std::none_of(
      program_.buffers.begin(), program_.buffers.end(), [kib](const isa::Buffer& buffer) {
        const bool is_loaded = buffer.role == isa::BufferRole::kParameter ||
                               buffer.role == isa::BufferRole::kConstant ||
                               buffer.role == isa::BufferRole::kInfeed;
        return is_loaded && kib >= buffer.granule &&
               kib < buffer.granule + ceil_divide(buffer.bytes, isa::kHbmGranuleBytes);
      });
}

/// The granules of the source in order. A granule of HBM that was never written is a fault, or
/// holds isa::kUnwrittenWord.
std::vector<std::uint32_t> DmaEngine::read_source(const isa::DmaDescriptor& descriptor,
                                                  CodePlace place) {
  std::vector<std::uint32_t> words(std::size_t{descriptor.granules} * hbm_view_.words(),
                                   isa::kUnwrittenWord);
  const isa::DmaEndpoint& source = descriptor.source;
  for_each_run(
      source, descriptor.granules, hbm_view_,
      [&](std::uint64_t address, std::uint32_t offset, std::uint32_t count) {
        std::uint32_t* to = words.data() + std::size_t{offset} * hbm_view_.words();
        if (source.space == MemorySpace::kVmem || source.space == MemorySpace::kCmem) {
          const bool cmem = source.space == MemorySpace::kCmem;
          std::memcpy(to,
                      (cmem ? data_->cmem : data_->vmem).row(static_cast<std::uint32_t>(address)),
                      std::size_t{count} * hbm_view_.bytes());
          return;
        }
        if (source.space == MemorySpace::kSmem) {
          for (std::uint32_t i = 0; i < count * hbm_view_.words(); ++i) {
            to[i] = scalar_.smem(static_cast<std::uint32_t>(address) + i);
          }
          return;
        }
        const std::optional<std::uint64_t> missing = hbm_view_.read(address, to, count);
        if (!missing || may_read_unwritten(place, *missing)) return;
        throw ProgramFault("chip " + std::to_string(core_.chip) + ", core " +
                           std::to_string(core_.core) + ", " + to_string(place, program_) +
                           ": the DMA started here reads HBM granule " + std::to_string(*missing) +
                           ", which nothing has written: load the buffer or check the address");
      });
  return words;
}

/// With values off: what is known of the source, out of an address that may be unknown itself.
DmaPayload DmaEngine::read_known(const isa::DmaDescriptor& descriptor, Origin address,
                                 CodePlace place) {
  const isa::DmaEndpoint& source = descriptor.source;
  const bool vmem = source.space == MemorySpace::kVmem;
  Origin all = address;
  if (source.space == MemorySpace::kInfeed || source.space == MemorySpace::kCmem) {
    all = Origin::nobody();  // Nothing is followed through CMEM.
  }
  const bool to_vmem = descriptor.destination.space == MemorySpace::kVmem;
  if ((vmem || to_vmem) && (knowledge_ == nullptr || !knowledge_->follows(place.kernel))) {
    all = Origin::kernel(place.kernel);
  }
  const bool to_hbm = descriptor.destination.space == MemorySpace::kHbm;
  if (to_hbm && knowledge_ != nullptr && knowledge_->followed().copies_refused(place.kernel)) {
    all = Origin::kernel(place.kernel);
  }
  // From HBM to HBM inputs go by name. Halves of granules have their words looked up.
  const bool by_name = source.space == MemorySpace::kHbm && to_hbm && hbm_view_.per_kib() == 1;
  DmaPayload payload;
  payload.granule_words = hbm_view_.words();
  payload.origins.assign(descriptor.granules, all);
  if (!all.known()) return payload;
  std::array<std::uint32_t, MemoryImage::kGranuleWords> granule{};
  for_each_run(
      source, descriptor.granules, hbm_view_,
      [&](std::uint64_t first, std::uint32_t offset, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::uint64_t at =
              first + std::uint64_t{i} * units_per_granule(source.space, hbm_view_);
          if (std::optional<MemoryImage::InputPart> input; by_name && (input = hbm_.input_at(at))) {
            input->granules = std::min<std::uint64_t>(input->granules, count - i);
            payload.inputs.push_back({offset + i, *input});
            std::fill_n(payload.origins.begin() + (offset + i), input->granules,
                        Origin::assumed(input->buffer));
            i += static_cast<std::uint32_t>(input->granules) - 1;
            continue;
          }
          const Origin origin = look_up(source.space, at, granule.data());
          payload.origins[offset + i] = origin;
          if (!origin.known()) continue;
          payload.words.resize(std::size_t{descriptor.granules} * hbm_view_.words());
          std::copy_n(
              granule.begin(), hbm_view_.words(),
              payload.words.begin() + static_cast<std::ptrdiff_t>(offset + i) * hbm_view_.words());
        }
      });
  return payload;
}

/// What is known of a granule of a memory, with values off.
Origin DmaEngine::look_up(MemorySpace space, std::uint64_t address, std::uint32_t* words) {
  if (space == MemorySpace::kHbm) return hbm_view_.look_up(address, words);
  const auto at = static_cast<std::uint32_t>(address);
  if (space == MemorySpace::kVmem) {
    std::memcpy(words, data_->vmem.row(at), hbm_view_.bytes());
    return knowledge_->rows(at, hbm_view_.rows());
  }
  Origin origin;
  for (std::uint32_t w = 0; w < hbm_view_.words(); ++w) {
    words[w] = scalar_.smem(at + w);
    origin = origin | scalar_.smem_origin(at + w);
  }
  return origin;
}

/// Where an unknown address lies nothing is followed in HBM; all of VMEM is unknown after it.
void DmaEngine::deliver(const isa::DmaDescriptor& descriptor, const DmaPayload& payload,
                        Origin address, CodePlace place) {
  const isa::DmaEndpoint& destination = descriptor.destination;
  const bool vmem = destination.space == MemorySpace::kVmem;
  if (vmem && !values_on() && (knowledge_ == nullptr || !knowledge_->follows(place.kernel))) return;
  if (!address.known()) {
    if (vmem) knowledge_->forget_rows(address);
    return;
  }
  const std::uint32_t unit = units_per_granule(destination.space, hbm_view_);
  for_each_run(destination, descriptor.granules, hbm_view_,
               [&](std::uint64_t first, std::uint32_t offset, std::uint32_t count) {
                 if (vmem && knowledge_ != nullptr) {
                   knowledge_->note_arrival(place.kernel, static_cast<std::uint32_t>(first),
                                            count * hbm_view_.rows());
                 }
                 std::uint32_t i = 0;
                 while (i < count) {
                   const std::uint64_t at = first + std::uint64_t{i} * unit;
                   if (auto input = payload.input_at(offset + i)) {
                     input->granules = std::min<std::uint64_t>(input->granules, count - i);
                     hbm_.hold(at, *input);
                     i += static_cast<std::uint32_t>(input->granules);
                     continue;
                   }
                   const std::uint32_t same = payload.same_origin(offset + i, count - i);
                   const Origin origin = payload.origin(offset + i);
                   if (origin.known()) {
                     put(destination.space, at, same, payload.granule(offset + i), origin);
                   } else {
                     forget(destination.space, at, same, origin);
                   }
                   i += same;
                 }
               });
  if (knowledge_ != nullptr) {
    const std::uint64_t before = std::exchange(hbm_bytes_, hbm_.bytes());
    knowledge_->followed().spend_bytes(place.kernel,
                                       static_cast<std::int64_t>(hbm_bytes_ - before));
  }
}

/// Granules of one origin arrive at an address.
void DmaEngine::put(MemorySpace space, std::uint64_t address, std::uint32_t granules,
                    const std::uint32_t* words, Origin origin) {
  const auto at = static_cast<std::uint32_t>(address);
  if (space == MemorySpace::kHbm) {
    hbm_view_.write(address, words, granules, origin);
  } else if (space == MemorySpace::kCmem) {
    std::memcpy(data_->cmem.row(at), words, std::size_t{granules} * hbm_view_.bytes());
    data_->cmem.mark_written(at, granules * hbm_view_.rows());
  } else if (space == MemorySpace::kVmem) {
    std::memcpy(data_->vmem.row(at), words, std::size_t{granules} * hbm_view_.bytes());
    data_->vmem.mark_written(at, granules * hbm_view_.rows());
    if (knowledge_ != nullptr) knowledge_->set_rows(at, granules * hbm_view_.rows(), origin);
  } else if (space == MemorySpace::kSmem) {
    if (knowledge_ != nullptr) knowledge_->followed().note_use();
    for (std::uint32_t w = 0; w < granules * hbm_view_.words(); ++w) {
      scalar_.write_smem(at + w, words[w], origin);
      if (values_on()) data_->scalar.smem[at + w] = words[w];
    }
  }
}

/// Granules of which nothing is known arrive.
void DmaEngine::forget(MemorySpace space, std::uint64_t address, std::uint32_t granules,
                       Origin origin) {
  const auto at = static_cast<std::uint32_t>(address);
  if (space == MemorySpace::kHbm) {
    hbm_view_.forget(address, granules, origin);
  } else if (space == MemorySpace::kVmem) {
    knowledge_->set_rows(at, granules * hbm_view_.rows(), origin);
  } else if (space == MemorySpace::kSmem) {
    for (std::uint32_t w = 0; w < granules * hbm_view_.words(); ++w) {
      scalar_.write_smem_unknown(at + w, origin);
    }
  }
}

// ---- Reports

std::vector<std::string> DmaEngine::outstanding(std::uint32_t flag) const {
  std::vector<std::string> result;
  const auto add = [&](const isa::DmaDescriptor& descriptor, CodePlace place, std::uint64_t begin,
                       const std::string& state) {
    result.push_back("a DMA " + std::string(to_string(descriptor.source.space)) + " to " +
                     to_string(descriptor.destination.space) + " of " +
                     std::to_string(descriptor.granules) + " granules, started at cycle " +
                     std::to_string(begin) + " in " + to_string(place, program_) + state);
  };
  for (const LocalDma& dma : local_) {
    if (!dma.active || dma.descriptor.destination_flag != flag) continue;
    const bool infeed = dma.descriptor.source.space == MemorySpace::kInfeed;
    add(dma.descriptor, dma.place, dma.begin,
        infeed ? ", which waits for a batch in the infeed queue" : "");
  }
  for (const auto& [key, dma] : remote_) {
    if (dma->descriptor.source_flag == flag && dma->left < dma->messages) {
      add(dma->descriptor, dma->place, dma->begin, ", which has not left");
    }
  }
  return result;
}

}  // namespace tpu
