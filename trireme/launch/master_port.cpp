#include "trireme/launch/master_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::launch {
namespace {

// Binds `port` (0: any) and lets it go again. Returns the port, or -errno.
int try_bind(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  // connections of an earlier run that wait for their end do not make a port taken
  const int on = 1;
  if (port != 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t size = sizeof address;
  int result = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    result = -errno;
  } else {
    result = ntohs(address.sin_port);
  }
  close(fd);
  return result;
}

}  // namespace

int free_port() {
  const int port = try_bind(0);
  if (port < 0) throw base::SystemError(base::text_of("cannot find a free port: ", std::strerror(-port)));
  return port;
}

void require_free_port(int port) {
  if (port < 1 || port > 65535) {
    throw base::UsageError(base::text_of("master port ", port, " is not a port number, 1 to 65535"));
  }
  const int result = try_bind(port);
  if (result < 0) {
    throw base::UsageError(base::text_of("master port ", port, " cannot be used: ", std::strerror(-result),
                                         "; choose another, or none to get a free one"));
  }
}

}  // namespace trireme::launch
