#pragma once

namespace trireme::launch {

/// A port that nothing listens on now. Throws base::SystemError where there is none.
int free_port();

/// Throws base::UsageError where something on this host listens on `port` already, or it is not in 1 to 65535.
void require_free_port(int port);

}  // namespace trireme::launch
