#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/test_program.h"

namespace tpu::test {

/// Writes random programs: scalar code, loops, branches (with DMAs and waits in delay slots too),
/// calls, DMAs, sync flags, pushes whose pops come later, guarded pushes. Most keep to the
/// latencies; some do not, on purpose.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : random_(seed) {}
  /// For arrays of 256x256, with the instructions that only those have.
  static RandomProgram for_large_arrays(std::uint32_t seed) {
    RandomProgram program(seed);
    program.large_ = true;
    program.latency_ = 210;
    return program;
  }
  /// For code that counts on interlocks: it pushes and pops when it likes.
  static RandomProgram for_interlocks(std::uint32_t seed) {
    RandomProgram program(seed);
    program.hasty_ = true;
    return program;
  }

  isa::Program make() {
    const int callees = 1 + pick(2);
    callees_ = callees;
    text_ << "kernel top\n";
    line("%s0 = smov 0");
    for (int reg = 1; reg < 8; ++reg) line("%s" + num(reg) + " = smov " + num(pick(1000)));
    for (int push = 0; push < 16; ++push) line("vmatpush.msra.mxu0 %v0", 7);
    if (large_) {
      for (const char* block : {"0, 1", "1, 0", "1, 1"}) {
        line(std::string("vmatpush.block.msra.mxu0 %v0, ") + block, 3 + pick(4) * 2);
      }
    }
    line("vdwg.mxu0");
    body(0, 12 + pick(10));
    drain();
    for (int k = 0; k < callees; ++k) {
      callees_ = 0;
      text_ << "kernel callee" << k << "\n";
      body(3, 3 + pick(6));
      drain();
    }
    isa::Program program = program_of(text_.str());
    program.conventions.interlocked = hasty_;
    if (hasty_) program.conventions.xlus = 2;
    return program;
  }
  std::string text() const { return text_.str(); }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  static std::string num(int value) { return std::to_string(value); }
  std::string data() { return "%s" + num(1 + pick(7)); }
  std::string operand() { return pick(2) == 0 ? data() : num(pick(300)); }

  void line(const std::string& body, int delay = 0) {
    if (hasty_ && delay > 0) delay = pick(delay + 1);
    text_ << "  { " << body;
    if (delay > 0) text_ << (body.empty() ? "" : " ;; ") << "vdelay " << delay;
    text_ << " }\n";
    ready_in_ = std::max(0, ready_in_ - 1 - delay);
  }
  void idle(int cycles) {
    if (cycles > 0) line("", cycles - 1);
  }

  void body(int depth, int items) {
    for (int i = 0; i < items; ++i) item(depth);
  }

  void item(int depth) {
    switch (pick(14)) {
      case 0:
      case 1:
        return scalar();
      case 2:
        return smem();
      case 3:
        return push_rows();
      case 4:
        return pop_rows();
      case 5:
        return dma();
      case 6:
        return wait();
      case 7:
        return depth < 3 ? loop(depth) : scalar();
      case 8:
        return depth < 3 ? skip(depth) : scalar();
      case 9:
        return callees_ > 0 ? call() : scalar();
      case 10:
        return vector();
      case 11:
        return lanes();
      case 12:
        return guarded_push();
      default:
        return flags();
    }
  }

