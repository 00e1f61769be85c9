#include "traces/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <type_traits>

#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace tpu::traces {
namespace {

void append(std::string& line, const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char letter : text) {
    if (letter == '"') line += '"';
    line += letter;
  }
  line += '"';
}

template <class Number>
void append(std::string& line, Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(number)) return;
  }
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  line.append(buffer.data(), end);
}

}  // namespace

std::string csv_text(const Table& table) {
  std::string text;
  const auto& columns = table.columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) text += ',';
    append(text, columns[i].name);
  }
  text += "\n";
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) text += ',';
      std::visit([&](const auto& values) { append(text, values[row]); }, columns[i].values);
    }
    text += "\n";
  }
  return text;
}

void export_csv(const Hdf5Contents& contents, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UsageError("-o " + folder + ": expected a folder: " + error.message());
  for (const auto& [path, table] : contents.tables) {
    std::string name = path;
    std::replace(name.begin(), name.end(), '/', '_');
    OutputFile file(folder + "/" + name + ".csv");
    file.write(csv_text(table));
    file.commit();
  }
}

}  // namespace tpu::traces
