#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/traces/wire_reader.h"

namespace tpu::test {

/// The packets of a Perfetto trace in order, those of compressed packets in their place.
inline std::vector<std::string> perfetto_packets(const std::string& trace) {
  std::vector<std::string> packets;
  for (const auto& [field, packet] : parse(trace).texts) {
    EXPECT_EQ(field, 1u);
    const Fields fields = parse(packet);
    const auto packed = fields.texts.find(50);
    if (packed == fields.texts.end()) {
      packets.push_back(packet);
      continue;
    }
    std::string plain(std::size_t{2} << 20, '\0');
    uLongf size = plain.size();
    EXPECT_EQ(
        ::uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                     reinterpret_cast<const Bytef*>(packed->second.data()), packed->second.size()),
        Z_OK);
    plain.resize(size);
    for (std::string& inner : perfetto_packets(plain)) packets.push_back(std::move(inner));
  }
  return packets;
}

struct Track {
  std::string name;
  std::uint64_t parent = 0;
  std::uint64_t rank = 0;  ///< Among those of the parent.
  bool counter = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> slices;
  std::vector<std::string> names;  ///< Of the slices, in the order of their begins.
  std::size_t counts = 0;
  std::vector<std::pair<std::uint64_t, double>> values;  ///< Time, value, of a counter.
};

/// The tracks of a trace; fails the test where slices do not nest or time goes back.
inline std::map<std::uint64_t, Track> tracks_of(const std::string& text) {
  std::map<std::uint64_t, Track> tracks;
  std::map<std::uint64_t, std::vector<std::uint64_t>> open;
  std::map<std::uint64_t, std::uint64_t> last;
  std::map<std::uint64_t, std::string> names;
  bool first = true;
  for (const std::string& packet_text : perfetto_packets(text)) {
    const Fields packet = parse(packet_text);
    EXPECT_EQ(packet.numbers.find(10)->second, 1u);
    // The first packet of the sequence clears its state, no other.
    const auto flags = packet.numbers.find(13);
    EXPECT_EQ(flags != packet.numbers.end() && (flags->second & 1) != 0, first);
    first = false;
    if (packet.texts.count(60) > 0) {
      const Fields track = parse(packet.texts.find(60)->second);
      Track& entry = tracks[track.numbers.find(1)->second];
      entry.name = track.texts.find(2)->second;
      if (track.numbers.count(5) > 0) entry.parent = track.numbers.find(5)->second;
      if (track.numbers.count(12) > 0) entry.rank = track.numbers.find(12)->second;
      entry.counter = track.texts.count(8) > 0;
    }
    if (packet.texts.count(12) > 0) {
      const Fields interned = parse(packet.texts.find(12)->second);
      const auto [begin, end] = interned.texts.equal_range(2);
      for (auto at = begin; at != end; ++at) {
        const Fields name = parse(at->second);
        names[name.numbers.find(1)->second] = name.texts.find(2)->second;
      }
    }
    if (packet.texts.count(11) == 0) continue;
    const Fields event = parse(packet.texts.find(11)->second);
    const std::uint64_t id = event.numbers.find(11)->second;
    const std::uint64_t time = packet.numbers.find(8)->second;
    EXPECT_EQ(tracks.count(id), 1u) << "event on an undeclared track";
    EXPECT_GE(time, last[id]);
    last[id] = time;
    const std::uint64_t type = event.numbers.find(9)->second;
    if (type == 1) {
      open[id].push_back(time);
      tracks[id].names.push_back(names[event.numbers.find(10)->second]);
    }
    if (type == 2) {
      EXPECT_FALSE(open[id].empty());
      tracks[id].slices.emplace_back(open[id].back(), time);
      open[id].pop_back();
    }
    if (type == 4) {
      EXPECT_TRUE(tracks[id].counter);
      ++tracks[id].counts;
      double value = 0;
      std::memcpy(&value, &event.numbers.find(44)->second, 8);
      tracks[id].values.emplace_back(time, value);
    }
  }
  for (const auto& [id, slices] : open) EXPECT_TRUE(slices.empty()) << tracks[id].name;
  return tracks;
}

}  // namespace tpu::test