  void scalar() {
    const char* ops[] = {"sadd.s32", "ssub.s32", "sand.u32", "sxor.u32", "smul.u32", "sshrl.u32"};
    const std::string first = data() + " = " + ops[pick(6)] + " " + operand() + ", " + operand();
    // Two in a bundle that may need each other's old values.
    const std::string a = "%s" + num(1 + pick(3));
    const std::string b = "%s" + num(4 + pick(4));
    switch (pick(4)) {
      case 0:
        return line(a + " = sadd.s32 " + b + ", 1 ;; " + b + " = sxor.u32 " + a + ", 5", pick(3));
      case 1:
        line("%p" + num(1 + pick(3)) + " = scmp.lt.s32.totalorder " + operand() + ", " + operand());
        return line(a + " = smov (" + (pick(2) == 0 ? "!" : "") + "%p" + num(1 + pick(3)) + "), " +
                    b + " ;; %p" + num(1 + pick(3)) + " = pneg %p" + num(1 + pick(3)));
      default:
        return line(first, pick(4) == 0 ? pick(9) : 0);
    }
  }
  void smem() {
    line("sst [smem:$0x" + num(600 + pick(16)) + "] " + data());
    line(data() + " = sld [smem:$0x" + num(600 + pick(16)) + "]");
    // One too few in some programs: then the next bundle reads too early.
    if (pick(40) != 0) line("%s0 = smov 0");
  }
  void push_row(int reg, int delay) {
    if (large_) {
      line("vmatlatch.part.gmra.mxu0 %v" + num(reg) + ", 1", pick(9));
      line("vmatmul.parts.f32.gmra.mxu0 %v" + num(reg) + ", 2, 2", delay);
    } else {
      line("vmatmul.f32.gmra.mxu0 %v" + num(reg), delay);
    }
    ready_in_ = latency_ - 8;
    ++rows_;
  }
  void pop_row(int reg, int delay) {
    if (large_) line("%v" + num(reg) + " = vpop.part.f32.mrf.mxu0 1", pick(3));
    line("%v" + num(reg) + " = vpop.f32.mrf.mxu0", delay);
    --rows_;
  }
  void push_rows() {
    const int pushes = 1 + pick(3);
    for (int i = 0; i < pushes && rows_ < 10; ++i) {
      push_row(pick(4), pick(60) == 0 ? 6 : 7);
    }
  }
  void pop_rows() {
    if (rows_ == 0) return;
    idle(ready_in_ + pick(4) - (pick(60) == 0 ? 1 : 0));
    const int pops = 1 + pick(rows_);
    for (int i = 0; i < pops; ++i) {
      pop_row(pick(4), 7 + pick(2));
    }
  }
  void drain() {
    while (rows_ > 0) pop_rows();
    idle(8);
  }
  void dma() {
    const int granules = 1 + pick(64);
    const std::string flag = num(1 + pick(3));
    switch (pick(3)) {
      case 0:
        line("dma.hbm_to_vmem " + num(pick(64)) + ", " + num(granules) + ", " + num(8 * pick(16)) +
             ", " + flag);
        break;
      case 1:
        line("dma.vmem_to_hbm " + num(8 * pick(16)) + ", " + num(granules) + ", " +
             num(200 + pick(64)) + ", " + flag);
        break;
      default:
        // The flag's number out of the scalar code.
        line("%s9 = smov " + flag);
        line("dma.hbm_to_vmem " + num(pick(64)) + ", " + num(granules) +
             ", 0, %s9 ;; %s9 = smov 0");
    }
    if (pick(2) == 0) {
      wait_for(flag, granules);
      // The latency of the DMA is longer than that of the MXU.
      ready_in_ = 0;
    } else {
      pending_.push_back({flag, granules});
    }
  }
  void wait_for(const std::string& flag, int granules) {
    line("dma.done.wait " + flag + ", " + num(granules));
    line("vsyncadd " + flag + ", " + num(-granules));
  }
  void wait() {
    if (pending_.empty() || depth_ > 0) return;
    wait_for(pending_.back().first, pending_.back().second);
    pending_.pop_back();
  }
  void loop(int depth) {
    const std::string counter = "%s" + num(20 + depth);
    const std::string label = "l" + num(labels_++);
    const int before = ready_in_;
    line(counter + " = smov 0");
    text_ << label << ":\n";
    if (rows_ > 0) ready_in_ = std::max(before, latency_);
    inside([&] { body(depth + 1, 1 + pick(4)); });
    line(counter + " = sadd.s32 " + counter + ", 1");
    line("%p6 = scmp.lt.s32.totalorder " + counter + ", " + num(1 + pick(6)));
    line("sbr.rel (%p6) target = " + label);
    delay_slot();
  }
  /// What stands inside may run any number of times: it leaves the queues as they were.
  template <class Inner>
  void inside(const Inner& inner) {
    const int outer_rows = rows_;
    const auto outer_pending = pending_;
    ++depth_;
    inner();
    --depth_;
    if (rows_ < outer_rows) {
      while (rows_ < outer_rows) {
        push_row(0, 7);
      }
    }
    while (rows_ > outer_rows) {
      idle(ready_in_);
      pop_row(1, 7);
    }
    while (pending_.size() > outer_pending.size()) {
      wait_for(pending_.back().first, pending_.back().second);
      pending_.pop_back();
    }
  }
  void skip(int depth) {
    const std::string label = "l" + num(labels_++);
    const int before = ready_in_;
    line("%p5 = scmp.lt.s32.totalorder " + data() + ", " + num(pick(500)));
    line(std::string("sbr.rel (") + (pick(2) == 0 ? "!" : "") + "%p5) target = " + label);
    delay_slot();
    inside([&] { body(depth + 1, 1 + pick(3)); });
    text_ << label << ":\n";
    ready_in_ = std::max(ready_in_, before);
  }
  void delay_slot() {
    switch (pick(4)) {
      case 0:
        return line("vsyncadd 9, 1", pick(3));
      case 1:
        return line("dma.done.wait 9, 0");
      case 2:
        return line("%s0 = smov 0", pick(12));
      default:
        return line("%v7 = vadd.f32 %v7, %v7");
    }
  }
  void call() {
    // A callee leaves the MXU as it found it, and everything in it ready.
    line("inlined_call site = " + num(pick(callees_)), pick(2));
    ready_in_ = std::max(ready_in_, latency_);
  }
  void vector() {
    line("%v5 = vadd.f32 %v5, %v6");
    if (pick(30) != 0) line("%v4 = vmul.f32 %v5, %v5");
    line("%v6 = vpack.i.bf16 %v5, %v5 ;; vst [vmem:$0x400] %v4");
    line("vpow2.f32 %v4");
    idle(3 + pick(3));
    line("%v4 = vpop.eup");
  }
  void lanes() {
    const std::string unit = ".xlu" + num(hasty_ ? pick(2) : 0);
    line("vadd.xlane.f32" + unit + " %v5", 91 + pick(3));
    line("%v5 = vpop.xlane" + unit, 7);
    if (pick(2) == 0) return;
    line("vsyncmov 9");
    line("%s8 = spop");
  }
  void guarded_push() {
    line("%p4 = scmp.lt.s32.totalorder " + data() + ", " + num(pick(700)));
    drain();
    line("vmatmul.f32.gmra.mxu0 (%p4), %v1", 7 + pick(100));
    idle(latency_);
    line("%v1 = vpop.f32.mrf.mxu0 (%p4)", 7);
  }
  void flags() { line("vsyncadd 9, " + num(1 + pick(3)), pick(2)); }

