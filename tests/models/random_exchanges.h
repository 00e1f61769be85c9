#pragma once

#include <cstdint>
#include <random>
#include <sstream>
#include <string>

#include "isa/dma_descriptor.h"
#include "tests/models/test_program.h"

namespace tpu::test {

/// Writes programs that all cores of a slice run: work, DMAs, batches of the host and exchanges
/// with neighbours (shifts along x and y, with the other core of the chip, across two dimensions),
/// in which some cores do something else: more work, other addresses, other neighbours.
class RandomExchanges {
 public:
  RandomExchanges(std::uint32_t seed, std::uint32_t x, std::uint32_t y)
      : random_(seed), x_(x), y_(y) {}

  isa::Program make() {
    text_ << "kernel top\n";
    line("%s1 = sld [smem:$0x0]", 2);
    line("%s2 = sld [smem:$0x1]", 2);
    line("%s3 = sand.u32 %s1, " + num(x_ - 1));
    line("%s4 = sshrl.u32 %s1, " + num(log2(x_)));
    const int items = 3 + pick(6);
    for (int i = 0; i < items; ++i) item();
    line("%s20 = smov 0");
    isa::Program program = program_of(text_.str());
    program.cores = 2 * x_ * y_;
    program.infeed_bytes = 64 << 10;
    program.examples_per_core = 8;
    return program;
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  static std::string num(std::uint32_t value) { return std::to_string(value); }
  static std::uint32_t log2(std::uint32_t value) { return value < 2 ? 0 : 1 + log2(value / 2); }
  static std::string word(std::uint32_t address) {
    std::ostringstream text;
    text << "[smem:$0x" << std::hex << address << "]";
    return text.str();
  }
  void line(const std::string& body, int delay = 0) {
    text_ << "  { " << body;
    if (delay > 0) text_ << " ;; vdelay " << delay;
    text_ << " }\n";
  }

  void item() {
    switch (pick(9)) {
      case 0:
        return line("%s20 = smov 0", 1 + pick(500));
      case 1:
        return local_dma();
      case 2:
        return pick(3) == 0 ? straggle() : local_dma();
      case 3:
        return batch();
      case 4:
        return barrier();
      case 5:
        return courier();
      default:
        return exchange();
    }
  }

  /// HBM to VMEM or back; sometimes at an address of the core's own.
  void local_dma() {
    const int granules = 8 << pick(6);
    line("%s6 = smov " + num(pick(4) * 4096));
    if (pick(6) == 0) line("%s6 = sshll.u32 %s1, " + num(8 + pick(4)));
    line("%s7 = smov " + num(pick(4) * 1024));
    if (pick(3) == 0) line("%s7 = sshll.u32 %s1, 3");
    if (pick(2) == 0) {
      line("dma.hbm_to_vmem %s6, " + num(granules) + ", %s7, 1");
    } else {
      line("dma.vmem_to_hbm %s7, " + num(granules) + ", %s6, 1");
    }
    if (pick(3) == 0) line("%s20 = smov 0", 1 + pick(300));
    line("dma.done.wait 1, " + num(granules));
    line("vsyncadd 1, -" + num(granules));
  }

  /// One chip, or one core of each chip, works longer.
  void straggle() {
    const bool chip = pick(2) == 0;
    line("%p1 = scmp.ne.s32.totalorder " + std::string(chip ? "%s1" : "%s2") + ", " +
         num(pick(chip ? static_cast<int>(x_ * y_) : 2)));
    const std::string label = "next" + num(labels_++);
    line("sbr.rel (%p1) target = " + label);
    line("%s20 = smov 0");
    line("%s20 = smov 0", 1 + pick(2000));
    text_ << label << ":\n";
  }

  void batch() {
    line("dma.infeed_to_hbm 64, 65536, 2");
    line("dma.done.wait 2, 64");
    line("vsyncadd 2, -64");
  }

  /// %s8: chip, %s9: core of a peer; a step of `sign` along a dimension, or the other core.
  void peer(int kind, bool forward) {
    line("%s8 = smov %s1");
    line("%s9 = smov %s2");
    const std::string step = forward ? "1" : "-1";
    if (kind == 0 || kind == 2) {
      line("%s10 = sadd.s32 %s3, " + step);
      line("%s10 = sand.u32 %s10, " + num(x_ - 1));
      line("%s11 = smul.u32 %s4, " + num(x_), 2);
      line("%s8 = sadd.s32 %s11, %s10");
    }
    if (kind == 1 || kind == 2) {
      line("%s10 = sand.u32 %s8, " + num(x_ - 1));
      line("%s11 = sadd.s32 %s4, " + step);
      line("%s11 = sand.u32 %s11, " + num(y_ - 1));
      line("%s11 = smul.u32 %s11, " + num(x_), 2);
      line("%s8 = sadd.s32 %s11, %s10");
    }
    if (kind == 3) line("%s9 = ssub.s32 1, %s2");
  }

  isa::DmaDescriptor to_peer(bool to_hbm, int granules, std::uint32_t flag) const {
    isa::DmaDescriptor dma;
    dma.source.space = isa::MemorySpace::kVmem;
    dma.destination.space = to_hbm ? isa::MemorySpace::kHbm : isa::MemorySpace::kVmem;
    dma.destination.address = to_hbm ? 131072 : 4096;
    dma.granules = static_cast<std::uint32_t>(granules);
    dma.source_flag = 3;
    dma.destination_flag = flag;
    dma.remote = true;
    return dma;
  }

  /// Starts a DMA to %s8, %s9 and waits until it has left.
  void send(const isa::DmaDescriptor& dma) {
    const isa::DmaWords words = isa::encode(dma);
    line("%s12 = sshll.u32 %s8, 19");
    line("%s13 = sshll.u32 %s9, 16");
    line("%s12 = sor.u32 %s12, %s13");
    line("%s12 = sor.u32 %s12, " + num(words[1]));
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      line("%s14 = smov " + num(words[i]));
      line("sst " + word(512 + i) + " " + (i == 1 ? "%s12" : "%s14"));
    }
    if (pick(2) == 0) {
      line("%s15 = sshll.u32 %s1, 4");
      line("sst " + word(515) + " %s15");
    }
    line("dma 512");
    if (pick(2) == 0) line("%s20 = smov 0", 1 + pick(300));
    line("dma.done.wait 3, " + num(dma.granules));
    line("vsyncadd 3, -" + num(dma.granules));
  }

