#include "workloads/compiler/passes/expand/reduction_forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/expand/scalar_samples.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::reduction_forms_test {
namespace {

std::string reduce(const std::string& type, const std::string& opcode, const std::string& extents,
                   const std::string& result, const std::string& dimensions,
                   const std::string& initial) {
  return "HloModule r\nbody {\n  a = " + type + "[] parameter(0)\n  b = " + type +
         "[] parameter(1)\n  ROOT c = " + type + "[] " + opcode +
         "(a, b)\n}\nENTRY main {\n  x = " + type + extents + " parameter(0)\n  i = " + type +
         "[] constant(" + initial + ")\n  ROOT r = " + type + result +
         " reduce(x, i), dimensions=" + dimensions + ", to_apply=body\n}\n";
}

HloCheck words() {
  HloCheck check;
  check.least = -2147483648.0;
  check.most = 2147483646.0;
  return check;
}

TEST(ReductionForms, IntegersAreSummedExactly) {
  check_hlo(reduce("s32", "add", "[40,300]", "[40]", "{1}", "7"), words());
  check_hlo(reduce("s32", "add", "[40,300]", "[300]", "{0}", "0"), words());
  check_hlo(reduce("u32", "add", "[5000]", "[]", "{0}", "0"), words());
}

TEST(ReductionForms, IntegerExtremesAreExact) {
  for (const char* opcode : {"maximum", "minimum"}) {
    check_hlo(reduce("s32", opcode, "[40,300]", "[40]", "{1}", "12"), words());
    check_hlo(reduce("u32", opcode, "[40,300]", "[300]", "{0}", "12"), words());
  }
}

TEST(ReductionForms, ReducedDimensionsOfOneCostNothing) {
  check_hlo(reduce("f32", "add", "[1,1152]", "[]", "{0,1}", "0"));
  check_hlo(reduce("f32", "maximum", "[1,40,1,300]", "[40]", "{0,2,3}", "-inf"));
  check_hlo(reduce("f32", "add", "[1,1]", "[]", "{0,1}", "0"));
}

TEST(ReductionForms, TrueElementsAreCounted) {
  check_hlo(
      "HloModule n\nsum {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
      "  ROOT c = s32[] add(a, b)\n}\nENTRY main {\n  x = f32[40,300] parameter(0)\n"
      "  z = f32[] constant(0.25)\n  b = f32[40,300] broadcast(z), dimensions={}\n"
      "  p = pred[40,300] compare(x, b), direction=GT\n  i = s32[40,300] convert(p)\n"
      "  s = s32[] constant(0)\n  ROOT r = s32[] reduce(i, s), dimensions={0,1}, "
      "to_apply=sum\n}\n");
}

/// What selects one of two constants, what is masked, numbers of places: their sums have fewer
/// digits than those of any integers, of ones a single one however many there are.
TEST(ReductionForms, SmallIntegersHaveFewDigits) {
  const auto sum_of = [](const std::string& lines) {
    return "HloModule n\nsum {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT c = "
           "s32[] add(a, b)\n}\nENTRY main {\n  x = s32[300,5000] parameter(0)\n  z = s32[] "
           "constant(0)\n  k = s32[] constant(1)\n  m = s32[] constant(1023)\n" +
           lines + "  ROOT r = s32[300] reduce(v, z), dimensions={1}, to_apply=sum\n}\n";
  };
  const auto sums_in = [](const std::string& text) {
    hlo::Module module = hlo::read_hlo_text("small.hlo", text);
    compiler::Refusals refusals;
    compiler::rewrite_reductions(module, refusals);
    std::int64_t sums = 0;
    for (const auto& each : module.entry_computation().instructions) {
      sums += each.opcode == hlo::HloOpcode::kReduce ? 1 : 0;
    }
    return sums;
  };
  const std::string ones =
      "  b = s32[300,5000] broadcast(z), dimensions={}\n  o = s32[300,5000] broadcast(k), "
      "dimensions={}\n  p = pred[300,5000] compare(x, b), direction=GT\n  v = s32[300,5000] "
      "select(p, o, b)\n";
  const std::string masked =
      "  b = s32[300,5000] broadcast(m), dimensions={}\n  v = s32[300,5000] and(x, b)\n";
  const std::string places =
      "  i = s32[300,5000] iota(), iota_dimension=1\n  b = s32[300,5000] broadcast(m), "
      "dimensions={}\n  v = s32[300,5000] xor(i, b)\n";
  const std::string any = "  v = s32[300,5000] negate(x)\n";
  // 5,000 numbers of 11 bits are exact in the 24 of an f32.
  EXPECT_EQ(sums_in(sum_of(ones)), 1);
  EXPECT_EQ(sums_in(sum_of(masked)), 1);
  EXPECT_EQ(sums_in(sum_of(places)), 2);
  EXPECT_EQ(sums_in(sum_of(any)), 3);
  for (const std::string& lines : {ones, masked, places, any}) check_hlo(sum_of(lines), words());
}

std::string arg_extreme(const std::string& direction, const std::string& tie) {
  return "HloModule a\nbody {\n  a = f32[] parameter(0)\n  i = s32[] parameter(1)\n"
         "  b = f32[] parameter(2)\n  j = s32[] parameter(3)\n"
         "  p = pred[] compare(a, b), direction=" +
         direction +
         "\n  n = pred[] compare(a, a), direction=NE\n  w = pred[] or(p, n)\n"
         "  v = f32[] select(w, a, b)\n  e = pred[] compare(a, b), direction=EQ\n"
         "  l = pred[] compare(i, j), direction=" +
         tie +
         "\n  t = pred[] and(e, l)\n  q = pred[] or(w, t)\n  k = s32[] select(q, i, j)\n"
         "  ROOT r = (f32[], s32[]) tuple(v, k)\n}\nENTRY main {\n"
         "  y = s32[40,300] parameter(0)\n  x = f32[40,300] convert(y)\n"
         "  o = s32[40,300] iota(), iota_dimension=1\n  f = f32[] constant(" +
         (direction == "GT" ? "-inf" : "inf") +
         ")\n  z = s32[] constant(0)\n  ROOT r = (f32[40], s32[40]) reduce(x, o, f, z), "
         "dimensions={1}, to_apply=body\n}\n";
}

TEST(ReductionForms, TheGreatestAndLeastHaveTheirIndex) {
  HloCheck check;  // Few different values: many ties.
  check_hlo(arg_extreme("GT", "LT"), check);
  check_hlo(arg_extreme("LT", "LT"), check);
}

std::string sort(const std::string& key, const std::string& payload, const std::string& direction,
                 const std::string& extents, const std::string& dimension) {
  return "HloModule s\norder {\n  a = " + key + "[] parameter(0)\n  b = " + key +
         "[] parameter(1)\n  c = " + payload + "[] parameter(2)\n  d = " + payload +
         "[] parameter(3)\n  ROOT r = pred[] compare(a, b), direction=" + direction +
         "\n}\nENTRY main {\n  x = " + key + extents + " parameter(0)\n  y = " + payload + extents +
         " parameter(1)\n  ROOT s = (" + key + extents + ", " + payload + extents +
         ") sort(x, y), dimensions={" + dimension + "}, is_stable=true, to_apply=order\n}\n";
}

TEST(ReductionForms, SortsKeysAndWhatBelongsToThem) {
  check_hlo(sort("f32", "s32", "LT", "[5,100]", "1"));
  check_hlo(sort("f32", "f32", "GT", "[60,7]", "0"));
  check_hlo(sort("s32", "s32", "LT", "[200]", "0"));  // Many equal keys: the order is stable.
}

TEST(ReductionForms, ComparatorsMayLookAtSeveralKeys) {
  check_hlo(
      "HloModule s\norder {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
      "  c = f32[] parameter(2)\n  d = f32[] parameter(3)\n  e5 = s32[] parameter(4)\n"
      "  e6 = s32[] parameter(5)\n"
      "  e = pred[] compare(a, b), direction=EQ\n  f = pred[] compare(a, b), direction=LT\n"
      "  g = pred[] compare(c, d), direction=GT\n  h = pred[] and(e, g)\n"
      "  ROOT r = pred[] or(f, h)\n}\nENTRY main {\n  x = s32[3,90] parameter(0)\n"
      "  y = f32[3,90] parameter(1)\n  z = s32[3,90] parameter(2)\n"
      "  ROOT s = (s32[3,90], f32[3,90], s32[3,90]) sort(x, y, z), dimensions={1}, "
      "is_stable=true, to_apply=order\n}\n");
}

/// What jax.lax.approx_max_k makes: of each four elements the greatest, with its place.
TEST(ReductionForms, PartsAreReducedToTheElementsThatComeFirst) {
  const hlo::Module module = hlo::read_hlo_text(
      "p",
      "HloModule p\nfirst {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n"
      "  ROOT r = pred[] compare(a, b), direction=GT\n}\nENTRY main {\n"
      "  x = f32[3,38] parameter(0)\n  i = s32[3,38] iota(), iota_dimension=1\n"
      "  v = f32[] constant(-inf)\n  n = s32[] constant(-1)\n"
      "  ROOT r = (f32[3,10], s32[3,10]) custom-call(x, i, v, n), "
      "custom_call_target=\"PartialReduce\", called_computations={first}, "
      "backend_config={\"log2_reduction\": 2, \"reduction_dim\": 1}\n}\n");
  std::mt19937 engine(5);
  const hlo::Computation& entry = module.entry_computation();
  const reference::Value x = random_value(entry.at(entry.parameters()[0]).shape, engine, {});
  CoreArguments arguments;
  arguments.parameters.push_back(reference::to_bytes(x));
  const CompiledRun run = run_compiled(module, {arguments}, 1);
  const std::vector<double> values = numbers_of(run.outputs.at(0).at(0)),
                            places = numbers_of(run.outputs.at(0).at(1));
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t k = 0; k < 10; ++k) {
      float greatest = -HUGE_VALF;
      std::size_t place = 0;
      for (std::size_t i = k; i < 38; i += 10) {
        const float number = x.numbers[row * 38 + i];
        if (number <= greatest) continue;
        greatest = number;
        place = i;
      }
      EXPECT_EQ(values[row * 10 + k], greatest) << row << " " << k;
      EXPECT_EQ(places[row * 10 + k], static_cast<double>(place)) << row << " " << k;
    }
  }
}