  std::mt19937 random_;
  std::ostringstream text_;
  int callees_ = 0;
  int labels_ = 0;
  int depth_ = 0;
  int rows_ = 0;      ///< Results of mxu0 under way.
  int ready_in_ = 0;  ///< Cycles until they are all ready.
  bool large_ = false;
  bool hasty_ = false;
  int latency_ = 105;
  std::vector<std::pair<std::string, int>> pending_;
};

/// Changes a few fields of a program to anything.
inline void damage(isa::Program& program, std::mt19937& random) {
  const auto any = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  for (int change = 0; change < 3; ++change) {
    isa::Kernel& kernel = program.kernels[any(static_cast<std::uint32_t>(program.kernels.size()))];
    const std::uint32_t count = static_cast<std::uint32_t>(kernel.instructions.size());
    isa::Instruction& instruction = kernel.instructions[any(count)];
    isa::Operand& operand = instruction.operands[any(4)];
    isa::Bundle& bundle = kernel.bundles[any(static_cast<std::uint32_t>(kernel.bundles.size()))];
    const std::uint32_t value = any(2) == 0 ? any(64) : static_cast<std::uint32_t>(random());
    switch (any(8)) {
      case 0:
        instruction.opcode = static_cast<isa::Opcode>(any(isa::kOpcodeCount + 2));
        break;
      case 1:
        instruction.dest = static_cast<std::uint8_t>(value);
        break;
      case 2:
        operand.reg = static_cast<std::uint8_t>(value);
        break;
      case 3:
        operand.immediate = value;
        break;
      case 4:
        operand.kind = static_cast<isa::Operand::Kind>(any(3));
        break;
      case 5:
        instruction.unit = static_cast<std::uint8_t>(any(6));
        break;
      case 6:
        instruction.guard.predicate = static_cast<std::uint8_t>(value);
        break;
      default:
        (any(2) == 0 ? bundle.delay : bundle.instruction_count) = value;
    }
  }
}

}  // namespace tpu::test
