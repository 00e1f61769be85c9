#include "sim/report/op_groups.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/report/alike_names.h"
#include "sim/report/run_diff.h"
#include "sim/report/text_report.h"
#include "tests/traces/synthetic_record.h"

/// Operations that do the same at several places, categories, and runs that call things by other
/// names. 940 cycles are a microsecond.

namespace tpu::report::op_groups_test {
namespace {

constexpr auto kMxu = static_cast<std::size_t>(Resource::kMxu);
constexpr auto kHbm = static_cast<std::size_t>(Resource::kHbm);

struct Made {
  std::string scope, category, shape;
  double mxu = 0, hbm = 0;  ///< Cycles of a step.
};

/// A run of one step on one core whose operations take what they say, one behind the other.
traces::RunRecord record_of(const std::vector<Made>& ops, double outside = 0) {
  traces::RunRecord record = test::synthetic_record();
  record.ops.clear();
  record.core_numbers = {0};
  record.result.cores.resize(1);
  CoreResult& core = record.result.cores[0];
  core.ops = {};
  core.ops.resize(ops.size());
  CriticalPath& path = record.result.critical_path;
  path = {};
  const auto spend = [&](std::size_t resource, double cycles) {
    path.path[resource] += static_cast<std::uint64_t>(cycles);
    path.cycles += static_cast<std::uint64_t>(cycles);
    for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
      if ((set >> resource & 1) == 0) path.without[set] += static_cast<std::uint64_t>(cycles);
    }
  };
  for (const Made& made : ops) {
    isa::OpInfo info;
    info.name = "fusion." + std::to_string(record.ops.size());
    info.op_name = made.scope;
    info.category = made.category;
    info.shape = made.shape;
    record.ops.push_back(info);
    CriticalPath::Op op;
    op.cycles[kMxu] = made.mxu;
    op.cycles[kHbm] = made.hbm;
    op.gain[kMxu] = static_cast<std::int64_t>(made.mxu);
    op.gain[kHbm] = static_cast<std::int64_t>(made.hbm);
    path.ops.push_back(op);
    OpResult& result = core.ops[record.ops.size() - 1];
    result.count = 1;
    result.cycles = static_cast<std::uint64_t>(made.mxu + made.hbm);
    spend(kMxu, made.mxu);
    spend(kHbm, made.hbm);
  }
  spend(kHbm, outside);
  core.steps = {{0, path.cycles}};
  core.total.core = {};
  core.total.core.add(CoreState::kIssue, path.cycles);
  return record;
}

TEST(AlikeNames, NumbersOfScopesAreSeveral) {
  EXPECT_EQ(scope_pattern("net/stage12/block0/conv1"), "net/stage#/block#/conv#");
  EXPECT_EQ(scope_pattern("fusion.12"), "fusion.12");
  EXPECT_EQ(joined_scopes({"a/b1/c2"}), "a/b1/c2");
  EXPECT_EQ(joined_scopes({"a/b10/c2", "a/b9/c2", "a/b11/c2"}), "a/b{9-11}/c2");
  EXPECT_EQ(joined_scopes({"a/b1", "a/b2"}), "a/b{1,2}");
  EXPECT_EQ(joined_scopes({"a/b1", "a/b4", "a/b4"}), "a/b{1,4}");
  EXPECT_EQ(joined_scopes({"a/b1", "a/b3", "a/b5", "a/b7"}), "a/b{1,3,5,7}");
  EXPECT_EQ(joined_scopes({"a/b1", "a/b3", "a/b5", "a/b7", "a/b9"}), "a/b{1..9}");
  EXPECT_EQ(joined_scopes({"1/2", "1/2"}), "1/2");
  EXPECT_EQ(joined_scopes({"x/99999999999999999999999/1", "x/0/2"}),
            "x/{0,99999999999999999999999}/{1,2}");
  EXPECT_EQ(joined_scopes({}), "");
  EXPECT_EQ(without_layout("(f32[8,64]{1,0:T(8,128)}, s32[]{:T(256)})"), "(f32[8,64], s32[])");
}

TEST(OpGroups, LayersThatDifferInNumbersAreOne) {
  const traces::RunRecord record =
      record_of({{"net/layer0/dot", "convolution fusion", "f32[8]", 600, 0},
                 {"net/layer1/dot", "convolution fusion", "f32[8]", 0, 900},
                 {"net/layer2/dot", "convolution fusion", "f32[9]", 100, 0},
                 {"net/layer3/dot", "loop fusion", "f32[8]", 50, 0},
                 {"dot", "loop fusion", "f32[8]", 40, 0},
                 {"dot", "loop fusion", "f32[8]", 30, 0}});
  const std::vector<OpGroup> groups = alike_ops(record, summarize(record));
  // No other shape, category; what is in no scope stands alone.
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_EQ(groups[0].ops, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(groups[0].scope, "net/layer{0,1}/dot");
  EXPECT_EQ(groups[0].sum.op, 1u);
  EXPECT_EQ(groups[0].sum.cycles, 1500);
  EXPECT_EQ(groups[0].sum.count, 2);
  // 900 and 600 of 1,500 cycles: each alone is bound by another.
  EXPECT_EQ(to_string(groups[0].sum.bound), "HBM+MXU");
  EXPECT_DOUBLE_EQ(groups[0].sum.causes[kHbm], 0.6);
  EXPECT_DOUBLE_EQ(groups[0].sum.causes[kMxu], 0.4);
  EXPECT_EQ(groups[1].scope, "net/layer2/dot");
  const std::string text = text_report(record, summarize(record), {}, {false, 120});
  EXPECT_NE(text.find("The 5 most expensive of 5 kinds of operations (6 operations)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("fusion.1 and 1 alike  (convolution fusion)\n          net/layer{0,1}/dot\n"),
            std::string::npos)
      << text;
}

/// Of a row of several ops: what is counted adds up, what is a share is the mean by cycles, and the
/// longest execution is the longest of all.
TEST(OpGroups, ARowOfSeveralOpsSaysWhatTheySayTogether) {
  const traces::RunRecord record = record_of({{"net/layer0/dot", "fusion", "f32[8]", 600, 0},
                                              {"net/layer1/dot", "fusion", "f32[8]", 0, 200},
                                              {"net/layer2/dot", "fusion", "f32[8]", 100, 100}});
  Summary summary = summarize(record);
  ASSERT_EQ(summary.ops.size(), 3u);
  double OpSummary::*const sums[] = {&OpSummary::count,
                                     &OpSummary::cycles,
                                     &OpSummary::flops,
                                     &OpSummary::matmul_flops,
                                     &OpSummary::padded_matmul_flops,
                                     &OpSummary::pushed_matmul_flops,
                                     &OpSummary::compulsory_hbm_bytes,
                                     &OpSummary::hbm_bytes,
                                     &OpSummary::dmas,
                                     &OpSummary::ici_bytes};
  double Shares::*const shares[] = {
      &Shares::mxu,  &Shares::vector_alu, &Shares::vector_load, &Shares::vector_store,
      &Shares::xlu,  &Shares::eup,        &Shares::hbm,         &Shares::ici,
      &Shares::peer, &Shares::infeed,     &Shares::memory_wait, &Shares::schedule};
  double next = 1;
  for (OpSummary& op : summary.ops) {
    for (const auto part : sums) op.*part = next = std::fmod(next * 7 + 3, 97);
    for (const auto share : shares) op.shares.*share = (next = std::fmod(next * 5 + 3, 89)) / 100;
    op.cycles_max = 60 - 10 * op.op * op.op + 20 * op.op;  // The second one's is the longest.
  }
  const std::vector<OpGroup> groups = alike_ops(record, summary);
  ASSERT_EQ(groups.size(), 1u);
  const OpSummary& row = groups[0].sum;
  double cycles = 0;
  for (const OpSummary& op : summary.ops) cycles += op.cycles;
  for (const auto part : sums) {
    double sum = 0;
    for (const OpSummary& op : summary.ops) sum += op.*part;
    EXPECT_DOUBLE_EQ(row.*part, sum);
  }
  for (const auto share : shares) {
    double sum = 0;
    for (const OpSummary& op : summary.ops) sum += op.shares.*share * op.cycles;
    EXPECT_NEAR(row.shares.*share, sum / cycles, 1e-12);
  }
  EXPECT_EQ(row.cycles_max, 70u);
  EXPECT_DOUBLE_EQ(row.matmul_padding, row.padded_matmul_flops / row.matmul_flops);
}

TEST(OpGroups, CategoriesAddUpToTheStep) {
  const traces::RunRecord record = record_of({{"a/dot", "convolution fusion", "f32[8]", 600, 240},
                                              {"b/dot", "convolution fusion", "f32[8]", 100, 0},
                                              {"c/add", "loop fusion", "f32[8]", 0, 470}},
                                             470);
  const std::string text = categories_text(record, summarize(record));
  EXPECT_EQ(text,
            "Time by category              us    part   ops   MXU   HBM\n"
            "  convolution fusion           1  50.0 %     2   74%   26%\n"
            "  (outside operations)     0.500  25.0 %          0%  100%\n"
            "  loop fusion              0.500  25.0 %     1    0%  100%\n\n");
  double ms = 0, fraction = 0;
  for (const Json& row : categories_json(record)) {
    ms += row["time_ms"].get<double>();
    fraction += row["fraction"].get<double>();
  }
  EXPECT_NEAR(ms, 2e-3, 1e-12);
  EXPECT_NEAR(fraction, 1, 1e-12);
}

/// 94 cycles more in each of twelve layers, and a whole layer in one of them alone.
TEST(OpGroups, ADifferenceOfManyLayersIsOneRow) {
  std::vector<Made> before, after;
  for (int layer = 0; layer < 12; ++layer) {
    const std::string scope = "net/layer" + std::to_string(layer) + "/dot";
    before.push_back({scope, "convolution fusion", "f32[8]", 1000, 0});
    after.push_back({scope, "convolution fusion", "f32[8]", 1000, 94});
  }
  after.push_back({"net/layer12/dot", "convolution fusion", "f32[8]", 0, 470});
  const traces::RunRecord first = record_of(before), second = record_of(after);
  const RunDifference difference = difference_of(first, second);
  EXPECT_TRUE(difference.by_scope);
  EXPECT_EQ(difference.ops.size(), 14u);  // And the time outside.
  const std::vector<OpDifference> rows = alike_differences(difference.ops);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "net/layer{0-11}/dot");
  EXPECT_EQ(rows[0].places, 12u);
  EXPECT_NEAR(rows[0].change(), 1.2, 1e-9);
  EXPECT_EQ(rows[1].name, "net/layer12/dot");
  const std::string text = diff_text(first, second, {"a", "b"}, {false, 80});
  EXPECT_NE(
      text.find("    +1.200  HBM +1.200\n          net/layer{0-11}/dot  at 12 places  f32[8]\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("net/layer12/dot  B alone\n"), std::string::npos) << text;
  EXPECT_NE(text.find("By category, us of a step\n         A         B       B-A  category\n"
                      "     12.77     14.47    +1.700  convolution fusion      HBM +1.700\n\n"),
            std::string::npos)
      << text;
}

/// The same network from two frameworks: one names its layers, the other what it computes. The
/// backward pass is told by "transpose(", an array by its sides.
TEST(OpGroups, RunsThatCallThingsByOtherNamesAreMatchedByKind) {
  const traces::RunRecord first =
      record_of({{"net/layer0/dot", "convolution fusion", "bf16[128,56,56,64]", 1880, 0},
                 {"transpose(net)/layer0/dot", "convolution fusion", "bf16[128,56,56,64]", 940, 0},
                 {"net/layer0/add", "loop fusion", "f32[8]", 0, 940}});
  const traces::RunRecord second = record_of(
      {{"jit(step)/jvp()/conv", "convolution fusion", "(f32[64], bf16[128,56,56,64])", 2820, 0},
       {"jit(step)/transpose(jvp())/conv", "convolution fusion", "bf16[128,56,56,64]", 940, 470},
       {"jit(step)/jvp()/add", "loop fusion", "f32[9]", 0, 1410},
       {"jit(step)/jvp()/copy", "copy", "f32[9]", 0, 94}});
  const RunDifference difference = difference_of(first, second);
  EXPECT_FALSE(difference.by_scope);
  double change = 0;
  std::map<std::string, double> rows;
  for (const OpDifference& row : difference.ops) {
    rows[row.name + "|" + row.shape] = row.change();
    change += row.change();
  }
  EXPECT_NEAR(change, difference.change(), 1e-9);
  EXPECT_NEAR(rows["forward or update, convolution fusion|[128,56,56,64]"], 1, 1e-9);
  EXPECT_NEAR(rows["backward, convolution fusion|[128,56,56,64]"], 0.5, 1e-9);
  EXPECT_NEAR(rows["forward or update, loop fusion|"], 0.5, 1e-9);
  EXPECT_NEAR(rows["forward or update, copy|"], 0.1, 1e-9);
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_EQ(diff_json(first, second, {"a", "b"})["matched_by"], "kind");
  EXPECT_EQ(diff_json(first, first, {"a", "a"})["matched_by"], "scope");
  const std::string text = diff_text(first, second, {"a", "b"}, {false, 120});
  EXPECT_NE(text.find("The runs call less than a quarter of their time alike"), std::string::npos);
}

}  // namespace
}  // namespace tpu::report::op_groups_test
