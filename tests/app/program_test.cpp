#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/app/program_fixture.h"
#include "traces/npz.h"
#include "traces/run_file.h"

namespace tpu::app::program_test {
namespace {

const std::string kSmall = "run matmul --shape 128x256x256 --cores 1";

TEST_F(ProgramTest, ARunReportsWhatTheDesignPromises) {
  const json report_ = report(kSmall);
  EXPECT_EQ(report_["config"], "v3-8");
  EXPECT_EQ(report_["workload"], "matmul");
  EXPECT_EQ(report_["steps"].size(), 1u);
  EXPECT_GT(report_["steps"][0]["cycles"].get<std::uint64_t>(), 0u);
  double sum = 0;
  for (const auto& part : report_["breakdown"]) sum += part.get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_EQ(report_["ops"][0]["flops"], 2 * 128 * 256 * 256);
  EXPECT_GE(report_["step_time_ms"]["mean"].get<double>(),
            report_["roofline"]["bound_ms"].get<double>());
  EXPECT_GT(report_["simulator"]["core_cycles"].get<std::uint64_t>(), 0u);
}

/// Of arrays of f32.
double largest_difference(const traces::NpzArray& a, const traces::NpzArray& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.bytes.size(); i += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.bytes.data() + i, sizeof x);
    std::memcpy(&y, b.bytes.data() + i, sizeof y);
    largest = std::max(largest, std::fabs(static_cast<double>(x) - static_cast<double>(y)));
  }
  return largest;
}

void expect_equal(const traces::NpzFile& whole, const traces::NpzFile& shared) {
  ASSERT_EQ(whole.size(), shared.size());
  for (const auto& [name, array] : whole) {
    EXPECT_EQ(array.dimensions, shared.at(name).dimensions) << name;
    EXPECT_LT(largest_difference(array, shared.at(name)), 1e-5) << name;
  }
}

/// State that is cut over the cores is handed out and put together again, from the workload's
/// initial values and from a file.
TEST_F(ProgramTest, SharedUpdatesOfWeightsLeaveTheSameTraining) {
  const std::string small = "run mlp --shape 64x256x256x10 --cores 8 --batch 64 --values on ";
  const auto outputs = [&](const std::string& words) {
    EXPECT_EQ(tpusim(small + words + " --outputs out.npz").exit_code, 0) << words;
    return traces::read_npz((folder_ / "out.npz").string());
  };
  const traces::NpzFile whole = outputs("--steps 3");
  expect_equal(whole, outputs("--steps 3 --shard-updates"));
  traces::NpzFile inputs;
  for (int i = 0; i < 12; ++i) {
    const std::string number = (i < 10 ? "_00" : "_0") + std::to_string(i);
    inputs["arg" + number] = whole.at("out" + number);
  }
  inputs["arg_012"] = {hlo::ElementType::kF32, {64, 64}, std::vector<std::uint8_t>(64 * 64 * 4)};
  inputs["arg_013"] = {hlo::ElementType::kS32, {64}, std::vector<std::uint8_t>(64 * 4)};
  traces::write_npz((folder_ / "in.npz").string(), inputs);
  expect_equal(outputs("--inputs in.npz"), outputs("--inputs in.npz --shard-updates"));
  expect_error("run matmul --shape 128x256x256 --cores 2 --shard-updates", 4,
               "--shard-updates: expected sums of gradients");
}

TEST_F(ProgramTest, OutputsHaveTheTypesOfTheModule) {
  const std::vector<std::string> types{"pred", "u8",  "s8",  "s16", "u16", "f16",
                                       "bf16", "s64", "f64", "u64", "u32", "bf16"};
  std::string parameters, results, names;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string number = std::to_string(i), shape = types[i] + (i == 11 ? "[8,130]" : "[9]");
    parameters += "  p" + number + " = " + shape + " parameter(" + number + ")\n";
    results += (i == 0 ? "" : ", ") + shape;
    names += (i == 0 ? "p" : ", p") + number;
  }
  std::ofstream(folder_ / "types.hlo") << "HloModule t\nENTRY e {\n" + parameters + "  ROOT t = (" +
                                              results + ") tuple(" + names + ")\n}\n";
  ASSERT_EQ(tpusim("run types.hlo --outputs first.npz").exit_code, 0);
  traces::NpzFile first = traces::read_npz((folder_ / "first.npz").string());
  traces::NpzFile inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string number = (i < 10 ? "_00" : "_0") + std::to_string(i);
    ASSERT_EQ(first.count("out" + number), 1U);
    EXPECT_EQ(to_string(first.at("out" + number).type), types[i]);
    inputs["arg" + number] = first.at("out" + number);
  }
  for (const std::uint8_t bit : first.at("out_000").bytes) EXPECT_LE(bit, 1);
  // What came out can go in again.
  traces::write_npz((folder_ / "inputs.npz").string(), inputs);
  ASSERT_EQ(tpusim("run types.hlo --inputs inputs.npz --outputs second.npz").exit_code, 0);
  for (const auto& [name, array] : traces::read_npz((folder_ / "second.npz").string())) {
    EXPECT_EQ(array.bytes, first.at(name).bytes) << name;
    EXPECT_EQ(array.type, first.at(name).type) << name;
  }
}

/// An array too many says that the arrays are numbered otherwise than the parameters.
TEST_F(ProgramTest, MoreArraysThanParametersAreRefused) {
  std::ofstream(folder_ / "copy.hlo")
      << "HloModule t\nENTRY e {\n  ROOT p = u8[3] parameter(0)\n}\n";
  traces::NpzArray array;
  array.type = hlo::ElementType::kU8;
  array.dimensions = {3};
  array.bytes = {1, 2, 3};
  traces::write_npz((folder_ / "one.npz").string(), {{"arg_000", array}, {"out_000", array}});
  EXPECT_EQ(tpusim("run copy.hlo --inputs one.npz").exit_code, 0);
  traces::write_npz((folder_ / "two.npz").string(), {{"arg_000", array}, {"arg_001", array}});
  expect_error("run copy.hlo --inputs two.npz", 4,
               "expected the 1 parameters of t, found arg_001, too");
}

TEST_F(ProgramTest, MachinesTooSmallForOurKernelsAreRefusedByParameter) {
  for (const char* setting : {"core.xlu_queue_entries=31", "core.smem_words=2047"}) {
    const std::string name = std::string(setting).substr(0, std::string(setting).find('='));
    expect_error("run lenet --cores 1 --batch 8 --set " + std::string(setting), 3,
                 name + ": expected at least ");
  }
  for (const char* workload : {"lenet --batch 8", "transformer --batch 1"}) {
    for (const char* setting : {"core.xlu_queue_entries=32", "core.smem_words=2048"}) {
      const std::string words = std::string("run ") + workload + " --cores 1 --set " + setting;
      EXPECT_EQ(tpusim(words).exit_code, 0) << words;
    }
  }
}

