#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/topology.h"
#include "sim/base/fields.h"

namespace tpu {

/// The systolic arrays of a core. An array above 128x128 is a grid of blocks of 128x128: a push
/// carries eight rows of 128 lanes for one row part, a pop brings them from one column part.
///
/// What a value passes in a cycle is inferred: the only figure that the listings give is 105 cycles
/// from a matmul to its pop, less than the 128 rows of the array, so a cell is no stage. Eight rows
/// enter in eight cycles; with sums that pass 2 cells a cycle and operands that pass 4, the last
/// sum leaves 7 + 63 + 31 cycles after the first row entered, and three more stages make 105. Sums
/// by 4 and operands by 2 would do as well: the two differ for arrays that are not square.
struct MxuParams {
  std::uint32_t count = 2;
  std::uint32_t rows = 128;
  std::uint32_t columns = 128;
  std::uint32_t sum_cells_per_cycle = 2;
  std::uint32_t operand_cells_per_cycle = 4;
  std::uint32_t pipeline_stages = 3;
  std::uint32_t result_queue_entries = 32;

  std::uint32_t row_parts() const { return (rows + 127) / 128; }
  std::uint32_t column_parts() const { return (columns + 127) / 128; }
  /// Blocks of 128x128 of all arrays.
  std::uint32_t blocks() const { return count * row_parts() * column_parts(); }
  /// From a push of eight rows to the next on the same port, and from pop to pop: a row a cycle.
  static constexpr std::uint32_t push_interval_cycles = 8;
  /// From vmatmul to its vpop: the eighth row enters, crosses the array and passes the stages
  /// outside; the sums of a row are there in the cycle after its last.
  std::uint32_t latency_cycles() const { return latency_cycles(column_parts() - 1); }
  /// The same for a part of 128 columns: those on the left are crossed earlier.
  std::uint32_t latency_cycles(std::uint32_t column_part) const {
    const std::uint32_t crossed = columns < 128 ? columns : 128 * (column_part + 1);
    return push_interval_cycles - 1 + (rows / sum_cells_per_cycle - 1) +
           (crossed / operand_cells_per_cycle - 1) + 1 + pipeline_stages;
  }

  static constexpr auto fields() {
    return std::make_tuple(
        field("count", &MxuParams::count, "", "Systolic arrays of a core."),
        field("rows", &MxuParams::rows, "", "Rows of an array (the contracted dimension)."),
        field("columns", &MxuParams::columns, "", "Columns of an array."),
        field("sum_cells_per_cycle", &MxuParams::sum_cells_per_cycle, "cells",
              "Cells of a column that a partial sum passes in a cycle."),
        field("operand_cells_per_cycle", &MxuParams::operand_cells_per_cycle, "cells",
              "Cells of a row that an operand passes in a cycle."),
        field("pipeline_stages", &MxuParams::pipeline_stages, "cycles",
              "Stages outside the cells: rounding of operands, results on their way to the queue."),
        field("result_queue_entries", &MxuParams::result_queue_entries, "",
              "Results of eight rows that wait to be popped, of each 128 columns."));
  }
};
static_assert(fields_are_complete<MxuParams>());

/// CMEM, from v4 on: memory between HBM and VMEM, which the core also loads and stores.
struct CmemParams {
  std::uint32_t mib = 0;
  std::uint32_t load_latency_cycles = 0;
  std::uint32_t load_interval_cycles = 1;
  std::uint32_t queue_entries = 1;

  static constexpr auto fields() {
    return std::make_tuple(
        field("mib", &CmemParams::mib, "MiB", "Of a core; 0: none."),
        field("load_latency_cycles", &CmemParams::load_latency_cycles, "cycles",
              "From a load to its pop."),
        field("load_interval_cycles", &CmemParams::load_interval_cycles, "cycles",
              "From a load to the next."),
        field("queue_entries", &CmemParams::queue_entries, "", "Loads that wait to be popped."));
  }
};
static_assert(fields_are_complete<CmemParams>());

/// One TensorCore.
struct CoreParams {
  MxuParams mxu;
  CmemParams cmem;
  std::uint32_t vmem_mib = 16;
  std::uint32_t smem_words = 4096;
  std::uint32_t sync_flags = 1024;
  std::uint32_t xlu_latency_cycles = 92;
  std::uint32_t xlu_interval_cycles = 8;
  std::uint32_t xlu_queue_entries = 64;
  std::uint32_t eup_latency_cycles = 4;
  std::uint32_t eup_queue_entries = 8;
  std::uint32_t scalar_queue_entries = 32;

