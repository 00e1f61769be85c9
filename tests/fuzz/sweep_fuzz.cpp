#include "sim/base/error.h"
#include "sim/config/configuration.h"
#include "sim/sweep/sweep_plan.h"
#include "tests/fuzz/one_input.h"
#include "tests/fuzz/text_mutator.h"

namespace {

constexpr std::size_t kTried = 16;  ///< Points whose command lines and machines are made.

const tpu::sweep::SettingNames& names() {
  static const tpu::sweep::SettingNames all{
      {"config", "batch", "cores", "compiler", "steps", "seed", "values", "shape", "learning-rate"},
      tpu::config::setting_names()};
  return all;
}

/// The machine of a point, as a run makes it.
void make_machine(const std::vector<std::string>& words) {
  tpu::config::Configuration machine = tpu::config::load_configuration("v3-8");
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    if (words[i] == "--set") apply_setting(machine, words[i + 1]);
  }
  check(machine);
}

}  // namespace

/// A sweep file is refused, or points with a command line each, of which shares take each once.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const tpu::sweep::Plan plan = tpu::sweep::parse_plan(text, "f.toml", names());
    const std::size_t points = plan.points.size();
    std::size_t taken = 0;
    for (std::size_t i = 1; i <= 7; ++i) taken += tpu::sweep::shard(points, i, 7).size();
    if (points == 0 || taken != points) __builtin_trap();
    for (std::size_t i = 0; i < std::min(points, kTried); ++i) {
      const std::vector<std::string> words = plan.points[i].words(names());
      if (words.size() < 2 || words[1].empty() || words.size() % 2 != 0) __builtin_trap();
      make_machine(words);
    }
  } catch (const tpu::UserError&) {
  }
}
