#include "sim/app/arguments.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace tpu::app::arguments_test {
namespace {

Arguments parse(const std::vector<std::string>& words) {
  const std::optional<Arguments> arguments = parse_arguments(words);
  EXPECT_TRUE(arguments.has_value());
  return arguments.value_or(Arguments{});
}

std::string error_of(const std::vector<std::string>& words) {
  try {
    parse_arguments(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Arguments, FlagsArriveWhereTheyBelong) {
  const Arguments arguments = parse({"run",      "conv",
                                     "--config", "v2-8",
                                     "--cores",  "4",
                                     "--set",    "hbm.pin_mbps=2000",
                                     "--set",    "clock_mhz=1000",
                                     "--steps",  "3",
                                     "--shape",  "1x2x3x4x5",
                                     "--pass",   "wgrad",
                                     "--values", "on",
                                     "--seed",   "7",
                                     "--json",   "-",
                                     "-o",       "x.h5",
                                     "--detail", "core=interpret"});
  EXPECT_EQ(arguments.command, "run");
  EXPECT_EQ(arguments.input, "conv");
  EXPECT_EQ(arguments.configs, (std::vector<std::string>{"v2-8"}));
  EXPECT_EQ(arguments.cores->count, 4u);
  EXPECT_EQ(arguments.settings, (std::vector<std::string>{"hbm.pin_mbps=2000", "clock_mhz=1000"}));
  EXPECT_EQ(arguments.steps, 3u);
  EXPECT_EQ(arguments.workload.shape, "1x2x3x4x5");
  EXPECT_EQ(arguments.workload.pass, "wgrad");
  EXPECT_TRUE(arguments.values);
  EXPECT_TRUE(arguments.interpret);
  EXPECT_EQ(arguments.seed, 7u);
  EXPECT_EQ(arguments.json, "-");
  EXPECT_EQ(arguments.output, "x.h5");
}

TEST(Arguments, WithoutFlagsThereAreDefaults) {
  const Arguments arguments = parse({"run", "mlp"});
  EXPECT_EQ(arguments.configs, (std::vector<std::string>{"v3-8"}));
  EXPECT_EQ(arguments.steps, 1u);
  EXPECT_FALSE(arguments.cores.has_value());
  EXPECT_FALSE(arguments.batch.has_value());
  EXPECT_FALSE(arguments.values);
}

TEST(Arguments, MachinesOfACompareAreAList) {
  EXPECT_EQ(parse({"compare", "mlp", "--configs", "v2-8,my.toml"}).configs,
            (std::vector<std::string>{"v2-8", "my.toml"}));
  EXPECT_EQ(error_of({"compare", "mlp"}),
            "tpusim compare: expected --configs, such as --configs v2-8,v3-8");
  EXPECT_EQ(error_of({"compare", "mlp", "--configs", "v2-8,,v3-8"}),
            "--configs: expected names, found an empty one");
  EXPECT_EQ(error_of({"compare", "mlp", "--configs", "v2-8"}),
            "--configs: expected two machines or more, such as v2-8,v3-8, found v2-8; tpusim run "
            "takes one");
  EXPECT_EQ(error_of({"compare", "mlp", "--configs", "v2-8,v3-8,v2-8"}),
            "--configs: expected different machines, found v2-8 twice");
}

TEST(Cores, AreANumberOrOneAlone) {
  EXPECT_EQ(parse_cores("8").count, 8u);
  EXPECT_EQ(parse_cores("8").first, 0u);
  EXPECT_EQ(parse_cores("[5]").count, 1u);
  EXPECT_EQ(parse_cores("[5]").first, 5u);
  const std::string range = "--cores: expected a whole number from ";
  EXPECT_EQ(error_of({"run", "mlp", "--cores", "0"}), range + "1 to 65536, found \"0\"");
  EXPECT_EQ(error_of({"run", "mlp", "--cores", "[]"}), range + "1 to 65536, found \"[]\"");
  EXPECT_EQ(error_of({"run", "mlp", "--cores", "[x]"}), range + "0 to 65536, found \"x\"");
}

TEST(Errors, AnUnknownCommandNamesTheNearest) {
  const std::string error = error_of({"rum", "mlp"});
  EXPECT_EQ(error.find("no command \"rum\"; the nearest is \"run\" (there are: run, compare, "),
            0u);
  EXPECT_NE(error.find("; tpusim --help explains them"), std::string::npos);
  EXPECT_EQ(error_of({}), "expected a command, found nothing; tpusim --help lists them");
}

TEST(Errors, AnUnknownFlagNamesTheNearest) {
  EXPECT_EQ(error_of({"run", "mlp", "--step", "3"}),
            "no option --step of tpusim run; the nearest is --steps; tpusim run --help lists them");
  EXPECT_EQ(error_of({"run", "mlp", "--learning=3"}),
            "no option --learning of tpusim run; the nearest is --learning-rate; tpusim run --help "
            "lists them");
  EXPECT_EQ(error_of({"list", "--xyzzyxyzzy"}),
            "no option --xyzzyxyzzy of tpusim list; tpusim list --help lists them");
  EXPECT_EQ(error_of({"compare", "mlp", "--config", "v3-8"}),
            "no option --config of tpusim compare; the nearest is --configs; tpusim compare --help "
            "lists them");
}

TEST(Errors, AWrongValueIsNamedWithItsFlag) {
  const auto error = [](const std::string& flag, const std::string& value) {
    return error_of({"run", "mlp", flag, value});
  };
  EXPECT_EQ(error("--batch", "0"),
            "--batch: expected a whole number from 1 to 2147483648, found \"0\"");
  EXPECT_EQ(error("--batch", "1000000000000"),
            "--batch: expected a whole number from 1 to 2147483648, found \"1000000000000\"");
  EXPECT_EQ(error("--batch", "99999999999999999999999"),
            "--batch: expected a whole number from 1 to 2147483648, found "
            "\"99999999999999999999999\"");
  EXPECT_EQ(error("--core-batch", "0"),
            "--core-batch: expected a whole number from 1 to 2147483648, found \"0\"");
  EXPECT_EQ(error("--batch", "8.5"),
            "--batch: expected a whole number from 1 to 2147483648, found \"8.5\"");
  EXPECT_EQ(error("--steps", "0"),
            "--steps: expected a whole number from 1 to 1000000, found \"0\"");
  EXPECT_EQ(error("--values", "yes"), "--values: expected on or off, found \"yes\"");
  EXPECT_EQ(error("--detail", "mxu=pe"),
            "--detail: expected core=interpret, core=blocks, mxu=array, mxu=ports, "
            "hbm=command, hbm=closed, ici=packet, ici=message, pod=full, pod=folded, values=on or "
            "values=off, found \"mxu=pe\"");
  EXPECT_EQ(error("--compiler", "gcc"), "--compiler: no \"gcc\" (there are: xla, tpusim)");
  EXPECT_EQ(error("--log", "inf"),
            "--log: no \"inf\"; the nearest is \"info\" (there are: error, warning, info, debug)");
  EXPECT_EQ(error("--seed", "-1"),
            "--seed: expected a whole number from 0 to 18446744073709551615, found \"-1\"");
  EXPECT_EQ(error("--config", ""), "--config: expected a value, found none");
}

TEST(Errors, MissingOrSurplusArgumentsAreNamed) {
  EXPECT_EQ(error_of({"run"}),
            "tpusim run: expected WORKLOAD, found nothing; tpusim run --help explains it");
  EXPECT_EQ(error_of({"run", "mlp", "lenet"}),
            "tpusim run: expected one WORKLOAD, found also \"lenet\"");
  EXPECT_EQ(error_of({"list", "mlp"}), "tpusim list: expected no argument, found also \"mlp\"");
  EXPECT_EQ(error_of({"compile", "mlp"}), "tpusim compile: expected -o FILE");
  EXPECT_EQ(error_of({"export", "run.h5", "-o", "x"}),
            "tpusim export: expected --format, such as --format perfetto");
  EXPECT_EQ(error_of({"export", "run.h5", "-o", "x", "--format", "perfeto"}),
            "--format: no \"perfeto\"; the nearest is \"perfetto\" (there are: perfetto, xplane, "
            "chrome, csv, vcd, konata)");
  EXPECT_NE(error_of({"run", "mlp", "--steps"}).find("--steps"), std::string::npos);
}

TEST(Errors, FilesOfValuesNeedValues) {
  EXPECT_TRUE(parse_arguments({"run", "mlp", "--inputs", "x.npz"})->values);
  EXPECT_FALSE(parse_arguments({"run", "mlp", "--values", "off", "--inputs", "x.npz"})->values);
  for (const char* flag : {"--outputs", "--check"}) {
    EXPECT_EQ(error_of({"run", "mlp", "--values", "off", flag, "x.npz"}),
              std::string(flag) + ": expected --values on beside it");
    EXPECT_TRUE(parse_arguments({"run", "mlp", flag, "x.npz"})->values);
  }
  EXPECT_EQ(parse_arguments({"run", "mlp/", "--check"})->check, "mlp/values.npz");
  EXPECT_EQ(parse_arguments({"run", "--check", "--seed", "1", "mlp"})->check, "mlp/values.npz");
  EXPECT_EQ(error_of({"run", "mlp", "--tolerance", "0.1"}),
            "--tolerance: expected --check beside it");
}

TEST(Paths, AreStatedByNameAndNumber) {
  const auto arguments = parse_arguments({"run", "step/", "--trips", "while.3=12", "--trips",
                                          "a=b=0", "--branch", "cond.1=2", "--inputs", "x.npz"});
  const std::vector<std::pair<std::string, std::uint64_t>> trips{{"while.3", 12}, {"a=b", 0}};
  const std::vector<std::pair<std::string, std::uint64_t>> branches{{"cond.1", 2}};
  EXPECT_EQ(arguments->trips, trips);
  EXPECT_EQ(arguments->branches, branches);
  EXPECT_FALSE(arguments->values);
  EXPECT_EQ(error_of({"run", "mlp", "--trips", "while.3"}),
            "--trips: expected LOOP=N, such as while.3=12; found \"while.3\"");
  EXPECT_EQ(error_of({"run", "mlp", "--branch", "=1"}),
            "--branch: expected CONDITIONAL=K, such as conditional.3=0; found \"=1\"");
  EXPECT_NE(error_of({"run", "mlp", "--branch", "cond=x"}).find("--branch: expected a whole"),
            std::string::npos);
  EXPECT_EQ(error_of({"run", "mlp", "--values", "on", "--trips", "while.3=1"}),
            "--trips: expected --values off beside it: with values on the data decides");
}

TEST(Help, ListsEveryCommandAndItsOptions) {
  for (const char* command :
       {"run", "compare", "compile", "disasm", "asm", "export", "list", "show"}) {
    EXPECT_NE(help_text().find(std::string("tpusim ") + command), std::string::npos);
    EXPECT_NE(help_text(command).find("--help"), std::string::npos);
  }
  EXPECT_NE(help_text("run").find("--tolerance"), std::string::npos);
  EXPECT_EQ(help_text("export").find("--batch"), std::string::npos);
}

/// What bash makes of the script for the last of these words.
std::string completed(const std::string& words, int last) {
  const std::string script = "source <(" TPUSIM_PROGRAM " completion); COMP_WORDS=(tpusim " +
                             words + "); COMP_CWORD=" + std::to_string(last) +
                             "; cd /; _tpusim; echo ${COMPREPLY[@]}";
  FILE* pipe = ::popen(("bash -c '" + script + "'").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  ::pclose(pipe);
  return text;
}

TEST(Completion, KnowsCommandsOptionsAndNames) {
  EXPECT_EQ(completed("co", 1), "compare compile completion\n");
  EXPECT_EQ(completed("run --wh", 2), "--what-if\n");
  EXPECT_EQ(completed("export --wi", 2), "--window\n");
  EXPECT_EQ(completed("run bert", 2), "bert bert-large\n");
  EXPECT_EQ(completed("run mlp --config v2-1", 4), "v2-128\n");
  EXPECT_EQ(completed("run mlp --set core.mxu.co", 4), "core.mxu.count= core.mxu.columns=\n");
  EXPECT_EQ(completed("sweep st", 2), "status\n");
}

}  // namespace
}  // namespace tpu::app::arguments_test