  static constexpr auto fields() {
    return std::make_tuple(
        field("mxu", &CoreParams::mxu, "", "The systolic arrays."),
        field("cmem", &CoreParams::cmem, "", "Memory between HBM and VMEM."),
        field("vmem_mib", &CoreParams::vmem_mib, "MiB", "Vector memory."),
        field("smem_words", &CoreParams::smem_words, "words", "Scalar memory, words of 32 bit."),
        field("sync_flags", &CoreParams::sync_flags, "", "Sync flags."),
        field("xlu_latency_cycles", &CoreParams::xlu_latency_cycles, "cycles",
              "From a reduce, rotate or transpose push to its pop."),
        field("xlu_interval_cycles", &CoreParams::xlu_interval_cycles, "cycles",
              "From a push to the next."),
        field("xlu_queue_entries", &CoreParams::xlu_queue_entries, "",
              "Results that wait to be popped."),
        field("eup_latency_cycles", &CoreParams::eup_latency_cycles, "cycles",
              "From a transcendental push to its pop."),
        field("eup_queue_entries", &CoreParams::eup_queue_entries, "",
              "Results that wait to be popped."),
        field("scalar_queue_entries", &CoreParams::scalar_queue_entries, "",
              "Values between vpush or vsyncmov and spop."));
  }
};
static_assert(fields_are_complete<CoreParams>());

/// What commands of the HBM keep to beside HbmParams where they are simulated one by one
/// (`--detail hbm=command`). Names in brackets are those of JESD235.
struct HbmCommandParams {
  std::uint32_t bank_groups = 4;
  std::uint32_t row_to_row_ns = 4;
  std::uint32_t row_to_row_group_ns = 6;
  std::uint32_t four_rows_ns = 16;
  std::uint32_t row_open_ns = 28;
  std::uint32_t column_to_column_group_clocks = 3;
  std::uint32_t write_to_read_other_ns = 4;
  std::uint32_t queue_granules = 8;
  bool single_bank_refresh = false;
  std::uint32_t bank_refresh_ns = 96;

  static constexpr auto fields() {
    using Self = HbmCommandParams;
    return std::make_tuple(
        field("bank_groups", &Self::bank_groups, "", "Groups of the banks of a pseudo channel."),
        field("row_to_row_ns", &Self::row_to_row_ns, "ns",
              "From the opening of a row to that of one in another bank group (tRRDS)."),
        field("row_to_row_group_ns", &Self::row_to_row_group_ns, "ns",
              "From the opening of a row to that of one in the same bank group (tRRDL)."),
        field("four_rows_ns", &Self::four_rows_ns, "ns",
              "In which a pseudo channel opens four rows at the most (tFAW)."),
        field("row_open_ns", &Self::row_open_ns, "ns",
              "From the opening of a row to its closing, at the least (tRAS)."),
        field("column_to_column_group_clocks", &Self::column_to_column_group_clocks,
              "memory clocks",
              "From a read or write to the next in the same bank group (tCCDL); in another one it "
              "is a burst."),
        field("write_to_read_other_ns", &Self::write_to_read_other_ns, "ns",
              "From the last data of a write to a read in another bank group (tWTRS)."),
        field("queue_granules", &Self::queue_granules, "granules",
              "Of each direction, among which a pseudo channel's scheduler chooses."),
        field("single_bank_refresh", &Self::single_bank_refresh, "",
              "Banks are refreshed one by one, not all at once."),
        field("bank_refresh_ns", &Self::bank_refresh_ns, "ns", "A refresh of one bank (tRFCSB)."));
  }
};
static_assert(fields_are_complete<HbmCommandParams>());

/// The HBM of a chip, half of it behind each core: pseudo channels with banks, rows, refresh and
/// turns of the data bus. Names in brackets are those of JESD235.
struct HbmParams {
  std::uint32_t gib = 32;
  std::uint32_t channels = 32;
  std::uint32_t channel_bits = 128;
  std::uint32_t pseudo_channels = 2;
  std::uint32_t pin_mbps = 1800;
  std::uint32_t burst_beats = 4;
  std::uint32_t banks = 16;
  std::uint32_t row_bytes = 1024;
  std::uint32_t refresh_interval_ns = 3900;
  std::uint32_t refresh_ns = 350;
  std::uint32_t first_refresh_ns = 750;
  std::uint32_t precharge_ns = 14;
  std::uint32_t read_activate_ns = 12;
  std::uint32_t write_activate_ns = 6;
  std::uint32_t read_latency_ns = 18;
  std::uint32_t write_latency_ns = 7;
  std::uint32_t read_to_precharge_ns = 5;
  std::uint32_t write_recovery_ns = 14;
  std::uint32_t write_to_read_ns = 9;
  std::uint32_t bus_turn_clocks = 2;
  std::uint32_t drain_bursts = 32;
  std::uint32_t latency_cycles = 140;
  std::uint32_t reserved_mib = 532;
  HbmCommandParams command;

