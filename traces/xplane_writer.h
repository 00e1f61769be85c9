#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "traces/protobuf_writer.h"

namespace tpu::traces {

/// One plane of an XSpace, the form in which XProf and TensorBoard read profiles: lines of events
/// whose kinds and statistics are interned. Field numbers are those of xplane.proto
/// (`tensorflow.profiler`). Times are picoseconds from the beginning of the profile.
class XPlane {
 public:
  struct Unsigned {
    std::uint64_t number;
  };
  struct Bytes {
    std::string bytes;
  };
  struct Interned {
    std::string_view text;
  };
  /// int64, uint64, double, string, bytes, string as reference. XProf reads each statistic as one
  /// of them only.
  using Value = std::variant<std::int64_t, Unsigned, double, std::string, Bytes, Interned>;
  struct Stat {
    std::string_view name;
    Value value;
  };
  using Stats = std::vector<Stat>;

  XPlane(std::uint64_t id, std::string_view name);

  void add_stats(const Stats& stats);
  /// A kind of events; `fixed_id` 0: the next free one.
  std::uint64_t add_kind(std::string_view name, std::string_view display_name, const Stats& stats,
                         std::uint64_t fixed_id = 0);
  /// The kind of that name without statistics, made the first time.
  std::uint64_t kind(std::string_view name);

  /// A line is written when the next one begins; lines without events are left out.
  void begin_line(std::string_view name);
  void add_event(std::uint64_t kind, std::uint64_t begin_ps, std::uint64_t duration_ps,
                 const Stats& stats = {});

  /// The plane; nothing can be added behind it.
  const ProtobufMessage& finish();

 private:
  std::uint64_t stat_id(std::string_view name);
  ProtobufMessage stat_message(const Stat& stat);
  void end_line();

  ProtobufMessage plane_, line_;
  std::string line_name_;
  bool line_has_events_ = false;
  std::uint64_t lines_ = 0, kinds_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> stat_ids_, kind_ids_;
};

}  // namespace tpu::traces
