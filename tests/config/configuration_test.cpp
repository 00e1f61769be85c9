#include "sim/config/configuration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "isa/generation.h"
#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "sim/config/built_in.h"
#include "sim/config/limits.h"
#include "sim/config/slice.h"

namespace tpu::config::configuration_test {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::string& text) {
  try {
    check(parse_configuration(text, "my.toml"));
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

std::string error_of_setting(const std::string& assignment) {
  try {
    Configuration configuration = load_configuration("v3-8");
    apply_setting(configuration, assignment);
    check(configuration);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(BuiltIn, TheChipsDifferAsPublished) {
  const MachineParams v2 = load_configuration("v2-8").params;
  const MachineParams v3 = load_configuration("v3-8").params;
  EXPECT_EQ(v2.clock_mhz, 700u);
  EXPECT_EQ(v3.clock_mhz, 940u);
  EXPECT_EQ(v2.core.mxu.count, 1u);
  EXPECT_EQ(v3.core.mxu.count, 2u);
  EXPECT_EQ(v2.cores(), 8u);
  EXPECT_EQ(v3.cores(), 8u);
  EXPECT_NEAR(v2.core_peak_flops() * 2, 45.9e12, 0.05e12);
  EXPECT_NEAR(v3.core_peak_flops() * 2, 123.2e12, 0.05e12);
  EXPECT_NEAR(static_cast<double>(v2.core_hbm_bytes()) / (1 << 30), 7.48, 0.005);
  EXPECT_NEAR(static_cast<double>(v3.core_hbm_bytes()) / (1 << 30), 15.48, 0.005);
  EXPECT_EQ(load_configuration("v2-32").params.cores(), 32u);
  EXPECT_EQ(load_configuration("v3-32").params.cores(), 32u);
}

TEST(BuiltIn, EveryMachineIsInRange) {
  for (const std::string& name : built_in_names()) {
    EXPECT_NO_THROW(check(load_configuration(name))) << name;
    EXPECT_EQ(load_configuration(name).params.name, name);
  }
}

TEST(BuiltIn, SlicesHaveTheCoresOfTheirNameAndAreWiredAsTheRealOnes) {
  for (const std::string& name : built_in_names()) {
    const MachineParams params = load_configuration(name).params;
    EXPECT_EQ(params.chip + "-" + std::to_string(params.cores()), name);
    const isa::Topology wired =
        isa::generation(params.chip)
            .slice({params.ici.mesh_x, params.ici.mesh_y, params.ici.mesh_z});
    EXPECT_EQ(params.ici.wrap_x, wired.dimension(0).wraps) << name;
    EXPECT_EQ(params.ici.wrap_y, wired.dimension(1).wraps) << name;
    EXPECT_EQ(params.ici.wrap_z, wired.dimension(2).wraps) << name;
  }
}

TEST(Slice, TheTopologyOfTheCommandLineIsWiredAsTheRealOnes) {
  Configuration configuration = load_configuration("v2-8");
  apply_topology(configuration, "8x16");
  EXPECT_EQ(configuration.params.cores(), 256u);
  EXPECT_TRUE(configuration.params.ici.wrap_y);
  EXPECT_FALSE(configuration.params.ici.wrap_x);
  apply_topology(configuration, "2x3x4");
  EXPECT_EQ(configuration.params.topology().text(), "2x3x4");
  EXPECT_FALSE(configuration.params.ici.wrap_y);
  EXPECT_EQ(configuration.origins["ici.mesh_z"].where, "--topology 2x3x4");
  for (const char* wrong :
       {"", "4", "4x", "x4", "4x4x4x4", "0x4", "4x-1", "4x4 ", "99999999999x1"}) {
    EXPECT_THROW(apply_topology(configuration, wrong), UsageError) << wrong;
  }
  apply_topology(configuration, "64x64");
  EXPECT_THROW(check(configuration), ConfigurationError);
}

TEST(BuiltIn, EveryNumberOfEveryMachineHasASource) {
  for (const std::string& name : built_in_names()) {
    const Configuration configuration = load_configuration(name);
    for (const ParameterValue& parameter : parameter_table(configuration.params)) {
      if (parameter.path == "name" || parameter.path == "chip") continue;
      const auto origin = configuration.origins.find(parameter.path);
      ASSERT_NE(origin, configuration.origins.end()) << name << ": " << parameter.path;
      EXPECT_NE(origin->second.source, "") << name << ": " << parameter.path;
    }
  }
}

TEST(BuiltIn, EveryFileOfTheFoldersIsInTheProgram) {
  std::size_t count = 0;
  for (const char* const name : {"models/configs", "workloads/scenarios/datasets"}) {
    const fs::path folder = fs::path(TPUSIM_SOURCE_DIR) / name;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".toml") ++count;
    }
  }
  EXPECT_EQ(built_in_files().size(), count);
}

TEST(Limits, EveryNumberHasThem) {
  const MachineParams params;
  visit_parameters(params, "", [](const std::string& path, const auto&, const auto& value) {
    using Type = std::decay_t<decltype(value)>;
    const bool number = std::is_same_v<Type, std::uint32_t> || std::is_same_v<Type, double>;
    EXPECT_EQ(limits_of(path) != nullptr, number) << path;
  });
}

TEST(Configuration, AFileInheritsFromItsBase) {
  const Configuration configuration = parse_configuration(
      "base = \"v2-8\"\nname = \"mine\"\n[hbm]\npin_mbps = 2000  # measured by me\n", "my.toml");
  EXPECT_EQ(configuration.params.name, "mine");
  EXPECT_EQ(configuration.params.chip, "v2");
  EXPECT_EQ(configuration.params.clock_mhz, 700u);
  EXPECT_EQ(configuration.params.hbm.pin_mbps, 2000u);
  EXPECT_EQ(configuration.origins.at("hbm.pin_mbps").where, "my.toml:4:1");
  EXPECT_EQ(configuration.origins.at("hbm.pin_mbps").source, "measured by me");
  EXPECT_EQ(configuration.origins.at("clock_mhz").where.substr(0, 13), "chips/v2.toml");
  EXPECT_EQ(configuration.origins.at("clock_mhz").source, "CACM");
}

TEST(Configuration, LaterBasesWin) {
  const Configuration configuration =
      parse_configuration("base = [\"v3-8\", \"hosts/kaggle\"]\n", "my.toml");
  EXPECT_EQ(configuration.params.host.vcpus, 4u);
  EXPECT_EQ(configuration.params.input.images, 1281167u);
}

TEST(Configuration, ABaseFileIsRelativeToTheFileThatNamesIt) {
  std::string pattern = (fs::temp_directory_path() / "tpusim-config-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  fs::create_directory(folder / "sub");
  std::ofstream(folder / "a.toml") << "base = \"v3-8\"\nclock_mhz = 1000\n";
  std::ofstream(folder / "sub/b.toml") << "base = \"../a.toml\"\n";
  EXPECT_EQ(load_configuration((folder / "sub/b.toml").string()).params.clock_mhz, 1000u);
  std::ofstream(folder / "a.toml") << "base = \"a.toml\"\n";
  try {
    load_configuration((folder / "a.toml").string());
    ADD_FAILURE() << "no error";
  } catch (const ConfigurationError& error) {
    const std::string file = (folder / "a.toml").string();
    EXPECT_EQ(error.what(), file + ": the configuration is its own base, through " + file);
  }
  try {
    load_configuration((folder / "c.toml").string());
    ADD_FAILURE() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.what(), (folder / "c.toml").string() +
                                ": expected a configuration file: No such file or directory");
  }
  fs::create_directory(folder / "d.toml");
  try {
    load_configuration((folder / "d.toml").string());
    ADD_FAILURE() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.what(),
              (folder / "d.toml").string() + ": expected a configuration file, found a directory");
  }
  fs::remove_all(folder);
}

TEST(Configuration, AnUnknownKeyIsNamedWithItsPlaceAndTheNearest) {
  EXPECT_EQ(
      error_of("[hbm]\ngib = 16\n  pin_mbs = 1800\n"),
      "my.toml:3:3: no parameter \"pin_mbs\" in hbm; the nearest is \"pin_mbps\" (there are: "
      "gib, channels, channel_bits, pseudo_channels, pin_mbps, burst_beats, banks, row_bytes, "
      "refresh_interval_ns, refresh_ns, first_refresh_ns, precharge_ns, read_activate_ns, "
      "write_activate_ns, "
      "read_latency_ns, write_latency_ns, read_to_precharge_ns, write_recovery_ns, "
      "write_to_read_ns, bus_turn_clocks, drain_bursts, latency_cycles, reserved_mib, command)");
  EXPECT_EQ(error_of("[core.mxu]\nrow = 128\n"),
            "my.toml:2:1: no parameter \"row\" in core.mxu; the nearest is \"rows\" (there are: "
            "count, rows, columns, sum_cells_per_cycle, operand_cells_per_cycle, pipeline_stages, "
            "result_queue_entries)");
  EXPECT_EQ(error_of("clock = 1\n"),
            "my.toml:1:1: no parameter \"clock\" at the top level; the nearest is "
            "\"clock_mhz\" (there are: name, chip, clock_mhz, slow_chips, slow_hosts, "
            "cores_per_chip, core, "
            "hbm, dma, ici, host, input, base)");
}

TEST(Configuration, AWrongTypeIsNamedWithItsPlace) {
  EXPECT_EQ(error_of("[hbm]\npin_mbps = \"fast\"\n"),
            "my.toml:2:12: hbm.pin_mbps: expected a whole number from 0 to 4294967295, found the "
            "string \"fast\"");
  EXPECT_EQ(error_of("clock_mhz = -5"),
            "my.toml:1:13: clock_mhz: expected a whole number from 0 to 4294967295, found -5");
  EXPECT_EQ(error_of("clock_mhz = 4294967296"),
            "my.toml:1:13: clock_mhz: expected a whole number from 0 to 4294967295, found "
            "4294967296");
  EXPECT_EQ(error_of("clock_mhz = 940.5"),
            "my.toml:1:13: clock_mhz: expected a whole number from 0 to 4294967295, found 940.5");
  EXPECT_EQ(error_of("name = 3"), "my.toml:1:8: name: expected a string, found 3");
  EXPECT_EQ(error_of("ici.wrap_x = 1"),
            "my.toml:1:14: ici.wrap_x: expected true or false, found 1");
  EXPECT_EQ(error_of("host.examples_per_s = nan"),
            "my.toml:1:23: host.examples_per_s: expected a number, found nan");
  EXPECT_EQ(error_of("hbm = 5"), "my.toml:1:7: hbm: expected a table [hbm], found 5");
  EXPECT_EQ(error_of("base = 5"),
            "my.toml:1:8: base: expected the name of a configuration, found 5");
}

TEST(Configuration, AWholeNumberIsTakenWhereANumberIsExpected) {
  EXPECT_EQ(parse_configuration("host.examples_per_s = 100", "x").params.host.examples_per_s, 100);
}

TEST(Configuration, TextThatIsNoTomlIsAnErrorWithItsPlace) {
  EXPECT_EQ(error_of("a = = 3").substr(0, 12), "my.toml:1:5:");
  EXPECT_EQ(error_of("[hbm\n").substr(0, 10), "my.toml:1:");
  EXPECT_NE(error_of(std::string("\x00\xff\xfe", 3)), "");
}

TEST(Configuration, RangesAreCheckedWithTheirPlace) {
  EXPECT_EQ(error_of("base = \"v3-8\"\nclock_mhz = 0\n"),
            "my.toml:2:1: clock_mhz: expected 1 to 20000 MHz, found 0");
  EXPECT_EQ(error_of("base = \"v3-8\"\nclock_mhz = 20000\n"), "");
  EXPECT_EQ(error_of("base = \"v3-8\"\nclock_mhz = 20001\n"),
            "my.toml:2:1: clock_mhz: expected 1 to 20000 MHz, found 20001");
  EXPECT_EQ(error_of("base = \"v3-8\"\ncore.mxu.rows = 640\n"),
            "my.toml:2:10: core.mxu.rows: expected 128 to 512 (a multiple of 128: the instruction "
            "set pushes vector registers of 8 x 128 into it), found 640");
  EXPECT_EQ(error_of("base = \"v3-8\"\ncore.mxu.rows = 256\n"), "");
  EXPECT_EQ(
      error_of("base = \"v3-8\"\ncore.mxu.columns = 192\n"),
      "my.toml:2:10: core.mxu.columns: expected a multiple of 128 (the instruction set pushes "
      "vector registers of 8 x 128 into it), found 192");
  EXPECT_EQ(error_of("base = \"v3-8\"\nchip = \"v1\"\n"),
            "my.toml:2:1: chip: expected v2, v3 or v4, found \"v1\"");
  EXPECT_EQ(error_of("base = \"v3-8\"\nhbm.channels = 33\n"),
            "my.toml:2:5: hbm.channels: expected a multiple of cores_per_chip = 2, found 33");
  EXPECT_EQ(error_of("base = \"v3-8\"\nhbm.reserved_mib = 16384\n"),
            "my.toml:2:5: hbm.reserved_mib: expected less than a core's share of the HBM, 16384 "
            "MiB, found 16384");
  EXPECT_EQ(error_of("base = \"v3-8\"\nhbm.refresh_ns = 3900\n"),
            "my.toml:2:5: hbm.refresh_ns: expected that a refresh and the reopening of a row take "
            "less than hbm.refresh_interval_ns (3510 memory clocks), found 3536");
  EXPECT_EQ(error_of("base = \"v3-8\"\nhbm.pseudo_channels = 3\n"),
            "my.toml:2:5: hbm.pseudo_channels: expected a divisor of hbm.channel_bits = 128, found "
            "3");
}

TEST(Configuration, AnUnknownNameIsAnErrorWithTheNearest) {
  try {
    load_configuration("v3-9");
    FAIL() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(std::string(error.what()),
              "no configuration \"v3-9\"; the nearest is \"v3-8\" (there are: v2-8, v2-32, v2-128, "
              "v2-256, v2-512, v3-8, v3-32, v3-64, v3-128, v3-256, v3-512, v3-1024, v3-2048, v4-8, "
              "v4-64); the name of a file has to end in .toml");
  }
  const std::string error = error_of("base = \"hosts/kagle\"\n");
  EXPECT_EQ(error.find("my.toml:1:8: base: no configuration \"hosts/kagle\"; the nearest is "
                       "\"hosts/kaggle\" (there are: v2-8, v2-32"),
            0u)
      << error;
}

class ConfigurationFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-config-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "my.toml").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string error_of_file(const std::string& text) const {
    std::ofstream(path_) << text;
    try {
      load_configuration(path_);
    } catch (const ConfigurationError& error) {
      return std::string(error.what()).substr(path_.size());
    }
    return "";
  }
  fs::path folder_;
  std::string path_;
};