TEST(ReductionForms, ProductsAndLogicAreMadeOfHalves) {
  HloCheck near_one;
  near_one.low = 0.8;
  near_one.high = 1.2;
  check_hlo(reduce("f32", "multiply", "[9,41]", "[9]", "{1}", "2"), near_one);
  check_hlo(reduce("f32", "multiply", "[41,9]", "[9]", "{0}", "1"), near_one);
  for (const char* opcode : {"multiply", "and", "or", "xor"}) {
    check_hlo(reduce("s32", opcode, "[9,41]", "[9]", "{1}", "5"), words());
  }
  check_hlo(reduce("s32", "and", "[9,1]", "[9]", "{1}", "1"), words());
}

TEST(ReductionForms, AnyComputationReduces) {
  check_hlo(
      "HloModule r\nbody {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  c = f32[] parameter(2)\n  d = f32[] parameter(3)\n  e = f32[] add(a, c)\n"
      "  f = f32[] maximum(b, d)\n  ROOT t = (f32[], f32[]) tuple(e, f)\n}\nENTRY main {\n"
      "  x = f32[9,41] parameter(0)\n  y = f32[9,41] parameter(1)\n  i = f32[] constant(1)\n"
      "  j = f32[] constant(0.5)\n  ROOT r = (f32[9], f32[9]) reduce(x, y, i, j), "
      "dimensions={1}, to_apply=body\n}\n");
  check_hlo(
      "HloModule r\nbody {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  m = f32[] maximum(a, b)\n  s = f32[] subtract(a, b)\n  t = f32[] abs(s)\n"
      "  n = f32[] negate(t)\n  e = f32[] exponential(n)\n  l = f32[] log-plus-one(e)\n"
      "  ROOT r = f32[] add(m, l)\n}\nENTRY main {\n  x = f32[7,5,33] parameter(0)\n"
      "  i = f32[] constant(-1e30)\n  ROOT r = f32[5] reduce(x, i), dimensions={0,2}, "
      "to_apply=body\n}\n");
}

