#include "traces/hdf5_reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/unpack_limit.h"
#include "traces/hdf5_handle.h"
#include "traces/hdf5_object_header.h"

namespace tpu::traces {
namespace {

constexpr int kMostLevels = 8;
constexpr hsize_t kMostLinks = 1000;
constexpr std::size_t kLongestName = 255;

template <class Type>
Table::Column copy_out(const std::uint8_t* from, std::size_t stride, std::size_t rows) {
  std::vector<Type> values(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::memcpy(&values[row], from + row * stride, sizeof(Type));
  }
  return values;
}

Table::Column strings_out(const std::uint8_t* from, std::size_t stride, std::size_t rows,
                          std::size_t length) {
  std::vector<std::string> values(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const char* text = reinterpret_cast<const char*>(from + row * stride);
    values[row].assign(text, ::strnlen(text, length));
  }
  return values;
}

/// What zlib packed, which is so many bytes.
std::vector<std::uint8_t> inflated(const std::vector<std::uint8_t>& packed, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  uLongf size = bytes;
  if (::uncompress(data.data(), &size, packed.data(), packed.size()) != Z_OK || size != bytes) {
    throw Hdf5Failure{};
  }
  return data;
}

/// Elements whose first bytes stand together, then their second ones, and so on.
std::vector<std::uint8_t> unshuffled(const std::vector<std::uint8_t>& shuffled,
                                     std::size_t element_bytes) {
  const std::size_t elements = shuffled.size() / element_bytes;
  std::vector<std::uint8_t> data(elements * element_bytes);
  const std::uint8_t* from = shuffled.data();
  for (std::size_t byte = 0; byte < element_bytes; ++byte) {
    for (std::size_t i = 0; i < elements; ++i) data[i * element_bytes + byte] = *from++;
  }
  return data;
}

/// A column of a table as the file describes it.
struct Member {
  using CopyOut = Table::Column (*)(const std::uint8_t*, std::size_t, std::size_t);
  std::string name;
  std::size_t offset = 0, bytes = 0;
  CopyOut copy_out = nullptr;  ///< Null for strings.
};

Member::CopyOut copy_of(hid_t type) {
  if (H5Tequal(type, H5T_STD_U64LE) > 0) return copy_out<std::uint64_t>;
  if (H5Tequal(type, H5T_STD_U32LE) > 0) return copy_out<std::uint32_t>;
  if (H5Tequal(type, H5T_STD_I32LE) > 0) return copy_out<std::int32_t>;
  if (H5Tequal(type, H5T_STD_U8LE) > 0) return copy_out<std::uint8_t>;
  if (H5Tequal(type, H5T_IEEE_F64LE) > 0) return copy_out<double>;
  return nullptr;
}

bool is_fixed_string(hid_t type) {
  return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
}

/// Reads a file object by object and keeps count of what its data take.
class Reader {
 public:
  Reader(const std::string& file, const std::uint8_t* image, std::size_t file_bytes)
      : image_(image), file_bytes_(file_bytes), bytes_left_(UnpackLimit().of_file(file_bytes)) {
    contents_.file = file;
  }

  Hdf5Contents read(hid_t file) {
    const Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
    read_attributes(root);
    visit_once(root, "/");
    read_group(root, "", 1);
    return std::move(contents_);
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& what) const {
    throw WorkloadError(contents_.file + ": " + path + ": " + what);
  }
  void visit_once(hid_t object, const std::string& path);
  void read_attributes(hid_t root);
  void read_group(hid_t group, const std::string& prefix, int level);
  std::string link_name(hid_t group, hsize_t index, const std::string& prefix) const;
  void read_object(hid_t object, const std::string& path, int level);
  void read_dataset(hid_t dataset, const std::string& path);
  void check_storage(hid_t dataset, const std::string& path) const;
  std::size_t chunk_rows(hid_t properties, std::size_t rows) const;
  std::vector<std::uint8_t> read_chunk(hid_t dataset, const std::vector<H5Z_filter_t>& filters,
                                       hsize_t row, std::size_t bytes, std::size_t row_bytes) const;
  std::size_t row_count(hid_t dataset, const std::string& path) const;
  std::vector<std::uint8_t> read_rows(hid_t dataset, hid_t type, std::size_t rows,
                                      std::size_t held_row_bytes, const std::string& path);
  Member read_member(hid_t type, unsigned index, const std::string& path) const;
  Table read_table(hid_t dataset, hid_t type, const std::string& path);