TEST_F(ConfigurationFile, ThatLeavesTheMachineOpenIsRefused) {
  EXPECT_EQ(error_of_file("base = \"v2-8\"\nhbm.pin_mbps = 2000\n"), "");
  const std::string expected =
      ": expected a machine to start from, such as base = \"v3-8\", or every parameter; ";
  for (const char* text : {"", "hbm.pin_mbps = 2000\n", "base = \"hosts/kaggle\"\n"}) {
    EXPECT_EQ(error_of_file(text).substr(0, expected.size()), expected) << text;
  }
  // What `tpusim show` prints is whole without a base.
  std::string all = to_toml(load_configuration("v2-8"));
  EXPECT_EQ(error_of_file(all), "");
  const std::size_t line = all.find("pin_mbps");
  all.erase(line, all.find('\n', line) - line);
  EXPECT_EQ(error_of_file(all), expected + "hbm.pin_mbps is not set");
}

TEST_F(ConfigurationFile, NamesTheFilesThatItWasReadFrom) {
  const std::string base = (folder_ / "base.toml").string();
  std::ofstream(base) << "base = \"v3-8\"\n";
  std::ofstream(path_) << "base = \"base.toml\"\n";
  EXPECT_EQ(load_configuration(path_).files, (std::vector<std::string>{path_, base}));
}