TEST_F(ProgramTest, ConstantsWithoutValuesAreTimedAndNotComputed) {
  std::ofstream(folder_ / "elided.hlo")
      << "HloModule m\nENTRY main {\n  p = f32[8,128] parameter(0)\n"
         "  c = f32[8,128] constant({...})\n  d = f32[300] constant({...})\n"
         "  a = f32[8,128] add(p, c)\n  ROOT t = (f32[8,128], f32[300]) tuple(a, d)\n}\n";
  const Outcome timed = tpusim("run elided.hlo");
  EXPECT_EQ(timed.exit_code, 0);
  EXPECT_NE(timed.out.find("2 constants have no values in the module (\"{...}\"): c, d; print it"),
            std::string::npos)
      << timed.out;
  const Outcome computed = tpusim("run elided.hlo --values on");
  EXPECT_EQ(computed.exit_code, 4);
  EXPECT_EQ(computed.first_line().find(
                "tpusim: m: --values on: expected the values of all constants; 2 constants"),
            0U)
      << computed.err;
}

TEST_F(ProgramTest, TwoRunsGiveTheSameBytes) {
  const std::string words = "run mlp --cores 1 --batch 16 --output ";
  json first = report(words + "a.h5"), second = report(words + "b.h5");
  first.erase("simulator");
  second.erase("simulator");
  EXPECT_EQ(first.dump(), second.dump());
  EXPECT_TRUE(text_of(folder_ / "a.h5") == text_of(folder_ / "b.h5"));
}

TEST_F(ProgramTest, TheSlowTwinTakesTheSameCycles) {
  const std::string words = "run mlp --cores 1 --batch 16 --steps 2";
  EXPECT_EQ(report(words)["steps"], report(words + " --detail core=interpret")["steps"]);
}

TEST_F(ProgramTest, ValuesDoNotChangeTheCycles) {
  const std::string words = "run mlp --cores 1 --batch 16 --steps 2";
  EXPECT_EQ(report(words + " --warmup 0")["steps"], report(words + " --values on")["steps"]);
}

TEST_F(ProgramTest, TheLossOfEachStepIsPrintedAndFalls) {
  const json losses = report("run mlp --cores 1 --batch 64 --steps 4 --values on")["loss"];
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_LT(losses[3].get<double>(), losses[0].get<double>());
}

TEST_F(ProgramTest, OutputsCheckAgainstThemselvesAndNotAgainstAnotherSeed) {
  const std::string words = "run mlp --cores 1 --batch 16 --values on";
  EXPECT_EQ(tpusim(words + " --outputs o.npz").exit_code, 0);
  const Outcome same = tpusim(words + " --check o.npz --tolerance 0");
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_NE(same.out.find("Check: "), std::string::npos);
  const Outcome other = tpusim(words + " --check o.npz --seed 1 --json -");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.err.find("FAILED"), std::string::npos);
}

TEST_F(ProgramTest, ACompiledProgramRunsLikeItsWorkload) {
  const Outcome compiled = tpusim("compile mlp --cores 1 --batch 16 -o mlp.h5");
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_EQ(report("run mlp.h5")["steps"], report("run mlp --cores 1 --batch 16")["steps"]);
  expect_error("run mlp.h5 --config v2-8", 4, "expected a program for v2, the chip of v2-8");
  expect_error("run mlp.h5 --batch 8", 2, "is a compiled program with a fixed batch");
  expect_error("run mlp.h5 --cores 2", 2, "--cores: expected 1");
}

TEST_F(ProgramTest, WhatIsDisassembledAssemblesToTheSame) {
  ASSERT_EQ(tpusim("compile matmul --shape 128x128x128 --cores 1 -o m.h5").exit_code, 0);
  const Outcome text = tpusim("disasm m.h5");
  ASSERT_EQ(text.exit_code, 0) << text.err;
  write("m.s", text.out);
  const Outcome assembled = tpusim("asm m.s -o again.h5");
  ASSERT_EQ(assembled.exit_code, 0) << assembled.err;
  EXPECT_TRUE(tpusim("disasm again.h5").out == text.out);
}

/// Whole programs, ours and XLA's: buffers, call sites and what is in SMEM at the start, too.
TEST_F(ProgramTest, WhatIsDisassembledRunsTheSame) {
  const std::string captured = TPUSIM_SOURCE_DIR "/workloads/captured/mlp";
  for (const std::string& workload : {std::string("lenet --cores 1 --batch 16"), captured}) {
    ASSERT_EQ(tpusim("compile " + workload + " -o a.h5").exit_code, 0);
    write("a.s", tpusim("disasm a.h5").out);
    const Outcome assembled = tpusim("asm a.s -o b.h5");
    ASSERT_EQ(assembled.exit_code, 0) << assembled.err;
    EXPECT_TRUE(tpusim("disasm b.h5").out == text_of(folder_ / "a.s"));
    const json first = report("run a.h5 --values on --outputs a.npz");
    const json again = report("run b.h5 --values on --outputs b.npz");
    EXPECT_EQ(again["steps"], first["steps"]);
    EXPECT_EQ(again["ops"].size(), first["ops"].size());
    EXPECT_TRUE(text_of(folder_ / "a.npz") == text_of(folder_ / "b.npz"));
  }
  expect_error("asm a.s -o b.h5 --config v2-8", 4, "a.s: expected code for v2, found \"chip v3\"");
}

TEST_F(ProgramTest, TheExamplesOfTheAssemblerCompute) {
  const auto array = [](std::vector<std::int64_t> dimensions, std::uint32_t step) {
    traces::NpzArray result{hlo::ElementType::kF32, dimensions, {}};
    for (std::int64_t i = 0; i < dimensions[0] * dimensions[1]; ++i) {
      const float value = static_cast<float>(i * step % 31) / 4 - 3;
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
      result.bytes.insert(result.bytes.end(), bytes, bytes + sizeof value);
    }
    return result;
  };
  for (const std::string& example : {std::string("add"), std::string("product")}) {
    const bool adds = example == "add";
    const traces::NpzFile inputs{{"arg_000", array({8, 128}, 7)},
                                 {"arg_001", array({adds ? 8 : 128, 128}, 11)}};
    traces::write_npz((folder_ / "in.npz").string(), inputs);
    const std::string text = TPUSIM_SOURCE_DIR "/isa/examples/" + example + ".s";
    ASSERT_EQ(tpusim("asm " + text + " -o e.h5").exit_code, 0);
    report("run e.h5 --cores 1 --values on --inputs in.npz --outputs out.npz");
    const std::vector<double> a = traces::to_doubles(inputs.at("arg_000"));
    const std::vector<double> b = traces::to_doubles(inputs.at("arg_001"));
    const std::vector<double> out =
        traces::to_doubles(traces::read_npz((folder_ / "out.npz").string()).at("out_000"));
    ASSERT_EQ(out.size(), 8u * 128);
    for (std::size_t i = 0; i < out.size(); ++i) {
      double expected = adds ? a[i] + b[i] : 0;
      for (std::size_t k = 0; !adds && k < 128; ++k) {
        expected += a[i / 128 * 128 + k] * b[k * 128 + i % 128];
      }
      ASSERT_EQ(out[i], expected) << example << ", element " << i;
    }
  }
}

