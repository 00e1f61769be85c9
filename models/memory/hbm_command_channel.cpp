#include "models/memory/hbm_command_channel.h"

#include <algorithm>

namespace tpu {
namespace {

constexpr std::uint64_t kActivateClocks = 2;  ///< On the bus of row commands.
constexpr std::uint64_t kPrechargeClocks = 1;

/// The sum of the digits of a number.
std::uint64_t digit_sum(std::uint64_t value, std::uint64_t base) {
  std::uint64_t sum = 0;
  for (; base > 1 && value > 0; value /= base) sum += value % base;
  return sum;
}

}  // namespace

HbmCommandChannel::HbmCommandChannel(const HbmCommandTiming& timing)
    : timing_(timing), banks_(timing.banks), groups_(timing.groups) {
  if (timing.refresh_interval > 0) next_refresh_ = timing.first_refresh;
}

void HbmCommandChannel::fill_window() {
  for (int d = 0; d < 2; ++d) {
    while (window_[d].size() < timing_.queue_granules && !waiting_[d].empty()) {
      window_[d].push_back(expanded(waiting_[d].front()));
      waiting_[d].pop_front();
    }
  }
}

HbmCommandChannel::Entry HbmCommandChannel::expanded(const Waiting& granule) const {
  Entry entry;
  entry.arrival = granule.arrival;
  entry.request = granule.request;
  const std::uint64_t groups_in_turn = timing_.groups == 1 ? 1 : 2;
  const std::uint64_t rows = granule.index / (groups_in_turn * timing_.granules_per_row);
  const std::uint64_t sets = timing_.groups / groups_in_turn;
  const std::uint64_t banks_of_group = timing_.banks / timing_.groups;
  const std::uint64_t in_group = rows / sets;
  const std::uint64_t bank =
      (in_group + digit_sum(in_group / banks_of_group, banks_of_group)) % banks_of_group;
  for (std::uint64_t part = 0; part < groups_in_turn; ++part) {
    const std::uint64_t group = rows % sets * groups_in_turn + part;
    entry.parts[part].bank = static_cast<std::uint32_t>(bank * timing_.groups + group);
    entry.parts[part].row = in_group / banks_of_group;
    entry.parts[part].bursts = timing_.bursts_per_granule / groups_in_turn;
  }
  entry.parts[0].bursts = timing_.bursts_per_granule - entry.parts[1].bursts;
  return entry;
}

/// Whose column commands are issued now.
int HbmCommandChannel::served_direction() const {
  const int other = 1 - direction_;
  if (window_[direction_].empty()) return window_[other].empty() ? direction_ : other;
  if (window_[other].empty()) return direction_;
  const bool other_waits = waits(other, clock_);
  if (since_turn_ >= timing_.drain_bursts && other_waits) return other;
  if (waits(direction_, clock_)) return direction_;
  if (other_waits) return other;
  return window_[direction_].front().arrival <= window_[other].front().arrival ? direction_ : other;
}

/// One of the first entries of a direction has bursts left in the row.
bool HbmCommandChannel::wants(int direction, std::size_t entries, std::uint32_t bank,
                              std::uint64_t row) const {
  for (std::size_t i = 0; i < entries; ++i) {
    const Entry& entry = window_[direction][i];
    if (entry.arrival > clock_) return false;
    for (const Part& part : entry.parts) {
      if (part.bursts > 0 && part.bank == bank && part.row == row) return true;
    }
  }
  return false;
}

std::uint64_t HbmCommandChannel::column_clock(int direction, const Entry& entry,
                                              const Part& part) const {
  const Bank& bank = banks_[part.bank];
  if (part.bursts == 0 || !bank.open || bank.row != part.row) return kNever;
  const Group& group = groups_[group_of(part.bank)];
  std::uint64_t clock = std::max({clock_, entry.arrival, next_column_[direction], group.next_column,
                                  bank.opened + timing_.row_to_column[direction]});
  if (direction == 0) clock = std::max(clock, group.next_read);
  return clock;
}

std::uint64_t HbmCommandChannel::row_clock(int direction, std::size_t entry, const Part& part,
                                           int served) const {
  const Bank& bank = banks_[part.bank];
  if (part.bursts == 0 || (bank.open && bank.row == part.row)) return kNever;
  const std::uint64_t clock = std::max({clock_, window_[direction][entry].arrival, next_row_});
  if (bank.open) {
    const bool used =
        wants(direction, entry, part.bank, bank.row) ||
        (direction != served && wants(served, window_[served].size(), part.bank, bank.row));
    return used ? kNever : std::max(clock, bank.may_close);
  }
  return std::max({clock, bank.may_open, next_open_, groups_[group_of(part.bank)].next_row,
                   last_rows_[oldest_row_]});
}

HbmCommandChannel::Choice HbmCommandChannel::next_column(int served) const {
  Choice best;
  for (std::size_t e = 0; e < window_[served].size(); ++e) {
    const Entry& entry = window_[served][e];
    for (std::size_t p = 0; p < entry.parts.size(); ++p) {
      const std::uint64_t clock = column_clock(served, entry, entry.parts[p]);
      if (clock < best.clock) best = {clock, served, e, p};
    }
  }
  return best;
}

HbmCommandChannel::Choice HbmCommandChannel::next_row(int served) const {
  Choice best;
  for (const int direction : {served, 1 - served}) {
    for (std::size_t e = 0; e < window_[direction].size(); ++e) {
      const Entry& entry = window_[direction][e];
      for (std::size_t p = 0; p < entry.parts.size(); ++p) {
        const std::uint64_t clock = row_clock(direction, e, entry.parts[p], served);
        if (clock < best.clock) best = {clock, direction, e, p};
      }
    }
  }
  return best;
}

/// Opens the row of a part, or closes the one that is in its place.
void HbmCommandChannel::issue_row(const Choice& choice) {
  const Part& part = window_[choice.direction][choice.entry].parts[choice.part];
  Bank& bank = banks_[part.bank];
  const std::uint64_t clock = choice.clock;
  if (bank.open) {
    note(HbmCommand::Kind::kPrecharge, clock, part.bank, bank.row);
    bank.open = false;
    bank.may_open = clock + timing_.precharge;
    next_row_ = clock + kPrechargeClocks;
    return;
  }
  note(HbmCommand::Kind::kActivate, clock, part.bank, part.row);
  bank.open = true;
  bank.row = part.row;
  bank.opened = clock;
  bank.may_close = clock + timing_.row_open;
  next_row_ = clock + kActivateClocks;
  next_open_ = clock + timing_.row_to_row;
  groups_[group_of(part.bank)].next_row = clock + timing_.row_to_row_group;
  last_rows_[oldest_row_] = clock + timing_.four_rows;
  oldest_row_ = (oldest_row_ + 1) % last_rows_.size();
}

std::uint64_t HbmCommandChannel::issue_column(const Choice& choice) {
  const int d = choice.direction;
  Entry& entry = window_[d][choice.entry];
  Part& part = entry.parts[choice.part];
  Bank& bank = banks_[part.bank];
  Group& group = groups_[group_of(part.bank)];
  const std::uint64_t clock = choice.clock;
  const std::uint64_t data_end = clock + timing_.column_to_data[d] + timing_.burst;
  note(d == 0 ? HbmCommand::Kind::kRead : HbmCommand::Kind::kWrite, clock, part.bank, part.row);
  count_idle(data_end - timing_.burst, d != direction_);
  const std::uint64_t begin = std::max(counted_, data_end - timing_.burst);
  clocks_.data += data_end - begin;
  history_.add(begin, data_end, data_end - begin);
  counted_ = data_end;
  next_column_[d] = clock + timing_.burst;
  group.next_column = clock + timing_.column_to_column_group;
  if (d == 0) {
    bank.may_close = std::max(bank.may_close, clock + timing_.read_to_precharge);
    const std::uint64_t bus = data_end + timing_.bus_turn;
    const std::uint64_t latency = timing_.column_to_data[1];
    next_column_[1] = std::max(next_column_[0], bus > latency ? bus - latency : 0);
  } else {
    bank.may_close = std::max(bank.may_close, data_end + timing_.write_recovery);
    next_column_[0] = data_end + timing_.write_to_read;
    group.next_read = data_end + timing_.write_to_read_group;
  }
  if (d != direction_) since_turn_ = 0;
  direction_ = d;
  ++since_turn_;
  --part.bursts;
  if (entry.left() == 0) {
    window_[d].erase(window_[d].begin() + static_cast<std::ptrdiff_t>(choice.entry));
  }
  return data_end;
}

/// The data bus, empty up to a clock: before anything had arrived; then for a refresh that has come
/// since its last data; for a turn; for rows and the distances of commands.
void HbmCommandChannel::count_idle(std::uint64_t until, bool turns) {
  if (until <= counted_) return;
  std::uint64_t asked = until;
  for (const std::vector<Entry>& window : window_) {
    if (!window.empty()) asked = std::min(asked, window.front().arrival);
  }
  asked = std::max(asked, counted_);
  clocks_.not_asked += asked - counted_;
  const bool refreshed = last_refresh_ != kNever && last_refresh_ < until;
  (refreshed ? clocks_.refresh : turns ? clocks_.turn : clocks_.rows) += until - asked;
  if (refreshed) last_refresh_ = kNever;
  counted_ = until;
}

void HbmCommandChannel::begin_account(std::uint64_t clock) {
  fill_window();
  count_idle(clock, false);
  clocks_ = {};
  clocks_.data = counted_ - clock;
  history_.restart(clock);
}

HbmCommandClocks HbmCommandChannel::account(std::uint64_t clock) {
  fill_window();
  count_idle(clock, false);
  clocks_.data -= counted_ - clock;
  counted_ = clock;
  return clocks_;
}

/// The refresh that is due: what is open is closed as soon as it may be.
void HbmCommandChannel::refresh() {
  const std::uint64_t due = next_refresh_;
  next_refresh_ += timing_.refresh_interval;
  const bool all = !timing_.single_bank_refresh;
  const std::uint32_t first = all ? 0 : refreshed_bank_;
  const std::uint32_t end = all ? timing_.banks : refreshed_bank_ + 1;
  std::uint64_t begin = due;
  std::uint64_t close = due;
  for (std::uint32_t b = first; b < end; ++b) {
    if (banks_[b].open) close = std::max({close, banks_[b].may_close, next_row_});
  }
  for (std::uint32_t b = first; b < end; ++b) {
    Bank& bank = banks_[b];
    if (bank.open) {
      note(HbmCommand::Kind::kPrecharge, close, b, bank.row);
      bank.open = false;
      bank.may_open = close + timing_.precharge;
      next_row_ = std::max(next_row_, close + kPrechargeClocks);
    }
    begin = std::max(begin, bank.may_open);
  }
  for (std::uint32_t b = first; b < end; ++b) banks_[b].may_open = begin + timing_.refresh;
  note(HbmCommand::Kind::kRefresh, begin, all ? timing_.banks : first, 0);
  refreshed_bank_ = (refreshed_bank_ + 1) % timing_.banks;
  last_refresh_ = due;
}

}  // namespace tpu