TEST(Configuration, AKeyOfTooManyPartsIsRefused) {
  const auto key = [](const std::string& part, std::size_t parts) {
    std::string text = part;
    for (std::size_t i = 1; i < parts; ++i) text += "." + part;
    return text;
  };
  for (const char* part : {"a", "\"a\"", "'='", " a "}) {
    for (const std::size_t parts : {17, 100000}) {
      const std::string expected =
          "my.toml: expected keys of at most 16 parts, such as hbm.pin_mbps, found one of " +
          std::to_string(parts);
      EXPECT_EQ(error_of(key(part, parts) + " = 1\n"), expected) << part;
      EXPECT_EQ(error_of("[" + key(part, parts) + "]\n"), expected) << part;
      EXPECT_EQ(error_of("x = [{" + key(part, parts) + "={}}]\n"), expected) << part;
    }
  }
  const std::string base = "base = \"v3-8\"\n", dots(100, '.');
  EXPECT_EQ(error_of(base + "name = \"" + dots + "\"  # it's " + dots + "\n#" + dots + "\n"), "");
  EXPECT_EQ(error_of(base + "name = '''\n" + dots + "'''\n"), "");
}

/// 900 GB/s over 32 channels of 128 pins are 900 x 8000 / 4096 = 1757.8 Mb/s a pin.
TEST(Setting, QuantitiesThatUsersThinkInSetAParameter) {
  Configuration configuration = load_configuration("v3-8");
  apply_setting(configuration, "hbm.gb_per_s=900");
  EXPECT_EQ(configuration.params.hbm.pin_mbps, 1758u);
  EXPECT_EQ(configuration.origins["hbm.pin_mbps"].where, "--set hbm.gb_per_s=900");
  apply_setting(configuration, "hbm.channels=16");
  apply_setting(configuration, "hbm.gb_per_s=900");
  EXPECT_EQ(configuration.params.hbm.pin_mbps, 3516u);
  apply_setting(configuration, "ici.link_gb_per_s=100");
  EXPECT_EQ(configuration.params.ici.link_mbps, 800000u);
  EXPECT_THROW(apply_setting(configuration, "hbm.gb_per_s=-1"), ConfigurationError);
  EXPECT_THROW(apply_setting(configuration, "hbm.gb_per_s=fast"), ConfigurationError);
  EXPECT_THROW(apply_setting(configuration, "hbm.gb_per_s=1e300"), ConfigurationError);
}

