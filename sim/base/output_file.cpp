#include "sim/base/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace tpu {
namespace {

/// The names that a signal handler can reach: fixed memory, `used` is written last.
struct PendingName {
  std::atomic<bool> taken{false};
  std::atomic<bool> used{false};
  std::array<char, PATH_MAX> path{};
};
std::array<PendingName, 16> pending_names;

int remember(const std::string& path) {
  if (path.size() + 1 > PATH_MAX) return -1;
  for (std::size_t i = 0; i < pending_names.size(); ++i) {
    PendingName& entry = pending_names[i];
    if (entry.taken.exchange(true)) continue;
    std::memcpy(entry.path.data(), path.c_str(), path.size() + 1);
    entry.used = true;
    return static_cast<int>(i);
  }
  return -1;
}

void forget(int slot) {
  if (slot < 0) return;
  PendingName& entry = pending_names[static_cast<std::size_t>(slot)];
  entry.used = false;
  entry.taken = false;
}

/// Signals wait while it lives: a file that exists is one that the handler knows.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  return ::realpath(path.c_str(), buffer.data()) != nullptr ? std::string(buffer.data()) : path;
}

bool write_all(int descriptor, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

std::string folder_for_device_output() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(resolved(path_)) {
  if (path_.empty()) throw UsageError("expected the name of an output file, found an empty one");
  struct stat status {};
  if (::stat(target_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      throw UsageError(path_ + ": expected the name of an output file, found a directory; add a " +
                       "file name");
    }
    to_device_ = !S_ISREG(status.st_mode);
    if (!to_device_ && ::access(target_.c_str(), W_OK) != 0) fail("open for writing", errno);
  }
  const std::string pattern =
      to_device_ ? folder_for_device_output() + "/tpusim.XXXXXX" : target_ + ".XXXXXX";
  std::vector<char> name(pattern.begin(), pattern.end());
  name.push_back('\0');
  {
    const SignalsBlocked until_remembered;
    descriptor_ = ::mkstemp(name.data());
    if (descriptor_ < 0) fail("create", errno);
    temporary_ = name.data();
    slot_ = remember(temporary_);
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor_, 0666 & ~mask);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  forget(slot_);
}

void OutputFile::fail(const std::string& what, int error_number) const {
  throw UsageError(path_ + ": can't " + what + " the output file: " + std::strerror(error_number));
}

void OutputFile::write(const void* data, std::size_t bytes) {
  if (!write_all(descriptor_, static_cast<const char*>(data), bytes)) fail("write", errno);
}

void OutputFile::copy_to_device() {
  const int device = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  if (device < 0) fail("open for writing", errno);
  std::vector<char> buffer(std::size_t{1} << 20);
  int error_number = 0;
  if (::lseek(descriptor_, 0, SEEK_SET) != 0) error_number = errno;
  while (error_number == 0) {
    const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error_number = errno;
    if (count <= 0) break;
    if (!write_all(device, buffer.data(), static_cast<std::size_t>(count))) error_number = errno;
  }
  if (::close(device) != 0 && error_number == 0) error_number = errno;
  if (error_number != 0) fail("write", error_number);
}

void OutputFile::commit() {
  TPU_CHECK(descriptor_ >= 0, path_ << " is committed twice");
  if (to_device_) copy_to_device();
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) fail("write", errno);
  if (to_device_) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  forget(std::exchange(slot_, -1));
}

void remove_unfinished_output_files() noexcept {
  for (PendingName& entry : pending_names) {
    if (entry.used) ::unlink(entry.path.data());
  }
}

}  // namespace tpu
