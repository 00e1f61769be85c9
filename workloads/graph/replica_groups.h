#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tpu {
class TokenCursor;
}  // namespace tpu

namespace tpu::hlo {

/// Devices that a module may be for.
constexpr std::int64_t kMostReplicas = 1 << 20;

/// The members of each group that replica_groups in HLO text states: `{{0,1},{2,3}}`,
/// `[2,4]<=[4,2]T(1,0)` (devices counted over the mesh [4,2], transposed, cut into 2 groups of 4),
/// or `mesh['x'=2,'y'=4] {'y'}` (devices that differ in the listed axes only; `'y':(2)2` is the
/// part of an axis between its outer 2 and its inner rest). Empty: all replicas. Nothing else may
/// stand behind them.
std::vector<std::vector<std::int64_t>> read_replica_groups(TokenCursor& cursor);
std::vector<std::vector<std::int64_t>> expand_replica_groups(std::string_view text);

}  // namespace tpu::hlo
