#include "traces/konata.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace tpu::traces {
namespace {

/// Text in a column: a tab or line end would begin another.
std::string column(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

/// What is written in a cycle, in the order of its bundles.
struct Command {
  std::uint64_t cycle = 0;
  std::string text;
};

class Log {
 public:
  Log(const BundleLog& bundles, const std::vector<isa::OpInfo>& ops)
      : bundles_(bundles), ops_(ops) {}

  void add(const BundleEvent& bundle) {
    const std::string id = std::to_string(next_++);
    const std::uint64_t begin = bundle.cycle - bundle.waited;
    say(begin, "I\t" + id + "\t" + id + "\t" + std::to_string(bundle.core));
    say(begin, "L\t" + id + "\t0\t" + column(bundles_.texts[bundle.text]));
    say(begin, "L\t" + id + "\t1\t" + column(hint(bundle)));
    const std::string stage = "\t" + id + "\t0\t";
    if (bundle.waited > 0) say(begin, "S" + stage + to_string(bundle.reason));
    say(bundle.cycle, "S" + stage + "I");
    std::uint64_t end = bundle.cycle + 1;
    if (bundle.delay > 0) {
      say(end, "S" + stage + "D");
      end += bundle.delay;
      say(end, "E" + stage + "D");
    } else {
      say(end, "E" + stage + "I");
    }
    if (bundle.result > 1) {
      say(bundle.cycle + 1, "S\t" + id + "\t1\tR");
      say(bundle.cycle + bundle.result, "E\t" + id + "\t1\tR");
      end = std::max(end, bundle.cycle + bundle.result);
    }
    say(end, "R\t" + id + "\t" + id + "\t0");
  }

  void write(OutputFile& file) {
    std::stable_sort(commands_.begin(), commands_.end(),
                     [](const Command& a, const Command& b) { return a.cycle < b.cycle; });
    std::uint64_t now = commands_.front().cycle;
    file.write("Kanata\t0004\nC=\t0\n");
    for (const Command& command : commands_) {
      if (command.cycle > now) file.write("C\t" + std::to_string(command.cycle - now) + "\n");
      now = command.cycle;
      file.write(command.text + "\n");
    }
  }

 private:
  void say(std::uint64_t cycle, std::string text) { commands_.push_back({cycle, std::move(text)}); }

  std::string hint(const BundleEvent& bundle) const {
    std::string text =
        "core " + std::to_string(bundle.core) + ", cycle " + std::to_string(bundle.cycle);
    if (bundle.waited > 0) {
      text +=
          ", behind " + std::to_string(bundle.waited) + " cycles of " + to_string(bundle.reason);
    }
    if (bundle.op >= ops_.size()) return text;
    const isa::OpInfo& op = ops_[bundle.op];
    for (const std::string* part : {&op.name, &op.op_name, &op.source}) {
      if (!part->empty()) text += ", " + *part;
    }
    return text;
  }

  const BundleLog& bundles_;
  const std::vector<isa::OpInfo>& ops_;
  std::vector<Command> commands_;
  std::uint64_t next_ = 0;
};

}  // namespace

void export_konata(const BundleLog& bundles, const std::vector<isa::OpInfo>& ops,
                   const std::string& path) {
  if (bundles.bundles.empty()) {
    throw WorkloadError(
        "no bundle issued in the window; expected --window A:B, cycles from A up to B of the run "
        "with its warm-up steps");
  }
  // The viewer numbers them in the order in which they appear, a wait before the issue.
  std::vector<const BundleEvent*> order;
  for (const BundleEvent& bundle : bundles.bundles) order.push_back(&bundle);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->cycle - a->waited < b->cycle - b->waited;
  });
  Log log(bundles, ops);
  for (const BundleEvent* bundle : order) log.add(*bundle);
  OutputFile file(path);
  log.write(file);
  file.commit();
}

}  // namespace tpu::traces
