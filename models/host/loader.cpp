#include "models/host/loader.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "models/host/hand_over.h"
#include "models/host/part_names.h"
#include "models/slow_parts.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kMega = 1e6;

bool is_cached(const MachineParams& params) { return params.input.cache != "none"; }

std::uint32_t threads_of(const MachineParams& params) {
  const std::uint32_t workers = params.input.workers;
  return workers == 0 ? params.host.vcpus : std::min(workers, params.host.vcpus);
}

bool workers_read(const MachineParams& params) { return params.input.reader == "worker"; }

std::uint32_t workers_of(const MachineParams& params) {
  return params.input.workers == 0 ? params.host.vcpus : params.input.workers;
}

std::uint64_t cycles_of(double seconds, const MachineParams& params) {
  return static_cast<std::uint64_t>(std::llround(seconds * params.clock_mhz * kMega));
}

/// What a read brings, and from where.
struct Read {
  std::uint64_t bytes = 0;
  double bytes_per_s = 0;
  double latency_s = 0;
  std::uint32_t parallel = 1;
};
Read read_of(const MachineParams& params, std::uint64_t prepared_bytes) {
  const HostParams& host = params.host;
  if (params.input.cache == "ram") return {};
  if (params.input.cache == "disk") {
    return {prepared_bytes, host.disk_mb_per_s * kMega, host.disk_latency_us * 1e-6,
            threads_of(params)};
  }
  return {params.input.file_bytes, host.storage_mb_per_s * kMega, host.storage_latency_us * 1e-6,
          host.storage_parallel_reads};
}

HostWire wire_of(double bytes_per_s, const MachineParams& params) {
  return HostWire(static_cast<std::uint64_t>(std::max(1.0, bytes_per_s / 1000)),
                  std::uint64_t{params.clock_mhz} * 1000);
}

void check_ram(const MachineParams& params, std::uint64_t examples, std::uint64_t bytes) {
  const double needed = loader_ram_bytes(params, examples, bytes) / kGiB;
  if (needed <= params.host.ram_gib) return;
  std::ostringstream text;
  text.precision(3);
  text << "host.ram_gib: the input pipeline needs " << needed << " GiB of the host's RAM (";
  if (params.input.cache == "ram") {
    text << "a cache of " << params.input.images << " prepared examples of " << bytes << " bytes, ";
  }
  if (shuffle_bytes(params, bytes) > 0) {
    text << "a shuffle buffer of " << shuffle_bytes(params, bytes) / kGiB << " GiB, ";
  }
  text << 1 + params.input.prefetch_batches << " batches of " << examples
       << " examples), which has " << params.host.ram_gib
       << " GiB: smaller or fewer examples, input.cache=\"disk\", or a host with more";
  throw ConfigurationError(text.str());
}

/// Of batches that one after the other are handed over and cross the network, or PCIe.
double hand_over_rate(const MachineParams& params, double bytes, double examples, bool is_node) {
  const HostParams& host = params.host;
  const double cores = 1.0 * host.chips * params.cores_per_chip;
  const double layout =
      host.hand_over_mb_per_s > 0 ? bytes / cores / (host.hand_over_mb_per_s * kMega) : 0;
  const double wire =
      bytes / (is_node ? host.network_mb_per_s * kMega : host.chips * host.pcie_gb_per_s * 1e9);
  return 1 / (host.hand_over_us * 1e-6 / std::max(examples, 1.0) + layout + wire);
}

}  // namespace

bool Loader::is_described(const MachineParams& params) {
  return params.input.images > 0 && params.host.examples_per_s == 0;
}

ThreadWork thread_work(const MachineParams& params, std::uint64_t example_bytes) {
  ThreadWork work;
  if (params.input.page_cache) {
    const auto file = static_cast<double>(read_of(params, example_bytes).bytes);
    work.load = file / (params.host.copy_mb_per_s * kMega);
  }
  if (is_cached(params)) {
    work.load += params.input.load_us * 1e-6;
  } else {
    work.decode = params.input.decode_ns_per_pixel * 1e-9 * params.input.pixels;
    work.augment = params.input.augment_us * 1e-6;
  }
  return work;
}

