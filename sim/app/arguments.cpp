#include "sim/app/arguments.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

#include "sim/app/command_options.h"
#include "sim/app/export_run.h"
#include "sim/base/error.h"
#include "sim/config/nearest_name.h"
#include "sim/report/text_layout.h"

namespace tpu::app {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t kLargestBatch = std::int64_t{1} << 31;
constexpr std::uint32_t kLargestSteps = 1000000;
constexpr std::uint32_t kMostPhases = 1000;
constexpr std::uint64_t kLargestBucketMb = 65536;

const Command& find_command(const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    if (name == command.name) return command;
    known.emplace_back(command.name);
  }
  throw UsageError("no command \"" + name + "\"" + config::suggestion(name, known) +
                   "; tpusim --help explains them");
}

constexpr std::uint64_t kMostTrips = std::uint64_t{1} << 32;

template <class Number>
Number parse_number(const std::string& flag, const std::string& text, Number low, Number high) {
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool bad = result.ec != std::errc() || result.ptr != text.data() + text.size();
  if (bad || !(value >= low && value <= high)) {
    std::ostringstream message;
    message << flag << ": expected a " << (std::is_integral_v<Number> ? "whole number" : "number")
            << " from " << low << " to " << high << ", found \"" << text << "\"";
    throw UsageError(message.str());
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool parse_switch(const std::string& flag, const std::string& text) {
  if (text != "on" && text != "off") {
    throw UsageError(flag + ": expected on or off, found \"" + text + "\"");
  }
  return text == "on";
}

void parse_detail(const std::string& text, Arguments& arguments) {
  for (const std::string& part : split(text, ',')) {
    if (part == "core=interpret" || part == "core=blocks") {
      arguments.interpret = part == "core=interpret";
    } else if (part == "values=on" || part == "values=off") {
      arguments.values = part == "values=on";
    } else if (part == "mxu=array" || part == "mxu=ports") {
      arguments.mxu_array = part == "mxu=array";
    } else if (part == "hbm=command" || part == "hbm=closed") {
      arguments.hbm_command = part == "hbm=command";
    } else if (part == "ici=packet" || part == "ici=message") {
      arguments.ici_packet = part == "ici=packet";
    } else if (part == "pod=full" || part == "pod=folded") {
      arguments.pod_full = part == "pod=full";
    } else {
      throw UsageError(
          "--detail: expected core=interpret, core=blocks, mxu=array, mxu=ports, "
          "hbm=command, hbm=closed, ici=packet, ici=message, pod=full, pod=folded, values=on or "
          "values=off, "
          "found \"" +
          part + "\"");
    }
  }
}

std::string one_of(const std::string& flag, const std::string& text,
                   const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), text) == known.end()) {
    throw UsageError(flag + ": no \"" + text + "\"" + config::suggestion(text, known));
  }
  return text;
}

/// Turns the errors of the option parser into ours.
[[noreturn]] void rethrow(const po::error& error, const Command& command) {
  if (const auto* unknown = dynamic_cast<const po::unknown_option*>(&error)) {
    std::vector<std::string> known;
    const po::options_description options = options_of(command);
    for (const auto& option : options.options()) {
      known.push_back("--" + option->long_name());
    }
    std::string name = unknown->get_option_name();
    name.resize(std::min(name.find('='), name.size()));
    const std::string nearest = config::nearest_name(name, known);
    throw UsageError("no option " + name + " of tpusim " + command.name +
                     (nearest.empty() ? "" : "; the nearest is " + nearest) + "; tpusim " +
                     command.name + " --help lists them");
  }
  throw UsageError(std::string("tpusim ") + command.name + ": " + error.what());
}

/// Flags that say where reports go and how they look, or ask for more of them.
const std::set<std::string> kReportFlags{"output", "json", "color", "log", "what-if"};