  static constexpr auto fields() {
    return std::make_tuple(
        field("gib", &HbmParams::gib, "GiB", "Capacity of the chip."),
        field("channels", &HbmParams::channels, "",
              "Channels of the chip; each core's half has half of them."),
        field("channel_bits", &HbmParams::channel_bits, "bit", "Width of a channel."),
        field("pseudo_channels", &HbmParams::pseudo_channels, "",
              "Pseudo channels that a channel is split into; 1: legacy mode."),
        field("pin_mbps", &HbmParams::pin_mbps, "Mb/s", "Data rate of a pin."),
        field("burst_beats", &HbmParams::burst_beats, "",
              "Beats of a burst, two per memory clock."),
        field("banks", &HbmParams::banks, "", "Banks of a pseudo channel."),
        field("row_bytes", &HbmParams::row_bytes, "byte", "A row (page) of a bank."),
        field("refresh_interval_ns", &HbmParams::refresh_interval_ns, "ns",
              "From refresh to refresh (tREFI)."),
        field("refresh_ns", &HbmParams::refresh_ns, "ns",
              "A refresh of all banks of a channel (tRFC)."),
        field("first_refresh_ns", &HbmParams::first_refresh_ns, "ns",
              "From the beginning of a run to its first refresh."),
        field("precharge_ns", &HbmParams::precharge_ns, "ns", "Closing a row (tRP)."),
        field("read_activate_ns", &HbmParams::read_activate_ns, "ns",
              "From the opening of a row to a read of it (tRCDRD)."),
        field("write_activate_ns", &HbmParams::write_activate_ns, "ns",
              "From the opening of a row to a write into it (tRCDWR)."),
        field("read_latency_ns", &HbmParams::read_latency_ns, "ns",
              "From a read command to its data (RL)."),
        field("write_latency_ns", &HbmParams::write_latency_ns, "ns",
              "From a write command to its data (WL)."),
        field("read_to_precharge_ns", &HbmParams::read_to_precharge_ns, "ns",
              "From a read command to the closing of its row (tRTP)."),
        field("write_recovery_ns", &HbmParams::write_recovery_ns, "ns",
              "From the last data of a write to the closing of its row (tWR)."),
        field("write_to_read_ns", &HbmParams::write_to_read_ns, "ns",
              "From the last data of a write to a read command (tWTR)."),
        field("bus_turn_clocks", &HbmParams::bus_turn_clocks, "memory clocks",
              "From the last data of a read to the first data of a write (in tRTW)."),
        field("drain_bursts", &HbmParams::drain_bursts, "bursts",
              "Bursts of one direction before the channel turns, while both directions wait."),
        field("latency_cycles", &HbmParams::latency_cycles, "core cycles",
              "From the start of a DMA to its sync flag, beyond what the channels take."),
        field("reserved_mib", &HbmParams::reserved_mib, "MiB per core",
              "HBM of a core's half that programs may not use."),
        field("command", &HbmParams::command, "", "Commands one by one."));
  }
};
static_assert(fields_are_complete<HbmParams>());

/// The DMA engines of a core.
struct DmaParams {
  std::uint32_t issue_interval_cycles = 1;