TEST_F(ProgramTest, AnAssembledProgramRuns) {
  write("a.s",
        "kernel top\n"
        "  { %s0 = smov 7 }\n"
        "  { %s1 = sadd.s32 %s0, %s0 ;; vdelay 5 }\n");
  ASSERT_EQ(tpusim("asm a.s -o a.h5").exit_code, 0);
  EXPECT_EQ(report("run a.h5")["steps"][0]["cycles"], 1 + 1 + 5);
  expect_error("run a.h5 --values on --outputs o.npz", 2, "expected a program with outputs");
  EXPECT_FALSE(fs::exists(folder_ / "o.npz"));
}

TEST_F(ProgramTest, ARunExportsToPerfetto) {
  ASSERT_EQ(tpusim("run mlp --cores 1 --batch 16 -o run.h5").exit_code, 0);
  const Outcome exported = tpusim("export run.h5 --format perfetto -o run.pftrace");
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_GT(fs::file_size(folder_ / "run.pftrace"), 1000u);
  const std::string checker = TPUSIM_SOURCE_DIR "/../shared/viewers/check_perfetto.py";
  if (!fs::exists(checker) || std::system("python3 -c 'import perfetto' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no check_perfetto.py or no Python package perfetto here";
  }
  const std::string trace = (folder_ / "run.pftrace").string();
  EXPECT_EQ(std::system(("python3 " + checker + " " + trace + " >/dev/null").c_str()), 0);
}

TEST_F(ProgramTest, ACompareHasBothMachines) {
  const json both = report("compare matmul --shape 128x256x256 --cores 1 --configs v2-8,v3-8");
  EXPECT_EQ(both["configs"], json({"v2-8", "v3-8"}));
  EXPECT_EQ(both["parameters"]["clock_mhz"], json({"700", "940"}));
  EXPECT_EQ(both["runs"][0]["steps"], report(kSmall + " --config v2-8")["steps"]);
  EXPECT_EQ(both["runs"][1]["steps"], report(kSmall)["steps"]);
}

TEST_F(ProgramTest, TheWarmStepIsTheStepAndTheFirstStandsBesideIt) {
  const std::string words = "run mlp --cores 1 --batch 128";
  const json warm = report(words + " -o run.h5"), cold = report(words + " --warmup 0");
  const json all = report(words + " --warmup 0 --steps 6");
  // The first step waits for the first batch to cross PCIe.
  EXPECT_GT(cold["steps"][0]["cycles"], warm["steps"][0]["cycles"]);
  EXPECT_EQ(warm["first_step_ms"], cold["step_time_ms"]["mean"]);
  const std::size_t from = warm["warm_up"]["counted_from"];
  EXPECT_GE(warm["warm_up"]["repeats"], 1);
  EXPECT_LT(warm["warm_up"]["repeats"], from);
  ASSERT_EQ(from, warm["warm_up"]["steps"].size() + 1);
  ASSERT_LE(from, 6u);
  EXPECT_EQ(warm["steps"][0], all["steps"][from - 1]);
  for (std::size_t i = 0; i + 1 < from; ++i) {
    EXPECT_EQ(warm["warm_up"]["steps"][i], all["steps"][i]);
  }
  // A host that is limited, but fast enough, is no faster than a free one.
  const json limited = report(words + " --set host.examples_per_s=2000000");
  EXPECT_NEAR(limited["steps"][0]["cycles"].get<double>(), warm["steps"][0]["cycles"].get<double>(),
              1e-2 * warm["steps"][0]["cycles"].get<double>());
  EXPECT_NE(tpusim(words).out.find("First step"), std::string::npos);
}

TEST_F(ProgramTest, AListingIsCompiledAnewForWhatItsBundlesCanNotTell) {
  const json run = report("run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp --what-if");
  std::map<std::string, json> variants;
  for (const json& each : run["what_if"]["variants"]) variants[each["name"]] = each;
  EXPECT_TRUE(variants["HBM free"].contains("gain"));
  // Its bundles know no more MXUs: the module beside them is compiled for as many, and for twice.
  const json& mxus = variants["twice the MXUs"];
  ASSERT_TRUE(mxus.contains("gain")) << mxus;
  const std::string anew = "run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp --compiler tpusim";
  EXPECT_EQ(mxus["settings"], "--compiler tpusim --set core.mxu.count=4");
  EXPECT_EQ(mxus["as_it_is_ms"], report(anew)["step_time_ms"]["mean"]);
  EXPECT_EQ(mxus["step_time_ms"], report(anew + " --set core.mxu.count=4")["step_time_ms"]["mean"]);
  // So it is without padding, whose time is that of a useful FLOP.
  const json& padding = variants["no padding"];
  ASSERT_TRUE(padding.contains("gain")) << padding;
  EXPECT_EQ(padding["settings"], "--compiler tpusim --feature-multiple 128");
  const json wide = report(anew + " --feature-multiple 128"), narrow = report(anew);
  EXPECT_EQ(padding["as_it_is_ms"], narrow["step_time_ms"]["mean"]);
  EXPECT_EQ(padding["step_time_ms"], wide["step_time_ms"]["mean"]);
  const double flops =
      wide["flops"]["model"].get<double>() / narrow["flops"]["model"].get<double>();
  EXPECT_NEAR(padding["gain"].get<double>(),
              1 - wide["step_time_ms"]["mean"].get<double>() /
                      narrow["step_time_ms"]["mean"].get<double>() / flops,
              1e-6);
  const json other = report("run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp");
  EXPECT_NE(mxus["as_it_is_ms"], other["step_time_ms"]["mean"]);
}

/// Who reads a buffer last belongs to the program: nothing changes where the results are written,
/// or where the program comes out of a file.
TEST_F(ProgramTest, ThePeakOfTheHbmDoesNotDependOnFiles) {
  ASSERT_EQ(tpusim("compile lenet --cores 1 -o lenet_program.h5").exit_code, 0);
  const std::string captured = TPUSIM_SOURCE_DIR "/workloads/captured/mlp";
  ASSERT_EQ(tpusim("compile " + captured + " -o mlp_program.h5").exit_code, 0);
  const auto peak = [&](const std::string& words) {
    return report(words)["memory"]["hbm_peak_bytes"].get<std::uint64_t>();
  };
  for (const auto& [workload, file] :
       {std::pair<std::string, std::string>{"lenet --cores 1", "lenet_program.h5"},
        {captured, "mlp_program.h5"}}) {
    const std::uint64_t alone = peak("run " + workload);
    EXPECT_EQ(peak("run " + workload + " -o run.h5"), alone) << workload;
    EXPECT_EQ(peak("run " + file), alone) << workload;
  }
}

TEST_F(ProgramTest, AWhatIfIsTheRunWithItsSettings) {
  const std::string words = "run mlp --cores 1 --batch 96";
  const json run = report(words + " --what-if -o run.h5");
  std::map<std::string, json> variants;
  for (const json& each : run["what_if"]["variants"]) variants[each["name"]] = each;
  for (const char* name : {"HBM free", "infeed free", "HBM and infeed free", "twice the MXUs",
                           "no padding", "batch 128 a core"}) {
    ASSERT_EQ(variants.count(name), 1u) << name;
    std::string changed = words;
    if (std::string(name) == "batch 128 a core") changed = "run mlp --cores 1";
    const json own = report(changed + " " + variants[name]["settings"].get<std::string>());
    EXPECT_EQ(variants[name]["step_time_ms"], own["step_time_ms"]["mean"]) << name;
    EXPECT_EQ(variants[name]["examples_per_s"], own["examples_per_s"]) << name;
  }
  EXPECT_EQ(variants.count("ICI free"), 0u);  // One core sends nothing.
  // Most of that step waits for the HBM: free, it takes less than half.
  EXPECT_GT(variants["HBM free"]["gain"].get<double>(), 0.4);
  EXPECT_GT(variants["batch 128 a core"]["gain"].get<double>(), 0.1);
  const std::string text = tpusim(words + " --what-if").out;
  EXPECT_NE(text.find("A free HBM gains at most"), std::string::npos) << text;
  EXPECT_NE(text.find("a multiple of 128 fills the lanes"), std::string::npos) << text;
  EXPECT_EQ(traces::read_run_file((folder_ / "run.h5").string()).what_if.size(), 6u);
  expect_error(words + " --what-if --values on", 2, "--what-if: expected --values off");
}

/// The data of a page.
json page_data(const fs::path& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string begin = "type=\"application/json\">";
  const std::size_t at = text.find(begin) + begin.size();
  return json::parse(text.substr(at, text.find("</script>", at) - at));
}

TEST_F(ProgramTest, APageAsksWhatIfOfARunAsItWasMade) {
  write("fast.toml", "base = \"v3-8\"\n[hbm]\npin_mbps = 2000\n");
  // Values, outputs and reports are no part of the question.
  const std::string words =
      "run mlp --config fast.toml --cores=1 --batch 96 --set hbm.latency_cycles=9";
  const json asked = report(words + " --what-if -o asked.h5");
  report(words + " --values on --outputs out.npz -o run.h5 --color never");
  ASSERT_EQ(tpusim("report run.h5 asked.h5 --what-if -o page.html").exit_code, 0);
  const json runs = page_data(folder_ / "page.html")["runs"];
  ASSERT_EQ(runs.size(), 2u);
  ASSERT_EQ(runs[0]["what_if"]["variants"].size(), 6u);
  EXPECT_EQ(runs[0]["what_if"]["variants"], asked["what_if"]["variants"]);
  EXPECT_EQ(runs[1]["what_if"]["variants"], asked["what_if"]["variants"]);
  // Unasked, too, but not where that is not wanted.
  ASSERT_EQ(tpusim("report run.h5 -o plain.html").exit_code, 0);
  EXPECT_EQ(page_data(folder_ / "plain.html")["runs"][0]["what_if"]["variants"],
            asked["what_if"]["variants"]);
  ASSERT_EQ(tpusim("report run.h5 --no-what-if -o plain.html").exit_code, 0);
  EXPECT_TRUE(page_data(folder_ / "plain.html")["runs"][0]["what_if"]["variants"].empty());
  expect_error("report run.h5 --what-if --no-what-if -o plain.html", 2, "found both");
  // The page is no file of the run.
  expect_error("report run.h5 --what-if -o fast.toml", 2, "a file of the configuration");
  write("fast.toml", "base = \"v3-8\"\n[hbm]\npin_mbps = 2001\n");
  expect_error(
      "report run.h5 --what-if -o late.html", 4,
      "run.h5: --what-if: expected the run of mlp on fast.toml as it was made, found another "
      "configuration");
  EXPECT_FALSE(fs::exists(folder_ / "late.html"));
  // Unasked it is a page with the reason.
  ASSERT_EQ(tpusim("report run.h5 -o late.html").exit_code, 0);
  const json late = page_data(folder_ / "late.html")["runs"][0];
  EXPECT_TRUE(late["what_if"]["variants"].empty());
  EXPECT_FALSE(late["what_if"]["same_program"].empty());
  EXPECT_NE(late["notes"].dump().find("found another configuration"), std::string::npos);
}

TEST_F(ProgramTest, APageAsksNothingOfAnotherProgramThanThatOfItsRun) {
  write("a.s", "kernel top\n  { %s0 = smov 7 }\n");
  ASSERT_EQ(tpusim("asm a.s -o a.h5").exit_code, 0);
  ASSERT_EQ(tpusim("run a.h5 -o run.h5").exit_code, 0);
  ASSERT_EQ(tpusim("report run.h5 --what-if -o page.html").exit_code, 0);
  EXPECT_FALSE(page_data(folder_ / "page.html")["runs"][0]["what_if"]["variants"].empty());
  write("a.s", "kernel top\n  { %s0 = smov 8 }\n");
  ASSERT_EQ(tpusim("asm a.s -o a.h5").exit_code, 0);
  expect_error("report run.h5 --what-if -o page.html", 4, "found another workload");
  // Another build of the program would take another time.
  traces::RunRecord record = traces::read_run_file((folder_ / "run.h5").string());
  ASSERT_EQ(tpusim("run a.h5 -o run.h5").exit_code, 0);
  record = traces::read_run_file((folder_ / "run.h5").string());
  record.result.cores[0].steps[0].end += 1;
  traces::write_run_file((folder_ / "late.h5").string(), record);
  expect_error("report late.h5 --what-if -o page.html", 4, "found another time of the step");
  record.command.clear();
  traces::write_run_file((folder_ / "late.h5").string(), record);
  expect_error("report late.h5 --what-if -o page.html", 4, "expected the command line of a run");
  record.command = {"report", "late.h5", "-o", "x"};
  traces::write_run_file((folder_ / "late.h5").string(), record);
  expect_error("report late.h5 --what-if -o page.html", 4, "expected the command line of a run");
}

TEST_F(ProgramTest, EveryCycleOfTheSequencersHasACause) {
  for (const char* words : {"run mlp --cores 1 --batch 128", "run mlp --cores 8 --batch 1024",
                            TPUSIM_SOURCE_DIR "/workloads/captured/mlp"}) {
    const std::string run =
        std::string(words).substr(0, 3) == "run" ? words : "run " + std::string(words);
    const json own = report(run);
    double sum = 0, compute = own["breakdown"]["compute"], schedule = 0;
    for (const auto& [name, share] : own["sequencer"].items()) {
      sum += share.get<double>();
      if (!own["breakdown"].contains(name)) schedule += share.get<double>();
    }
    EXPECT_NEAR(sum, 1, 1e-9) << words;
    EXPECT_NEAR(schedule, compute, 1e-9) << words;
    EXPECT_GT(own["sequencer"].size(), 8u) << words;
    for (const json& op : own["ops"]) {
      sum = 0;
      for (const auto& share : op["causes"]) sum += share.get<double>();
      EXPECT_NEAR(sum, op["cycles"] > 0 ? 1 : 0, 1e-9) << op["name"];
    }
  }
}

TEST_F(ProgramTest, ADiffSaysWhichOpAndWhichCause) {
  const std::string words = "run mlp --cores 1 --batch 128";
  const json fast = report(words + " -o a.h5");
  const json slow = report(words + " --set hbm.latency_cycles=1140 -o b.h5");
  const Outcome outcome = tpusim("diff a.h5 b.h5 --json -");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json diff = json::parse(outcome.out);
  const double change = 1e3 * (slow["step_time_ms"]["mean"].get<double>() -
                               fast["step_time_ms"]["mean"].get<double>());
  EXPECT_NEAR(diff["change_us"].get<double>(), change, 1e-6 * change);
  double ops = 0;
  for (const json& op : diff["ops"]) ops += op["change_us"].get<double>();
  EXPECT_NEAR(ops, change, 1e-6 * change);
  EXPECT_EQ(diff["ops"][0]["in"], json({true, true}));
  const auto waits = [&](int which) { return diff["causes"][which]["HBM"].get<double>(); };
  EXPECT_GT(waits(1) - waits(0), 0.5 * change);
  const json same = json::parse(tpusim("diff a.h5 a.h5 --json -").out);
  EXPECT_EQ(same["change_us"], 0);
  expect_error("diff a.h5", 2, "expected two files or more, A.h5 B.h5, found one");
  expect_error("diff a.h5 b.h5 --json b.h5", 2, "expected a file of its own");
  EXPECT_NE(tpusim("diff a.h5 b.h5").out.find("HBM +"), std::string::npos);
}

TEST_F(ProgramTest, AHostThatIsTooSlowBoundsTheStep) {
  const std::string words = "run mlp --cores 1 --batch 128 --set host.examples_per_s=10000";
  for (const char* steps : {"", " --steps 3"}) {
    const json run = report(words + steps);
    EXPECT_NEAR(run["step_time_ms"]["mean"].get<double>(), 128 / 10000.0 * 1e3, 0.01 * 12.8);
    EXPECT_GT(run["idle_fraction"].get<double>(), 0.9);
    EXPECT_EQ(run["ops"][0]["bound_by"], "host");
  }
  // Without the warm-up the first step also waits for the first batch.
  const json cold = report(words + " --warmup 0");
  EXPECT_GT(cold["step_time_ms"]["mean"].get<double>(), 1.01 * 12.8);
}

TEST_F(ProgramTest, ASlowHostIsTheCauseOfIdleOnEightCoresAsOnOne) {
  // Four vCPUs at 2.2 s an image.
  for (const char* cores : {"--cores 1", "--cores 8"}) {
    const json run = report(std::string("run lenet ") + cores + " --set host.examples_per_s=1.8");
    EXPECT_GE(run["idle_fraction"].get<double>(), 0.99);
    double on_ici = 0;
    for (const json& op : run["ops"]) {
      if (op["bound_by"] == "ICI") on_ici += op["fraction"].get<double>();
    }
    EXPECT_LT(on_ici, 0.01);
  }
}

TEST_F(ProgramTest, BundlesOfXlaRunOnTheArraysThatTheyWereMadeForAlone) {
  const std::string words = "run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp";
  for (const char* wrong : {"core.mxu.rows=256", "core.mxu.columns=256", "core.mxu.count=1"}) {
    expect_error(words + " --set " + wrong, 4, "XLA compiled these bundles for 2 MXUs of 128x128");
  }
  const json usual = report(words), more = report(words + " --set core.mxu.count=4");
  EXPECT_EQ(more["steps"], usual["steps"]);
  EXPECT_NE(more["notes"].dump().find("the others of 4 do nothing"), std::string::npos);
}

/// Where messages of the interconnect and packets differ, a run says by how much.
TEST_F(ProgramTest, AnAllToAllSaysWhatPacketsWouldTake) {
  const auto noted = [&](const std::string& operation, const std::string& flags) {
    std::ofstream(folder_ / "exchange.hlo")
        << "HloModule m, replica_count=8\nadd {\n  a = f32[] parameter(0)\n  b = f32[] "
           "parameter(1)\n"
        << "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  p = f32[8,8,128] parameter(0)\n"
        << "  ROOT r = f32[8,8,128] " << operation << "\n}\n";
    const json run = report("run " + (folder_ / "exchange.hlo").string() + flags);
    return run["notes"].dump().find("--detail ici=packet") != std::string::npos;
  };
  const std::string exchange = "all-to-all(p), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}";
  EXPECT_TRUE(noted(exchange, ""));
  EXPECT_FALSE(noted(exchange, " --detail ici=packet"));
  EXPECT_FALSE(noted("all-reduce(p), to_apply=add", ""));
}

TEST_F(ProgramTest, ATopologyIsASliceOfTheMachine) {
  const json run = report("run mlp --batch 256 --topology 2x2x2");
  EXPECT_EQ(run["cores"].size(), 16u);
  EXPECT_EQ(run["parameters"]["ici"]["mesh_z"], 2);
  expect_error(kSmall + " --topology 2", 2, "expected the chips along x, y");
}

/// On N cores `--core-batch B` is `--batch B*N`, in all that the report says of the run.
TEST_F(ProgramTest, ABatchOfACoreIsItsPartOfTheWholeBatch) {
  const auto run = [&](const std::string& words) {
    json all = report("run mlp --steps 2 --set host.examples_per_s=100000 " + words);
    all.erase("simulator");
    return all;
  };
  const json one = run("--cores 1 --core-batch 24");
  EXPECT_EQ(one, run("--cores 1 --batch 24"));
  EXPECT_EQ(one["batch"], 24);
  const json four = run("--cores 4 --core-batch 24");
  EXPECT_EQ(four, run("--cores 4 --batch 96"));
  EXPECT_EQ(four["batch"], 96);
  EXPECT_NE(four["steps"], one["steps"]);
  const json slice = run("--config v3-32 --core-batch 24");
  EXPECT_EQ(slice, run("--config v3-32 --batch 768"));
  EXPECT_EQ(slice["cores"].size(), 32u);
  EXPECT_EQ(slice["batch"], 24 * 32);
}

TEST_F(ProgramTest, TpuV4ComputesTheSameOnItsArraysAndSaysWhatItsTimeIsWorth) {
  const std::string words =
      "run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp --compiler tpusim --check --config ";
  const json v4 = report(words + "v4-8"), v3 = report(words + "v3-8");
  EXPECT_EQ(v4["parameters"]["core"]["mxu"]["count"], 4);
  EXPECT_NE(v4["notes"].dump().find("no time was compared with a chip"), std::string::npos);
  EXPECT_EQ(v3["notes"].dump().find("no time was compared with a chip"), std::string::npos);
  expect_error("run " TPUSIM_SOURCE_DIR "/tests/captured/scalars --config v4-8", 4,
               "expected listings for v4");
}

TEST_F(ProgramTest, LargePhotographsOnFourVcpusAreTheStoryOfIdleChips) {
  for (const std::string name : {"fly", "cached"}) {
    write(name + ".toml", "base = [\"v3-8\", \"hosts/kaggle\", \"datasets/large-jpegs" +
                              std::string(name == "fly" ? "" : "-cached") + "\"]\n");
  }
  // Where the threads bound, the chips wait whatever they compute: there the least network does.
  const std::string fly_words = "run lenet --batch 64 --config fly.toml";
  const std::string cached_words = "run resnet50 --batch 64 --config cached.toml";
  // Four epochs of 818 images: at 2.2 s each on four threads the 7.5 minutes that an epoch took.
  const std::string training = " --dataset 818 --epochs 4 --scenario kaggle-notebook";
  const json fly = report(fly_words + training);
  const double slow_s = fly["training"]["seconds"].get<double>();
  EXPECT_NEAR(slow_s / 4 / 60, 7.5, 0.3);
  EXPECT_GT(fly["idle_fraction"].get<double>(), 0.99);
  EXPECT_NEAR(fly["examples_per_s"].get<double>(), 4 / 2.2, 0.05);
  const std::string verdict = fly["host_verdict"].dump();
  EXPECT_NE(verdict.find("decode and augment bounds the input at 1.819 examples/s"),
            std::string::npos)
      << verdict;
  EXPECT_NE(verdict.find("cached in RAM"), std::string::npos) << verdict;
  // Presized, augmented and cached once: the chips still wait most of the time, the disk bounds.
  // With the epoch that fills the cache the training is about four times as fast.
  const json cached = report(cached_words + training);
  EXPECT_NEAR(slow_s / cached["training"]["seconds"].get<double>(), 4.3, 0.5);
  // 64 examples of 301,056 bytes at 252 MB/s take 76.5 ms; what the chips leave of it is idle.
  EXPECT_NEAR(cached["step_time_ms"]["mean"].get<double>(), 64 * 301056 / 252e3, 0.2);
  EXPECT_NEAR(cached["idle_fraction"].get<double>(), 0.79, 0.03);
  EXPECT_GT(cached["examples_per_s"].get<double>(), 4 * fly["examples_per_s"].get<double>());
  // 96 vCPUs on the fly: still the threads, and the verdict says how many would do.
  const json many = report(fly_words + " --set host.vcpus=96 --set host.ram_gib=624");
  EXPECT_LT(many["examples_per_s"].get<double>(), 96 / 2.2);
  EXPECT_GT(many["examples_per_s"].get<double>(), 0.8 * 96 / 2.2);
  EXPECT_NE(many["host_verdict"].dump().find("vCPUs instead of 96"), std::string::npos);
  // And on prepared examples in RAM: the chips.
  const json chips = report(cached_words +
                            " --set host.vcpus=96 --set input.cache=ram --set host.ram_gib=624"
                            " --set host.network_mb_per_s=4000");
  EXPECT_LT(chips["idle_fraction"].get<double>(), 0.05);
  EXPECT_EQ(chips["host_verdict"].size(), 0u);
  // Too many prepared examples for the RAM.
  expect_error(cached_words + " --set input.cache=ram --set input.images=100000", 3,
               "which has 16 GiB");
}

TEST_F(ProgramTest, FilesThatStayInRamAreReadInTheFirstEpochOnly) {
  write("host.toml",
        "base = [\"v3-8\", \"hosts/tpu-vm\", \"datasets/imagenet\"]\n"
        "[host]\nstorage_mb_per_s = 110\n[input]\nimages = 102400\n");
  const std::string words = "run lenet --batch 1024 --config host.toml ";
  const std::string training = "--dataset 102400 --epochs 2 --between compile.base_s=0 ";
  // Two epochs of files of 110 kB at 1,000 a second; behind the disk 96 threads of 9.1 ms.
  const json read = report(words + training);
  EXPECT_NEAR(read["training"]["seconds"].get<double>(), 204.8, 2);
  EXPECT_NE(read["host_verdict"].dump().find(
                "with files that stay in RAM once they were read (100.0 % of reads find their "
                "file there): "),
            std::string::npos)
      << read["host_verdict"];
  const double on_thread = 35.6e-9 * 187500 + 2400e-6 + 110000 / 1e10;
  const json kept = report(words + training + "--set input.page_cache=true");
  EXPECT_NEAR(kept["training"]["seconds"].get<double>(), 102.4 + 102400 * on_thread / 96, 2);
  // 10.5 GiB of files and less than 8 GiB for them.
  const json part = report(words + "--set input.page_cache=true --set host.ram_gib=8");
  const std::string verdict = part["host_verdict"].dump();
  EXPECT_NE(verdict.find("of 10.5 GiB of files, read in a new order in each epoch"),
            std::string::npos)
      << verdict;
  EXPECT_NE(verdict.find("with 11 GiB of RAM instead of 8 (100.0 %"), std::string::npos) << verdict;
  expect_error(words + "--set input.order=random", 3, "expected shuffled or sequential");
}

TEST_F(ProgramTest, AConfigurationFileIsTaken) {
  write("my.toml", "base = \"v3-8\"\nname = \"mine\"\nhbm.pin_mbps = 900\n");
  const json slow = report(kSmall + " --config my.toml"), usual = report(kSmall);
  EXPECT_GT(slow["step_time_ms"]["mean"].get<double>(),
            usual["step_time_ms"]["mean"].get<double>());
  EXPECT_EQ(slow["parameters"]["hbm"]["pin_mbps"], 900);
  EXPECT_EQ(report(kSmall + " --set hbm.pin_mbps=900")["steps"], slow["steps"]);
}

TEST_F(ProgramTest, ShowPrintsAConfigurationThatReadsBack) {
  const Outcome shown = tpusim("show v2-8 --set hbm.pin_mbps=900");
  ASSERT_EQ(shown.exit_code, 0);
  write("back.toml", shown.out);
  EXPECT_EQ(tpusim("show back.toml").out, shown.out);
}

TEST_F(ProgramTest, ListShowsWorkloadsAndMachines) {
  const Outcome listed = tpusim("list");
  EXPECT_EQ(listed.exit_code, 0);
  for (const char* word : {"resnet50", "transformer", "matmul", "v2-8", "v3-32", "hosts/kaggle"}) {
    EXPECT_NE(listed.out.find(word), std::string::npos) << word;
  }
}

TEST_F(ProgramTest, UsageErrorsExitWithTwo) {
  expect_error("rum mlp", 2, "no command \"rum\"; the nearest is \"run\"");
  expect_error("run mlp --stepz 2", 2, "no option --stepz of tpusim run; the nearest is --steps");
  expect_error("run mlp --batch 0", 2, "--batch: expected a whole number from 1");
  expect_error("run mlp --batch 1000000000000", 2, "--batch: expected a whole number from 1");
  expect_error("run mlp --batch 9 --cores 8", 2,
               "--batch: expected a multiple of the 8 cores that share it, found 9");
  expect_error("run mlp --cores 9", 2, "--cores: v3-8 has 8 cores, 0 to 7; found 9 cores");
  expect_error("run mlp --cores [8]", 2, "--cores: v3-8 has 8 cores, 0 to 7; found core 8");
  expect_error("run lenet --shape 8x8x8", 2, "shape");
  expect_error("run matmul --shape 8x8", 2, "shape");
  expect_error("run mlp --compiler xla", 2, "which only tpusim compiles");
  EXPECT_EQ(files(), 0u);
}

TEST_F(ProgramTest, ConfigurationErrorsExitWithThree) {
  write("bad.toml", "base = \"v3-8\"\n\n[hbm]\npin_mbs = 2000\n");
  expect_error("run mlp --config bad.toml", 3,
               "bad.toml:4:1: no parameter \"pin_mbs\" in hbm; the nearest is \"pin_mbps\"");
  expect_error("run mlp --config v3-9", 3, "no configuration \"v3-9\"; the nearest is \"v3-8\"");
  expect_error("run mlp --set hbm.pin_mbps=x", 3, "--set hbm.pin_mbps=x: expected a whole number");
  expect_error("run mlp --set clock_mhz=0", 3, "expected 1 to 20000 MHz, found 0");
  expect_error("show .toml", 3, ".toml");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ProgramTest, WorkloadErrorsExitWithFour) {
  write("x.hlo", "HloModule m\n");
  expect_error("run resnet5", 4, "no workload \"resnet5\"; the nearest is \"resnet50\"");
  expect_error("run x.hlo", 4, "x.hlo");
  expect_error("run .", 4,
               ".: expected a captured folder with one of v2.bundles, v3.bundles, v4.bundles (a "
               "folder or .tar.xz), found none");
  expect_error("disasm .", 4, ".: expected a program file of tpusim, found a directory");
  expect_error("disasm x.hlo", 4, "found another kind of file");
  expect_error("asm .", 4, ".: expected an assembler file, found a directory");
  expect_error("export x.hlo --format perfetto -o t", 4, "found another kind of file");
  expect_error("run mlp --cores 1 --values on --inputs no.npz", 4, "no.npz");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ProgramTest, AProgramCutInHalfIsRefused) {
  ASSERT_EQ(tpusim("compile matmul --shape 128x128x128 --cores 1 -o m.h5").exit_code, 0);
  fs::resize_file(folder_ / "m.h5", fs::file_size(folder_ / "m.h5") / 2);
  expect_error("run m.h5", 4, "the file is not complete");
  expect_error("disasm m.h5", 4, "the file is not complete");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ProgramTest, RandomBytesDoNotAssemble) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string bytes;
    for (int i = 0; i < 300; ++i) bytes += static_cast<char>(random());
    write("random.s", bytes);
    expect_error("asm random.s -o random.h5", 4, "random.s");
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(ProgramTest, OutputsThatCantBeWrittenAreNamedAndLeaveNothing) {
  for (const char* flag : {"--json ", "--output "}) {
    expect_error(kSmall + " " + flag + "/dev/full", 2, "/dev/full: can't write the output file");
    expect_error(kSmall + " " + flag + ".", 2,
                 "expected the name of an output file, found a "
                 "directory");
    expect_error(kSmall + " " + flag + "no/where", 2,
                 "no/where: can't create the output file: No such file or directory");
  }
  expect_error(kSmall + " --values on --outputs /dev/full", 2, "/dev/full: can't write");
  expect_error("compile matmul --cores 1 -o /dev/full", 2, "/dev/full: can't write");
  EXPECT_EQ(files(), 0u);
  const int status =
      std::system((std::string(TPUSIM_PROGRAM) + " list >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

TEST_F(ProgramTest, AnEndlessProgramEndsAsItsFault) {
  // |x| halved until it is below zero: never.
  std::ofstream(folder_ / "endless.hlo")
      << "HloModule endless\n"
         "condition { p = f32[] parameter(0)\n z = f32[] constant(0)\n"
         " ROOT more = pred[] compare(p, z), direction=GE }\n"
         "body { q = f32[] parameter(0)\n h = f32[] constant(0.5)\n"
         " ROOT next = f32[] multiply(q, h) }\n"
         "ENTRY e { x = f32[] parameter(0)\n a = f32[] abs(x)\n"
         " ROOT w = f32[] while(a), condition=condition, body=body }\n";
  expect_error("run endless.hlo --values on --max-cycles 200000 -o o.h5", 1,
               "the step has taken more than 200000 cycles, waits for the infeed aside: an endless "
               "loop, or --max-cycles has to allow more");
  expect_error("run endless.hlo --values on --max-trips 100 -o o.h5", 1,
               "w has made more than 100 trips: an endless loop, or --max-trips has to allow more");
  fs::remove(folder_ / "endless.hlo");
  EXPECT_EQ(files(), 0u);
  expect_error("run mlp --max-cycles 0", 2, "--max-cycles: expected a whole number from 1");
  expect_error("run mlp --max-trips 0", 2, "--max-trips: expected a whole number from 1");
}

TEST_F(ProgramTest, NothingIsPrintedOnStderrWhenAllIsWell) { EXPECT_EQ(tpusim(kSmall).err, ""); }

TEST_F(ProgramTest, WhatDoesNotFitGetsTheOutOfMemoryReport) {
  const Outcome outcome = tpusim("run matmul --shape 10000x100000x10000 --cores 1 --config v2-8");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_NE(outcome.first_line().find("Ran out of memory in memory space hbm. Used "),
            std::string::npos)
      << outcome.err;
}

/// True when a process has a file open in a folder, also one without a name.
bool has_file_in(pid_t process, const fs::path& folder) {
  std::error_code error;
  const fs::path descriptors = "/proc/" + std::to_string(process) + "/fd";
  for (const fs::directory_entry& entry : fs::directory_iterator(descriptors, error)) {
    if (fs::read_symlink(entry.path(), error).string().find(folder.string()) == 0) return true;
  }
  return false;
}

TEST_F(ProgramTest, ASignalLeavesNoFile) {
  for (const int signal_number : {SIGINT, SIGKILL}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(folder_.c_str()) != 0) ::_exit(1);
      if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(1);
      if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(1);
      ::execl(TPUSIM_PROGRAM, "tpusim", "run", "mlp", "--cores", "1", "--steps", "1000000",
              "--detail", "core=interpret", "--json", "report.json", static_cast<char*>(nullptr));
      ::_exit(1);
    }
    for (int i = 0; i < 200 && !has_file_in(child, folder_); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(has_file_in(child, folder_)) << "the unfinished report";
    ::kill(child, signal_number);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal_number);
    EXPECT_EQ(files(), 0u);
  }
}

float as_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&value, &bits, 4);
  return value;
}

