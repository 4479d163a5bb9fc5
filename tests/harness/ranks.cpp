#include "tests/harness/ranks.h"

#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <thread>

namespace trireme::test {
namespace {

comm::WorldOptions options_for(const std::string& backend, std::chrono::milliseconds timeout) {
  comm::WorldOptions options;
  options.backend = backend;
  options.timeout = options.first_step_timeout = timeout;
  return options;
}

std::vector<std::exception_ptr> exceptions_of(int size, const std::string& backend,
                                              const std::function<void(comm::World&)>& body,
                                              std::chrono::milliseconds timeout) {
  at::set_num_threads(1);
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto world = comm::World::from_store({rank, size, rank, size}, store, options_for(backend, timeout));
        body(world);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

}  // namespace

void run_ranks(int size, const std::string& backend, const std::function<void(comm::World&)>& body,
               std::chrono::milliseconds timeout) {
  for (const auto& error : exceptions_of(size, backend, body, timeout))
    if (error) std::rethrow_exception(error);
}

std::vector<std::string> errors_of_ranks(int size, const std::string& backend,
                                         const std::function<void(comm::World&)>& body,
                                         std::chrono::milliseconds timeout) {
  std::vector<std::string> texts;
  for (const auto& error : exceptions_of(size, backend, body, timeout)) {
    texts.emplace_back();
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      texts.back() = e.what();
    }
  }
  return texts;
}

std::vector<int> run_processes(int size, const std::string& backend, const std::function<int(comm::World&)>& body,
                               std::chrono::milliseconds timeout, std::chrono::seconds limit) {
  char path[] = "/tmp/trireme_store_XXXXXX";
  const int fd = mkstemp(path);
  if (fd >= 0) close(fd);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      int code = 1;
      try {
        auto store = c10::make_intrusive<c10d::FileStore>(path, size);
        auto world = comm::World::from_store({rank, size, rank, size}, store, options_for(backend, timeout));
        code = body(world);
      } catch (const std::exception& error) {
        std::cerr << "rank " << rank << ": " << error.what() << "\n";
      }
      std::_Exit(code);
    }
    pids.push_back(pid);
  }
  std::vector<int> codes(size, -1);
  const auto end = std::chrono::steady_clock::now() + limit;
  for (int left = size; left > 0;) {
    for (int rank = 0; rank < size; ++rank) {
      int status = 0;
      if (codes[rank] < 0 && waitpid(pids[rank], &status, WNOHANG) == pids[rank]) {
        codes[rank] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        --left;
      }
    }
    if (std::chrono::steady_clock::now() > end)
      for (int rank = 0; rank < size; ++rank)
        if (codes[rank] < 0) kill(pids[rank], SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::filesystem::remove(path);
  return codes;
}

}  // namespace trireme::test