po::variables_map parse_words(const Command& command, const std::vector<std::string>& words,
                              std::vector<std::string>& kept) {
  po::options_description all = options_of(command);
  all.add_options()("input", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("input", -1);
  po::variables_map map;
  try {
    namespace style = po::command_line_style;
    const int styles = style::default_style & ~style::allow_guessing;
    const po::parsed_options parsed =
        po::command_line_parser(words).options(all).positional(positional).style(styles).run();
    po::store(parsed, map);
    po::notify(map);
    for (const po::option& option : parsed.options) {
      if (kReportFlags.count(option.string_key) > 0) continue;
      kept.insert(kept.end(), option.original_tokens.begin(), option.original_tokens.end());
    }
  } catch (const po::error& error) {
    rethrow(error, command);
  }
  return map;
}

/// Reads what was given on the command line into the arguments.
class Reader {
 public:
  Reader(const Command& command, const po::variables_map& map) : command_(command), map_(map) {
    arguments_.command = command.name;
  }

  Arguments read() {
    read_input();
    read_machine();
    read_workload();
    read_run();
    read_text("log", [&](const std::string& text) {
      arguments_.log = one_of("--log", text, {"error", "warning", "info", "debug"});
    });
    read_text("color", [&](const std::string& text) {
      arguments_.color = one_of("--color", text, {"always", "never", "auto"});
    });
    arguments_.verbose = map_.count("verbose") > 0;
    read_text("dump-after", [&](const std::string& text) { arguments_.dump_after = text; });
    read_text("json", [&](const std::string& text) { arguments_.json = text; });
    read_text("output", [&](const std::string& text) { arguments_.output = text; });
    read_text("format", [&](const std::string& text) {
      arguments_.format = one_of("--format", text, export_formats());
    });
    read_text("window", [&](const std::string& text) {
      const std::size_t colon = std::min(text.find(':'), text.size());
      const std::string end = colon < text.size() ? text.substr(colon + 1) : "";
      auto& [from, to] = arguments_.window;
      constexpr std::uint64_t kMost = ~std::uint64_t{0};
      from = parse_number<std::uint64_t>("--window A:B: A", text.substr(0, colon), 0, kMost - 1);
      to = parse_number<std::uint64_t>("--window A:B: B", end, from + 1, kMost);
    });
    read_text("level", [&](const std::string& text) {
      arguments_.level = parse_number<int>("--level", text, 1, 2);
    });
    read_text("max-events", [&](const std::string& text) {
      arguments_.max_events =
          parse_number<std::size_t>("--max-events", text, 1, std::size_t{1} << 40);
    });
    if (arguments_.command == "sweep") read_sweep();
    check_destination();
    return arguments_;
  }

 private:
  template <class Use>
  void read_text(const char* name, Use&& use) {
    if (map_.count(name) == 0) return;
    const std::string text = map_[name].as<std::string>();
    if (text.empty()) throw UsageError(std::string("--") + name + ": expected a value, found none");
    use(text);
  }

  void read_input() {
    std::vector<std::string> inputs;
    if (map_.count("input") > 0) inputs = map_["input"].as<std::vector<std::string>>();
    const bool wanted = *command_.input != '\0';
    if (wanted && inputs.empty()) {
      throw UsageError(std::string("tpusim ") + command_.name + ": expected " + command_.input +
                       ", found nothing; tpusim " + command_.name + " --help explains it");
    }
    if (arguments_.command == "sweep" && inputs.size() > 1) {
      arguments_.sweep.action =
          one_of("tpusim sweep", inputs[0], {"plan", "run", "status", "merge"});
      inputs.erase(inputs.begin());
    }
    if (arguments_.command == "diff" && inputs.size() < 2) {
      throw UsageError("tpusim diff: expected two files or more, A.h5 B.h5, found one, \"" +
                       inputs[0] + "\"");
    }
    const std::size_t allowed = wanted ? 1 : 0;
    const bool many = arguments_.command == "report" || arguments_.command == "diff";
    if (many && inputs.size() > 1) {
      arguments_.more_inputs.assign(inputs.begin() + 1, inputs.end());
      inputs.resize(1);
    }
    if (inputs.size() > allowed) {
      throw UsageError(std::string("tpusim ") + command_.name + ": expected " +
                       (wanted ? "one " + std::string(command_.input) : "no argument") +
                       ", found also \"" + inputs[allowed] + "\"");
    }
    if (wanted) arguments_.input = inputs[0];
  }

  void read_machine() {
    read_text("config", [&](const std::string& text) { arguments_.configs = {text}; });
    read_text("configs", [&](const std::string& text) {
      arguments_.configs = split(text, ',');
      std::set<std::string> names;
      for (const std::string& name : arguments_.configs) {
        if (name.empty()) throw UsageError("--configs: expected names, found an empty one");
        if (!names.insert(name).second) {
          throw UsageError("--configs: expected different machines, found " + name + " twice");
        }
      }
      if (names.size() < 2) {
        throw UsageError("--configs: expected two machines or more, such as v2-8,v3-8, found " +
                         text + "; tpusim run takes one");
      }
    });
    if (command_.many_machines && map_.count("configs") == 0) {
      throw UsageError("tpusim " + arguments_.command +
                       ": expected --configs, such as --configs v2-8,v3-8");
    }
    read_text("topology", [&](const std::string& text) { arguments_.topology = text; });
    if (map_.count("set") > 0) arguments_.settings = map_["set"].as<std::vector<std::string>>();
  }

  void read_workload() {
    read_text("batch", [&](const std::string& text) {
      arguments_.batch = parse_number<std::int64_t>("--batch", text, 1, kLargestBatch);
    });
    read_text("core-batch", [&](const std::string& text) {
      if (arguments_.batch) {
        throw UsageError("--core-batch: expected it or --batch, found both");
      }
      arguments_.core_batch = parse_number<std::int64_t>("--core-batch", text, 1, kLargestBatch);
    });
    read_text("cores", [&](const std::string& text) {
      if (arguments_.command == "scaling") {
        throw UsageError(
            "--cores: tpusim scaling runs on all cores of each machine; choose others "
            "with --configs");
      }
      arguments_.cores = parse_cores(text);
    });
    read_text("bucket-mb", [&](const std::string& text) {
      arguments_.bucket_mb = parse_number<std::uint64_t>("--bucket-mb", text, 0, kLargestBucketMb);
    });
    arguments_.shard_updates = map_.count("shard-updates") > 0;
    read_text("compiler", [&](const std::string& text) {
      arguments_.compiler = one_of("--compiler", text, {"xla", "tpusim"});
    });
    for (const char* flag : workload_flags()) {
      read_text(flag, [&](const std::string& text) {
        std::string name = flag;
        std::replace(name.begin(), name.end(), '-', '_');
        frontend::set_option(arguments_.workload, name, text);
        arguments_.workload_flags.push_back(std::string("--") + flag);
      });
    }
  }

  /// "while.3=12", each.
  void read_paths(const char* flag, std::vector<std::pair<std::string, std::uint64_t>>& paths) {
    if (map_.count(flag) == 0) return;
    const std::string name = std::string("--") + flag;
    for (const std::string& text : map_[flag].as<std::vector<std::string>>()) {
      const std::size_t equals = text.rfind('=');
      if (equals == std::string::npos || equals == 0) {
        throw UsageError(name + ": expected " +
                         (name == "--trips" ? "LOOP=N, such as while.3=12"
                                            : "CONDITIONAL=K, such as conditional.3=0") +
                         "; found \"" + text + "\"");
      }
      const auto number = parse_number<std::uint64_t>(name, text.substr(equals + 1), 0, kMostTrips);
      paths.emplace_back(text.substr(0, equals), number);
    }
  }
  bool states_paths() const { return !arguments_.trips.empty() || !arguments_.branches.empty(); }

  /// Flags for the scenario's common keys are changes to it.
  void read_training() {
    constexpr std::uint64_t kMost = 1'000'000'000'000;
    read_text("scenario", [&](const std::string& text) { arguments_.scenario = text; });
    read_text("epochs", [&](const std::string& text) {
      arguments_.epochs = parse_number<std::uint64_t>("--epochs", text, 1, kMost);
    });
    read_text("dataset", [&](const std::string& text) {
      arguments_.dataset = parse_number<std::uint64_t>("--dataset", text, 1, kMost);
    });
    const auto every = [&](const char* flag, const char* key) {
      read_text(flag, [&](const std::string& text) {
        const auto steps = parse_number<std::uint64_t>(std::string("--") + flag, text, 0, kMost);
        arguments_.between.push_back(std::string(key) + "=" + std::to_string(steps));
      });
    };
    every("loss-every", "readback.every");
    every("evaluate-every", "evaluation.every");
    every("checkpoint-every", "checkpoint.every");
    every("iterations-per-loop", "launch.iterations_per_loop");
    read_text("drop-last", [&](const std::string& text) {
      const bool drops = parse_switch("--drop-last", text);
      arguments_.between.push_back(std::string("training.drop_last=") + (drops ? "true" : "false"));
    });
    if (map_.count("between") == 0) return;
    for (const std::string& text : map_["between"].as<std::vector<std::string>>()) {
      arguments_.between.push_back(text);
    }
  }

  void read_run() {
    read_text("steps", [&](const std::string& text) {
      arguments_.steps = parse_number<std::uint32_t>("--steps", text, 1, kLargestSteps);
    });
    read_text("phases", [&](const std::string& text) {
      arguments_.phases = parse_number<std::uint32_t>("--phases", text, 1, kMostPhases);
    });
    read_text("warmup", [&](const std::string& text) {
      arguments_.warmup = parse_number<std::uint32_t>("--warmup", text, 0, kLargestSteps);
    });
    read_training();
    read_text("max-cycles", [&](const std::string& text) {
      arguments_.max_cycles =
          parse_number<std::uint64_t>("--max-cycles", text, 1, ~std::uint64_t{0});
    });
    read_text("max-trips", [&](const std::string& text) {
      arguments_.max_trips = parse_number<std::uint64_t>("--max-trips", text, 1, ~std::uint64_t{0});
    });
    read_text("detail", [&](const std::string& text) { parse_detail(text, arguments_); });
    read_text("values",
              [&](const std::string& text) { arguments_.values = parse_switch("--values", text); });
    if (arguments_.mxu_array) {
      if (map_.count("values") > 0 && !arguments_.values) {
        throw UsageError(
            "--detail mxu=array: expected --values on, for the cells compute; found off");
      }
      arguments_.values = arguments_.interpret = true;
    }
    read_text("seed", [&](const std::string& text) {
      arguments_.seed = parse_number<std::uint64_t>("--seed", text, 0, ~std::uint64_t{0});
    });
    read_text("inputs", [&](const std::string& text) { arguments_.inputs = text; });
    read_text("outputs", [&](const std::string& text) { arguments_.outputs = text; });
    read_text("check", [&](const std::string& text) {
      const char* separator = arguments_.input.back() == '/' ? "" : "/";
      arguments_.check =
          text == kBesideTheProgram ? arguments_.input + separator + "values.npz" : text;
    });
    read_text("tolerance", [&](const std::string& text) {
      arguments_.tolerance = parse_number<double>("--tolerance", text, 0, 1e30);
    });
    read_paths("trips", arguments_.trips);
    read_paths("branch", arguments_.branches);
    const bool off = map_.count("values") > 0 || map_.count("detail") > 0;
    if (map_.count("inputs") > 0 && !off) arguments_.values = !states_paths();
    for (const char* flag : {"outputs", "check"}) {
      if (map_.count(flag) == 0) continue;
      if (off && !arguments_.values) {
        throw UsageError(std::string("--") + flag + ": expected --values on beside it");
      }
      arguments_.values = true;
    }
    if (arguments_.values && states_paths()) {
      throw UsageError(std::string(arguments_.trips.empty() ? "--branch" : "--trips") +
                       ": expected --values off beside it: with values on the data decides");
    }
    arguments_.what_if = map_.count("what-if") > 0;
    arguments_.no_what_if = map_.count("no-what-if") > 0;
    if (arguments_.what_if && arguments_.no_what_if) {
      throw UsageError("expected --what-if or --no-what-if, found both");
    }
    if (arguments_.what_if && arguments_.values) {
      throw UsageError("--what-if: expected --values off beside it, for it asks for time alone");
    }
    if (map_.count("tolerance") > 0 && arguments_.check.empty()) {
      throw UsageError("--tolerance: expected --check beside it");
    }
  }

  void read_sweep() {
    constexpr std::size_t kMost = std::size_t{1} << 32;
    constexpr std::uint32_t kMostJobs = 4096;
    SweepArguments& sweep = arguments_.sweep;
    read_text("points", [&](const std::string& text) { sweep.points = text; });
    read_text("jobs", [&](const std::string& text) {
      sweep.jobs = parse_number<std::uint32_t>("--jobs", text, 1, kMostJobs);
    });
    read_text("point", [&](const std::string& text) {
      sweep.point = parse_number<std::size_t>("--point", text, 1, kMost);
    });
    read_text("shard", [&](const std::string& text) {
      const std::size_t slash = std::min(text.find('/'), text.size());
      const std::string n = slash < text.size() ? text.substr(slash + 1) : "";
      sweep.shards = parse_number<std::size_t>("--shard I/N: N", n, 1, kMost);
      sweep.shard =
          parse_number<std::size_t>("--shard I/N: I", text.substr(0, slash), 1, sweep.shards);
    });
    sweep.partial = map_.count("partial") > 0;
    if (sweep.action == "merge" && arguments_.output.empty()) {
      throw UsageError("tpusim sweep merge: expected -o TABLE.csv, TABLE.h5 or PAGE.html");
    }
  }

  void check_destination() const {
    const std::string name = command_.name;
    const bool dumps = !arguments_.dump_after.empty();
    if ((name == "compile" || name == "export" || name == "report") && arguments_.output.empty() &&
        !dumps) {
      throw UsageError("tpusim " + name + ": expected -o FILE");
    }
    const std::string ending = std::filesystem::path(arguments_.output).extension().string();
    if (name == "compare" && !arguments_.output.empty() && ending != ".csv" && ending != ".md" &&
        ending != ".html") {
      throw UsageError("-o " + arguments_.output +
                       ": expected a name that ends in .csv, .md or .html");
    }
    if (name == "export" && arguments_.format.empty()) {
      throw UsageError("tpusim export: expected --format, such as --format perfetto");
    }
    if (name == "run" && !arguments_.format.empty() &&
        (std::set<std::string>{"konata", "perfetto", "vcd"}.count(arguments_.format) == 0 ||
         arguments_.output.empty())) {
      throw UsageError(
          "tpusim run: expected --format konata, perfetto or vcd with -o FILE; other formats are "
          "made of a results file, by tpusim export");
    }
  }

  const Command& command_;
  const po::variables_map& map_;
  Arguments arguments_;
};

}  // namespace