TEST_F(ProgramTest, XlasMatmulComputesTheProductInTheTimeOfSilicon) {
  const std::string program = TPUSIM_SOURCE_DIR "/../shared/xla/ops/matmul_f32_512x512x512";
  if (!fs::exists(program)) GTEST_SKIP() << "no reference data beside the project";
  constexpr std::int64_t kSize = 512;
  std::mt19937 random(7);
  const auto matrix = [&] {
    std::vector<float> values(kSize * kSize);
    for (float& value : values) {
      value = static_cast<float>(static_cast<std::int32_t>(random()) / 2147483648.0);
    }
    return values;
  };
  const std::vector<float> a = matrix(), b = matrix();
  std::vector<float> product(kSize * kSize, 0);
  for (std::int64_t i = 0; i < kSize; ++i) {
    for (std::int64_t k = 0; k < kSize; ++k) {
      const float left = as_bf16(a[static_cast<std::size_t>(i * kSize + k)]);
      for (std::int64_t j = 0; j < kSize; ++j) {
        product[static_cast<std::size_t>(i * kSize + j)] +=
            left * as_bf16(b[static_cast<std::size_t>(k * kSize + j)]);
      }
    }
  }
  const auto array = [&](const std::vector<float>& values) {
    traces::NpzArray result;
    result.dimensions = {kSize, kSize};
    result.bytes.resize(values.size() * 4);
    std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
    return result;
  };
  traces::write_npz((folder_ / "v.npz").string(),
                    {{"arg_000", array(a)}, {"arg_001", array(b)}, {"out_000", array(product)}});
  const json run = report("run " + program + " --config v3-8 --values on --inputs v.npz " +
                          "--check v.npz --tolerance 1e-6");
  EXPECT_TRUE(run["checks"][0]["passed"].get<bool>());
  EXPECT_NEAR(run["steps"][0]["cycles"].get<double>(), 9490, 0.15 * 9490);
}

