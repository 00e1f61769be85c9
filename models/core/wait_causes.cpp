#include "models/core/wait_causes.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tpu {
namespace {

constexpr std::uint64_t kRuns = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kKept = 256;  ///< Last pieces of a core.

/// What a wait of the sender is to a core that waits for the sender.
WaitCauses::Piece as_the_waiter_sees_it(WaitCauses::Piece piece, std::uint32_t sender) {
  if (piece.reason == CoreState::kInfeedWait || piece.reason == CoreState::kOutfeedWait) {
    piece.reason = CoreState::kPeerHostWait;
    piece.late_core = sender;
  }
  return piece;
}

bool is_of_a_host(CoreState reason) {
  return reason == CoreState::kInfeedWait || reason == CoreState::kOutfeedWait ||
         reason == CoreState::kPeerHostWait;
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

WaitCauses::WaitCauses(std::size_t cores)
    : histories_(cores), since_(cores, kRuns), met_(cores, 0) {}

std::vector<WaitCauses::Piece> WaitCauses::end_wait(std::uint32_t core, const SyncFlags::Wait& wait,
                                                    std::uint64_t now) {
  since_[core] = kRuns;
  std::vector<Piece> pieces;
  const FlagRaiser& raiser = wait.raiser;
  std::uint64_t begin = wait.since;
  if (raiser.is_peer && raiser.sent > begin) {
    append_what_kept(raiser.core, begin, raiser.sent, pieces);
    blame_hosts(core, raiser.core, begin, raiser.sent, pieces);
    begin = raiser.sent;
  }
  append(pieces, {begin, now, raiser.reason, core});
  if (raiser.is_peer) met_[core] = now;
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

/// Of what kept the sender while the core waited for it, its own work that hosts have put off.
void WaitCauses::blame_hosts(std::uint32_t core, std::uint32_t sender, std::uint64_t begin,
                             std::uint64_t sent, std::vector<Piece>& pieces) const {
  const HostWait of_sender = host_wait(sender, met_[core], sent);
  const HostWait own = host_wait(core, met_[core], begin);
  if (of_sender.cycles <= own.cycles) return;
  std::uint64_t late = std::min(of_sender.cycles - own.cycles, sent - begin);
  for (const Piece& piece : pieces) {
    if (is_of_a_host(piece.reason)) late -= std::min(late, piece.end - piece.begin);
  }
  std::vector<Piece> blamed;
  for (const Piece& piece : pieces) {
    const std::uint64_t put_off =
        piece.reason == CoreState::kPeerWait ? std::min(late, piece.end - piece.begin) : 0;
    late -= put_off;
    append(blamed,
           {piece.begin, piece.begin + put_off, CoreState::kPeerHostWait, of_sender.late_core});
    append(blamed, {piece.begin + put_off, piece.end, piece.reason, piece.late_core});
  }
  pieces = std::move(blamed);
}

WaitCauses::HostWait WaitCauses::host_wait(std::uint32_t core, std::uint64_t begin,
                                           std::uint64_t end) const {
  HostWait wait;
  const std::deque<Piece>& past = histories_[core].pieces;
  auto piece = std::partition_point(past.begin(), past.end(),
                                    [&](const Piece& old) { return old.end <= begin; });
  for (; piece != past.end() && piece->begin < end; ++piece) {
    if (!is_of_a_host(piece->reason)) continue;
    wait.cycles += std::min(piece->end, end) - std::max(piece->begin, begin);
    wait.late_core = as_the_waiter_sees_it(*piece, core).late_core;
  }
  return wait;
}

void WaitCauses::remember(std::uint32_t core, const std::vector<Piece>& pieces, std::uint64_t now) {
  History& history = histories_[core];
  history.pieces.insert(history.pieces.end(), pieces.begin(), pieces.end());
  if (history.pieces.size() < history.most) return;
  const std::uint64_t oldest = std::min(now, *std::min_element(since_.begin(), since_.end()));
  while (history.pieces.size() > kKept && history.pieces.front().end <= oldest) {
    history.pieces.pop_front();
  }
  history.most = std::max<std::size_t>(history.most, 2 * history.pieces.size());
}

}  // namespace tpu
