#include "traces/chrome_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <vector>

#include "sim/base/output_file.h"
#include "traces/core_events.h"
#include "traces/valid_utf8.h"

namespace tpu::traces {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

/// A text as JSON has it.
std::string quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : valid_utf8(text)) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') out += '\\';
    if (code < 0x20) {
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string number(double value) {
  std::array<char, 40> buffer{};
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

/// Writes the events one by one.
class Writer {
 public:
  Writer(const RunRecord& record, OutputFile& file) : record_(record), file_(file) {
    text_ = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  }

  void write_core(std::size_t core) {
    const CoreEvents events = core_events(record_, core);
    process_ = events.number;
    name("process_name", 0,
         "TPU " + record_.params.chip + " chip " + std::to_string(events.result->chip) + " core " +
             std::to_string(events.number));
    begin_thread("Steps");
    std::size_t step = 0;
    for (const StepSpan& span : events.result->steps) {
      complete("step " + std::to_string(step++), span.begin, span.end, "");
    }
    for (const std::vector<Span>& lane : op_lanes(events)) {
      begin_thread("XLA Ops");
      for (const Span& span : lane) write_op(*events.ops[span.index]);
    }
    begin_thread("Waits");
    for (const WaitEvent* wait : events.waits) {
      complete(wait_name(wait->reason), wait->begin, wait->end, "");
    }
    write_dmas(events);
    write_hbm(events);
  }

  void finish() {
    text_ += "\n]}\n";
    file_.write(text_);
  }

 private:
  std::string microseconds(std::uint64_t cycles) const {
    return number(static_cast<double>(cycles) / record_.params.clock_mhz);
  }
  void event(const std::string& fields) {
    if (!first_) text_ += ",\n";
    first_ = false;
    text_ += "{\"pid\": " + std::to_string(process_) + ", " + fields + "}";
    if (text_.size() < kBufferBytes) return;
    file_.write(text_);
    text_.clear();
  }
  void name(const std::string& kind, std::uint32_t thread, const std::string& text) {
    event("\"ph\": \"M\", \"tid\": " + std::to_string(thread) + ", \"name\": " + quoted(kind) +
          ", \"args\": {\"name\": " + quoted(text) + "}");
  }
  void begin_thread(const std::string& text) { name("thread_name", ++thread_, text); }
  void complete(std::string_view text, std::uint64_t begin, std::uint64_t end,
                const std::string& arguments) {
    event("\"ph\": \"X\", \"tid\": " + std::to_string(thread_) + ", \"name\": " + quoted(text) +
          ", \"ts\": " + microseconds(begin) + ", \"dur\": " + microseconds(end - begin) +
          ", \"args\": {\"begin_cycle\": " + std::to_string(begin) +
          ", \"cycles\": " + std::to_string(end - begin) + arguments + "}");
  }
  void write_op(const OpEvent& op) {
    const isa::OpInfo& info = record_.ops[op.op];
    complete(info.name, op.begin, op.end,
             ", \"category\": " + quoted(info.category) + ", \"op_name\": " + quoted(info.op_name) +
                 ", \"source\": " + quoted(info.source) + ", \"flops\": " +
                 std::to_string(info.flops) + ", \"hbm_bytes\": " + std::to_string(op.hbm_bytes));
  }
  void write_dmas(const CoreEvents& events) {
    std::map<std::string, std::vector<Span>> paths;
    for (std::size_t i = 0; i < events.dmas.size(); ++i) {
      paths["DMA " + dma_path(*events.dmas[i])].push_back(
          {events.dmas[i]->begin, events.dmas[i]->end, i});
    }
    for (const auto& [path, spans] : paths) {
      for (const std::vector<Span>& lane : disjoint_lanes(spans)) {
        begin_thread(path);
        for (const Span& span : lane) {
          complete(path, span.begin, span.end,
                   ", \"bytes\": " + std::to_string(events.dmas[span.index]->bytes));
        }
      }
    }
  }
  void write_hbm(const CoreEvents& events) {
    const std::uint64_t total = record_.result.cycles;
    const std::size_t bins = std::min<std::uint64_t>(kCounterBins, total);
    const std::vector<double> bytes = hbm_bytes(record_, events, bins);
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const double cycles = static_cast<double>(total) / static_cast<double>(bins);
      event("\"ph\": \"C\", \"name\": \"HBM GB/s\", \"ts\": " + microseconds(total * bin / bins) +
            ", \"args\": {\"GB/s\": " +
            number(bytes[bin] / cycles * record_.params.clock_mhz / 1e3) + "}");
    }
  }

  const RunRecord& record_;
  OutputFile& file_;
  std::string text_;
  bool first_ = true;
  std::uint32_t process_ = 0, thread_ = 0;
};

}  // namespace

void export_chrome(const RunRecord& record, const std::string& path) {
  check_events(record);
  OutputFile file(path);
  Writer writer(record, file);
  for (std::size_t core = 0; core < record.result.cores.size(); ++core) writer.write_core(core);
  writer.finish();
  file.commit();
}

}  // namespace tpu::traces
