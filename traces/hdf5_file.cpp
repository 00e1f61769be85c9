#include "traces/hdf5_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <sstream>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "traces/hdf5_handle.h"
#include "traces/hdf5_reader.h"

namespace tpu::traces {
namespace {

constexpr std::size_t kUserBlockBytes = 512;
constexpr std::string_view kMagic = "tpusim file\n";
constexpr hsize_t kChunkRows = 16384;

struct ColumnForm {
  hid_t type = -1;  ///< Owned only for strings.
  std::size_t bytes = 0;
};

std::size_t longest(const std::vector<std::string>& strings) {
  std::size_t length = 0;
  for (const std::string& text : strings) length = std::max(length, text.size());
  return length + 1;
}

struct FormOf {
  ColumnForm operator()(const std::vector<std::uint64_t>&) const { return {H5T_STD_U64LE, 8}; }
  ColumnForm operator()(const std::vector<std::uint32_t>&) const { return {H5T_STD_U32LE, 4}; }
  ColumnForm operator()(const std::vector<std::int32_t>&) const { return {H5T_STD_I32LE, 4}; }
  ColumnForm operator()(const std::vector<std::uint8_t>&) const { return {H5T_STD_U8LE, 1}; }
  ColumnForm operator()(const std::vector<double>&) const { return {H5T_IEEE_F64LE, 8}; }
  ColumnForm operator()(const std::vector<std::string>& strings) const {
    return {H5T_C_S1, longest(strings)};
  }
};

void write_text_attribute(hid_t object, const std::string& name, const std::string& text) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  checked(H5Tset_size(type, text.size() + 1));
  checked(H5Tset_strpad(type, H5T_STR_NULLTERM));
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  checked(H5Awrite(attribute, type, text.c_str()));
}

/// Creates the groups of a path "events/dmas" without times of creation.
void create_groups(hid_t file, const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (H5Lexists(file, group.c_str(), H5P_DEFAULT) > 0) continue;
    const Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
    checked(H5Pset_obj_track_times(properties, 0));
    const Handle created(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT),
                         H5Gclose);
  }
}

enum class Packing { kNone, kDeflated };

void write_dataset(hid_t file, const std::string& path, hid_t type, hsize_t rows,
                   const std::vector<std::uint8_t>& data, hsize_t chunk_rows, Packing packing,
                   const Table* table) {
  create_groups(file, path);
  const hsize_t maximum = H5S_UNLIMITED;
  const Handle space(H5Screate_simple(1, &rows, &maximum), H5Sclose);
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  checked(H5Pset_obj_track_times(properties, 0));
  // The library packs and unpacks whole chunks: no larger ones than the data fill.
  const hsize_t chunk = std::max<hsize_t>(std::min(chunk_rows, rows), 1);
  checked(H5Pset_chunk(properties, 1, &chunk));
  if (packing == Packing::kDeflated) {
    checked(H5Pset_shuffle(properties));
    checked(H5Pset_deflate(properties, 4));
  }
  const Handle dataset(
      H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose);
  if (rows > 0) checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()));
  if (table == nullptr) return;
  write_text_attribute(dataset, "CLASS", "TABLE");
  write_text_attribute(dataset, "VERSION", "3.0");
  write_text_attribute(dataset, "TITLE", path);
  std::size_t index = 0;
  for (const Table::NamedColumn& column : table->columns()) {
    const std::string field = "FIELD_" + std::to_string(index++);
    write_text_attribute(dataset, field + "_NAME", column.name);
    if (column.long_name.empty()) continue;
    write_text_attribute(dataset, field + "_UNITS", column.units);
    write_text_attribute(dataset, field + "_LONG_NAME", column.long_name);
  }
}

struct CopyIn {
  std::uint8_t* to;
  std::size_t stride;
  std::size_t bytes;
  template <class Type>
  void operator()(const std::vector<Type>& values) const {
    for (std::size_t row = 0; row < values.size(); ++row) {
      std::memcpy(to + row * stride, &values[row], sizeof(Type));
    }
  }
  void operator()(const std::vector<std::string>& values) const {
    for (std::size_t row = 0; row < values.size(); ++row) {
      std::memcpy(to + row * stride, values[row].data(), values[row].size());
    }
  }
};

void write_table(hid_t file, const std::string& path, const Table& table) {
  std::vector<ColumnForm> forms;
  std::size_t row_bytes = 0;
  for (const Table::NamedColumn& column : table.columns()) {
    forms.push_back(std::visit(FormOf(), column.values));
    row_bytes += forms.back().bytes;
  }
  const Handle type(H5Tcreate(H5T_COMPOUND, row_bytes), H5Tclose);
  std::vector<std::uint8_t> data(row_bytes * table.rows());
  std::size_t offset = 0;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    const Table::NamedColumn& column = table.columns()[i];
    const Handle member(H5Tcopy(forms[i].type), H5Tclose);
    if (std::holds_alternative<std::vector<std::string>>(column.values)) {
      checked(H5Tset_size(member, forms[i].bytes));
      checked(H5Tset_strpad(member, H5T_STR_NULLTERM));
    }
    checked(H5Tinsert(type, column.name.c_str(), offset, member));
    if (!data.empty()) {
      std::visit(CopyIn{data.data() + offset, row_bytes, forms[i].bytes}, column.values);
    }
    offset += forms[i].bytes;
  }
  write_dataset(file, path, type, table.rows(), data, kChunkRows, Packing::kDeflated, &table);
}