  Hdf5Contents contents_;
  const std::uint8_t* image_;
  std::size_t file_bytes_;
  std::uint64_t bytes_left_;
  std::set<haddr_t> seen_;  ///< Objects by their place in the file.
};

void Reader::visit_once(hid_t object, const std::string& path) {
  H5O_info_t info{};
  checked(H5Oget_info2(object, &info, H5O_INFO_BASIC));
  if (!seen_.insert(info.addr).second) fail(path, "expected an object that no other path leads to");
}

void Reader::read_attributes(hid_t root) {
  H5O_info_t info{};
  checked(H5Oget_info2(root, &info, H5O_INFO_NUM_ATTRS));
  if (info.num_attrs > kMostLinks) fail("/", "expected at most 1000 attributes");
  // Where an attribute can't be read, HDF5 1.10 crashes when it lists them. Asked for one by a name
  // that is longer than names can be, it reads them all, and fails.
  checked(H5Aexists(root, std::string(std::size_t{1} << 16, 'x').c_str()));
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const Handle attribute(
        H5Aopen_by_idx(root, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    std::array<char, kLongestName + 1> name{};
    H5Aget_name(attribute, name.size(), name.data());
    const Handle type(H5Aget_type(attribute), H5Tclose);
    const Handle space(H5Aget_space(attribute), H5Sclose);
    if (!is_fixed_string(type) || H5Sget_simple_extent_npoints(space) != 1) continue;
    if (H5Tget_size(type) > file_bytes_) fail(name.data(), "the attribute exceeds the file");
    std::vector<char> text(H5Tget_size(type) + 1, '\0');
    checked(H5Aread(attribute, type, text.data()));
    contents_.attributes[name.data()] = text.data();
  }
}

std::string Reader::link_name(hid_t group, hsize_t index, const std::string& prefix) const {
  std::array<char, kLongestName + 1> name{};
  const ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, index,
                                            name.data(), name.size(), H5P_DEFAULT);
  if (length < 0) throw Hdf5Failure{};
  if (static_cast<std::size_t>(length) > kLongestName) {
    fail(prefix, "expected names of at most 255 bytes");
  }
  return name.data();
}

void Reader::read_group(hid_t group, const std::string& prefix, int level) {
  H5G_info_t info{};
  checked(H5Gget_info(group, &info));
  if (info.nlinks > kMostLinks) fail(prefix, "expected at most 1000 objects in a group");
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const std::string name = link_name(group, i, prefix);
    H5L_info_t link{};
    checked(H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT));
    if (link.type != H5L_TYPE_HARD) {
      fail(prefix + name, link.type == H5L_TYPE_SOFT
                              ? "expected data in the file itself, found a symbolic link"
                              : "expected data in the file itself, found a link to another file");
    }
    check_object_header(image_, file_bytes_, link.u.address);
    const Handle object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose);
    read_object(object, prefix + name, level);
  }
}

void Reader::read_object(hid_t object, const std::string& path, int level) {
  visit_once(object, path);
  const H5I_type_t type = H5Iget_type(object);
  if (type == H5I_GROUP) {
    if (level == kMostLevels) fail(path, "expected groups at most 8 levels deep");
    read_group(object, path + "/", level + 1);
  } else if (type == H5I_DATASET) {
    read_dataset(object, path);
  } else {
    fail(path, "expected a group, a table or bytes");
  }
}

/// In the order in which they packed the data.
std::vector<H5Z_filter_t> filters_of(hid_t properties) {
  std::vector<H5Z_filter_t> filters;
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    unsigned flags = 0, configuration = 0;
    std::size_t values = 0;
    filters.push_back(H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr,
                                     0, nullptr, &configuration));
  }
  return filters;
}

/// Refuses data that lie in other files, and filters that the library would load as plugins.
void Reader::check_storage(hid_t dataset, const std::string& path) const {
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  if (H5Pget_layout(properties) == H5D_VIRTUAL || H5Pget_external_count(properties) != 0) {
    fail(path, "expected data in the file itself, found them in another file");
  }
  // Of data that are not in chunks HDF5 1.10 reads as many as the rows need, whatever is there.
  if (H5Pget_layout(properties) != H5D_CHUNKED) throw Hdf5Failure{};
  for (const H5Z_filter_t filter : filters_of(properties)) {
    if (filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_DEFLATE) {
      fail(path,
           "expected data that are packed with deflate, found filter " + std::to_string(filter));
    }
  }
}

