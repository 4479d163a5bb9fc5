#include "trireme/comm/store.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::comm {
namespace {

std::string first_line(const char* text) {
  std::string line(text);
  return line.substr(0, line.find('\n'));
}

// "[::1]" -> "::1"; refuses what nobody can connect to, at once rather than after the store's patience
std::string checked_host(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0" || host == "::")
    throw base::UsageError("MASTER_ADDR=" + host + " is no address to connect to; name the host of rank 0");
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error) throw base::UsageError("MASTER_ADDR=" + host + " does not resolve: " + gai_strerror(error));
  freeaddrinfo(found);
  return host;
}

// The store's own time-out covers connecting, not the first answer: behind a listener that says nothing (another
// program on the port, a stopped rank 0) its constructor never returns, so it is left behind on a thread of its own.
c10::intrusive_ptr<c10d::Store> connect(const std::string& host, const c10d::TCPStoreOptions& options) {
  auto made = std::make_shared<std::promise<c10::intrusive_ptr<c10d::Store>>>();
  auto future = made->get_future();
  std::thread([made, host, options] {
    try {
      made->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  }).detach();
  if (future.wait_for(options.timeout + std::chrono::seconds(1)) != std::future_status::ready)
    throw base::CommError("it listens, but does not answer as a store; is another program on the port?");
  return future.get();
}

// A rank left over from another run may find this run's store at its old address. Rank 0 says whose it is.
void check_run(c10d::Store& store, const launch::RankVariables& variables) {
  const char* own = std::getenv("TORCHELASTIC_RUN_ID");
  const std::string mine = own && *own ? own : "none";
  if (variables.rank == 0) {
    store.set("run", mine);
    return;
  }
  const auto bytes = store.get("run");
  const std::string theirs(bytes.begin(), bytes.end());
  if (theirs != mine)
    throw base::UsageError(base::text_of(
        "rank ", variables.rank, " belongs to run ", base::quoted(mine), ", the store at ", variables.master_addr, ":",
        variables.master_port, " to run ", base::quoted(theirs), "; end the other run, or take another port"));
}

}  // namespace

c10::intrusive_ptr<c10d::Store> meet_at_store(const launch::RankVariables& variables,
                                              std::chrono::milliseconds timeout) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(variables.master_port);
  options.isServer = variables.rank == 0 && !(agent && std::string(agent) == "True");
  options.waitWorkers = false;
  options.timeout = timeout;
  const auto host = checked_host(variables.master_addr);
  try {
    auto store = connect(host, options);
    auto own = c10::make_intrusive<c10d::PrefixStore>(std::string("trireme/") + (attempt ? attempt : "0"), store);
    check_run(*own, variables);
    return own;
  } catch (const base::Error&) {
    throw;
  } catch (const std::exception& error) {
    const auto text = first_line(error.what());
    if (text.find("EADDRINUSE") != std::string::npos || text.find("address already in use") != std::string::npos)
      throw base::CommError(base::text_of("rank 0 cannot listen on port ", variables.master_port,
                                          ": it is taken; choose another MASTER_PORT"));
    throw base::CommError(base::text_of("rank ", variables.rank, " cannot meet the others at ", host, ":",
                                        variables.master_port, ": ", text));
  }
}

void claim_rank(c10d::Store& store, int rank) {
  if (store.add(base::text_of("present/", rank), 1) != 1)
    throw base::UsageError(base::text_of("rank ", rank, " is there twice; each process needs its own RANK"));
}

}  // namespace trireme::comm
