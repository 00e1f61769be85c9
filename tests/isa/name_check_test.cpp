#include "isa/name_check.h"

#include <gtest/gtest.h>

#include "bundle_runner.h"
#include "sim/base/error.h"

namespace tpu::isa::name_check_test {
namespace {

using test::BundleRunner;

/// A kernel as text, with a row of names for each instruction.
Kernel named(const std::string& text, std::vector<VirtualNames> names) {
  Kernel kernel = assemble("kernel k\n" + text, "t").at(0);
  kernel.names = std::move(names);
  return kernel;
}

std::string run(const Kernel& kernel, BundleRunner& core) {
  const NameCheck check(kernel, 1);
  check.enter(core.state.names);
  try {
    for (std::uint32_t i = 0; i < kernel.bundles.size(); ++i) {
      execute_bundle(kernel, i, core.state, core.surroundings, &check);
    }
  } catch (const ProgramFault& fault) {
    return fault.what();
  }
  return "none";
}

std::string run(const Kernel& kernel) {
  BundleRunner core;
  return run(kernel, core);
}

VirtualNames writes(std::uint32_t dest) {
  VirtualNames names;
  names.dest = dest;
  return names;
}

VirtualNames reads(std::uint32_t dest, std::uint32_t operand) {
  VirtualNames names;
  names.dest = dest;
  names.operands[0] = operand;
  return names;
}

TEST(NameCheck, AReadUnderTheNameOfTheLastWritePasses) {
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s2 = smov %s1 }", {writes(10), reads(11, 10)})), "none");
}

TEST(NameCheck, AReadUnderAnotherNameIsAFault) {
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s1 = smov 2 }{ %s2 = smov %s1 }",
                      {writes(10), writes(11), reads(12, 10)})),
            "%s2 = smov %s1: expected name 10 in %s1, found name 11");
  EXPECT_EQ(run(named("{ %s2 = smov %s1 }{ %s1 = smov 1 }", {reads(12, 10), writes(10)})),
            "%s2 = smov %s1: expected name 10 in %s1, found no name");
}

TEST(NameCheck, NamesCountFromOne) {
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s1 = smov 2 }{ %s2 = smov %s1 }",
                      {writes(1), writes(2), reads(3, 1)})),
            "%s2 = smov %s1: expected name 1 in %s1, found name 2");
}

TEST(NameCheck, ANameThatNothingDefinesMayBeRead) {
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s2 = smov %s1 }", {writes(10), reads(11, 99)})), "none");
}

/// XLA's listings print copies of registers to themselves and go on with the names before them.
TEST(NameCheck, ACopyToItselfThatNobodyReadsLeavesTheName) {
  const std::string text = "{ %s1 = smov 1 }{ %s1 = smov %s1 }{ %s2 = smov %s1 }";
  EXPECT_EQ(run(named(text, {writes(10), reads(11, 99), reads(12, 10)})), "none");
  EXPECT_EQ(run(named(text, {writes(10), reads(11, 99), reads(12, 11)})), "none");
  // With its own name read, too, the older one is another value's.
  EXPECT_EQ(run(named(text + "{ %s3 = smov %s1 }",
                      {writes(10), reads(11, 99), reads(12, 11), reads(13, 10)})),
            "%s3 = smov %s1: expected name 10 in %s1, found name 11");
  // A copy of another register is a write.
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s1 = smov %s4 }{ %s2 = smov %s1 }",
                      {writes(10), reads(11, 99), reads(12, 10)})),
            "%s2 = smov %s1: expected name 10 in %s1, found name 11");
}

TEST(NameCheck, InstructionsOfABundleReadTheNamesBeforeIt) {
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s1 = smov 2 ;; %s2 = smov %s1 }",
                      {writes(10), writes(11), reads(12, 10)})),
            "none");
}

TEST(NameCheck, GuardsAddressesAndMasksAreCheckedToo) {
  VirtualNames guarded = writes(11);
  guarded.guard = 10;
  EXPECT_EQ(run(named("{ %p1 = pmov 0 }{ %p1 = pmov 0 }{ %s2 = smov (%p1), 1 }",
                      {writes(10), writes(12), guarded})),
            "%s2 = smov (%p1), 1: expected name 10 in %p1, found name 12");
  VirtualNames load = writes(11);
  load.base[0] = 10;
  load.mask_register = 13;
  EXPECT_EQ(run(named("{ %s1 = smov 0 ;; %s2 = smov 255 }{ %v1 = vld [vmem:%s1 sm:%s2] }",
                      {writes(10), writes(12), load})),
            "none");
  load.mask_register = 10;
  EXPECT_EQ(run(named("{ %s1 = smov 0 ;; %s2 = smov 255 }{ %v1 = vld [vmem:%s1 sm:%s2] }",
                      {writes(10), writes(12), load})),
            "%v1 = vld [vmem:%s1 sm:%s2]: expected name 10 in %s2, found name 12");
  VirtualNames based = writes(11);
  based.base[0] = 10;
  EXPECT_EQ(run(named("{ %s1 = smov 0 }{ %s1 = smov 0 }{ %v1 = vld [vmem:%s1] }",
                      {writes(10), writes(12), based})),
            "%v1 = vld [vmem:%s1]: expected name 10 in %s1, found name 12");
  EXPECT_EQ(run(named("{ %vm1 = vmmov 1 }{ %vm1 = vmmov 1 }{ %vm2 = vmneg %vm1 }",
                      {writes(10), writes(11), reads(12, 10)})),
            "%vm2 = vmneg %vm1: expected name 10 in %vm1, found name 11");
}

