#include "isa/manual.h"

#include "isa/opcode_table.h"

namespace tpu::isa {
namespace {

std::string operands(const OpcodeInfo& row) {
  std::string text;
  const auto append = [&text](const std::string& operand) {
    if (!text.empty()) text += ", ";
    text += operand;
  };
  if (row.address != 0) append("[" + std::string(memory_of_address(row)) + "]");
  for (std::size_t i = 0; i < row.operand_count; ++i) {
    switch (row.operand_files[i]) {
      case 'm':
        append("%vm");
        break;
      case 'i':
        append("number");
        break;
      case 'L':
        append("bundle");
        break;
      case 'C':
        append("call site");
        break;
      default:
        append(std::string("%") + row.operand_files[i]);
    }
  }
  return text;
}

std::string destination(const OpcodeInfo& row) {
  if (row.dest_file == 0) return "";
  return row.dest_file == 'm' ? "%vm" : std::string("%") + row.dest_file;
}

/// A bar inside a cell of a table has to be escaped.
std::string cell(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string slot_text(const OpcodeInfo& row) {
  return std::string(to_string(row.slot)) + (row.fits_misc_slot ? " or misc" : "");
}

std::string queue_text(const OpcodeInfo& row) {
  if (row.queue == Queue::kNone) return "";
  return std::string(row.pops ? "pops " : "pushes ") + to_string(row.queue);
}

}  // namespace

std::string manual_tables() {
  std::string text;
  for (int i = 0; i < static_cast<int>(UnitKind::kCount); ++i) {
    const auto unit = static_cast<UnitKind>(i);
    std::string rows;
    for (std::size_t j = 0; j < kOpcodeCount; ++j) {
      const OpcodeInfo& row = info(static_cast<Opcode>(j));
      if (row.unit != unit) continue;
      rows += "| `" + std::string(row.text) + "` | " + destination(row) + " | " + operands(row) +
              " | " + slot_text(row) + " | " + to_string(row.latency) + " | " + queue_text(row) +
              " | " + to_string(row.status) + " | " + cell(row.meaning) + " |\n";
    }
    if (rows.empty()) continue;
    text += "### " + std::string(to_string(unit)) + "\n\n";
    text += "| instruction | result | operands | slot | latency | queue | status | meaning |\n";
    text += "|---|---|---|---|---|---|---|---|\n" + rows + "\n";
  }
  return text;
}

}  // namespace tpu::isa
