#include "trireme/shm/endpoint.h"

#include <cstring>
#include <new>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/shm/control.h"
#include "trireme/shm/wait.h"

namespace trireme::shm {

Endpoint::Endpoint(std::shared_ptr<Arena> arena, int group_size) : arena_(std::move(arena)), group_size_(group_size) {
  if (group_size < 1) throw base::CommError(base::text_of("a group needs at least one rank: ", group_size, " given"));
  const size_t bytes = ControlBlock::bytes(static_cast<size_t>(group_size));
  block_ = arena_->allocate(bytes, kLine);
  std::memset(block_, 0, bytes);
  auto* control = new (block_) ControlBlock;
  control->magic = kControlMagic;
  control->address = reinterpret_cast<uintptr_t>(block_);
  control->group_size = static_cast<uint32_t>(group_size);
  control->joins_fences = join_fences();
  control->users.store(control->group_size);
}

Endpoint::~Endpoint() {
  if (block_ == nullptr) return;
  auto* control = reinterpret_cast<ControlBlock*>(block_);
  control->users.fetch_sub(1);
  kept_.push_back(block_);
  arena_->release_when([control] { return control->users.load() == 0; }, std::move(kept_));
}

Endpoint::Endpoint(Endpoint&& other) noexcept
    : arena_(std::move(other.arena_)),
      block_(std::exchange(other.block_, nullptr)),
      kept_(std::move(other.kept_)),
      group_size_(other.group_size_) {}

Endpoint& Endpoint::operator=(Endpoint&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(block_, other.block_);
  std::swap(kept_, other.kept_);
  std::swap(group_size_, other.group_size_);
  return *this;
}

void Endpoint::keep(std::vector<std::byte*> blocks) {
  kept_.insert(kept_.end(), blocks.begin(), blocks.end());
}

std::string Endpoint::address() const {
  return base::text_of(arena_->address(), ':', arena_->offset_of(block_));
}

Endpoint make_endpoint(std::shared_ptr<Arena> arena, int group_size) {
  return Endpoint(std::move(arena), group_size);
}

}  // namespace trireme::shm
