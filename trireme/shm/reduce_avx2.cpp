// Built with -mavx2 -mf16c; reduce.cpp calls it only where the processor has both.
#include "trireme/shm/reduce.h"
#if defined(__AVX2__) && defined(__F16C__)
#include "trireme/shm/reduce_kernels.h"
#endif

namespace trireme::shm {

Reduction reduce_avx2() {
#if defined(__AVX2__) && defined(__F16C__)
  return &reduce_here;
#else
  return nullptr;
#endif
}

}  // namespace trireme::shm