PageCache page_cache_of(const MachineParams& params, std::uint64_t example_bytes,
                        std::uint64_t examples) {
  return PageCache(params, read_of(params, example_bytes).bytes, examples, example_bytes);
}

double file_bytes_of(const MachineParams& params, std::uint64_t example_bytes) {
  return 1.0 * params.input.images * static_cast<double>(read_of(params, example_bytes).bytes);
}

double worker_seconds(const MachineParams& params, std::uint64_t example_bytes,
                      std::uint64_t examples) {
  const Read read = read_of(params, example_bytes);
  const double passage = read.bytes > 0 ? static_cast<double>(read.bytes) / read.bytes_per_s : 0;
  const double missed = 1 - page_cache_of(params, example_bytes, examples).found();
  return missed * (read.latency_s + passage) + thread_work(params, example_bytes).seconds();
}

double shuffle_bytes(const MachineParams& params, std::uint64_t example_bytes) {
  return 1.0 * std::min(params.input.shuffle_examples, params.input.images) *
         static_cast<double>(read_of(params, example_bytes).bytes);
}

double loader_ram_bytes(const MachineParams& params, std::uint64_t examples, std::uint64_t bytes) {
  const double cached = params.input.cache == "ram" ? 1.0 * params.input.images : 0;
  return bytes_made_ahead(params, examples, bytes) + shuffle_bytes(params, bytes) +
         cached * static_cast<double>(bytes);
}

std::vector<LoaderStage> loader_stages(const MachineParams& params, std::uint64_t example_bytes,
                                       std::uint64_t examples) {
  if (!Loader::is_described(params)) return {};
  const double bytes = static_cast<double>(example_bytes);
  const Read read = read_of(params, example_bytes);
  std::vector<LoaderStage> stages;
  const double missed = 1 - page_cache_of(params, example_bytes, examples).found();
  if (read.bytes > 0 && missed > 0) {
    const double passage = static_cast<double>(read.bytes) / read.bytes_per_s;
    const double reads = std::min(1 / passage, read.parallel / (read.latency_s + passage));
    stages.push_back({kReadStage, reads / missed});
  }
  const double on_thread = thread_work(params, example_bytes).seconds();
  if (on_thread > 0) stages.push_back({kThreadStage, threads_of(params) / on_thread});
  if (workers_read(params) && read.bytes > 0) {
    stages.push_back(
        {kWorkerStage, workers_of(params) / worker_seconds(params, example_bytes, examples)});
  }
  stages.push_back({"batch", params.host.copy_mb_per_s * kMega / bytes});
  if (params.host.network_mb_per_s > 0) {
    stages.push_back({"network to the TPU", params.host.network_mb_per_s * kMega / bytes});
  }
  stages.push_back({"PCIe", params.host.chips * params.host.pcie_gb_per_s * 1e9 / bytes});
  if (HandOver::is_described(params.host)) {
    stages.push_back({"hand-over", hand_over_rate(params, bytes, static_cast<double>(examples),
                                                  params.host.network_mb_per_s > 0)});
  }
  return stages;
}

double host_rate(const MachineParams& params, std::uint64_t example_bytes, std::uint64_t examples) {
  if (params.host.examples_per_s > 0) return params.host.examples_per_s;
  double least = HUGE_VAL;
  for (const LoaderStage& stage : loader_stages(params, example_bytes, examples)) {
    least = std::min(least, stage.examples_per_s);
  }
  return least;
}

std::uint32_t slowest_host(const MachineParams& params, std::uint64_t example_bytes,
                           std::uint64_t examples) {
  std::uint32_t slowest = 0;
  double least = HUGE_VAL;
  for (const HostKind& kind : kinds_of_host(params)) {
    const double rate = host_rate(kind.params, example_bytes, examples);
    if (rate >= least) continue;
    least = rate;
    slowest = kind.host;
  }
  return slowest;
}

