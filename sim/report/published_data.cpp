#include "sim/report/published_data.h"

#include <toml++/toml.h>

#include <cmath>

#include "sim/base/error.h"
#include "sim/report/published_text.h"

namespace tpu::report {
namespace {

constexpr double kNanometres = 16;  ///< The process of both chips.

const toml::table& file(const char* name) {
  static const std::map<std::string, toml::table> files = [] {
    std::map<std::string, toml::table> all;
    for (const PublishedText& each : published_texts()) {
      all.emplace(each.name, toml::parse(each.text));
    }
    return all;
  }();
  const auto found = files.find(name);
  TPU_CHECK(found != files.end(), "no published data " << name);
  return found->second;
}

double number(const toml::table& data, const std::string& path) {
  const auto value = data.at_path(path).value<double>();
  TPU_CHECK(value.has_value(), "published data: no " << path);
  return *value;
}

/// On the straight line through two points in the logarithms of both coordinates.
double between(double x, double x0, double y0, double x1, double y1) {
  const double t = std::log(x / x0) / std::log(x1 / x0);
  return y0 * std::pow(y1 / y0, t);
}

OperationEnergy read_operations() {
  const toml::table& data = file("energy");
  const auto at_16_nm = [&](const std::string& name) {
    const std::string path = "operation." + name;
    return between(kNanometres, 7, number(data, path + ".nm7"), 45, number(data, path + ".nm45"));
  };
  OperationEnergy energy;
  energy.bf16_multiply = at_16_nm("bf16_multiply");
  energy.fp32_add = at_16_nm("fp32_add");
  energy.fp32_multiply = at_16_nm("fp32_multiply");
  energy.vmem_64_bit = between(number(data, "memory.lane_kib.value"), 32, at_16_nm("sram_32_kib"),
                               1024, at_16_nm("sram_1_mib"));
  energy.hbm_64_bit = (number(data, "memory.hbm_pj_per_64_bit.low") +
                       number(data, "memory.hbm_pj_per_64_bit.high")) /
                      2;
  energy.ici_bit = number(data, "ici.pj_per_bit.value");
  return energy;
}

std::map<std::string, ChipPower> read_chips() {
  const toml::table& data = file("energy");
  std::map<std::string, ChipPower> chips;
  for (const char* name : {"v2", "v3"}) {
    const std::string path = std::string("chip.") + name + ".";
    const auto published = [&](const std::string& key) {
      return Published{number(data, path + key + ".value"),
                       data.at_path(path + key + ".source").value_or<std::string>("")};
    };
    const auto optional = [&](const std::string& key) {
      return data.at_path(path + key).value_or(0.0);
    };
    chips[name] = {published("idle"),          published("tdp"),          published("die_mm2"),
                   optional("measured.least"), optional("measured.mean"), optional("measured.most"),
                   optional("mean_use.flops"), optional("mean_use.hbm"),  optional("peak.tflops"),
                   optional("peak.gb_per_s")};
  }
  return chips;
}

}  // namespace

const OperationEnergy& operation_energy() {
  static const OperationEnergy energy = read_operations();
  return energy;
}

const std::map<std::string, ChipPower>& chip_power() {
  static const std::map<std::string, ChipPower> chips = read_chips();
  return chips;
}

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all = [] {
    std::vector<Gpu> list;
    const toml::array* rows = file("gpus").get_as<toml::array>("gpu");
    TPU_CHECK(rows != nullptr, "published data: no GPUs");
    for (const toml::node& row : *rows) {
      const toml::table& data = *row.as_table();
      list.push_back({data["name"].value_or<std::string>(""), number(data, "tflops_16_bit"),
                      number(data, "gb_per_s"), number(data, "watts")});
    }
    return list;
  }();
  return all;
}

std::optional<double> price_per_hour(const MachineParams& params) {
  return file("prices")[params.chip + "-" + std::to_string(params.cores())].value<double>();
}

}  // namespace tpu::report
