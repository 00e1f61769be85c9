#include "sim/report/published_data.h"

#include <toml++/toml.h>

#include <cmath>

#include "sim/base/error.h"
#include "sim/report/published_text.h"

namespace tpu::report {
namespace {

const toml::table& file(const char* name) {
  static const std::map<std::string, toml::table> kFiles = [] {
    std::map<std::string, toml::table> all;
    for (const PublishedText& each : published_texts()) {
      all.emplace(each.name, toml::parse(each.text));
    }
    return all;
  }();
  const auto found = kFiles.find(name);
  TPU_CHECK(found != kFiles.end(), "no published data " << name);
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

/// In a process of so many nanometres.
OperationEnergy read_operations(const toml::table& data, double nanometres) {
  const auto in_process = [&](const std::string& name) {
    const std::string path = "operation." + name;
    return between(nanometres, 7, number(data, path + ".nm7"), 45, number(data, path + ".nm45"));
  };
  OperationEnergy energy;
  energy.bf16_multiply = in_process("bf16_multiply");
  energy.fp32_add = in_process("fp32_add");
  energy.fp32_multiply = in_process("fp32_multiply");
  energy.vmem_64_bit = between(number(data, "memory.lane_kib.value"), 32, in_process("sram_32_kib"),
                               1024, in_process("sram_1_mib"));
  energy.hbm_64_bit = (number(data, "memory.hbm_pj_per_64_bit.low") +
                       number(data, "memory.hbm_pj_per_64_bit.high")) /
                      2;
  energy.ici_bit = number(data, "ici.pj_per_bit.value");
  return energy;
}

ChipPower read_chip(const toml::table& data, const std::string& name) {
  const std::string path = "chip." + name + ".";
  const auto published = [&](const std::string& key) {
    return Published{number(data, path + key + ".value"),
                     data.at_path(path + key + ".source").value_or<std::string>("")};
  };
  const auto optional = [&](const std::string& key) {
    return data.at_path(path + key).value_or(0.0);
  };
  const auto made = [&](const std::string& key) {
    return static_cast<std::uint32_t>(number(data, path + "made." + key));
  };
  return {published("idle"),
          published("tdp"),
          published("die_mm2"),
          optional("measured.least"),
          optional("measured.mean"),
          optional("measured.most"),
          optional("mean_use.flops"),
          optional("mean_use.hbm"),
          optional("peak.tflops"),
          optional("peak.gb_per_s"),
          made("vmem_mib"),
          made("cores"),
          read_operations(data, number(data, path + "made.nm"))};
}

PublishedPower power_of(const toml::table& data) {
  PublishedPower power;
  const toml::table* rows = data["chip"].as_table();
  TPU_CHECK(rows != nullptr, "published data: no chips");
  for (const auto& row : *rows) {
    const std::string name(row.first.str());
    power.chips.emplace(name, read_chip(data, name));
  }
  power.measured = data.at_path("factor.chip").value_or<std::string>("");
  const auto measured = power.chips.find(power.measured);
  TPU_CHECK(measured != power.chips.end() && measured->second.mean_watts > 0,
            "published data: factor.chip is no chip with a measured power");
  return power;
}

}  // namespace

const PublishedPower& published_power() {
  static const PublishedPower kPower = power_of(file("energy"));
  return kPower;
}

PublishedPower read_power(std::string_view text) { return power_of(toml::parse(text)); }

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> kGpus = [] {
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
  return kGpus;
}

std::optional<double> price_per_hour(const MachineParams& params) {
  return file("prices")[params.chip + "-" + std::to_string(params.cores())].value<double>();
}

}  // namespace tpu::report
