#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

// Errors are of two kinds.
//
// The user's or the world's (a bad file, a dead peer, a typo): a subclass of Error. Its text is one line: the sentence
// first, the values last, the remedy after a semicolon. The programs print that line and exit with exit_code().
//
// Ours (a broken invariant): TRIREME_CHECK throws InternalError, whose text shows the condition and the values.
namespace trireme::base {

/// Joins anything that has operator<< into one string.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  ((out << parts), ...);
  return out.str();
}

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual int exit_code() const { return 1; }
};

/// A wrong command line or environment variable: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
  int exit_code() const override { return 2; }
};

/// A configuration that cannot be run; the text holds one line a violation.
class ConfigError : public Error {
  using Error::Error;
};

/// Bytes of a foreign file that are not what they should be (data, tokens, safetensors, checkpoints).
class DataError : public Error {
  using Error::Error;
};

/// The operating system refused (open, write, map, start): the text ends with errno's words.
class SystemError : public Error {
  using Error::Error;
};

/// A collective failed: mismatch between ranks, deadline, misuse.
class CommError : public Error {
  using Error::Error;
};

/// Ranks did not enter a collective before its deadline passed.
class DeadlineError : public CommError {
  using CommError::CommError;
};

/// A peer process ended, vanished or failed: the echo of another rank's failure.
class PeerLostError : public CommError {
  using CommError::CommError;
};

/// A loss or gradient became NaN or infinite.
class NonFiniteError : public Error {
  using Error::Error;
};

/// A broken invariant of Trireme itself.
class InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

namespace internal {
[[noreturn]] inline void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  throw InternalError(text_of("internal error, please report it: ", condition, " is false at ", file, ":", line,
                              values.empty() ? "" : "; ", values));
}
}  // namespace internal

}  // namespace trireme::base

/// TRIREME_CHECK(a == b, "a ", a, " b ", b): throws InternalError with the condition and the given values.
#define TRIREME_CHECK(condition, ...)                                                                                 \
  do {                                                                                                                \
    if (!(condition)) [[unlikely]]                                                                                    \
      ::trireme::base::internal::check_failed(__FILE__, __LINE__, #condition, ::trireme::base::text_of(__VA_ARGS__)); \
  } while (false)
