#include "trireme/launch/output_queue.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace trireme::launch {

OutputQueue::OutputQueue(int fd) : fd_(fd), part_(PIPE_BUF) {
  struct stat status {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) part_ = 1 << 20;
}

void OutputQueue::write_some() {
  if (broken()) drop();
  if (empty()) return;
  const size_t size = std::min(part_, bytes_.size() - written_);
  const ssize_t n = write(fd_, bytes_.data() + written_, size);
  if (n < 0 && errno != EINTR && errno != EAGAIN) {
    error_ = errno;
    drop();
  }
  if (n > 0) written_ += static_cast<size_t>(n);
  if (empty()) {
    drop();
  } else if (written_ > (1u << 20)) {
    bytes_.erase(0, written_);
    written_ = 0;
  }
}

void OutputQueue::drop() {
  bytes_.clear();
  written_ = 0;
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace trireme::launch