  static constexpr auto fields() {
    return std::make_tuple(field("issue_interval_cycles", &DmaParams::issue_interval_cycles,
                                 "cycles",
                                 "From the start of a DMA to the next start by the same core."));
  }
};
static_assert(fields_are_complete<DmaParams>());

/// The inter-chip interconnect.
struct IciParams {
  std::uint32_t mesh_x = 2;
  std::uint32_t mesh_y = 2;
  std::uint32_t mesh_z = 1;
  bool wrap_x = false;
  bool wrap_y = false;
  bool wrap_z = false;
  std::uint32_t link_mbps = 656000;
  std::uint32_t hop_latency_ns = 1000;
  std::uint32_t local_latency_ns = 300;
  std::uint32_t message_kib = 16;
  std::string slow_links;

  static constexpr auto fields() {
    return std::make_tuple(
        field("mesh_x", &IciParams::mesh_x, "chips", "Chips along x."),
        field("mesh_y", &IciParams::mesh_y, "chips", "Chips along y."),
        field("mesh_z", &IciParams::mesh_z, "chips", "Chips along z."),
        field("wrap_x", &IciParams::wrap_x, "", "Whether the ends along x are linked."),
        field("wrap_y", &IciParams::wrap_y, "", "Whether the ends along y are linked."),
        field("wrap_z", &IciParams::wrap_z, "", "Whether the ends along z are linked."),
        field("link_mbps", &IciParams::link_mbps, "Mb/s", "Rate of a link in one direction."),
        field("hop_latency_ns", &IciParams::hop_latency_ns, "ns",
              "Latency of one hop, at least a cycle."),
        field("local_latency_ns", &IciParams::local_latency_ns, "ns",
              "Latency between the two cores of a chip, at least a cycle; its rate is that of a "
              "link."),
        field("message_kib", &IciParams::message_kib, "KiB",
              "Largest message: a remote DMA is cut into messages of this size."),
        field(
            "slow_links", &IciParams::slow_links, "Mb/s",
            "Links with a rate of their own, such as 0-1=82000 1-3=0: between chips 0 and 1, both "
            "ways; 0 is broken."));
  }
};
static_assert(fields_are_complete<IciParams>());

/// A host: what its input pipeline runs on, and its way to the chips of its board.
struct HostParams {
  std::uint32_t chips = 4;
  double examples_per_s = 0;
  std::uint32_t vcpus = 96;
  std::uint32_t ram_gib = 335;
  double storage_mb_per_s = 2000;
  double storage_latency_us = 50000;
  std::uint32_t storage_parallel_reads = 256;
  double disk_mb_per_s = 400;
  double disk_latency_us = 500;
  double copy_mb_per_s = 10000;
  double network_mb_per_s = 0;
  double hand_over_us = 0;
  double hand_over_mb_per_s = 0;
  std::uint32_t infeed_queue_batches = 2;
  std::uint32_t infeed_queue_kib = 0;
  std::uint32_t outfeed_queue_kib = 0;
  std::uint32_t pcie_gb_per_s = 15;
  std::uint32_t pcie_latency_ns = 1000;