TEST(ReductionForms, GreatestIntegersHaveTheirIndex) {
  std::string text = arg_extreme("GT", "LT");
  for (std::size_t at = 0; (at = text.find("f32", at)) != std::string::npos;) {
    text.replace(at, 3, "s32");
  }
  const std::size_t infinity = text.find("-inf");
  ASSERT_NE(infinity, std::string::npos);
  text.replace(infinity, 4, "-2147483648");
  check_hlo(text, words());
}

TEST(ReductionForms, AFewOfManyAreFoundOneByOne) {
  constexpr int kCount = 2000;
  const hlo::Module module =
      hlo::read_hlo_text("test.hlo",
                         "HloModule t\nENTRY main {\n  x = s32[1,2000] parameter(0)\n"
                         "  ROOT t = (s32[1,4], s32[1,4]) topk(x), k=4, largest=true\n}\n");
  Bytes bytes(4 * kCount);
  for (int i = 0; i < kCount; ++i) {
    const std::int32_t value = i * 7 % kCount;  // Each number below 2000 once.
    std::memcpy(bytes.data() + 4 * i, &value, sizeof value);
  }
  CoreArguments arguments;
  arguments.parameters = {bytes};
  const CompiledRun run = run_compiled(module, {arguments});
  EXPECT_EQ(numbers_of(run.outputs.at(0).at(0)), (std::vector<double>{1999, 1998, 1997, 1996}));
  const std::vector<double> places = numbers_of(run.outputs.at(0).at(1));
  for (std::size_t k = 0; k < places.size(); ++k) {
    EXPECT_EQ(static_cast<int>(places[k]) * 7 % kCount, 1999 - static_cast<int>(k));
  }
}

