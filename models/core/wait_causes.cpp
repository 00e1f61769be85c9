#include "models/core/wait_causes.h"

#include <algorithm>
#include <limits>

namespace tpu {
namespace {

constexpr std::uint64_t kRuns = std::numeric_limits<std::uint64_t>::max();

/// What a wait of the sender is to a core that waits for the sender.
WaitCauses::Piece as_the_waiter_sees_it(WaitCauses::Piece piece, std::uint32_t sender) {
  if (piece.reason == CoreState::kInfeedWait || piece.reason == CoreState::kOutfeedWait) {
    piece.reason = CoreState::kPeerHostWait;
    piece.late_core = sender;
  }
  return piece;
}

/// Appends a stretch, as part of the last one where both count as the same.
void append(std::vector<WaitCauses::Piece>& pieces, const WaitCauses::Piece& piece) {
  if (piece.begin == piece.end) return;
  if (!pieces.empty() && pieces.back().reason == piece.reason &&
      pieces.back().late_core == piece.late_core) {
    pieces.back().end = piece.end;
    return;
  }
  pieces.push_back(piece);
}

}  // namespace

WaitCauses::WaitCauses(std::size_t cores) : histories_(cores), since_(cores, kRuns) {}

std::vector<WaitCauses::Piece> WaitCauses::end_wait(std::uint32_t core, const SyncFlags::Wait& wait,
                                                    std::uint64_t now) {
  since_[core] = kRuns;
  std::vector<Piece> pieces;
  const FlagRaiser& raiser = wait.raiser;
  std::uint64_t begin = wait.since;
  if (raiser.is_peer && raiser.sent > begin) {
    append_what_kept(raiser.core, begin, raiser.sent, pieces);
    begin = raiser.sent;
  }
  append(pieces, {begin, now, raiser.reason, core});
  if (raiser.reason != CoreState::kMemoryWait) remember(core, pieces, now);
  return pieces;
}

void WaitCauses::append_what_kept(std::uint32_t sender, std::uint64_t begin, std::uint64_t end,
                                  std::vector<Piece>& pieces) const {
  const std::deque<Piece>& past = histories_[sender].pieces;
  auto piece = std::partition_point(past.begin(), past.end(),
                                    [&](const Piece& old) { return old.end <= begin; });
  for (; begin < end; ++piece) {
    const std::uint64_t next = piece == past.end() ? end : std::clamp(piece->begin, begin, end);
    append(pieces, {begin, next, CoreState::kPeerWait, sender});
    begin = next;
    if (piece == past.end() || begin == end) return;
    Piece kept = as_the_waiter_sees_it(*piece, sender);
    kept.begin = begin;
    kept.end = std::min(piece->end, end);
    append(pieces, kept);
    begin = kept.end;
  }
}

void WaitCauses::remember(std::uint32_t core, const std::vector<Piece>& pieces, std::uint64_t now) {
  History& history = histories_[core];
  history.pieces.insert(history.pieces.end(), pieces.begin(), pieces.end());
  if (history.pieces.size() < history.most) return;
  const std::uint64_t oldest = std::min(now, *std::min_element(since_.begin(), since_.end()));
  while (!history.pieces.empty() && history.pieces.front().end <= oldest) {
    history.pieces.pop_front();
  }
  history.most = std::max<std::size_t>(history.most, 2 * history.pieces.size());
}

}  // namespace tpu
