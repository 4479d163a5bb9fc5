#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

namespace trireme::data {

/// Calls `produce` again and again in a thread of its own and keeps up to `ahead` >= 1 results waiting. next() is for
/// one thread at a time. `produce` looks at its stop token now and then and returns nothing when it is asked to stop.
template <class T>
class Prefetcher {
 public:
  using Produce = std::function<std::optional<T>(const std::stop_token&)>;

  Prefetcher(Produce produce, size_t ahead) : produce_(std::move(produce)), ahead_(ahead) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  // ~jthread asks the thread to stop and joins it; it is the last member, so all that it uses is still there

  /// The results in order. An exception of `produce` is rethrown in its place and from then on.
  T next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || error_; });
    if (ready_.empty()) std::rethrow_exception(error_);
    T result = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return result;
  }

  /// Results that wait now.
  size_t waiting() const {
    std::lock_guard lock(mutex_);
    return ready_.size();
  }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::optional<T> result;
      std::exception_ptr error;
      try {
        result = produce_(stop);
      } catch (...) {
        error = std::current_exception();
      }
      if (!result && !error) return;
      std::unique_lock lock(mutex_);
      if (error) {
        error_ = error;
        changed_.notify_all();
        return;
      }
      ready_.push_back(std::move(*result));
      changed_.notify_all();
      changed_.wait(lock, stop, [&] { return ready_.size() < ahead_; });
    }
  }

  Produce produce_;
  size_t ahead_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace trireme::data