/// By ranks and one by one, and sorts along any dimension: the others keep their places.
TEST(ReductionForms, SequencesOfSeveralDimensionsStayWhereTheyAre) {
  const auto rearranged = [](const std::string& body) {
    const std::string text =
        "HloModule t\ngt { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] "
        "compare(a, b), direction=GT }\nENTRY main {\n" +
        body + "}\n";
    check_hlo(text);
    hlo::Module module = hlo::read_hlo_text("test.hlo", text);
    compiler::Refusals refusals;
    compiler::rewrite_reductions(module, refusals);
    std::size_t count = 0;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      if (each.opcode != hlo::HloOpcode::kReshape) continue;
      const hlo::Shape& before = module.entry_computation().at(each.operands[0]).shape;
      const bool is_same = compiler::long_extents(before.dimensions) ==
                           compiler::long_extents(each.shape.dimensions);
      count += is_same ? 0 : 1;
    }
    return count;
  };
  EXPECT_EQ(rearranged("  x = f32[3,7,9,4] parameter(0)\n"
                       "  ROOT t = (f32[3,7,9,2], s32[3,7,9,2]) topk(x), k=2, largest=true\n"),
            0U);
  EXPECT_EQ(rearranged("  x = bf16[2,3,700] parameter(0)\n"
                       "  ROOT t = (bf16[2,3,3], s32[2,3,3]) topk(x), k=3, largest=true\n"),
            0U);
  for (const std::string dimension : {"0", "1", "2"}) {
    EXPECT_EQ(
        rearranged("  x = f32[4,6,5] parameter(0)\n  ROOT s = f32[4,6,5] sort(x), dimensions={" +
                   dimension + "}, to_apply=gt\n"),
        0U);
  }
}

TEST(ReductionForms, MapsAreTheirComputation) {
  check_hlo(
      "HloModule m\nbody {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  c = f32[] constant(3)\n  d = f32[] multiply(a, c)\n  ROOT r = f32[] add(d, b)\n}\n"
      "ENTRY main {\n  x = f32[7,5] parameter(0)\n  y = f32[7,5] parameter(1)\n"
      "  ROOT r = f32[7,5] map(x, y), dimensions={0,1}, to_apply=body\n}\n");
}

TEST(ReductionForms, ReducersAreKnownByWhatTheyDo) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", arg_extreme("GT", "LT"));
  const auto kind = compiler::pair_reducer(module.computation(0));
  ASSERT_TRUE(kind.is_known);
  EXPECT_TRUE(kind.greatest);
  EXPECT_FALSE(kind.last_of_equal);
  EXPECT_TRUE(kind.keeps_nan);
}

TEST(ReductionForms, TheFirstOfWhatIsNoNumberIsTheGreatestAndLeast) {
  for (const char* direction : {"GT", "LT"}) {
    // Rows whose elements of every fifth column are no number, from a column of their own on.
    std::string text = arg_extreme(direction, "LT");
    text.replace(text.find("  x = f32[40,300] convert(y)\n"), 30,
                 "  c = s32[40,300] iota(), iota_dimension=1\n  h = s32[40,300] iota(), "
                 "iota_dimension=0\n  m = s32[40,300] multiply(h, h)\n  p = pred[40,300] "
                 "compare(c, m), direction=GT\n  n = f32[] constant(nan)\n  nb = f32[40,300] "
                 "broadcast(n), dimensions={}\n  w = f32[40,300] convert(y)\n  x = f32[40,300] "
                 "select(p, nb, w)\n");
    text.replace(text.find("  ROOT r = (f32[40], s32[40]) reduce"), 36,
                 "  r = (f32[40], s32[40]) reduce");
    text.insert(text.rfind("}"), "  ROOT k = s32[40] get-tuple-element(r), index=1\n");
    check_hlo(text, HloCheck());
  }
}

}  // namespace
}  // namespace tpu::test::reduction_forms_test