/// Rows of a chunk. Files of tpusim have no larger ones than their rows fill, and each chunk has a
/// place in an index: the library takes a kilobyte for each that the rows need, whether or not the
/// file has it.
std::size_t Reader::chunk_rows(hid_t properties, std::size_t rows) const {
  constexpr std::size_t kPlaceBytes = 8;
  hsize_t extent = 0;
  if (H5Pget_chunk(properties, 1, &extent) != 1 || extent == 0) throw Hdf5Failure{};
  if (extent > std::max<std::size_t>(rows, 1)) throw Hdf5Failure{};
  if (rows / extent > file_bytes_ / kPlaceBytes) throw Hdf5Failure{};
  return static_cast<std::size_t>(extent);
}

std::size_t Reader::row_count(hid_t dataset, const std::string& path) const {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  if (H5Sget_simple_extent_ndims(space) != 1) fail(path, "expected data of one dimension");
  const hssize_t rows = H5Sget_simple_extent_npoints(space);
  if (rows < 0) throw Hdf5Failure{};
  return static_cast<std::size_t>(rows);
}

/// The rows of a chunk, which begins with `row`. They are unpacked here: HDF5 1.10 takes what its
/// filters give for a whole chunk, however short it is, and reads on behind it.
std::vector<std::uint8_t> Reader::read_chunk(hid_t dataset,
                                             const std::vector<H5Z_filter_t>& filters, hsize_t row,
                                             std::size_t bytes, std::size_t row_bytes) const {
  hsize_t stored = 0;
  checked(H5Dget_chunk_storage_size(dataset, &row, &stored));
  if (stored == 0 || stored > file_bytes_) throw Hdf5Failure{};
  std::vector<std::uint8_t> data(static_cast<std::size_t>(stored));
  std::uint32_t left_out = 0;
  checked(H5Dread_chunk(dataset, H5P_DEFAULT, &row, &left_out, data.data()));
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((left_out >> i & 1) != 0) continue;
    data = filters[i] == H5Z_FILTER_DEFLATE ? inflated(data, bytes) : unshuffled(data, row_bytes);
  }
  if (data.size() != bytes) throw Hdf5Failure{};
  return data;
}

/// The data of a dataset, in which each row will take `held_row_bytes` of memory.
std::vector<std::uint8_t> Reader::read_rows(hid_t dataset, hid_t type, std::size_t rows,
                                            std::size_t held_row_bytes, const std::string& path) {
  std::uint64_t held = 0;
  if (__builtin_mul_overflow(held_row_bytes, rows, &held) || held > bytes_left_) {
    fail(path, "expected data of at most " + std::to_string(UnpackLimit().of_file(file_bytes_)) +
                   " bytes in a file of " + std::to_string(file_bytes_) + ", found " +
                   std::to_string(rows) + " rows of " + std::to_string(held_row_bytes));
  }
  bytes_left_ -= held;
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  const std::size_t in_chunk = chunk_rows(properties, rows), row_bytes = H5Tget_size(type);
  const std::vector<H5Z_filter_t> filters = filters_of(properties);
  std::vector<std::uint8_t> data(row_bytes * rows);
  for (std::size_t row = 0; row < rows; row += in_chunk) {
    const std::vector<std::uint8_t> chunk =
        read_chunk(dataset, filters, row, in_chunk * row_bytes, row_bytes);
    const std::size_t count = std::min(in_chunk, rows - row) * row_bytes;
    std::copy_n(chunk.begin(), count, data.begin() + static_cast<std::ptrdiff_t>(row * row_bytes));
  }
  return data;
}

void Reader::read_dataset(hid_t dataset, const std::string& path) {
  check_storage(dataset, path);
  const Handle type(H5Dget_type(dataset), H5Tclose);
  if (H5Tget_class(type) == H5T_COMPOUND) {
    contents_.tables[path] = read_table(dataset, type, path);
    return;
  }
  if (H5Tequal(type, H5T_STD_U8LE) <= 0) fail(path, "expected bytes");
  contents_.bytes[path] = read_rows(dataset, type, row_count(dataset, path), 1, path);
}

