#include "trireme/base/error.h"
#include "trireme/comm/backends.h"

namespace trireme::comm {

std::string choose_backend(const std::string& wanted, const Place& place) {
  const bool one_host = place.local_size == place.size;
  if (wanted == "auto") return one_host ? "shm" : "gloo";
  if (wanted == "gloo") return wanted;
  if (wanted == "shm") {
    if (!one_host)
      throw base::UsageError(base::text_of("backend shm needs all ranks on one host, ", place.local_size, " of ",
                                           place.size, " are here; use --backend gloo"));
    return wanted;
  }
  if (wanted == "nccl" || wanted == "mpi")
    throw base::UsageError("backend " + wanted + " is not built yet; use auto, shm or gloo");
  throw base::UsageError("unknown backend '" + wanted + "'; use auto, shm or gloo");
}

}  // namespace trireme::comm
