#include "trireme/launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::launch {
namespace {

void close_once(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

RankOutput::RankOutput(const std::string& prefix, const std::string& log_path, OutputQueue& output, OutputQueue& errors,
                       SaidLines& said)
    : streams_{{{-1, -1, LineBuffer(prefix), &output}, {-1, -1, LineBuffer(prefix, &said), &errors}}},
      log_path_(log_path) {
  for (Stream& stream : streams_) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      const int error = errno;
      close_in_launcher();
      finish();
      throw base::SystemError(base::text_of("cannot make a pipe: ", std::strerror(error)));
    }
    stream.read_end = ends[0];
    stream.write_end = ends[1];
    // only our end: the rank's own writes must block
    fcntl(stream.read_end, F_SETFL, O_NONBLOCK);
  }
  if (!log_path.empty()) {
    log_ = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (log_ < 0) {
      const int error = errno;
      close_in_launcher();
      finish();
      throw base::SystemError(base::text_of("cannot write ", log_path, ": ", std::strerror(error)));
    }
  }
}

RankOutput::~RankOutput() {
  close_in_launcher();
  for (Stream& stream : streams_) close_once(stream.read_end);
  close_once(log_);
}

void RankOutput::close_in_launcher() {
  for (Stream& stream : streams_) close_once(stream.write_end);
}

void RankOutput::add_to(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_) {
    if (stream.read_end >= 0 && !stream.queue->full()) polled.push_back({stream.read_end, POLLIN, 0});
  }
}

void RankOutput::read_from(int fd) {
  for (Stream& stream : streams_) {
    if (stream.read_end != fd) continue;
    char bytes[65536];
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0) {
      stream.lines.add({bytes, static_cast<size_t>(n)}, stream.queue->end());
      write_log(bytes, static_cast<size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      close_once(stream.read_end);
    }
    return;
  }
}

void RankOutput::write_log(const char* data, size_t size) {
  while (log_ >= 0 && size > 0) {
    const ssize_t n = write(log_, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      // the run is worth more than its log
      streams_[1].queue->end() +=
          base::text_of("warning: cannot write ", log_path_, ": ", std::strerror(errno), "; its log ends here\n");
      close_once(log_);
      return;
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}

void RankOutput::finish() {
  for (Stream& stream : streams_) {
    stream.lines.finish(stream.queue->end());
    close_once(stream.read_end);
  }
  close_once(log_);
}

}  // namespace trireme::launch