TEST_F(ProgramTest, CompilePrintsTheModuleAfterAPass) {
  const Outcome fused = tpusim("compile mlp --cores 1 --batch 16 --dump-after fuse");
  ASSERT_EQ(fused.exit_code, 0) << fused.err;
  EXPECT_EQ(fused.out.find("// after fuse\nHloModule "), 0u) << fused.out.substr(0, 100);
  EXPECT_NE(fused.out.find(" fusion("), std::string::npos);
  std::ofstream(folder_ / "fused.hlo") << fused.out;
  EXPECT_EQ(tpusim("show fused.hlo").exit_code, 0);
  const Outcome all = tpusim("compile mlp --cores 1 --batch 16 --dump-after all");
  EXPECT_NE(all.out.find("// after assign_layouts\n"), std::string::npos);
  EXPECT_NE(all.out.find("// after plan_hbm\n"), std::string::npos);
  expect_error("compile mlp --cores 1 --batch 16 --dump-after fused", 2, "no pass \"fused\"");
}

TEST_F(ProgramTest, ShowTakesMachinesAndWorkloads) {
  EXPECT_NE(tpusim("show v3-8").out.find("clock_mhz"), std::string::npos);
  const Outcome mlp = tpusim("show mlp --cores 1 --batch 16");
  ASSERT_EQ(mlp.exit_code, 0) << mlp.err;
  EXPECT_NE(mlp.out.find("Instructions by opcode"), std::string::npos);
  EXPECT_NE(mlp.out.find("Every kernel can be made."), std::string::npos);
  expect_error("show v3-8 --batch 4", 2, "expected a workload with these options");
}

