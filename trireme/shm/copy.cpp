#include "trireme/shm/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trireme::shm {
namespace {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

constexpr size_t kLineBytes = 64;
constexpr size_t kAhead = 1024;  // bytes between the load and its prefetch

void stream(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(to) % kLineBytes) % kLineBytes;
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= kLineBytes; bytes -= kLineBytes, to += kLineBytes, from += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead, _MM_HINT_NTA);
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to, from, bytes);
  _mm_sfence();  // such stores are not ordered with the flag that announces them
}

// Stores of a plain copy wait for lines that another core holds; asked for ahead they gain a tenth from 64 MiB on.
void copy_ahead(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kStoresAhead = 2048;
  constexpr size_t kBlock = 256;
  size_t at = 0;
  for (; at + kStoresAhead + kBlock <= bytes; at += kBlock) {
    prefetch_for_write(to + at + kStoresAhead, kBlock);
    std::memcpy(to + at, from + at, kBlock);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

constexpr bool kCanStream = true;
#else  // the thread sanitizer does not see streaming stores

void stream(std::byte*, const std::byte*, size_t) {}
void copy_ahead(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

constexpr bool kCanStream = false;
#endif

constexpr size_t kWorthStreaming = 4096;

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes, bool streaming) {
  if (to == from || bytes == 0) return;
  if (kCanStream && streaming && bytes >= kWorthStreaming) {
    stream(to, from, bytes);
  } else {
    copy_ahead(to, from, bytes);
  }
}

}  // namespace trireme::shm
