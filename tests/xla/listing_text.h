#pragma once

#include <string>

#include "isa/listing/listing_reader.h"

namespace tpu::test {

/// The lines with which every listing begins; the first bundle is on line 10.
inline const char kListingHeader[] =
    "= control target key start\n"
    "LH: loop header\n"
    "LB: loop body\n"
    "LE: loop exit\n"
    "PB: predicated region body\n"
    "PF: predicated region fallthrough\n"
    "CT: control target\n"
    "= control target key end\n"
    "\n";

/// A listing of allocations that serves the tests of single instructions.
inline const char kPackedText[] =
    "$region0: #{fusion}\n"
    "  #allocation1 [shape = 'f32[262144]{0}', space=vmem, size = 0x100000, offset = 0x1000, "
    "scoped, tag = 'scoped memory for fusion']\n"
    "  #allocation2 [shape = 's32[2]{0}', space=sflag, size = 0x8, offset = 0x4, scoped, tag = "
    "'scoped memory for fusion']\n"
    "  #allocation3 [shape = 'u8[32]{0}', space=smem, size = 0x20, offset = 0x40, scoped, tag = "
    "'DMA descriptor']\n"
    "  #allocation4 [shape = 'u32[]', space=smem, size = 0x4, offset = 0x3f90, fixed_abs, tag = "
    "'smem constant byte address 0x3f90 - output ptr']\n"
    "  #allocation5_spill [shape = 's32[1]{0}', space=smem, size = 0x4, offset = 0x80, scoped, tag "
    "= 'spilled sreg/preg']\n"
    "  #allocation6 [shape = 'f32[8,128]{1,0:T(8,128)}', space=hbm, size = 0x1000, offset = "
    "0x2000, tag = 'output of fusion.1@{}']\n";

inline isa::Listing read_bundles(const std::string& bundles,
                                 const std::string& packed = kPackedText) {
  return isa::read_listing(kListingHeader + bundles, "kernel.txt",
                           isa::PackedListing::read(packed, "packed.txt"), {0x400, 32});
}

/// One instruction in a bundle of its own; column 15 of line 10 is its first character.
inline isa::Listing read_one(const std::string& instruction) {
  return read_bundles("     0   :  { " + instruction + " }\n");
}

}  // namespace tpu::test