TEST_F(ProgramTest, WhatDoesNotFitSaysWhichBatchWould) {
  const auto error_with = [&](const std::string& batch) {
    return tpusim("compile lenet --cores 1 -o l.h5 --batch " + batch).err;
  };
  const std::string report = error_with("1000000");
  const std::string no_room = "Ran out of memory in memory space hbm";
  EXPECT_NE(report.find(no_room), std::string::npos) << report;
  const std::string line = "The largest batch that fits is ";
  const std::size_t at = report.find(line);
  ASSERT_NE(at, std::string::npos) << report;
  const int batch = std::stoi(report.substr(at + line.size()));
  EXPECT_NE(error_with(std::to_string(batch + 1)).find(no_room), std::string::npos) << batch;
  EXPECT_EQ(error_with(std::to_string(batch)).find(no_room), std::string::npos) << batch;
}

TEST_F(ProgramTest, ModulesWhoseAnnotationIsNotUnderstoodNameIt) {
  std::ofstream(folder_ / "m.hlo")
      << "HloModule m, num_partitions=4\nENTRY main {\n  ROOT p = f32[8,8] parameter(0), "
         "sharding={devices=[4,1]0,1,3,2}\n}\n";
  expect_error("run m.hlo", 4, "annotation of \"p\"");
  expect_error("run m.hlo", 4, "expected devices in the order of a mesh");
}

TEST_F(ProgramTest, ModulesWithAnnotationsRunOnTheirDevices) {
  std::ofstream(folder_ / "m.hlo")
      << "HloModule m\nENTRY main {\n  p = f32[16,128] parameter(0), "
         "sharding={devices=[8,1]<=[8]}\n  ROOT r = f32[16,128] add(p, p)\n}\n";
  EXPECT_NE(tpusim("run m.hlo").out.find("8 cores"), std::string::npos);
  expect_error("run m.hlo --cores 4", 2, "expected 8");
}

}  // namespace
}  // namespace tpu::app::program_test
