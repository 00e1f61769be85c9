#include "sim/app/program_cache.h"

#include <algorithm>
#include <ios>
#include <sstream>
#include <utility>

#include "sim/config/compiler_target.h"

namespace tpu::app {
namespace {

/// Each value with its length or a separator in front: no two lists make one text.
template <class... Values>
std::string text_of(const Values&... values) {
  std::ostringstream text;
  text << std::hexfloat;
  ((text << values << '\x1f'), ...);
  return text.str();
}

/// Everything that the compiler knows of a machine. The binding names every member: a new one does
/// not compile.
std::string text_of_target(const compiler::Target& target) {
  const auto& [chip, mxu_count, mxu_rows, mxu_columns, matmul_latency, push_interval,
               result_entries, xlu_latency, xlu_interval, xlu_entries, eup_latency, eup_entries,
               smem_words, vmem_bytes, hbm_bytes, hbm_reserved, hbm_rate, dma_latency, cores,
               cores_per_chip, slice, link_rate, hop, local_hop, buckets, place] = target;
  return text_of(chip, mxu_count, mxu_rows, mxu_columns, matmul_latency, push_interval,
                 result_entries, xlu_latency, xlu_interval, xlu_entries, eup_latency, eup_entries,
                 smem_words, vmem_bytes, hbm_bytes, hbm_reserved, hbm_rate, dma_latency, cores,
                 cores_per_chip, slice.text(), slice.dimension(0).wraps, slice.dimension(1).wraps,
                 slice.dimension(2).wraps, link_rate, hop, local_hop, buckets, place.is_high,
                 place.caller_starts_loads);
}

/// Of a machine, what its program may differ for: a program that was compiled before is fixed,
/// however fast memory and network are.
compiler::Target what_shapes_program(const Arguments& arguments, const MachineParams& params) {
  compiler::Target target = config::target_of(params, params.cores());
  if (is_compiled_here(arguments)) return target;
  const compiler::Target any;
  target.hbm_bytes_per_cycle = any.hbm_bytes_per_cycle;
  target.dma_latency_cycles = any.dma_latency_cycles;
  target.link_bytes_per_cycle = any.link_bytes_per_cycle;
  target.hop_cycles = any.hop_cycles;
  target.local_hop_cycles = any.local_hop_cycles;
  return target;
}

std::string text_of_options(const frontend::WorkloadOptions& options) {
  const auto& [replicas, forward_only, batch, dtype, precision, learning_rate, image, classes,
               layers, width, heads, sequence, vocabulary, feature_multiple, shape, kernel, stride,
               padding, pass] = options;
  const auto number = [](const auto& value) { return value ? text_of(*value) : "-"; };
  return text_of(replicas, forward_only, number(batch), number(dtype), number(precision),
                 number(learning_rate), number(image), number(classes), number(layers),
                 number(width), number(heads), number(sequence), number(vocabulary),
                 number(feature_multiple), number(shape), number(kernel), number(stride),
                 number(padding), number(pass));
}

}  // namespace

std::string workload_key(const Arguments& arguments) {
  const CoreChoice cores = arguments.cores.value_or(CoreChoice{0, 0});
  return text_of(arguments.input, arguments.compiler, arguments.batch.value_or(0),
                 arguments.core_batch.value_or(0), cores.first, cores.count,
                 arguments.bucket_mb.value_or(compiler::kBucketsByCost), arguments.shard_updates) +
         text_of_options(arguments.workload);
}

std::string ProgramCache::key(const Arguments& arguments, const MachineParams& params) {
  // A program that computes values has names that others leave out; the workload is the same.
  return workload_key(arguments) + text_of(arguments.values) +
         text_of_target(what_shapes_program(arguments, params));
}

const PreparedWorkload& ProgramCache::prepare(const Arguments& arguments,
                                              const MachineParams& params,
                                              const compiler::PassObserver& after_pass) {
  const std::string key = ProgramCache::key(arguments, params);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().workload;
  }
  entries_.push_front({key, prepare_workload(arguments, params, after_pass, &parsed_)});
  ++prepared_;
  if (entries_.size() > capacity_) entries_.pop_back();
  return entries_.front().workload;
}

}  // namespace tpu::app