Loader::Loader(const MachineParams& params, std::uint64_t examples, std::uint64_t bytes)
    : examples_(examples),
      thread_cycles_(cycles_of(thread_work(params, bytes).seconds(), params)),
      batch_bytes_(bytes),
      buffer_places_(std::min(params.input.shuffle_examples, params.input.images)),
      page_cache_(page_cache_of(params, bytes, examples)),
      storage_(wire_of(read_of(params, bytes).bytes_per_s, params)),
      copies_(wire_of(params.host.copy_mb_per_s * kMega, params)) {
  check_ram(params, examples, bytes);
  if (buffer_places_ > 0 && workers_read(params)) {
    throw ConfigurationError(
        "input.shuffle_examples: expected 0 where workers read for themselves (input.reader = "
        "\"worker\": their sampler draws the numbers of examples), found " +
        std::to_string(buffer_places_));
  }
  const Read from = read_of(params, bytes);
  read_bytes_ = from.bytes;
  latency_cycles_ = cycles_of(from.latency_s, params);
  for (std::uint32_t i = 0; i < std::max<std::uint32_t>(from.parallel, 1); ++i) reads_.push(0);
  for (std::uint32_t i = 0; i < std::max<std::uint32_t>(threads_of(params), 1); ++i) {
    threads_.push(0);
  }
  for (std::uint32_t i = 0; workers_read(params) && i < workers_of(params); ++i) workers_.push(0);
}

void Loader::add_accounts(const std::string& host, std::uint64_t end,
                          ExactAccounts& accounts) const {
  accounts.push_back(
      storage_.account(storage_name(host), end, {"idle: not asked", "idle: latency", nullptr}));
  accounts.push_back(copies_.account(copies_name(host), end,
                                     {"idle: not asked", "idle: example not ready", nullptr}));
  std::vector<std::uint64_t> free;
  for (Free threads = threads_; !threads.empty(); threads.pop()) free.push_back(threads.top());
  accounts.push_back(threads_account_.end(threads_name(host), end, free,
                                          {"idle: not asked", "idle: example is read", nullptr}));
}

void Loader::settle(std::uint64_t now) {
  storage_.settle(now);
  copies_.settle(now);
  threads_account_.settle(now);
}

void Loader::begin_account(std::uint64_t now) {
  storage_.begin_account(now);
  copies_.begin_account(now);
  threads_account_.begin(now, now);
}

void Loader::describe(StepState& state) const {
  for (const Free* const all : {&reads_, &threads_, &workers_}) {
    for (Free free = *all; !free.empty(); free.pop()) state.add_time(free.top());
  }
  storage_.describe(state);
  copies_.describe(state);
  state.add(buffered_);
  state.add_time(buffered_at_);
  page_cache_.describe(state);
}

/// The next example, which a worker that reads for itself begins when it is free.
std::uint64_t Loader::read(std::uint64_t now) {
  if (read_bytes_ == 0) return now;
  const std::uint64_t begin = workers_.empty() ? now : std::max(now, workers_.top());
  return page_cache_.finds_next() ? begin : read_from_storage(begin);
}

/// An example that the shuffle buffer gives away when it is full.
std::uint64_t Loader::shuffled(std::uint64_t now) {
  if (buffer_places_ == 0) return read(now);
  for (; buffered_ < buffer_places_; ++buffered_) buffered_at_ = std::max(buffered_at_, read(now));
  --buffered_;
  return buffered_at_;
}

/// The latency of its request, then its bytes behind those of the others.
std::uint64_t Loader::read_from_storage(std::uint64_t now) {
  const std::uint64_t begin = std::max(now, reads_.top());
  reads_.pop();
  const std::uint64_t end = storage_.pass(begin + latency_cycles_, read_bytes_, begin).end;
  reads_.push(end);
  return end;
}

std::uint64_t Loader::make(std::uint64_t now) {
  std::uint64_t ready = now;
  for (std::uint64_t i = 0; i < examples_; ++i) {
    const std::uint64_t begin = std::max(shuffled(now), threads_.top());
    const std::uint64_t prepared = begin + thread_cycles_;
    const std::uint64_t asked = std::clamp(now, threads_.top(), begin);
    threads_account_.idle(0, threads_.top(), asked);
    threads_account_.idle(1, asked, begin);
    threads_account_.pass(begin, prepared);
    threads_.pop();
    threads_.push(prepared);
    if (!workers_.empty()) {
      workers_.pop();
      workers_.push(prepared);
    }
    ready = copies_.pass(std::max(prepared, now), batch_bytes_, now).end;
  }
  return ready;
}

}  // namespace tpu
