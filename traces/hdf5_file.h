#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tpu::traces {

/// A table by columns, all of the same length. In the file it is a dataset of compound type with
/// the attributes of HDF5's table interface: h5py, PyTables and pandas.read_hdf read it. Strings
/// have a fixed length, that of the longest.
class Table {
 public:
  using Column = std::variant<std::vector<std::uint64_t>, std::vector<std::uint32_t>,
                              std::vector<std::int32_t>, std::vector<std::uint8_t>,
                              std::vector<double>, std::vector<std::string>>;
  struct NamedColumn {
    std::string name;
    Column values;
    std::string units, long_name;  ///< Attributes `FIELD_n_UNITS`, `FIELD_n_LONG_NAME`.
  };

  template <class Type>
  Table& add(std::string name, std::vector<Type> values) {
    columns_.push_back({std::move(name), Column(std::move(values)), {}, {}});
    return *this;
  }
  /// Says what stands in a column; the reader does not read it back.
  void describe(std::string_view name, std::string units, std::string long_name);
  const std::vector<NamedColumn>& columns() const { return columns_; }
  std::size_t rows() const;

  /// A column by name and type; throws WorkloadError naming the table when there is none.
  template <class Type>
  const std::vector<Type>& column(std::string_view name) const {
    for (const NamedColumn& each : columns_) {
      if (each.name != name) continue;
      if (const auto* values = std::get_if<std::vector<Type>>(&each.values)) return *values;
    }
    fail_column(name);
  }

  std::string title;  ///< Names the table in errors.

 private:
  [[noreturn]] void fail_column(std::string_view name) const;
  std::vector<NamedColumn> columns_;
};

/// The contents of one of our HDF5 files: tables, byte arrays and text attributes by their path.
///
/// In front of the HDF5 data stands a user block of 512 bytes, readable text, with the kind of the
/// file, its version, the length and a checksum: a file that is cut or changed is known before the
/// HDF5 library sees it. Nothing depends on time or place: the same contents give the same bytes.
struct Hdf5Contents {
  std::map<std::string, std::string> attributes;  ///< Of the root group.
  std::map<std::string, Table> tables;
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  std::set<std::string> unpacked;  ///< Byte arrays that are written as they are, not deflated.

  const std::string& attribute(const std::string& name) const;
  const Table& table(const std::string& path) const;
  const std::vector<std::uint8_t>& byte_array(const std::string& path) const;

  std::string file;  ///< Where they were read from, for errors.
};

/// What a file is: "program" or "run", and the version of its form.
struct FileKind {
  std::string kind;
  int version = 1;
};

/// Writes a file that appears when it is complete.
void write_hdf5(const std::string& path, const FileKind& kind, const Hdf5Contents& contents);

/// Reads a file of this kind and version; throws WorkloadError for everything else.
Hdf5Contents read_hdf5(const std::string& path, const FileKind& kind);

/// The kind of one of our files ("program", "run"), or "" for any other file. Never throws.
std::string kind_of_file(const std::string& path);

}  // namespace tpu::traces