std::vector<std::uint8_t> hdf5_image(const Hdf5Contents& contents) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  checked(H5Pset_fapl_core(access, std::size_t{1} << 20, 0));
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  checked(H5Pset_obj_track_times(creation, 0));
  const Handle file(H5Fcreate(kHdf5ImageName, H5F_ACC_TRUNC, creation, access), H5Fclose);
  {
    const Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
    for (const auto& [name, text] : contents.attributes) write_text_attribute(root, name, text);
  }
  for (const auto& [path, table] : contents.tables) write_table(file, path, table);
  for (const auto& [path, data] : contents.bytes) {
    const bool unpacked = contents.unpacked.count(path) != 0;
    write_dataset(file, path, H5T_STD_U8LE, data.size(), data, hsize_t{1} << 20,
                  unpacked ? Packing::kNone : Packing::kDeflated, nullptr);
  }
  checked(H5Fflush(file, H5F_SCOPE_GLOBAL));
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  if (size <= 0) throw Hdf5Failure{};
  std::vector<std::uint8_t> image(static_cast<std::size_t>(size));
  if (H5Fget_file_image(file, image.data(), image.size()) != size) throw Hdf5Failure{};
  return image;
}

unsigned long checksum(const std::uint8_t* data, std::size_t bytes) {
  return crc32_z(crc32_z(0, nullptr, 0), data, bytes);
}

/// In front of so many bytes with this checksum.
std::string user_block(const FileKind& kind, std::size_t bytes, unsigned long sum) {
  std::ostringstream text;
  text << kMagic << "kind: " << kind.kind << "\nversion: " << kind.version << "\nbytes: " << bytes
       << "\ncrc32: " << std::hex << sum
       << "\nAn HDF5 file with a user block of 512 bytes: h5py and pandas.read_hdf read it.\n";
  std::string block = text.str();
  TPU_CHECK(block.size() <= kUserBlockBytes, "a user block of " << block.size() << " bytes");
  block.resize(kUserBlockBytes, '\0');
  return block;
}

/// The value of "key: value\n" in a user block, or "".
std::string block_value(std::string_view block, const std::string& key) {
  const std::string start = "\n" + key + ": ";
  const std::size_t at = block.find(start);
  if (at == std::string_view::npos) return "";
  const std::size_t begin = at + start.size();
  const std::size_t end = block.find('\n', begin);
  return end == std::string_view::npos ? "" : std::string(block.substr(begin, end - begin));
}

/// A file in memory.
struct FileBytes {
  std::unique_ptr<std::uint8_t[]> data;
  std::size_t size = 0;
};

