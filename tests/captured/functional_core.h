#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "isa/execute.h"
#include "isa/name_check.h"
#include "isa/program.h"
#include "sim/base/error.h"

namespace tpu::test {

/// HBM of a core without time: granules that appear when they are written; reading another is a
/// fault of the program.
class FunctionalHbm {
 public:
  using Granule = std::array<std::uint32_t, isa::kHbmGranuleBytes / 4>;

  const Granule& read(std::uint64_t granule) const {
    const auto found = granules_.find(granule);
    if (found == granules_.end()) {
      throw ProgramFault("read of granule " + std::to_string(granule) +
                         " of HBM, which nobody has written");
    }
    return found->second;
  }
  Granule& write(std::uint64_t granule) { return granules_[granule]; }

  void load(std::uint64_t granule, const std::vector<std::uint32_t>& words) {
    for (std::size_t k = 0; k < words.size(); k += 256) {
      Granule& to = write(granule + k / 256);
      to.fill(0);
      std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(k),
                  std::min<std::size_t>(256, words.size() - k), to.begin());
    }
  }
  std::vector<std::uint32_t> words(std::uint64_t granule, std::uint64_t bytes) const {
    std::vector<std::uint32_t> words;
    for (std::uint64_t k = 0; k < (bytes + 1023) / 1024; ++k) {
      const Granule& from = read(granule + k);
      words.insert(words.end(), from.begin(), from.end());
    }
    return words;
  }

 private:
  std::unordered_map<std::uint64_t, Granule> granules_;
};

/// One core that executes a linked program with values and without time: a DMA is complete when it
/// has started. An oracle for reader and meaning, and a second opinion on the timed core.
class FunctionalCore : public isa::Surroundings {
 public:
  FunctionalCore(const isa::Program& program, bool check_names)
      : program_(program), state_(shape(program)) {
    state_.scalar.smem.resize(state_.shape().smem_words);
    for (const auto& [word, value] : program.initial_smem) state_.scalar.smem[word] = value;
    state_.scalar.parameter_addresses = program.parameter_addresses();
    for (const isa::Buffer& buffer : program.buffers) {
      if (!buffer.data.empty()) hbm.load(buffer.granule, buffer.data);
    }
    for (std::uint32_t k = 0; check_names && k < program.kernels.size(); ++k) {
      checks_.emplace_back(program.kernels[k], k);
    }
  }

  void run() { run_kernel(0); }

  FunctionalHbm hbm;
  std::uint64_t bundles = 0;
  std::uint64_t cycles = 0;  ///< Bundles and delays, without any waits.
  std::map<std::uint32_t, std::uint64_t> kernel_cycles;

  // ---- isa::Surroundings
  void start_dma(const isa::DmaDescriptor& dma) override {
    if (dma.remote) throw ProgramFault("a remote DMA on one core");
    for (std::uint32_t k = 0; k < dma.granules; ++k) copy_granule(dma, k);
    add_to_sync_flag(dma.destination_flag, dma.granules);
  }
  void add_to_sync_flag(std::uint32_t flag, std::uint32_t value) override {
    flags_.at(flag) += value;
  }
  void add_to_remote_sync_flag(std::uint32_t, std::uint32_t) override {
    throw ProgramFault("a remote sync flag on one core");
  }
  std::uint32_t sync_flag(std::uint32_t flag) override { return flags_.at(flag); }

 private:
  static isa::CoreShape shape(const isa::Program& program) {
    isa::CoreShape shape;
    shape.mxus = program.chip == "v2" ? 1 : 2;
    return shape;
  }

  static std::uint32_t place(const isa::DmaEndpoint& end, std::uint32_t k) {
    if (end.granules_per_run == 0) return k;
    return k / end.granules_per_run * end.stride + k % end.granules_per_run;
  }

  void copy_granule(const isa::DmaDescriptor& dma, std::uint32_t k) {
    FunctionalHbm::Granule data;
    const std::uint32_t from = place(dma.source, k);
    const std::uint32_t to = place(dma.destination, k);
    if (dma.source.space == isa::MemorySpace::kHbm) {
      data = hbm.read(std::uint64_t{dma.source.address} + from);
    } else {
      check_vmem(dma.source.address + 2 * from);
      std::memcpy(data.data(), state_.vmem.row(dma.source.address + 2 * from), 1024);
    }
    switch (dma.destination.space) {
      case isa::MemorySpace::kHbm:
        hbm.write(std::uint64_t{dma.destination.address} + to) = data;
        break;
      case isa::MemorySpace::kVmem:
        check_vmem(dma.destination.address + 2 * to);
        std::memcpy(state_.vmem.row(dma.destination.address + 2 * to), data.data(), 1024);
        state_.vmem.mark_written(dma.destination.address + 2 * to, 2);
        break;
      default:
        for (std::uint32_t w = 0; w < 256; ++w) {
          state_.scalar.smem.at(dma.destination.address + 256 * to + w) = data[w];
        }
    }
  }

  void check_vmem(std::uint32_t row) const {
    if (row + 1 >= state_.vmem.rows()) throw ProgramFault("a DMA beyond VMEM");
  }

  void run_kernel(std::uint32_t number) {
    const isa::Kernel& kernel = program_.kernels[number];
    const isa::NameCheck* names = checks_.empty() ? nullptr : &checks_[number];
    if (names != nullptr) names->enter(state_.names);
    constexpr std::uint32_t kNone = ~0u;
    std::uint32_t pending = kNone;
    for (std::uint32_t at = 0; at < kernel.bundles.size();) {
      const isa::Bundle& bundle = kernel.bundles[at];
      const isa::ControlRequest control = control_of(kernel, bundle, state_.scalar);
      if (control.waits && static_cast<std::int32_t>(flags_.at(control.flag)) <
                               static_cast<std::int32_t>(control.value)) {
        throw ProgramFault(kernel.name + ", bundle " + std::to_string(at) + ": waits for flag " +
                           std::to_string(control.flag) + " to be " +
                           std::to_string(control.value) + ", found " +
                           std::to_string(flags_.at(control.flag)));
      }
      try {
        execute_bundle(kernel, at, state_, *this, names);
      } catch (const ProgramFault& fault) {
        throw ProgramFault(kernel.name + ", bundle " + std::to_string(at) + ": " + fault.what());
      }
      ++bundles;
      cycles += 1 + bundle.delay;
      kernel_cycles[number] += 1 + bundle.delay;
      if (control.calls) {
        const isa::CallSite& site = program_.call_sites.at(control.call_site);
        if (names != nullptr) names->check_call(site, state_.names);
        run_kernel(site.kernel);
      }
      at = pending != kNone ? pending : at + 1;
      pending = control.branches ? control.target : kNone;
    }
  }

  const isa::Program& program_;
  isa::CoreState state_;
  std::vector<isa::NameCheck> checks_;
  std::array<std::uint32_t, 1024> flags_{};
};

}  // namespace tpu::test