  /// Every core sends to a peer and waits for its own part of the exchange.
  void exchange() {
    int kind = pick(4);
    if (kind == 0 && x_ == 1) kind = 3;
    if (kind == 1 && y_ == 1) kind = 3;
    if (kind == 2 && (x_ == 1 || y_ == 1)) kind = 3;
    const int granules = 1 + pick(40);
    peer(kind, pick(2) == 0);
    send(to_peer(pick(4) == 0, granules, 4));
    line("dma.done.wait 4, " + num(granules));
    line("vsyncadd 4, -" + num(granules));
  }

  /// One chip alone writes into the HBM of a peer, which does not wait for it.
  void courier() {
    line("%p1 = scmp.ne.s32.totalorder %s1, " + num(pick(static_cast<int>(x_ * y_))));
    const std::string label = "next" + num(labels_++);
    line("sbr.rel (%p1) target = " + label);
    line("%s20 = smov 0");
    peer(x_ > 1 ? 0 : 3, pick(2) == 0);
    send(to_peer(true, 1 + pick(200), 6));
    text_ << label << ":\n";
  }

  /// An addition to a peer's flag, and a wait for one's own.
  void barrier() {
    peer(x_ > 1 ? 0 : 3, pick(2) == 0);
    line("%s12 = sshll.u32 %s8, 21");
    line("%s13 = sshll.u32 %s9, 20");
    line("%s12 = sor.u32 %s12, %s13");
    line("%s12 = sor.u32 %s12, " + num(5 | 0x40000));
    line("vsyncadd.remote %s12, 1");
    line("vwait.ge.trace 5, 1");
    line("vsyncadd 5, -1");
  }

  std::mt19937 random_;
  std::uint32_t x_, y_;
  std::ostringstream text_;
  std::uint32_t labels_ = 0;
};

}  // namespace tpu::test
