#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "models/memory/hbm_model.h"

namespace tpu::bench {

/// Requests to one half of the HBM, of which `depth` are under way at a time.
struct HbmTraffic {
  std::string name;
  std::vector<HbmRequest> requests;
  std::size_t depth = 1;
  /// What the closed form may take longer or shorter than the commands, at any phase of the
  /// refresh.
  double bound = 0.05;
};

/// The cycle in which the last request is done.
inline std::uint64_t run(HbmModel& hbm, const HbmTraffic& traffic) {
  std::size_t next = 0;
  std::size_t under_way = 0;
  std::uint64_t now = 0;
  while (next < traffic.requests.size() || under_way > 0) {
    for (; next < traffic.requests.size() && under_way < traffic.depth; ++next, ++under_way) {
      hbm.submit(traffic.requests[next], now);
    }
    now = std::max(now, hbm.next_event().value());
    under_way -= hbm.advance(now).size();
  }
  return now;
}

inline HbmRequest hbm_request(bool write, std::uint64_t address, std::uint64_t granules,
                              std::uint64_t per_run = 0, std::uint64_t stride = 0) {
  HbmRequest request;
  request.write = write;
  request.address = address;
  request.granules = granules;
  request.granules_per_run = per_run;
  request.stride = stride;
  return request;
}

/// `count` requests of `granules` one behind the other from `address` on.
inline void add_stream(std::vector<HbmRequest>& requests, bool write, std::uint64_t address,
                       std::uint64_t count, std::uint64_t granules) {
  for (std::uint64_t i = 0; i < count; ++i) {
    requests.push_back(hbm_request(write, address + i * granules, granules));
  }
}

/// Reads and writes by turns, each a stream of its own.
inline std::vector<HbmRequest> mixed(std::uint64_t count, std::uint64_t granules,
                                     std::uint64_t reads_per_write) {
  std::vector<HbmRequest> requests;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t reads = reads_per_write;
    add_stream(requests, false, i * reads * granules, reads, granules);
    add_stream(requests, true, 1000000 + i * granules, 1, granules);
  }
  return requests;
}

/// Single rows, of random addresses.
inline std::vector<HbmRequest> random_rows(std::uint64_t count, std::uint64_t granules,
                                           std::uint32_t percent_written, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<HbmRequest> requests;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool write = random() % 100 < percent_written;
    requests.push_back(hbm_request(write, random() % 4000000, granules));
  }
  return requests;
}

inline std::vector<HbmTraffic> hbm_traffic() {
  const auto stream = [](bool write, std::uint64_t count, std::uint64_t granules) {
    std::vector<HbmRequest> requests;
    add_stream(requests, write, 0, count, granules);
    return requests;
  };
  const auto strided = [](bool write, std::uint64_t per_run, std::uint64_t stride) {
    std::vector<HbmRequest> requests;
    for (std::uint64_t i = 0; i < 32; ++i) {
      requests.push_back(hbm_request(write, i * 128 * stride / per_run, 128, per_run, stride));
    }
    return requests;
  };
  return {
      {"sequential reads, 4 MiB at once", stream(false, 1, 4096), 1, 0.02},
      {"sequential writes, 4 MiB at once", stream(true, 1, 4096), 1, 0.02},
      {"reads of 256 KiB, two under way", stream(false, 16, 256), 2, 0.02},
      {"writes of 256 KiB, two under way", stream(true, 16, 256), 2, 0.02},
      {"reads of 32 KiB, one by one", stream(false, 64, 32), 1, 0.03},
      {"writes of 32 KiB, one by one", stream(true, 64, 32), 1, 0.07},
      {"strided reads, 4 KiB of each 64, two under way", strided(false, 4, 64), 2, 0.12},
      {"strided reads, 1 KiB of each 32, two under way", strided(false, 1, 32), 2, 0.04},
      {"strided writes, 2 KiB of each 48, two under way", strided(true, 2, 48), 2, 0.2},
      {"a read and a write of 128 KiB by turns, four under way", mixed(16, 128, 1), 4, 0.05},
      {"two reads and a write of 64 KiB by turns, six under way", mixed(16, 64, 2), 6, 0.08},
      {"random rows, read, 512 under way", random_rows(4096, 1, 0, 1), 512, 0.05},
      {"random rows, a third written, 512 under way", random_rows(4096, 1, 33, 2), 512, 0.05},
      {"gather: rows of 1 KiB, 16 under way", random_rows(1024, 1, 0, 3), 16, 0.08},
      {"gather: rows of 4 KiB, 64 under way", random_rows(1024, 4, 0, 4), 64, 0.05},
  };
}

}  // namespace tpu::bench
