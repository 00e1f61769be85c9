#include "traces/xplane_writer.h"

namespace tpu::traces {
namespace {

namespace plane_field {
constexpr std::uint32_t kId = 1, kName = 2, kLine = 3, kEventMetadata = 4, kStatMetadata = 5,
                        kStat = 6;
}
namespace line_field {
constexpr std::uint32_t kId = 1, kName = 2, kEvent = 4, kDisplayId = 10;
}
namespace event_field {
constexpr std::uint32_t kMetadata = 1, kOffset = 2, kDuration = 3, kStat = 4;
}
namespace metadata_field {
constexpr std::uint32_t kId = 1, kName = 2, kDisplayName = 4, kStat = 5;
}
namespace stat_field {
constexpr std::uint32_t kMetadata = 1, kDouble = 2, kUnsigned = 3, kSigned = 4, kText = 5,
                        kBytes = 6, kReference = 7;
}
constexpr std::uint32_t kMapKey = 1, kMapValue = 2;

}  // namespace

XPlane::XPlane(std::uint64_t id, std::string_view name) {
  plane_.varint(plane_field::kId, id).string(plane_field::kName, name);
}

std::uint64_t XPlane::stat_id(std::string_view name) {
  const auto found = stat_ids_.find(name);
  if (found != stat_ids_.end()) return found->second;
  const std::uint64_t id = stat_ids_.size() + 1;
  stat_ids_.emplace(name, id);
  const ProtobufMessage metadata =
      ProtobufMessage().varint(metadata_field::kId, id).string(metadata_field::kName, name);
  plane_.message(plane_field::kStatMetadata,
                 ProtobufMessage().varint(kMapKey, id).message(kMapValue, metadata));
  return id;
}

ProtobufMessage XPlane::stat_message(const Stat& stat) {
  ProtobufMessage message;
  message.varint(stat_field::kMetadata, stat_id(stat.name));
  if (const auto* number = std::get_if<std::int64_t>(&stat.value)) {
    message.varint(stat_field::kSigned, static_cast<std::uint64_t>(*number));
  } else if (const auto* whole = std::get_if<Unsigned>(&stat.value)) {
    message.varint(stat_field::kUnsigned, whole->number);
  } else if (const auto* real = std::get_if<double>(&stat.value)) {
    message.number(stat_field::kDouble, *real);
  } else if (const auto* text = std::get_if<std::string>(&stat.value)) {
    message.string(stat_field::kText, *text);
  } else if (const auto* bytes = std::get_if<Bytes>(&stat.value)) {
    message.bytes(stat_field::kBytes, bytes->bytes);
  } else if (const auto* interned = std::get_if<Interned>(&stat.value)) {
    message.varint(stat_field::kReference, stat_id(interned->text));
  }
  return message;
}

void XPlane::add_stats(const Stats& stats) {
  for (const Stat& stat : stats) plane_.message(plane_field::kStat, stat_message(stat));
}

std::uint64_t XPlane::add_kind(std::string_view name, std::string_view display_name,
                               const Stats& stats, std::uint64_t fixed_id) {
  const std::uint64_t id = fixed_id > 0 ? fixed_id : ++kinds_;
  ProtobufMessage metadata;
  metadata.varint(metadata_field::kId, id).string(metadata_field::kName, name);
  if (!display_name.empty()) metadata.string(metadata_field::kDisplayName, display_name);
  for (const Stat& stat : stats) metadata.message(metadata_field::kStat, stat_message(stat));
  plane_.message(plane_field::kEventMetadata,
                 ProtobufMessage().varint(kMapKey, id).message(kMapValue, metadata));
  return id;
}

std::uint64_t XPlane::kind(std::string_view name) {
  const auto found = kind_ids_.find(name);
  if (found != kind_ids_.end()) return found->second;
  return kind_ids_.emplace(name, add_kind(name, "", {})).first->second;
}

void XPlane::begin_line(std::string_view name) {
  end_line();
  line_ = ProtobufMessage();
  line_name_ = name;
}

void XPlane::add_event(std::uint64_t kind, std::uint64_t begin_ps, std::uint64_t duration_ps,
                       const Stats& stats) {
  if (!line_has_events_) {
    ++lines_;
    line_.varint(line_field::kId, lines_).string(line_field::kName, line_name_);
    line_.varint(line_field::kDisplayId, lines_);
  }
  ProtobufMessage event;
  event.varint(event_field::kMetadata, kind).varint(event_field::kOffset, begin_ps);
  event.varint(event_field::kDuration, duration_ps);
  for (const Stat& stat : stats) event.message(event_field::kStat, stat_message(stat));
  line_.message(line_field::kEvent, event);
  line_has_events_ = true;
}

void XPlane::end_line() {
  if (line_has_events_) plane_.message(plane_field::kLine, line_);
  line_has_events_ = false;
}

const ProtobufMessage& XPlane::finish() {
  end_line();
  return plane_;
}

}  // namespace tpu::traces