TEST(Setting, SingleChipsAndLinks) {
  Configuration configuration = load_configuration("v3-8");
  apply_setting(configuration, "chip[3].clock_mhz=470");
  apply_setting(configuration, "chip[0].clock_mhz=900");
  apply_setting(configuration, "chip[3].clock_mhz=471");
  apply_setting(configuration, "link[1-0].gb_per_s=10.25");
  apply_setting(configuration, "link[1-3].gb_per_s=0");
  EXPECT_EQ(configuration.params.slow_chips, "0=900 3=471");
  EXPECT_EQ(configuration.params.ici.slow_links, "0-1=82000 1-3=0");
  EXPECT_EQ(configuration.origins["slow_chips"].where, "--set chip[3].clock_mhz=471");
  EXPECT_NO_THROW(check(configuration));
  EXPECT_EQ(parse_configuration(to_toml(configuration), "back.toml").params.ici.slow_links,
            "0-1=82000 1-3=0");
  EXPECT_EQ(error_of_setting("chip[4].clock_mhz=470"),
            "--set chip[4].clock_mhz=470: slow_chips: expected chips below 4 (2x2), found chip 4");
  EXPECT_EQ(error_of_setting("link[0-3].gb_per_s=1"),
            "--set link[0-3].gb_per_s=1: ici.slow_links: expected neighbours in the slice of 2x2 "
            "chips, found chips 0 and 3");
  EXPECT_EQ(error_of_setting("chip[x].clock_mhz=470"),
            "--set chip[x].clock_mhz=470: expected the number of a chip, such as chip[3], found "
            "\"x\"");
  EXPECT_EQ(error_of_setting("chip[1].clock_mhz=fast"),
            "--set chip[1].clock_mhz=fast: expected MHz as a whole number, found \"fast\"");
  EXPECT_EQ(error_of_setting("link[1].gb_per_s=1"),
            "--set link[1].gb_per_s=1: expected the numbers of two chips, such as link[0-1], found "
            "\"1\"");
  EXPECT_EQ(error_of_setting("link[0-1].gb_per_s=-1"),
            "--set link[0-1].gb_per_s=-1: expected 0 (broken) to 125000 GB/s, found \"-1\"");
  EXPECT_EQ(error_of_setting("chip[1].hbm_gib=1"),
            "--set chip[1].hbm_gib=1: expected chip[NUMBER].clock_mhz, "
            "host[NUMBER].PARAMETER or link[NUMBER-NUMBER].gb_per_s of single parts, found "
            "\"chip[1].hbm_gib\"");
}

