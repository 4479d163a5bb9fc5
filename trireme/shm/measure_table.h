#pragma once

#include "trireme/shm/communicator.h"

namespace trireme::shm {

/// Times every way of all_reduce, all_gather and reduce_scatter at sizes from 1 KiB to 16 MiB, with every
/// input just written and every result read, as in training; the other operations take over the results of the one that
/// moves bytes as they do. A way must win by 5 % to displace a simpler one. Under a second where each rank has a core;
/// where all is slow, the largest sizes are left out. Collective; the same table on every rank, and `communicator` uses
/// it from then on. Where memory is short, smaller sizes have to do. Throws what collectives throw.
AlgorithmTable measure_table(Communicator& communicator);

}  // namespace trireme::shm
