#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "models/host/page_cache.h"
#include "models/host/stage_account.h"
#include "models/network/link.h"
#include "models/params.h"

namespace tpu {

/// A wire of a host: a direction of PCIe, a network, the bandwidth of a disk.
using HostWire = Wire<StageAccount>;

/// The input pipeline of a host, example by example: read from storage, decode, augment, put into
/// the batch. Reads run side by side, as many as the storage allows, each with its latency, and
/// share its bandwidth; decoding and augmenting an example takes one thread of the host for as long
/// as the example costs; one thread copies what is ready into batches. Each stage takes examples in
/// their order, a stage works on an example while the one behind it works on the next, and batches
/// follow each other without a gap as far as the pipeline may run ahead. A cache of prepared
/// examples in RAM or on the local disk takes the place of the stages before it (as in the second
/// epoch and later); a thread still loads each. A read that finds its file in RAM (`PageCache`)
/// passes by the storage, and a thread copies each file out of there. A shuffle buffer stands
/// behind the reads: nothing leaves it before it is full, then one goes for each that comes. Where
/// workers read for themselves (`input.reader`), as the processes of PyTorch's loader do, each
/// works on one example from the begin of its read until it is decoded, and waits for the storage;
/// of more workers than threads those that have read take turns. Left out: the first epoch of a
/// cache, NUMA, threads that get in each other's way, time slicing, the end of an epoch, where the
/// buffer runs dry.
class Loader {
 public:
  /// `examples` of a batch of all cores of the host, of `bytes` each where they enter the batch.
  Loader(const MachineParams& params, std::uint64_t examples, std::uint64_t bytes);

  /// No run ends before now.
  void settle(std::uint64_t now);
  /// The accounts of its stages begin now.
  void begin_account(std::uint64_t now);
  /// Adds the accounts of its stages up to `end`.
  void add_accounts(const std::string& host, std::uint64_t end, ExactAccounts& accounts) const;

  void describe(StepState& state) const;

  /// Whether the configuration says what an example costs.
  static bool is_described(const MachineParams& params);

  /// Makes the next batch, beginning not before `now`; returns the cycle in which it is ready.
  std::uint64_t make(std::uint64_t now);

 private:
  std::uint64_t read(std::uint64_t now);
  std::uint64_t shuffled(std::uint64_t now);
  std::uint64_t read_from_storage(std::uint64_t now);

  std::uint64_t examples_;
  std::uint64_t read_bytes_ = 0;  ///< Of an example, out of storage or off the disk; 0: of none.
  std::uint64_t latency_cycles_ = 0;
  std::uint64_t thread_cycles_ = 0;  ///< Decoding and augmenting.
  std::uint64_t batch_bytes_ = 0;
  std::uint64_t buffer_places_ = 0;  ///< Of the shuffle buffer.
  std::uint64_t buffered_ = 0;       ///< Examples that are in it.
  std::uint64_t buffered_at_ = 0;    ///< When the last of them had been read.
  PageCache page_cache_;
  HostWire storage_;
  HostWire copies_;
  using Free = std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>>;
  Free reads_;                    ///< When each of the reads side by side is done.
  Free workers_;                  ///< When each worker is free; none where they do not read.
  Free threads_;                  ///< When each thread is free.
  StageAccount threads_account_;  ///< Of all of them.
};

/// The stage of storage and disk.
constexpr const char* kReadStage = "read";
/// The stage that the host's threads work in.
constexpr const char* kThreadStage = "decode and augment";
/// What bounds workers that read for themselves: each example takes one from its read to its end.
constexpr const char* kWorkerStage = "workers";

/// A stage of the pipeline and the most examples a second that it lets through.
struct LoaderStage {
  const char* name;
  double examples_per_s;
};
/// The stages of a host's pipeline for examples of so many bytes, in order; PCIe or the network to
/// the chips last. Handing over is one of them where it takes time, for a batch of `examples` of
/// the host, with the time on the wire that it adds to. Empty where the configuration doesn't
/// describe one.
std::vector<LoaderStage> loader_stages(const MachineParams& params, std::uint64_t example_bytes,
                                       std::uint64_t examples);
/// Examples a second that a host makes at the most, as it says or by its slowest stage; infinite
/// where nothing is said of it.
double host_rate(const MachineParams& params, std::uint64_t example_bytes, std::uint64_t examples);
/// The number of the host that makes the fewest.
std::uint32_t slowest_host(const MachineParams& params, std::uint64_t example_bytes,
                           std::uint64_t examples);
/// What an example of `example_bytes` where it enters the batch costs a thread, in seconds.
struct ThreadWork {
  double load = 0;  ///< Out of the page cache, out of a cache of prepared examples.
  double decode = 0;
  double augment = 0;
  double seconds() const { return load + decode + augment; }
};
ThreadWork thread_work(const MachineParams& params, std::uint64_t example_bytes);
/// How long it takes a worker that reads for itself, in the mean, with batches of `examples`.
double worker_seconds(const MachineParams& params, std::uint64_t example_bytes,
                      std::uint64_t examples);
/// The page cache of a host's files; it finds nothing where the configuration says none.
PageCache page_cache_of(const MachineParams& params, std::uint64_t example_bytes,
                        std::uint64_t examples);
/// Bytes of the files that it would hold: of the dataset, or of the prepared examples on the disk.
double file_bytes_of(const MachineParams& params, std::uint64_t example_bytes);
/// Bytes of the examples in the shuffle buffer of a host.
double shuffle_bytes(const MachineParams& params, std::uint64_t example_bytes);
/// Bytes of RAM that the cache, the shuffle buffer and the batches that were made ahead take on a
/// host.
double loader_ram_bytes(const MachineParams& params, std::uint64_t examples, std::uint64_t bytes);

}  // namespace tpu
