#include "sim/base/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr std::string_view kTemporaryPrefix = ".tpusim-";
/// As many as Linux follows in one name.
constexpr int kMostLinks = 40;

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

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The name number `number` of a temporary file of this process.
std::string temporary_name(const std::string& folder, int number) {
  return folder + "/" + std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "-" +
         std::to_string(number);
}

/// Where the descriptor's file can be linked from.
std::string link_source(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

bool link_as(int descriptor, const std::string& name) {
  return ::linkat(AT_FDCWD, link_source(descriptor).c_str(), AT_FDCWD, name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
}

/// Locks a file that has just been created. False when another process that clears the folder
/// took it for a dead owner's.
bool lock(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

/// Removes a temporary file that no living process holds.
void remove_if_dead(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  ::close(descriptor);
}

/// What killed processes left in a folder.
void remove_dead_temporaries(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.substr(0, kTemporaryPrefix.size()) != kTemporaryPrefix) continue;
    remove_if_dead(folder + "/" + std::string(name));
  }
}

/// Waits until a file or a folder is on the disk; false with errno when it can't be. Some file
/// systems know no such wait.
bool flush(int descriptor) {
  return ::fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

}  // namespace

std::string written_path(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  if (::realpath(path.c_str(), buffer.data()) != nullptr) return buffer.data();
  // The file does not exist yet, but links may lead to where it will be.
  std::string name = path;
  for (int links = 0; links < kMostLinks; ++links) {
    const ssize_t length = ::readlink(name.c_str(), buffer.data(), buffer.size());
    if (length <= 0) return name;
    const std::string next(buffer.data(), static_cast<std::size_t>(length));
    name = next.front() == '/' ? next : folder_of(name) + "/" + next;
  }
  return path;
}

OutputFile::OutputFile(std::string path, Temporary temporary)
    : path_(std::move(path)), target_(written_path(path_)) {
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
  const std::string folder = to_device_ ? folder_for_device_output() : folder_of(target_);
  remove_dead_temporaries(folder);
  if (temporary == Temporary::kUnnamed) open_unnamed(folder);
  if (descriptor_ < 0) open_named(folder);
}

/// Leaves no descriptor where files without a name do not exist or can't get one later.
void OutputFile::open_unnamed(const std::string& folder) {
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor_ < 0) return;
  if (::access(link_source(descriptor_).c_str(), F_OK) != 0) {
    ::close(std::exchange(descriptor_, -1));
    return;
  }
  lock(descriptor_);
}

void OutputFile::open_named(const std::string& folder) {
  const SignalsBlocked until_remembered;
  for (int number = 0; descriptor_ < 0; ++number) {
    std::string name = temporary_name(folder, number);
    descriptor_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) fail("create", errno);
    if (descriptor_ >= 0 && !lock(descriptor_)) ::close(std::exchange(descriptor_, -1));
    temporary_ = std::move(name);
  }
  slot_ = remember(temporary_);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  forget(slot_);
}

void OutputFile::fail(const std::string& what, int error_number) const {
  throw UsageError(path_ + ": can't " + what + " the output file: " + std::strerror(error_number));
}

void OutputFile::reserve(std::uint64_t bytes) {
  if (to_device_) return;
  rlimit largest{};
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < bytes) fail("write", EFBIG);
  const int result = ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
  if (result != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) fail("write", errno);
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

/// A name beside the target, from which rename() can replace it.
void OutputFile::give_temporary_name() {
  const SignalsBlocked until_remembered;
  for (int number = 0; temporary_.empty(); ++number) {
    std::string name = temporary_name(folder_of(target_), number);
    if (link_as(descriptor_, name)) {
      temporary_ = std::move(name);
    } else if (errno != EEXIST) {
      fail("name", errno);
    }
  }
  slot_ = remember(temporary_);
}

void OutputFile::move_to_target() {
  if (temporary_.empty()) {
    if (link_as(descriptor_, target_)) return;
    if (errno != EEXIST) fail("name", errno);
    give_temporary_name();
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  forget(std::exchange(slot_, -1));
}

void OutputFile::commit() {
  TPU_CHECK(descriptor_ >= 0, path_ << " is committed twice");
  if (to_device_) {
    copy_to_device();
    ::close(std::exchange(descriptor_, -1));
    return;
  }
  if (!flush(descriptor_)) fail("write", errno);
  move_to_target();
  ::close(std::exchange(descriptor_, -1));
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // A folder that may be written, but not read.
  const bool flushed = flush(folder);
  const int error_number = errno;
  ::close(folder);
  if (!flushed) fail("write", error_number);
}

void remove_unfinished_output_files() noexcept {
  for (PendingName& entry : pending_names) {
    if (entry.used) ::unlink(entry.path.data());
  }
}

}  // namespace tpu