TEST(NameCheck, VectorsAreCheckedToo) {
  const char* text = "{ %v1 = vmov 1 }{ %v1 = vmov 2 }{ %v2 = vadd.s32 %v1, 1 }";
  EXPECT_EQ(run(named(text, {writes(10), writes(11), reads(12, 11)})), "none");
  EXPECT_EQ(run(named(text, {writes(10), writes(11), reads(12, 10)})),
            "%v2 = vadd.s32 %v1, 1: expected name 10 in %v1, found name 11");
}

TEST(NameCheck, OperandsOfAGuardedOffInstructionAreNotChecked) {
  EXPECT_EQ(run(named("{ %s1 = smov 1 }{ %s2 = smov (%p0), %s1 }{ %s3 = smov 1 }",
                      {writes(10), reads(11, 12), writes(12)})),
            "none");
}

TEST(NameCheck, PopsTakeTheResultThatTheyName) {
  const char* text = "{ vpow2.f32 1.0 }{ vpow2.f32 2.0 }{ %v1 = vpop.eup }{ %v2 = vpop.eup }";
  EXPECT_EQ(run(named(text, {writes(10), writes(11), reads(12, 10), reads(13, 11)})), "none");
  EXPECT_EQ(run(named(text, {writes(10), writes(11), reads(12, 11), reads(13, 10)})),
            "%v1 = vpop.eup: expected the result of %11 at the head of the queue, found name 10");
  EXPECT_EQ(run(named(text, {writes(10), writes(1), reads(12, 1), reads(13, 10)})),
            "%v1 = vpop.eup: expected the result of %1 at the head of the queue, found name 10");
  EXPECT_EQ(
      run(named("{ vpush 1 }{ vpush 2 }{ %s1 = spop }", {writes(10), writes(11), reads(12, 11)})),
      "%s1 = spop: expected the result of %11 at the head of the queue, found name 10");
}

TEST(NameCheck, PermutationsNameTheirPattern) {
  const char* text =
      "{ vset.pattern.permute.xlu0 1 }{ vset.pattern.permute.xlu0 2 }{ vperm.xlu0 3 }";
  VirtualNames permutation = writes(12);
  permutation.operands[1] = 11;
  EXPECT_EQ(run(named(text, {writes(10), writes(11), permutation})), "none");
  permutation.operands[1] = 10;
  EXPECT_NE(run(named(text, {writes(10), writes(11), permutation})).find("the result of %10"),
            std::string::npos);
}

TEST(NameCheck, RenamingsActBeforeOrAfterTheirBundle) {
  Kernel kernel = named("{ %s1 = smov 1 }{ %s2 = smov %s1 }", {writes(10), reads(11, 20)});
  kernel.renamings = {{1, false, 's', 1, 20}};
  EXPECT_EQ(run(kernel), "none");
  kernel.renamings = {{1, true, 's', 1, 20}};
  EXPECT_EQ(run(kernel), "%s2 = smov %s1: expected name 20 in %s1, found name 10");
  kernel.renamings = {{0, true, 's', 1, 20}};
  EXPECT_EQ(run(kernel), "none");
}

TEST(NameCheck, CallsHandOverNames) {
  Kernel callee = named("{ %s2 = smov %s1 }", {reads(11, 10)});
  callee.operand_names = {{1, 10}};
  EXPECT_EQ(run(callee), "none");
  callee.operand_names.clear();
  callee.renamings = {{5, false, 's', 1, 10}};
  BundleRunner core;
  core.state.names.s[1] = std::uint64_t{7} << 32 | 10;
  EXPECT_EQ(run(callee, core),
            "%s2 = smov %s1: expected name 10 in %s1, found name 10 of kernel 7");

  const Kernel caller = named("{ %s1 = smov 5 }", {writes(10)});
  const NameCheck check(caller, 1);
  CallSite site;
  site.operand_names = {{1, 10}};
  EXPECT_THROW(check.check_call(site, core.state.names), ProgramFault);
  EXPECT_EQ(run(caller, core), "none");
  EXPECT_NO_THROW(check.check_call(site, core.state.names));
}

TEST(NameCheck, KernelsWithoutNamesAreNotChecked) {
  const Kernel kernel = named("{ %s2 = smov %s1 }", {});
  EXPECT_FALSE(NameCheck(kernel, 0).active());
  EXPECT_EQ(run(kernel), "none");
}

}  // namespace
}  // namespace tpu::isa::name_check_test