TEST(Setting, SingleHosts) {
  Configuration configuration = load_configuration("v3-32");
  apply_setting(configuration, "host[3].vcpus=4");
  apply_setting(configuration, "host[3].storage_mb_per_s=12.5");
  apply_setting(configuration, "host[3].vcpus=8");
  EXPECT_EQ(configuration.params.slow_hosts, "3.storage_mb_per_s=12.5 3.vcpus=8");
  EXPECT_EQ(configuration.origins["slow_hosts"].where, "--set host[3].vcpus=8");
  EXPECT_NO_THROW(check(configuration));
  EXPECT_EQ(parse_configuration(to_toml(configuration), "back.toml").params.slow_hosts,
            configuration.params.slow_hosts);
  EXPECT_EQ(error_of_setting("host[1].vcpus=4"),
            "--set host[1].vcpus=4: slow_hosts: expected hosts below 1 (2x2, a host for 4 chips), "
            "found host 1");
  EXPECT_EQ(error_of_setting("host[0].vcpus=0"),
            "--set host[0].vcpus=0: slow_hosts: expected 1 to 4096 of host.vcpus, found 0 of host "
            "0");
  EXPECT_EQ(error_of_setting("host[x].vcpus=4"),
            "--set host[x].vcpus=4: expected the number of a host, such as host[3], found \"x\"");
  EXPECT_EQ(error_of_setting("host[0].vcpus=many"),
            "--set host[0].vcpus=many: expected a number, found \"many\"");
}