CoreChoice parse_cores(const std::string& text) {
  constexpr std::uint32_t kMost = 1 << 16;
  CoreChoice choice;
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    choice.first =
        parse_number<std::uint32_t>("--cores", text.substr(1, text.size() - 2), 0, kMost);
    return choice;
  }
  choice.count = parse_number<std::uint32_t>("--cores", text, 1, kMost);
  return choice;
}

std::string help_text(const std::string& command_name) {
  std::ostringstream out;
  if (command_name.empty()) {
    out << "tpusim " << TPUSIM_VERSION << ": a cycle-level simulator of TPU v2 and v3\n\n";
    for (const Command& command : commands()) {
      const std::string usage = std::string(command.name) + " " + command.input;
      out << "  tpusim " << report::left(usage, 22) << (usage.size() < 22 ? "" : "   ")
          << command.summary << "\n";
    }
    out << "\nWORKLOAD is a name of `tpusim list`, a folder that workloads/capture made, or a\n"
           "compiled program. `tpusim COMMAND --help` lists the options of a command.\n"
           "Exit codes: 0 done, 1 the simulated program failed, 2 usage, 3 bad configuration,\n"
           "4 bad workload or it does not fit, 70 a bug of tpusim.\n"
           "Large listings of XLA are kept as they were read in $XDG_CACHE_HOME/tpusim/listings\n"
           "(~/.cache/tpusim/listings; TPUSIM_CACHE=FOLDER: there, TPUSIM_CACHE=off: nowhere).\n";
    return out.str();
  }
  const Command& command = find_command(command_name);
  out << "tpusim " << command.name << " " << command.input << ": " << command.summary << "\n\n"
      << options_of(command);
  return out.str();
}

std::optional<Arguments> parse_arguments(const std::vector<std::string>& words) {
  if (words.empty()) {
    throw UsageError("expected a command, found nothing; tpusim --help lists them");
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::cout << help_text(words[0] == "help" && words.size() > 1 ? words[1] : "");
    return std::nullopt;
  }
  if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") {
    std::cout << "tpusim " << TPUSIM_VERSION << "\n";
    return std::nullopt;
  }
  const Command& command = find_command(words[0]);
  std::vector<std::string> kept{words[0]};
  const po::variables_map map = parse_words(command, {words.begin() + 1, words.end()}, kept);
  if (map.count("help") > 0) {
    std::cout << help_text(command.name);
    return std::nullopt;
  }
  Arguments arguments = Reader(command, map).read();
  arguments.words = std::move(kept);
  return arguments;
}

}  // namespace tpu::app