Member Reader::read_member(hid_t type, unsigned index, const std::string& path) const {
  const Handle member_type(H5Tget_member_type(type, index), H5Tclose);
  Member member;
  char* raw_name = H5Tget_member_name(type, index);
  if (raw_name == nullptr) throw Hdf5Failure{};
  member.name = raw_name;
  H5free_memory(raw_name);
  member.offset = H5Tget_member_offset(type, index);
  member.bytes = H5Tget_size(member_type);
  member.copy_out = copy_of(member_type);
  const std::size_t row_bytes = H5Tget_size(type);
  if (member.bytes > row_bytes || member.offset > row_bytes - member.bytes) throw Hdf5Failure{};
  if (member.copy_out == nullptr && !is_fixed_string(member_type)) {
    fail(path, "the type of column " + member.name + " is unknown");
  }
  return member;
}

Table Reader::read_table(hid_t dataset, hid_t type, const std::string& path) {
  std::vector<Member> members;
  const std::size_t row_bytes = H5Tget_size(type);
  std::size_t held_row_bytes = row_bytes;
  const int count = H5Tget_nmembers(type);
  for (int i = 0; i < count; ++i) {
    members.push_back(read_member(type, static_cast<unsigned>(i), path));
    held_row_bytes += members.back().bytes;
    if (members.back().copy_out == nullptr) held_row_bytes += sizeof(std::string);
  }
  const std::size_t rows = row_count(dataset, path);
  const std::vector<std::uint8_t> data = read_rows(dataset, type, rows, held_row_bytes, path);
  Table table;
  table.title = contents_.file + ": " + path;
  for (const Member& member : members) {
    const std::uint8_t* from = data.empty() ? nullptr : data.data() + member.offset;
    Table::Column column = member.copy_out != nullptr
                               ? member.copy_out(from, row_bytes, rows)
                               : strings_out(from, row_bytes, rows, member.bytes);
    std::visit([&](auto& values) { table.add(member.name, std::move(values)); }, column);
  }
  return table;
}

/// An image that HDF5 uses in place of the copies that it would make of it.
struct BorrowedImage {
  std::uint8_t* data = nullptr;
  std::size_t bytes = 0;
};

void* lend(std::size_t size, H5FD_file_image_op_t /*op*/, void* image) {
  const auto* borrowed = static_cast<const BorrowedImage*>(image);
  return size == borrowed->bytes ? borrowed->data : nullptr;
}

/// Copies from the image to itself.
void* copy_nothing(void* to, const void* from, std::size_t size, H5FD_file_image_op_t /*op*/,
                   void* image) {
  const auto* borrowed = static_cast<const BorrowedImage*>(image);
  return to == from && to == borrowed->data && size == borrowed->bytes ? to : nullptr;
}

/// A file that is only read does not grow.
void* refuse_growth(void* /*data*/, std::size_t /*size*/, H5FD_file_image_op_t /*op*/,
                    void* /*image*/) {
  return nullptr;
}

herr_t keep(void* /*data*/, H5FD_file_image_op_t /*op*/, void* /*image*/) { return 0; }
void* same_image(void* image) { return image; }
herr_t keep_image(void* /*image*/) { return 0; }

}  // namespace

Hdf5Contents read_hdf5_image(std::uint8_t* image, std::size_t bytes, const std::string& file) {
  BorrowedImage borrowed{image, bytes};
  try {
    checked(H5PLset_loading_state(0));
    check_root_header(image, bytes);
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    checked(H5Pset_fapl_core(access, std::size_t{1} << 20, 0));
    H5FD_file_image_callbacks_t in_place{lend,       copy_nothing, refuse_growth, keep,
                                         same_image, keep_image,   &borrowed};
    checked(H5Pset_file_image_callbacks(access, &in_place));
    checked(H5Pset_file_image(access, image, bytes));
    const Handle opened(H5Fopen(kHdf5ImageName, H5F_ACC_RDONLY, access), H5Fclose);
    return Reader(file, image, bytes).read(opened);
  } catch (const Hdf5Failure&) {
    throw WorkloadError(file + ": expected what tpusim writes, found HDF5 data that are damaged " +
                        "behind a right checksum; write the file again");
  }
}

}  // namespace tpu::traces