TEST(Setting, AValueOfTheCommandLineWins) {
  Configuration configuration = load_configuration("v3-8");
  apply_setting(configuration, "hbm.pin_mbps=2000");
  apply_setting(configuration, "host.examples_per_s=1.5");
  apply_setting(configuration, "ici.wrap_x=true");
  EXPECT_EQ(configuration.params.hbm.pin_mbps, 2000u);
  EXPECT_EQ(configuration.params.host.examples_per_s, 1.5);
  EXPECT_TRUE(configuration.params.ici.wrap_x);
  EXPECT_EQ(configuration.origins.at("hbm.pin_mbps").where, "--set hbm.pin_mbps=2000");
}

TEST(Setting, ErrorsNameTheFlag) {
  EXPECT_EQ(error_of_setting("hbm.pin_mbps"),
            "--set hbm.pin_mbps: expected PARAMETER=VALUE, such as hbm.pin_mbps=2000");
  EXPECT_EQ(error_of_setting("hbm.pin_mbps=x"),
            "--set hbm.pin_mbps=x: expected a whole number from 0 to 4294967295, found \"x\"");
  EXPECT_EQ(error_of_setting("hbm.pin_mbps="),
            "--set hbm.pin_mbps=: expected a whole number from 0 to 4294967295, found \"\"");
  EXPECT_EQ(error_of_setting("host.examples_per_s=inf"),
            "--set host.examples_per_s=inf: expected a number, found \"inf\"");
  EXPECT_EQ(error_of_setting("ici.wrap_x=1"),
            "--set ici.wrap_x=1: expected true or false, found \"1\"");
  EXPECT_EQ(error_of_setting("clock_mhz=0"),
            "--set clock_mhz=0: clock_mhz: expected 1 to 20000 MHz, found 0");
  const std::string unknown = error_of_setting("hbm.pin_mbs=3");
  EXPECT_EQ(unknown.substr(0, unknown.find(" (")),
            "--set hbm.pin_mbs=3: no parameter \"hbm.pin_mbs\"; the nearest is \"hbm.pin_mbps\"");
}

TEST(Show, TheEffectiveParametersReadBackAsThemselves) {
  for (const std::string& name : built_in_names()) {
    Configuration configuration = load_configuration(name);
    apply_setting(configuration, "host.examples_per_s=0.1");
    apply_setting(configuration, "name=a \"quoted\" \\ name # not a comment\n\x7f");
    const std::string text = to_toml(configuration);
    const Configuration back = parse_configuration(text, "back.toml");
    EXPECT_EQ(parameter_table(back.params), parameter_table(configuration.params)) << text;
    EXPECT_EQ(back.origins.at("hbm.pin_mbps").source,
              configuration.origins.at("hbm.pin_mbps").source);
    EXPECT_TRUE(to_toml(back) == text) << text;
  }
}

TEST(Show, InNarrowLinesItReadsBackAsItself) {
  Configuration configuration = load_configuration("v3-8");
  apply_setting(configuration, "chip[3].clock_mhz=470");
  for (const std::size_t width : {40, 60, 80, 400}) {
    const std::string text = to_toml(configuration, width);
    std::istringstream lines(text);
    for (std::string line; width > 40 && std::getline(lines, line);) {
      EXPECT_LE(line.size(), width) << line;
    }
    EXPECT_EQ(to_toml(parse_configuration(text, "back.toml")), to_toml(configuration)) << text;
  }
}

TEST(Show, UnitHelpAndSourceStandBehindTheValue) {
  const std::string text = to_toml(load_configuration("v3-8"));
  EXPECT_NE(text.find("# Mb/s. Rate of a link in one direction. Source: CACM\n"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace tpu::config::configuration_test
