#pragma once

#include <hdf5.h>

namespace tpu::traces {

/// The name of an image in memory. HDF5 refuses an image whose name is that of a file: this one
/// can't be.
constexpr const char* kHdf5ImageName = "/dev/null/image";

/// A call of the HDF5 library that failed. Who reads says that the file is damaged, who writes that
/// memory ran out: it never leaves the functions of hdf5_file.h.
struct Hdf5Failure {};

/// An HDF5 identifier that is closed at the end of its scope.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {
    if (id < 0) throw Hdf5Failure{};
  }
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

inline void checked(herr_t result) {
  if (result < 0) throw Hdf5Failure{};
}

}  // namespace tpu::traces