  static constexpr auto fields() {
    return std::make_tuple(
        field("chips", &HostParams::chips, "chips", "Chips that one host feeds."),
        field(
            "examples_per_s", &HostParams::examples_per_s, "examples/s",
            "What the input pipeline of one host prepares, whatever [input] says; 0: what [input] "
            "makes of it, or as much as the chips take."),
        field("vcpus", &HostParams::vcpus, "", "Threads that decode and augment."),
        field("ram_gib", &HostParams::ram_gib, "GiB", "Memory of the host."),
        field("storage_mb_per_s", &HostParams::storage_mb_per_s, "MB/s",
              "Rate at which the dataset is read, all reads together."),
        field("storage_latency_us", &HostParams::storage_latency_us, "us",
              "From the request of a file to its first byte."),
        field("storage_parallel_reads", &HostParams::storage_parallel_reads, "",
              "Reads that are under way side by side."),
        field("disk_mb_per_s", &HostParams::disk_mb_per_s, "MB/s",
              "Rate of the local disk, for input.cache = \"disk\"."),
        field("disk_latency_us", &HostParams::disk_latency_us, "us",
              "From the request of a cached example to its first byte."),
        field("copy_mb_per_s", &HostParams::copy_mb_per_s, "MB/s",
              "Rate at which one thread puts examples into batches."),
        field("network_mb_per_s", &HostParams::network_mb_per_s, "MB/s",
              "TPU Node: the network between this VM and the chips; 0: TPU VM, none between."),
        field(
            "hand_over_us", &HostParams::hand_over_us, "us",
            "What the thread that hands batches over to the chips takes for each, before its bytes "
            "leave; it stays until they have left."),
        field("hand_over_mb_per_s", &HostParams::hand_over_mb_per_s, "MB/s",
              "Rate at which a thread for each core lays its part of a batch out before it leaves; "
              "0: it takes no time."),
        field("infeed_queue_batches", &HostParams::infeed_queue_batches, "batches",
              "Batches that wait in the infeed queue of a core."),
        field(
            "infeed_queue_kib", &HostParams::infeed_queue_kib, "KiB",
            "Bytes that wait there, as they lie in the HBM; a batch enters in pieces of a quarter "
            "of them. 0: as many as the batches have."),
        field("outfeed_queue_kib", &HostParams::outfeed_queue_kib, "KiB",
              "Of the outfeed queue of a core: a DMA is done when its bytes are in there. 0: none, "
              "it is done when they are at the host."),
        field("pcie_gb_per_s", &HostParams::pcie_gb_per_s, "GB/s",
              "PCIe rate of a chip, one direction."),
        field("pcie_latency_ns", &HostParams::pcie_latency_ns, "ns",
              "Latency of a PCIe transfer."));
  }
};
static_assert(fields_are_complete<HostParams>());

/// A dataset, and what the input pipeline does with each of its examples.
struct InputParams {
  std::uint32_t images = 0;
  std::uint32_t file_bytes = 0;
  std::uint32_t pixels = 0;
  double decode_ns_per_pixel = 0;
  double augment_us = 0;
  std::uint32_t workers = 0;
  std::string reader = "ahead";
  std::uint32_t shuffle_examples = 0;
  std::uint32_t prefetch_batches = 2;
  std::string cache = "none";
  double load_us = 0;
  bool page_cache = false;
  std::string order = "shuffled";

  static constexpr auto fields() {
    return std::make_tuple(
        field("images", &InputParams::images, "examples",
              "Of the dataset; 0: no dataset is described, examples are there at once."),
        field("file_bytes", &InputParams::file_bytes, "bytes", "Of an example in storage."),
        field("pixels", &InputParams::pixels, "pixels", "Of a stored image, to decode."),
        field("decode_ns_per_pixel", &InputParams::decode_ns_per_pixel, "ns",
              "What a thread takes to decode a pixel; 0: stored as it is needed."),
        field("augment_us", &InputParams::augment_us, "us",
              "What a thread takes to crop, resize and augment an example."),
        field("workers", &InputParams::workers, "",
              "Loader processes or threads; 0: as many as the host has vCPUs."),
        field("reader", &InputParams::reader, "",
              "Who reads: ahead (reads run beside the workers, as tf.data's) or worker (a worker "
              "reads, then decodes, as a process of PyTorch's loader)."),
        field("shuffle_examples", &InputParams::shuffle_examples, "examples",
              "Of the buffer behind the reads out of which the next example is drawn, as tf.data's "
              "shuffle; full before the first one leaves. 0: none."),
        field("prefetch_batches", &InputParams::prefetch_batches, "batches",
              "Batches of all cores of the host that are made ahead."),
        field("cache", &InputParams::cache, "",
              "Prepared examples are kept: none, ram or disk (after the first epoch)."),
        field("load_us", &InputParams::load_us, "us",
              "What a thread takes to load a prepared example out of the cache."),
        field(
            "page_cache", &InputParams::page_cache, "",
            "Whether files that were read once stay in the host's RAM as far as it holds them, as "
            "a file system's do (an object store's do not): the dataset's, or the prepared "
            "examples on the disk (after the first epoch)."),
        field("order", &InputParams::order, "",
              "Of the files in an epoch: shuffled (another in each) or sequential (the same); "
              "decides what a page cache finds that does not hold all."));
  }
};
static_assert(fields_are_complete<InputParams>());

/// The whole machine: what a configuration file holds.
struct MachineParams {
  std::string name = "v3-8";
  std::string chip = "v3";
  std::uint32_t clock_mhz = 940;
  std::string slow_chips;
  std::string slow_hosts;
  std::uint32_t cores_per_chip = 2;
  CoreParams core;
  HbmParams hbm;
  DmaParams dma;
  IciParams ici;
  HostParams host;
  InputParams input;

