#include "traces/perfetto_writer.h"

#include <zlib.h>

#include <new>

#include "sim/base/error.h"

namespace tpu::traces {
namespace {

constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;
constexpr std::uint64_t kSequence = 1;

namespace packet_field {
constexpr std::uint32_t kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12,
                        kSequenceFlags = 13, kCompressed = 50, kTrackDescriptor = 60;
}
namespace track_field {
constexpr std::uint32_t kUuid = 1, kName = 2, kParent = 5, kCounter = 8, kChildOrdering = 11,
                        kRank = 12;
}
namespace event_field {
constexpr std::uint32_t kCategory = 3, kArgument = 4, kType = 9, kName = 10, kTrack = 11,
                        kDoubleCounter = 44, kFlow = 47, kLastFlow = 48;
}
constexpr std::uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounterEvent = 4;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;
constexpr std::uint64_t kExplicitOrder = 3;

}  // namespace

void PerfettoWriter::packet(const ProtobufMessage& fields, bool needs_state) {
  std::uint64_t flags = needs_state ? kNeedsState : 0;
  if (first_) flags |= kStateCleared;
  first_ = false;
  ProtobufMessage tail;
  tail.varint(packet_field::kSequenceId, kSequence);
  if (flags != 0) tail.varint(packet_field::kSequenceFlags, flags);
  packets_.bytes(1, fields.text(), tail.text());
  if (packets_.text().size() >= kBytesAtOnce) flush();
}

/// What is buffered becomes one packet that holds the others, packed.
void PerfettoWriter::flush() {
  if (packets_.empty()) return;
  uLongf size = ::compressBound(packets_.text().size());
  packed_.resize(size);
  const int done = ::compress2(reinterpret_cast<Bytef*>(packed_.data()), &size,
                               reinterpret_cast<const Bytef*>(packets_.text().data()),
                               packets_.text().size(), Z_BEST_SPEED);
  if (done == Z_MEM_ERROR) throw std::bad_alloc();
  TPU_CHECK(done == Z_OK, "zlib's compress2 returns " << done);
  ProtobufMessage holder;
  holder.bytes(packet_field::kCompressed, std::string_view(packed_.data(), size));
  holder.varint(packet_field::kSequenceId, kSequence);
  file_.write(ProtobufMessage().message(1, holder).text());
  packets_.clear();
}

void PerfettoWriter::descriptor(const ProtobufMessage& track) {
  packet(ProtobufMessage().message(packet_field::kTrackDescriptor, track), false);
}

PerfettoWriter::TrackId PerfettoWriter::add_group(const std::string& name, std::uint32_t rank) {
  ProtobufMessage track;
  track.varint(track_field::kUuid, ++last_track_).string(track_field::kName, name);
  track.varint(track_field::kChildOrdering, kExplicitOrder).varint(track_field::kRank, rank);
  descriptor(track);
  return last_track_;
}

PerfettoWriter::TrackId PerfettoWriter::add_track(const std::string& name, TrackId parent,
                                                  std::uint32_t rank) {
  ProtobufMessage track;
  track.varint(track_field::kUuid, ++last_track_).string(track_field::kName, name);
  track.varint(track_field::kParent, parent);
  track.varint(track_field::kChildOrdering, kExplicitOrder).varint(track_field::kRank, rank);
  descriptor(track);
  return last_track_;
}

PerfettoWriter::TrackId PerfettoWriter::add_counter(const std::string& name, TrackId parent,
                                                    std::uint32_t rank, const std::string& unit) {
  ProtobufMessage track;
  track.varint(track_field::kUuid, ++last_track_).string(track_field::kName, name);
  track.varint(track_field::kParent, parent);
  track.message(track_field::kCounter, ProtobufMessage().bytes(6, unit));
  track.varint(track_field::kRank, rank);
  descriptor(track);
  return last_track_;
}

std::uint64_t PerfettoWriter::intern(Names& names, std::string_view name, std::uint32_t field,
                                     ProtobufMessage& interned) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  const std::uint64_t id = names.size() + 1;
  names.emplace(name, id);
  interned.message(field, ProtobufMessage().varint(1, id).string(2, name));
  return id;
}

void PerfettoWriter::begin_slice(TrackId track, std::uint64_t time_ns, std::string_view name,
                                 std::string_view category, const std::vector<Argument>& arguments,
                                 const Flows& flows) {
  ProtobufMessage interned, event;
  event.varint(event_field::kType, kSliceBegin).varint(event_field::kTrack, track);
  event.varint(event_field::kName, intern(event_names_, name, 2, interned));
  event.varint(event_field::kCategory, intern(categories_, category, 1, interned));
  for (const auto& [key, value] : arguments) {
    ProtobufMessage argument;
    argument.varint(1, intern(argument_names_, key, 3, interned));
    if (const auto* whole = std::get_if<std::uint64_t>(&value)) argument.varint(3, *whole);
    if (const auto* real = std::get_if<double>(&value)) argument.number(5, *real);
    if (const auto* text = std::get_if<Interned>(&value)) {
      argument.varint(17, intern(argument_texts_, text->text, 29, interned));
    }
    event.message(event_field::kArgument, argument);
  }
  for (const std::uint64_t flow : flows.out) event.fixed(event_field::kFlow, flow);
  for (const std::uint64_t flow : flows.in) event.fixed(event_field::kLastFlow, flow);
  ProtobufMessage fields;
  fields.varint(packet_field::kTimestamp, time_ns).message(packet_field::kTrackEvent, event);
  if (!interned.empty()) fields.message(packet_field::kInternedData, interned);
  packet(fields, true);
}

void PerfettoWriter::end_slice(TrackId track, std::uint64_t time_ns) {
  ProtobufMessage event;
  event.varint(event_field::kType, kSliceEnd).varint(event_field::kTrack, track);
  packet(ProtobufMessage()
             .varint(packet_field::kTimestamp, time_ns)
             .message(packet_field::kTrackEvent, event),
         false);
}

void PerfettoWriter::set_counter(TrackId track, std::uint64_t time_ns, double value) {
  ProtobufMessage event;
  event.varint(event_field::kType, kCounterEvent).varint(event_field::kTrack, track);
  event.number(event_field::kDoubleCounter, value);
  packet(ProtobufMessage()
             .varint(packet_field::kTimestamp, time_ns)
             .message(packet_field::kTrackEvent, event),
         false);
}

}  // namespace tpu::traces
