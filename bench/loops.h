#pragma once

#include <cstdint>
#include <string>

namespace tpu::bench {

constexpr std::uint64_t kLoopBundles = 12;

/// A loop of twelve bundles: addresses and a counter on the scalar side, loads, sums and stores
/// beside them. Two bundles before it. `is_cut`: a branch that is never taken makes two blocks of
/// it, of which none follows itself; else its trips are counted in place of executed.
inline std::string vector_loop(std::uint64_t trips, bool is_cut = false) {
  const std::string compare = is_cut ? " ;; %p1 = scmp.lt.s32.totalorder %s1, 0" : "";
  const std::string branch = is_cut ? " ;; sbr.rel (%p1) target = again" : "";
  return R"(kernel loop
  { %s1 = smov 0 }
  { %s2 = smov 0 }
again:
  { %v0 = vld [vmem:%s2] ;; %s1 = sadd.s32 %s1, 1 }
  { %v1 = vld [vmem:%s2 + $0x8])" +
         compare + R"( }
  { %v2 = vadd.f32 %v0, %v1 ;; %v3 = vmul.f32 %v0, 2.0 }
  { %v4 = vld [vmem:%s2 + $0x10] ;; %v5 = vmax.f32 %v2, 0.0 }
  { %v6 = vadd.f32 %v4, %v5 ;; %v7 = vsub.f32 %v3, %v4 }
  { vst [vmem:%s2 + $0x800] %v6)" +
         branch + R"( }
  { vst [vmem:%s2 + $0x808] %v7 }
  { %s2 = sand.u32 %s1, 255 ;; %v8 = vmul.f32 %v6, %v7 }
  { %p0 = scmp.lt.s32.totalorder %s1, )" +
         std::to_string(trips) + R"( ;; %s2 = sshll.u32 %s2, 3 }
  { vst [vmem:%s2 + $0x810] %v8 }
  { sbr.rel (%p0) target = again }
  { %v9 = vadd.f32 %v8, %v6 }
)";
}

/// A loop that pushes eight rows into the MXU and pops eight results every eight cycles; `trips`
/// times sixteen. `is_cut`: as above.
inline std::string mxu_loop(std::uint64_t trips, bool is_cut = false) {
  std::string text = "kernel mxu\n  { %s1 = smov 0 ;; %v0 = vmov 1.0 }\n";
  for (int push = 0; push < 16; ++push) text += "  { vmatpush.msra.mxu0 %v0 ;; vdelay 7 }\n";
  text += "  { vdwg.mxu0 ;; vdelay 7 }\n";
  for (int push = 0; push < 16; ++push) text += "  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 7 }\n";
  text +=
      "again:\n  { %s1 = sadd.s32 %s1, 1 ;; vmatmul.f32.gmra.mxu0 %v0 ;; %v1 = vpop.f32.mrf.mxu0 "
      "}\n";
  text += "  { %p0 = scmp.lt.s32.totalorder %s1, " + std::to_string(trips) + " ;; vdelay 6 }\n";
  for (int push = 1; push < 15; ++push) {
    const bool cuts = is_cut && push == 8;
    text += "  { vmatmul.f32.gmra.mxu0 %v0 ;; %v1 = vpop.f32.mrf.mxu0 ;; " +
            std::string(cuts ? "%p1 = scmp.lt.s32.totalorder %s1, 0 }\n" : "vdelay 7 }\n");
    if (cuts) text += "  { sbr.rel (%p1) target = again }\n  { vdelay 5 }\n";
  }
  text +=
      "  { sbr.rel (%p0) target = again ;; vmatmul.f32.gmra.mxu0 %v0 ;; %v1 = vpop.f32.mrf.mxu0 "
      "}\n";
  text += "  { vdelay 6 }\n";
  return text;
}

/// A loop that starts a DMA of 16 KiB from HBM, waits for it and consumes its flag.
inline std::string dma_loop(std::uint64_t dmas) {
  return R"(kernel dma
  { %s1 = smov 0 }
again:
  { dma.hbm_to_vmem 1, 16, 0, 32 ;; %s1 = sadd.s32 %s1, 1 }
  { %p0 = scmp.lt.s32.totalorder %s1, )" +
         std::to_string(dmas) + R"( }
  { dma.done.wait 32, 16 }
  { vsyncadd 32, 4294967280 }
  { sbr.rel (%p0) target = again }
  { vdelay 1 }
)";
}

}  // namespace tpu::bench