FileBytes read_all(const std::string& path, const std::string& expected) {
  const auto fail = [&](const std::string& found) {
    throw WorkloadError(path + ": expected " + expected + found);
  };
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail(std::string(": ") + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail(", found a directory");
  if (!S_ISREG(status.st_mode)) fail(", found no regular file");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(std::string(": ") + std::strerror(errno));
  const auto size = static_cast<std::size_t>(status.st_size);
  // Not filled with zeros first: a program of XLA's has dozens of megabytes.
  FileBytes file{std::unique_ptr<std::uint8_t[]>(new std::uint8_t[size]), 0};
  int error_number = 0;
  while (file.size < size) {
    const ssize_t count = ::read(descriptor, file.data.get() + file.size, size - file.size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error_number = errno;
    if (count <= 0) break;
    file.size += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  if (error_number != 0) fail(std::string(": ") + std::strerror(error_number));
  return file;
}

/// Reads a file and checks its user block; the HDF5 data stand behind it.
FileBytes checked_file(const std::string& path, const FileKind& kind) {
  const std::string expected = "a " + kind.kind + " file of tpusim";
  FileBytes file = read_all(path, expected);
  const std::string_view block(reinterpret_cast<const char*>(file.data.get()),
                               std::min(file.size, kUserBlockBytes));
  if (block.substr(0, kMagic.size()) != kMagic) {
    throw WorkloadError(path + ": expected " + expected + ", found another kind of file");
  }
  const std::string found_kind = block_value(block, "kind");
  if (found_kind != kind.kind) {
    throw WorkloadError(path + ": expected " + expected + ", found a " + found_kind + " file");
  }
  const std::string version = block_value(block, "version");
  if (version != std::to_string(kind.version)) {
    throw WorkloadError(path + ": expected version " + std::to_string(kind.version) + " of a " +
                        kind.kind + " file, found version " + version +
                        "; write it again with this tpusim");
  }
  const std::string bytes = block_value(block, "bytes");
  const std::size_t rest = file.size - std::min(file.size, kUserBlockBytes);
  if (bytes != std::to_string(rest)) {
    throw WorkloadError(path + ": expected " + bytes + " bytes behind the first 512, found " +
                        std::to_string(rest) + ": the file is not complete");
  }
  const unsigned long found_sum = checksum(file.data.get() + kUserBlockBytes, rest);
  std::ostringstream sum;
  sum << std::hex << found_sum;
  if (block_value(block, "crc32") != sum.str()) {
    throw WorkloadError(path + ": expected the checksum " + block_value(block, "crc32") +
                        ", found " + sum.str() + ": the file has changed since it was written");
  }
  if (user_block(kind, rest, found_sum) != block) {
    throw WorkloadError(path + ": expected nothing but kind, version, length and checksum in the " +
                        "first 512 bytes, found more: the file has changed since it was written");
  }
  return file;
}

void silence_hdf5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

/// Has the memory that the library needs for an image of so many bytes: where it finds none, HDF5
/// 1.10 ends the process itself, or crashes.
void require_memory(std::size_t image_bytes) {
  constexpr std::size_t kCaches = std::size_t{16} << 20;
  void* volatile memory = std::malloc(3 * image_bytes + kCaches);
  if (memory == nullptr) throw std::bad_alloc();
  std::free(memory);
}

/// The bytes of arrays and columns; texts count as their references.
std::size_t bytes_of(const Hdf5Contents& contents) {
  std::size_t bytes = 0;
  for (const auto& [path, data] : contents.bytes) bytes += data.size();
  for (const auto& [path, table] : contents.tables) {
    bytes += table.rows() * table.columns().size() * sizeof(std::uint64_t);
  }
  return bytes;
}

/// Notes in `data`, a bool, whether an error of the library's stack is a lack of memory.
herr_t find_lack_of_memory(unsigned /*depth*/, const H5E_error2_t* error, void* data) {
  if (error->maj_num == H5E_RESOURCE || error->min_num == H5E_NOSPACE) {
    *static_cast<bool*>(data) = true;
  }
  return 0;
}

/// The image of contents that are ours: only memory can be missing.
std::vector<std::uint8_t> image_of(const Hdf5Contents& contents) {
  try {
    return hdf5_image(contents);
  } catch (const Hdf5Failure&) {
    bool no_memory = false;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_lack_of_memory, &no_memory);
    if (no_memory) throw std::bad_alloc();
    TPU_CHECK(false, "an HDF5 call failed");
  }
}

}  // namespace

std::size_t Table::rows() const {
  std::size_t rows = 0;
  for (const NamedColumn& column : columns_) {
    const std::size_t length =
        std::visit([](const auto& values) { return values.size(); }, column.values);
    TPU_CHECK(&column == &columns_.front() || length == rows,
              "column " << column.name << " has " << length << " rows, not " << rows);
    rows = length;
  }
  return rows;
}

void Table::describe(std::string_view name, std::string units, std::string long_name) {
  for (NamedColumn& column : columns_) {
    if (column.name != name) continue;
    column.units = std::move(units);
    column.long_name = std::move(long_name);
    return;
  }
  TPU_CHECK(false, "no column " << name << " to describe");
}

void Table::fail_column(std::string_view name) const {
  throw WorkloadError(title + ": expected a column \"" + std::string(name) + "\"");
}

const std::string& Hdf5Contents::attribute(const std::string& name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) {
    throw WorkloadError(file + ": expected an attribute \"" + name + "\"");
  }
  return found->second;
}

const Table& Hdf5Contents::table(const std::string& path) const {
  const auto found = tables.find(path);
  if (found == tables.end()) throw WorkloadError(file + ": expected a table \"" + path + "\"");
  return found->second;
}

const std::vector<std::uint8_t>& Hdf5Contents::byte_array(const std::string& path) const {
  const auto found = bytes.find(path);
  if (found == bytes.end()) throw WorkloadError(file + ": expected an array \"" + path + "\"");
  return found->second;
}

void write_hdf5(const std::string& path, const FileKind& kind, const Hdf5Contents& contents) {
  require_memory(bytes_of(contents));
  silence_hdf5();
  OutputFile file(path);
  const std::vector<std::uint8_t> image = image_of(contents);
  file.write(user_block(kind, image.size(), checksum(image.data(), image.size())));
  file.write(image.data(), image.size());
  file.commit();
}

Hdf5Contents read_hdf5(const std::string& path, const FileKind& kind) {
  const FileBytes file = checked_file(path, kind);
  const std::size_t bytes = file.size - kUserBlockBytes;
  require_memory(bytes);
  silence_hdf5();
  return read_hdf5_image(file.data.get() + kUserBlockBytes, bytes, path);
}

std::string kind_of_file(const std::string& path) {
  struct stat status {};
  // What is read of a pipe is lost for the next reader.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return "";
  std::array<char, kUserBlockBytes> block{};
  const std::size_t size = std::fread(block.data(), 1, block.size(), file);
  std::fclose(file);
  const std::string_view text(block.data(), size);
  return text.substr(0, kMagic.size()) == kMagic ? block_value(text, "kind") : "";
}

}  // namespace tpu::traces
