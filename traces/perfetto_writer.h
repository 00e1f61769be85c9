#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/output_file.h"
#include "traces/protobuf_writer.h"

namespace tpu::traces {

/// Writes the packets of a Perfetto trace: tracks, slices and counters with interned names. One
/// packet sequence; the first packet clears its incremental state, those with interned data need
/// it. A mebibyte of packets at a time goes into one of the format's compressed packets (zlib): the
/// file takes a fifth of the bytes. Field numbers are those of Perfetto's public protos.
class PerfettoWriter {
 public:
  using TrackId = std::uint64_t;
  /// A text that the trace holds once.
  struct Interned {
    std::string_view text;
  };
  using Argument = std::pair<std::string_view, std::variant<std::uint64_t, double, Interned>>;

  explicit PerfettoWriter(OutputFile& file) : file_(file) {}

  /// A group at the top; groups and their children are in the order of their rank.
  TrackId add_group(const std::string& name, std::uint32_t rank);
  TrackId add_track(const std::string& name, TrackId parent, std::uint32_t rank);
  TrackId add_counter(const std::string& name, TrackId parent, std::uint32_t rank,
                      const std::string& unit);

  /// Arrows that leave or reach a slice; each has a number.
  struct Flows {
    std::vector<std::uint64_t> out, in;
  };

  /// Slices of a track nest: an end closes the last begin.
  void begin_slice(TrackId track, std::uint64_t time_ns, std::string_view name,
                   std::string_view category, const std::vector<Argument>& arguments,
                   const Flows& flows);
  void end_slice(TrackId track, std::uint64_t time_ns);
  void set_counter(TrackId track, std::uint64_t time_ns, double value);

  /// Writes what is buffered.
  void flush();

 private:
  using Names = std::map<std::string, std::uint64_t, std::less<>>;
  void packet(const ProtobufMessage& fields, bool needs_state);
  void descriptor(const ProtobufMessage& track);
  std::uint64_t intern(Names& names, std::string_view name, std::uint32_t field,
                       ProtobufMessage& interned);

  OutputFile& file_;
  ProtobufMessage packets_;  ///< That wait to be packed.
  std::string packed_;
  TrackId last_track_ = 0;
  bool first_ = true;
  Names event_names_, categories_, argument_names_, argument_texts_;
};

}  // namespace tpu::traces