  static constexpr auto fields() {
    return std::make_tuple(
        field("name", &MachineParams::name, "", "Name of the configuration."),
        field("chip", &MachineParams::chip, "",
              "Generation: v2, v3 or v4 (instruction set and listings)."),
        field("clock_mhz", &MachineParams::clock_mhz, "MHz", "Clock of the cores."),
        field("slow_chips", &MachineParams::slow_chips, "MHz",
              "Chips whose cores have a slower clock, such as 3=470 7=900."),
        field("slow_hosts", &MachineParams::slow_hosts, "",
              "Hosts that differ from [host], parameter by parameter, such as 3.vcpus=4 "
              "3.storage_mb_per_s=50."),
        field("cores_per_chip", &MachineParams::cores_per_chip, "", "TensorCores of a chip."),
        field("core", &MachineParams::core, "", "The TensorCore."),
        field("hbm", &MachineParams::hbm, "", "The HBM of a chip."),
        field("dma", &MachineParams::dma, "", "The DMA engines of a core."),
        field("ici", &MachineParams::ici, "", "The inter-chip interconnect."),
        field("host", &MachineParams::host, "", "The hosts."),
        field("input", &MachineParams::input, "", "The dataset and its input pipeline."));
  }

  isa::Topology topology() const {
    return isa::Topology(
        {{{ici.mesh_x, ici.wrap_x}, {ici.mesh_y, ici.wrap_y}, {ici.mesh_z, ici.wrap_z}}});
  }
  std::uint32_t chips() const { return ici.mesh_x * ici.mesh_y * ici.mesh_z; }
  std::uint32_t cores() const { return chips() * cores_per_chip; }
  /// The partition that a core runs of a program that spans all cores: its place in the order in
  /// which JAX lists the devices.
  std::uint32_t partition_of(std::uint32_t core_number) const {
    return topology().listed_place(core_number / cores_per_chip) * cores_per_chip +
           core_number % cores_per_chip;
  }
  double seconds(std::uint64_t cycles) const {
    return static_cast<double>(cycles) / (clock_mhz * 1e6);
  }
  /// Peak of the MXUs of one core, FLOP/s.
  double core_peak_flops() const {
    return 2.0 * core.mxu.count * core.mxu.rows * core.mxu.columns * clock_mhz * 1e6;
  }
  /// Pin rate of the HBM behind one core, bytes/s (before refresh and turn-around).
  double core_hbm_bytes_per_s() const {
    return hbm.pin_mbps * 1e6 / 8 * hbm.channel_bits * hbm.channels / cores_per_chip;
  }
  std::uint64_t core_hbm_bytes() const {
    return (std::uint64_t{hbm.gib} << 30) / cores_per_chip -
           (std::uint64_t{hbm.reserved_mib} << 20);
  }
};
static_assert(fields_are_complete<MachineParams>());

}  // namespace tpu
